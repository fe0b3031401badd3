"""What `tunekit gpus` shows: every profile in a table, or one with all its figures and sources. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tunekit.hardware.profiles import ProfileFile, how_to_add
from tunekit.plain_text import printable
from tunekit.records.host import Accelerator
from tunekit.records.profile import Instance, Profile, SpotPrice
from tunekit.report.columns import Column, fitted_table
from tunekit.report.table import Passage, Table
from tunekit.report.text import UNKNOWN
from tunekit.units import bytes_text

ABSENT = "-"


@dataclass(frozen=True)
class _Row:
    """One profile of the list."""

    profile: Profile
    note: str
    cheapest: Instance | None


def gpu_list(
    files: Iterable[ProfileFile], here: Sequence[Accelerator], width: int
) -> tuple[Table | Passage, ...]:
    """Return the table of all profiles, by architecture and memory, and what to know about it.

    Args:
        files: the profiles.
        here: the GPUs of this machine.
        width: the terminal's, in letters.
    """
    found = [*files]
    by_id = {file.profile.id: file for file in found}
    rows = [
        _Row(profile, _note(by_id[profile.id], here), _cheapest(profile))
        for profile in _in_order([file.profile for file in found])
    ]
    return (fitted_table("GPU profiles", _LIST_COLUMNS, rows, width), Passage("", _list_lines(rows, here)))


def gpu_sheet(file: ProfileFile, here: Sequence[Accelerator], width: int) -> tuple[Table | Passage, ...]:
    """Return everything that a profile holds.

    Args:
        file: the profile.
        here: the GPUs of this machine.
        width: the terminal's, in letters.
    """
    profile = file.profile
    parts: list[Table | Passage] = [
        Passage(_text(f"{profile.id}: {', '.join(profile.device_names)}"), _lead(file, here)),
        Table("Figures", ("", ""), _figures(profile)),
    ]
    remarks = (("torch.compile", profile.compile_note), ("torch builds", profile.torch_builds))
    lines = [f"{name}: {_text(text)}" for name, text in remarks if text]
    parts.append(Passage("Software", tuple(lines) or (UNKNOWN,)))
    parts.append(Passage("Sources of the figures, and how far they can be trusted", _sources(profile)))
    if profile.instances:
        parts.append(fitted_table("Machines", _MACHINE_COLUMNS, profile.instances, width))
        parts.append(Passage("", _price_lines(profile)))
        parts.append(Passage("Sources of the prices", _price_sources(profile)))
    else:
        parts.append(Passage("Machines", ("No price is known.",)))
    return tuple(parts)


# --- the list --------------------------------------------------------------------------------


def _in_order(profiles: Sequence[Profile]) -> list[Profile]:
    """Return the profiles by the generation of their architecture, then by memory; unknown ones first."""
    generation: dict[str | None, tuple[int, ...]] = {}
    for profile in profiles:
        capability = tuple(int(part) for part in (profile.compute_capability or "0.0").split("."))
        known = generation.get(profile.architecture, capability)
        generation[profile.architecture] = min(known, capability)
    return sorted(
        profiles,
        key=lambda one: (
            generation[one.architecture],
            one.architecture or "",
            one.memory_bytes or 0,
            one.bandwidth_gb_per_s or 0,
            one.id,
        ),
    )


def _note(file: ProfileFile, here: Sequence[Accelerator]) -> str:
    is_here = file.profile.id in _ids(here)
    return ", ".join(word for word, holds in (("here", is_here), ("yours", file.is_yours)) if holds)


def _ids(here: Sequence[Accelerator]) -> set[str | None]:
    """Return the profiles of what this machine trains on: its GPUs, or without one its CPU."""
    return {device.profile_id for device in here} or {"cpu"}


def _cheapest(profile: Profile) -> Instance | None:
    """Return the offer with the lowest on-demand price per GPU; prepaid units are no such price."""
    priced = [one for one in profile.instances if one.usd_per_h and not one.compute_units_per_h]
    return min(priced, key=lambda one: (one.usd_per_h or 0) / one.gpus, default=None)


def _is_absent(profile: Profile, precision: str) -> bool:
    """Whether the device is known to have no such rate; what Apple chips and CPUs compute is not known."""
    return profile.compute_capability is not None and precision not in profile.native_precisions


def _short_rate(profile: Profile, precision: str) -> str:
    return ABSENT if _is_absent(profile, precision) else _short_figure(_rate(profile, precision))


def _rate(profile: Profile, precision: str) -> float | None:
    rates = {
        "fp32": profile.fp32_tflops,
        "tf32": profile.tf32_tflops,
        "fp16": profile.fp16_tflops,
        "bf16": profile.bf16_tflops,
        "fp8": profile.fp8_tflops,
    }
    return rates[precision]


def _list_lines(rows: Sequence[_Row], here: Sequence[Accelerator]) -> tuple[str, ...]:
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
    return tuple(lines)


_LIST_COLUMNS: tuple[Column[_Row], ...] = (
    Column("id", lambda row: row.profile.id + (f" ({row.note})" if row.note else ""), is_numeric=False),
    Column("name", lambda row: _short_name(row.profile), is_numeric=False, drop=6),
    Column("GiB", lambda row: _gib(row.profile.memory_bytes)),
    Column("GB/s", lambda row: _short_figure(row.profile.bandwidth_gb_per_s), drop=2),
    Column("fp32", lambda row: _short_rate(row.profile, "fp32"), drop=1),
    Column("tf32", lambda row: _short_rate(row.profile, "tf32"), drop=3),
    Column("fp16", lambda row: _short_rate(row.profile, "fp16")),
    Column("bf16", lambda row: _short_rate(row.profile, "bf16")),
    Column("fp8", lambda row: _short_rate(row.profile, "fp8"), drop=5),
    Column("compile", lambda row: _compile_text(row.profile), is_numeric=False, drop=4),
    Column("$/GPU-h", lambda row: _per_gpu(row.cheapest)),
    Column("as of", lambda row: row.cheapest.as_of[:7] if row.cheapest else UNKNOWN, is_numeric=False),
    Column(
        "from", lambda row: _text(row.cheapest.provider if row.cheapest else None), is_numeric=False, drop=7
    ),
)


def _short_name(profile: Profile) -> str:
    return _text(profile.device_names[0].removeprefix("NVIDIA "))


# --- one profile -----------------------------------------------------------------------------


def _lead(file: ProfileFile, here: Sequence[Accelerator]) -> tuple[str, ...]:
    profile = file.profile
    lines = []
    own = [device for device in here if device.profile_id == profile.id]
    if own:
        gpus = ", ".join(f"GPU {device.index} with {bytes_text(device.memory_bytes)}" for device in own)
        lines.append(f"This machine has {'one' if len(own) == 1 else len(own)}: {gpus}.")
    elif profile.is_cpu:
        lines.append("Every machine has one.")
    if profile.aliases:
        lines.append(f"Other names: {_text(', '.join(profile.aliases))}")
    if profile.notes:
        lines.append(_text(profile.notes))
    hidden = "".join(f"; it hides {_text(str(path))}" for path in file.hides)
    lines.append(f"File: {_text(str(file.path))} ({'yours' if file.is_yours else 'shipped'}{hidden})")
    return tuple(lines)


def _figures(profile: Profile) -> tuple[tuple[str, str], ...]:
    fraction = profile.achievable_bf16_fraction
    generation, lanes = profile.pcie_generation, profile.pcie_lanes
    return (
        ("architecture", _text(profile.architecture)),
        ("compute capability", _text(profile.compute_capability)),
        ("multiprocessors", _figure(profile.multiprocessors)),
        ("memory, by the driver", bytes_text(profile.memory_bytes)),
        ("memory, by torch", bytes_text(profile.torch_memory_bytes)),
        ("bandwidth", _figure(profile.bandwidth_gb_per_s, " GB/s")),
        ("fp32", _rate_text(profile, "fp32")),
        ("tf32, dense", _rate_text(profile, "tf32")),
        ("fp16, dense", _rate_text(profile, "fp16")),
        ("bf16, dense", _rate_text(profile, "bf16")),
        ("fp8, dense", _rate_text(profile, "fp8")),
        ("reached in bf16", UNKNOWN if fraction is None else f"{fraction:.0%} of the dense rate"),
        ("native precisions", _text(" ".join(profile.native_precisions))),
        ("torch.compile", _compile_text(profile)),
        ("power limit", _figure(profile.tdp_w, " W")),
        ("PCIe", UNKNOWN if not generation else f"{generation}.0" + (f" x{lanes}" if lanes else "")),
        ("NVLink", "none" if profile.nvlink_gb_per_s == 0 else _figure(profile.nvlink_gb_per_s, " GB/s")),
    )


def _rate_text(profile: Profile, precision: str) -> str:
    return "none" if _is_absent(profile, precision) else _figure(_rate(profile, precision), " TFLOPS")


def _sources(profile: Profile) -> tuple[str, ...]:
    facts = profile.facts
    groups = (
        ("memory", facts.memory),
        ("rates", facts.rates),
        ("device", facts.device),
        ("software", facts.software),
    )
    return tuple(f"{name} ({group.confidence}): {_text(group.source)}" for name, group in groups)


def _price_lines(profile: Profile) -> tuple[str, ...]:
    """Return what the table of machines has no room for: spot, units, remarks."""
    lines = ["Prices in USD as seen on the day shown; they move within weeks."]
    for one in profile.instances:
        remarks = [_spot_text(one.spot)] if one.spot else []
        if one.compute_units_per_h:
            remarks.append(f"{_figure(one.compute_units_per_h)} prepaid compute units/h.")
        if one.notes:
            remarks.append(_text(one.notes))
        if remarks:
            lines.append(f"{_text(one.name)}: {' '.join(remarks)}")
    return tuple(lines)


def _price_sources(profile: Profile) -> tuple[str, ...]:
    sources: dict[str, list[str]] = {}
    for one in profile.instances:
        sources.setdefault(f"{one.source} ({one.confidence})", []).append(one.name)
    return tuple(f"{_text(', '.join(names))}: {_text(source)}" for source, names in sources.items())


def _per_gpu(offer: Instance | None) -> str:
    return UNKNOWN if offer is None or offer.usd_per_h is None else _money(offer.usd_per_h / offer.gpus)


def _spot_text(spot: SpotPrice) -> str:
    low, high = _money(spot.low_usd_per_h), _money(spot.high_usd_per_h)
    price = f"{low} $/h" if low == high else f"{low} to {high} $/h"
    return f"Spot {price}, seen {spot.as_of}{f' in {_text(spot.where)}' if spot.where else ''}."


_MACHINE_COLUMNS: tuple[Column[Instance], ...] = (
    Column("provider", lambda one: _text(f"{one.provider} {one.region or ''}"), is_numeric=False),
    Column("machine", lambda one: _text(one.name), is_numeric=False),
    Column("GPUs", lambda one: str(one.gpus)),
    Column("vCPUs", lambda one: _figure(one.vcpus), drop=1),
    Column("RAM GB", lambda one: _figure(one.ram_gb), drop=2),
    Column("$/h", lambda one: _money(one.usd_per_h)),
    Column("$/GPU-h", _per_gpu),
    Column("as of", lambda one: one.as_of, is_numeric=False),
)


# --- texts -----------------------------------------------------------------------------------


def _text(text: str | None) -> str:
    return printable(" ".join(text.split())) if text else UNKNOWN


def _figure(value: float | None, unit: str = "") -> str:
    if value is None:
        return UNKNOWN
    return (f"{value:,.0f}" if value >= 1000 else f"{value:.4g}") + unit


def _short_figure(value: float | None) -> str:
    """Return a figure in as few letters as a table of them needs."""
    return _figure(value if value is None or value < 100 else round(value))


def _gib(size_bytes: int | None) -> str:
    return UNKNOWN if size_bytes is None else bytes_text(size_bytes).removesuffix(" GiB")


def _money(usd: float | None) -> str:
    if usd is None:
        return UNKNOWN
    return f"{usd:,.2f}" if usd >= 1 else f"{usd:.3f}"


def _compile_text(profile: Profile) -> str:
    word = {True: "yes", False: "no", None: UNKNOWN}[profile.compile_supported]
    return word + ("*" if profile.compile_note else "")
