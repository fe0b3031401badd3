"""What `tunekit gpus` shows: every profile in a table, or one with all its figures and sources. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tunekit.machine.price_catalog import Refreshed
from tunekit.machine.profiles import ProfileFile, how_to_add
from tunekit.records.host import Accelerator
from tunekit.records.profile import Instance, Profile
from tunekit.report.blocks import Column, Passage, Table, field_text, table_of
from tunekit.report.text import UNKNOWN, by_text
from tunekit.units import bytes_text, count_text

ABSENT = "-"
_PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8")


def gpu_list(files: Iterable[ProfileFile], here: Sequence[Accelerator]) -> tuple[Table | Passage, ...]:
    """Return the table of all profiles, by architecture and memory, and what to know about it."""
    ids_here = {device.profile_id for device in here} or {"cpu"}

    def marked_id(file: ProfileFile) -> str:
        marks = {"here": file.profile.id in ids_here, "yours": file.is_yours}
        note = ", ".join(word for word, holds in marks.items() if holds)
        return file.profile.id + (f" ({note})" if note else "")

    lines = [
        f"This machine has {_text(device.name)} ({bytes_text(device.memory_bytes)}), which has no profile."
        for device in here
        if device.profile_id is None
    ]
    lines += [
        "Rates are dense TFLOPS with FP32 accumulation. $/GPU-h is the cheapest on-demand price, as seen in "
        f"the month beside it. {ABSENT} is no such tensor-core rate, {UNKNOWN} is unknown.",
        "All about one, with remarks (*), sources and machines: tunekit gpus NAME",
        f"To add one, {how_to_add()}; folders in TUNEKIT_PROFILES are read first.",
    ]
    columns = (Column("id", marked_id, is_numeric=False), *_LIST_COLUMNS)
    table = table_of("GPU profiles", columns, sorted(files, key=_generation))
    return table, Passage("", tuple(lines), is_apart=True)


def _generation(file: ProfileFile) -> tuple[list[int], str, int, str]:
    """Return what orders profiles: the compute capability, then the memory; unknown ones first."""
    one = file.profile
    capability = [int(part) for part in (one.compute_capability or "0.0").split(".")]
    return capability, one.architecture or "", one.memory_bytes or 0, one.id


def _text(text: str | None) -> str:
    return " ".join(text.split()) if text else UNKNOWN


def _figure(value: float | None, unit: str = "") -> str:
    return UNKNOWN if value is None else f"{value:,g}{unit}"


def _money(usd: float | None) -> str:
    if usd is None:
        return UNKNOWN
    if usd == 0:
        return "free"
    return f"{usd:,.2f}" if usd >= 1 else f"{usd:.3f}"


def _compile_text(profile: Profile) -> str:
    word = {True: "yes", False: "no", None: UNKNOWN}[profile.compile_supported]
    return word + ("*" if profile.compile_note else "")


def _rate(precision: str) -> Column[ProfileFile]:
    figure = field_text(f"profile.{precision}_tflops", _figure)
    return Column(precision, lambda file: figure(file) if _has_rate(file.profile, precision) else ABSENT)


def _has_rate(profile: Profile, precision: str) -> bool:
    """Return whether there may be such a rate; what Apple chips and CPUs compute is not known."""
    return profile.compute_capability is None or precision in profile.native_precisions


def _cheapest(file: ProfileFile) -> Instance | None:
    # Prepaid units are no price per hour, nor is a free quota.
    priced = [one for one in file.profile.instances if one.usd_per_h and not one.compute_units_per_h]
    return min(priced, key=lambda one: (one.usd_per_h or 0) / one.gpus, default=None)


_LIST_COLUMNS: tuple[Column[ProfileFile], ...] = (
    Column("name", lambda file: _text(file.profile.device_names[0].removeprefix("NVIDIA ")), False),
    Column("GiB", field_text("profile.memory_bytes", lambda size: bytes_text(size).removesuffix(" GiB"))),
    Column("GB/s", field_text("profile.bandwidth_gb_per_s", _figure)),
    *map(_rate, _PRECISIONS),
    Column("compile", field_text("profile", _compile_text), is_numeric=False),
    Column("$/GPU-h", lambda file: _per_gpu(_cheapest(file))),
    Column("as of", lambda file: one.as_of[:7] if (one := _cheapest(file)) else UNKNOWN, is_numeric=False),
    Column("from", lambda file: _text(one.provider if (one := _cheapest(file)) else None), is_numeric=False),
)


def refreshed_prices(refreshed: Refreshed, path: Path) -> Passage:
    """Return what a refresh got, what it left as it was, and how to undo it."""
    catalog, prices = refreshed.prices.catalog, refreshed.prices.prices
    days = sorted(one.as_of for one in prices)
    when = f", of {' to '.join(dict.fromkeys((days[0], days[-1])))}" if days else ""
    lines = [
        f"{count_text(len(prices), 'machine')} priced by {catalog}{when}.",
        f"Saved in {_text(str(path))}: used instead of older shipped prices until you delete it.",
    ]
    if refreshed.without:
        lines.append(f"No price there, so as shipped: {_text(', '.join(refreshed.without))}.")
    if refreshed.absent:
        lines.append(f"Nothing from {', '.join(refreshed.absent)}.")
    return Passage("Prices", tuple(lines))


# --- one profile -----------------------------------------------------------------------------


def gpu_sheet(file: ProfileFile, here: Sequence[Accelerator]) -> tuple[Table | Passage, ...]:
    """Return everything that a profile holds."""
    profile, facts = file.profile, file.profile.facts
    remarks = (("torch.compile", profile.compile_note), ("torch builds", profile.torch_builds))
    software = tuple(f"{name}: {_text(text)}" for name, text in remarks if text)
    sources = (f"{name} ({one.confidence}): {_text(one.source)}" for name, one in facts)
    machines: tuple[Table | Passage, ...] = (Passage("Machines", ("No price is known.",)),)
    if profile.instances:
        priced = by_text((one.name, f"{one.source} ({one.confidence})") for one in profile.instances)
        machines = (
            table_of("Machines", _MACHINE_COLUMNS, profile.instances),
            Passage("", _price_lines(profile), is_apart=True),
            Passage("Sources of the prices", tuple(map(_text, priced))),
        )
    return (
        Passage(_text(f"{profile.id}: {', '.join(profile.device_names)}"), _lead(file, here)),
        Table("Figures", ("", ""), _figures(profile)),
        Passage("Software", software or (UNKNOWN,)),
        Passage("Sources of the figures, and how far they can be trusted", tuple(sources)),
        *machines,
    )


def _lead(file: ProfileFile, here: Sequence[Accelerator]) -> tuple[str, ...]:
    profile = file.profile
    own = [device for device in here if device.profile_id == profile.id]
    gpus = ", ".join(f"GPU {device.index} with {bytes_text(device.memory_bytes)}" for device in own)
    return (
        *([f"This machine has {gpus}."] if own else []),
        *([f"Other names: {_text(', '.join(profile.aliases))}"] if profile.aliases else []),
        *([_text(profile.notes)] if profile.notes else []),
        f"File: {_text(str(file.path))} ({'yours' if file.is_yours else 'shipped'})",
    )


def _figures(profile: Profile) -> tuple[tuple[str, str], ...]:
    fraction = profile.achievable_bf16_fraction
    generation, lanes = profile.pcie_generation, profile.pcie_lanes
    rates = []
    for name in _PRECISIONS:
        rate = _figure(getattr(profile, f"{name}_tflops"), " TFLOPS") if _has_rate(profile, name) else "none"
        rates.append((name if name == "fp32" else f"{name}, dense", rate))
    return (
        ("architecture", _text(profile.architecture)),
        ("compute capability", _text(profile.compute_capability)),
        ("multiprocessors", _figure(profile.multiprocessors)),
        ("memory, by the driver", bytes_text(profile.memory_bytes)),
        ("memory, by torch", bytes_text(profile.torch_memory_bytes)),
        ("bandwidth", _figure(profile.bandwidth_gb_per_s, " GB/s")),
        *rates,
        ("reached in bf16", UNKNOWN if fraction is None else f"{fraction:.0%} of the dense rate"),
        ("native precisions", _text(" ".join(profile.native_precisions))),
        ("torch.compile", _compile_text(profile)),
        ("power limit", _figure(profile.tdp_w, " W")),
        ("PCIe", UNKNOWN if not generation else f"{generation}.0" + (f" x{lanes}" if lanes else "")),
        ("NVLink", "none" if profile.nvlink_gb_per_s == 0 else _figure(profile.nvlink_gb_per_s, " GB/s")),
    )


def _price_lines(profile: Profile) -> tuple[str, ...]:
    remarks = [(one, " ".join(_remarks(one))) for one in profile.instances]
    return (
        "Prices in USD as seen on the day shown; they move within weeks.",
        *(f"{_text(one.name)}: {said}" for one, said in remarks if said),
    )


def _remarks(one: Instance) -> Iterator[str]:
    if spot := one.spot:
        ends = dict.fromkeys(map(_money, (spot.low_usd_per_h, spot.high_usd_per_h)))
        where = f" in {_text(spot.where)}" if spot.where else ""
        yield f"Spot {' to '.join(ends)} $/h, seen {spot.as_of}{where}."
    if one.compute_units_per_h:
        yield f"{_figure(one.compute_units_per_h)} prepaid compute units/h."
    for plan in one.subscriptions:
        months = f"{_figure(plan.units_per_month)} units a month for {_money(plan.usd_per_month)} $"
        yield f"{_text(plan.name)} gives {months}, seen {plan.as_of}."
    for pack in one.unit_packs:
        yield f"{_figure(pack.units)} units at once cost {_money(pack.usd)} $, seen {pack.as_of}."
    if one.hours_per_week:
        yield f"At most {_figure(one.hours_per_week)} h a week."
    if one.max_session_h:
        yield f"A session lasts {_figure(one.max_session_h)} h at most."
    if one.notes:
        yield _text(one.notes)


def _per_gpu(offer: Instance | None) -> str:
    return UNKNOWN if offer is None or offer.usd_per_h is None else _money(offer.usd_per_h / offer.gpus)


_MACHINE_COLUMNS: tuple[Column[Instance], ...] = (
    Column("provider", lambda one: _text(f"{one.provider} {one.region or ''}"), is_numeric=False),
    Column("machine", lambda one: _text(one.name), is_numeric=False),
    Column("GPUs", lambda one: str(one.gpus)),
    Column("vCPUs", lambda one: _figure(one.vcpus)),
    Column("RAM GB", lambda one: _figure(one.ram_gb)),
    Column("$/h", lambda one: _money(one.usd_per_h)),
    Column("$/GPU-h", _per_gpu),
    Column("as of", lambda one: one.as_of, is_numeric=False),
)
