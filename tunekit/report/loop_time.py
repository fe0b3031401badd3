"""Where a loop's time goes, before and in its steady part. Pure."""

from collections.abc import Sequence

from tunekit.diagnose.attribution import (
    DRAINED_SHARE,
    Bound,
    Closure,
    Share,
    attribution,
    bound,
    closure,
    copies_alone_share,
    drained_share,
    idle_for_host,
)
from tunekit.plain_text import printable
from tunekit.records.details import Details, KernelWindow
from tunekit.records.measurement import LoopMeasurement, Measurement
from tunekit.records.telemetry import GpuTelemetry, Telemetry
from tunekit.report.table import Passage, Table
from tunekit.units import bytes_text, count_text, duration_text

_SHOWN_KERNELS = 8


def step_parts(measurement: Measurement) -> tuple[Table | Passage, ...]:
    """Return where the time of a step goes, and whether its two halves explain it."""
    loop = measurement.loop
    found = attribution(measurement)
    rows = [(_part_name(one), *_part_texts(one), one.source) for one in found.shares]
    rows.append(("step", step_text(found.step_ms / 1000), "", f"{loop.steady_batches:,} batches"))
    table = Table(
        "Where the step's time goes (measured)",
        ("part", "per batch", "of the step", "source"),
        tuple(rows),
        (1, 2),
    )
    return (table, Passage("", (_closure_line(measurement),)))


def part_texts(measurement: Measurement) -> dict[str, str]:
    """Return each part of a step by its name, such as "41.3 ms  50%"."""
    return {_part_name(one): " ".join(_part_texts(one)) for one in attribution(measurement).shares}


def _part_name(share: Share) -> str:
    """Return a part's name; one that lies within or beside those that add up stands further in."""
    return share.part.value if share.is_of_sum else f"  {share.part.value}"


def _part_texts(share: Share) -> tuple[str, str]:
    return step_text(share.batch_ms / 1000), f"{share.share:4.0%}"


def holder_text(measurement: Measurement, telemetry: Telemetry | None = None) -> str:
    """Return what holds the loop back, in one sentence; telemetry is of the same trial."""
    found, loop = attribution(measurement), measurement.loop
    step = step_text(found.step_ms / 1000)
    stall = found.stall
    if stall is None:
        return f"It has no DataLoader: how much of its {step} per batch is making the batch is n/a."
    waits = (
        f"{step_text(stall.batch_ms / 1000)} of {step} per batch ({stall.share:.0%}) are spent waiting for "
        "data (measured)."
    )
    match bound(measurement, telemetry):
        case Bound.DATA:
            return f"Data-bound: {waits}"
        case Bound.COMPUTE:
            return f"Compute-bound: {waits}"
        case Bound.BALANCED:
            return f"Balanced, loader and training take about as long: {waits}"
        case Bound.HOST:
            return f"Host-bound: {_host_text(measurement, telemetry)}; {waits}"
        case Bound.COPIES:
            share = copies_alone_share(measurement)
            return f"Copy-bound: in {share:.0%} of the step the GPU is only copied to or from; {waits}"
        case Bound.EPOCHS:
            boundary, epoch = duration_text(loop.boundary_s), duration_text(loop.epoch_time_s)
            whole = f"{boundary} of each epoch's {epoch} go by at its boundary (measured)"
            return f"Bound by epoch boundaries: {whole}. Between them, {waits}"
        case _:
            return f"What holds it back is unclear, for nothing saw the device's own time: {waits}"


def _host_text(measurement: Measurement, telemetry: Telemetry | None) -> str:
    drained = drained_share(measurement.loop)
    if drained >= DRAINED_SHARE:
        return f"the GPU had nothing left to do before {drained:.0%} of the batches"
    idle = idle_for_host(measurement, telemetry) or 0.0
    return f"the GPU has nothing to do in {idle:.0%} of the step, data stall aside"


def step_text(step_s: float) -> str:
    """Return seconds per batch such as "41.3 ms", with three digits."""
    time_ms = 1000 * step_s
    if time_ms >= 99.95:
        return f"{time_ms:,.0f} ms"
    return f"{time_ms:.1f} ms" if time_ms >= 9.995 else f"{time_ms:.2f} ms"


def _closure_line(measurement: Measurement) -> str:
    found = closure(measurement)
    floors = measurement.details.floors if measurement.details else None
    if found is None:
        why = (floors.why_not if floors else None) or "they were not looked at"
        told = [
            f"{name} {step_text(alone_s)}"
            for name, alone_s in (
                ("loader alone", floors.loader_step_s if floors else None),
                ("training alone", floors.compute_step_s if floors else None),
            )
            if alone_s is not None
        ]
        known = f"{', '.join(told)} (measured); the other half" if told else "loader alone and training alone"
        return printable(f"{known[0].upper()}{known[1:]}: n/a, {why}")
    return (
        f"Loader alone {step_text(found.loader_s)}, training alone {step_text(found.compute_s)}, "
        f"both {step_text(found.step_s)}: {_closure_text(found)} (measured)"
    )


def _closure_text(found: Closure) -> str:
    if found.meaning is not None:
        return found.meaning
    if max(found.compute_s, found.loader_s) <= found.step_s <= found.compute_s + found.loader_s:
        return "between the longer and the sum"
    return f"outside of the longer and the sum by less than the noise of {found.slack:.0%}"


def beginnings(loop: LoopMeasurement, compiles: bool) -> Table:
    """Return what comes before the steady loop, and what comes back at each epoch."""
    first = "first step, with compilation" if compiles else "first step"
    further = (("further compilation", duration_text(loop.recompile_s)),) if loop.recompile_s else ()
    rows = (
        ("start-up, to the first batch asked for", _of_loader(loop, loop.startup_s)),
        ("first batch", _of_loader(loop, loop.first_batch_s)),
        (first if loop.has_loader else f"start-up and {first}", duration_text(loop.first_step_s)),
        *further,
        ("each epoch boundary, beyond steady steps", _boundary_text(loop)),
        ("one epoch", _epoch_text(loop)),
    )
    return Table("Before the steady loop (measured)", ("", ""), rows, (1,))


def _of_loader(loop: LoopMeasurement, seen_s: float) -> str:
    return duration_text(seen_s) if loop.has_loader else "n/a, no DataLoader"


def _boundary_text(loop: LoopMeasurement) -> str:
    if not loop.boundaries_seen or loop.boundary_s is None:
        return "n/a"
    return "none beyond the noise" if loop.boundary_s < 0 else duration_text(loop.boundary_s)


def _epoch_text(loop: LoopMeasurement) -> str:
    return "n/a, no length" if loop.epoch_time_s is None else duration_text(loop.epoch_time_s)


def telemetry_lines(telemetry: Telemetry | None, cpus: int) -> tuple[str, ...]:
    """Return what the machine did meanwhile; one line for the host, one for each GPU that was used."""
    if telemetry is None:
        return ("n/a: the trial was over before two samples",)
    host = telemetry.host
    told = [
        "CPU n/a" if host.cpu_cores is None else f"{host.cpu_cores:.1f} CPU cores of {cpus}",
        "reads n/a" if host.read_bytes_per_s is None else f"{host.read_bytes_per_s / 1e6:.1f} MB/s from disk",
    ]
    if host.unfetched_share is not None:
        told.append(f"{host.unfetched_share:.0%} of what was read not from disk")
    window = "the steady window" if telemetry.is_of_steady_window else "the whole trial, which was short"
    told.append(f"over {duration_text(telemetry.window_s)} of {window}")
    return (", ".join(told), *(_gpu_line(gpu) for gpu in telemetry.gpus if gpu.is_used))


def _gpu_line(gpu: GpuTelemetry) -> str:
    first, last = gpu.first_sm_clock_mhz, gpu.last_sm_clock_mhz
    ends = "" if first is None or last is None else f" ({first:.0f} at first, {last:.0f} at last)"
    figures = (
        ("busy", gpu.utilization_percent, "{:.0f}%"),
        ("SM active", gpu.sm_activity_percent, "{:.0f}%"),
        ("tensor cores", gpu.tensor_activity_percent, "{:.0f}%"),
        ("DRAM", gpu.dram_activity_percent, "{:.0f}%"),
        ("power", gpu.power_w, "{:.0f} W"),
        ("clock", gpu.sm_clock_mhz, "{:.0f} MHz" + ends),
    )
    told = [f"{name} {form.format(value)}" for name, value, form in figures if value is not None]
    memory = gpu.peak_used_bytes if gpu.peak_tree_bytes is None else gpu.peak_tree_bytes
    if memory is not None:
        told.append(f"memory {bytes_text(memory)}")
    limits = sorted(set(gpu.throttle_reasons) - {"gpu_idle"})
    if limits:
        told.append(f"throttled by {', '.join(limits)}")
    return f"GPU {gpu.index}: {', '.join(told) or 'n/a'}"


def kernel_parts(details: Details | None) -> tuple[Table | Passage, ...]:
    """Return the traced kernels and the places where the script waits for the device, if any."""
    parts: list[Table | Passage] = []
    if details is not None and details.kernels is not None:
        parts.extend(_kernels(details.kernels))
    if details is not None and details.syncs:
        lines = tuple(
            printable(f"  {one.where}: {one.what}, {one.per_batch:.2g} per batch") for one in details.syncs
        )
        parts.append(Passage("Where the script waits for the device (measured)", lines))
    return tuple(parts)


def _kernels(seen: KernelWindow) -> Sequence[Table | Passage]:
    shown = seen.kernels[:_SHOWN_KERNELS]
    rows = tuple(
        (printable(_short(one.name)), f"{one.calls:,}", step_text(one.time_s / seen.batches)) for one in shown
    )
    device = (
        ("device busy", seen.device_busy_s),
        ("host to device", seen.h2d_s),
        ("device to host", seen.d2h_s),
        ("idle", seen.idle_s),
    )
    told = [f"{name} {step_text(time_s / seen.batches)}" for name, time_s in device if time_s is not None]
    each = step_text(seen.time_s / seen.batches)
    traced = f"{count_text(seen.batches, 'traced batch', 'traced batches')}, {each} each: tracing slows them"
    line = "; ".join([*([", ".join(told) + " per batch"] if told else []), traced])
    title = "Traced kernels, the longest (measured under torch.profiler)"
    return (Table(title, ("kernel", "calls", "per batch"), rows, (1, 2)), Passage("", (line,)))


def _short(name: str, most: int = 52) -> str:
    return name if len(name) <= most else name[: most - 3] + "..."
