"""Where a loop's time goes, before and in its steady part, in words. Pure."""

from collections.abc import Sequence

from tunekit.diagnose.attribution import attribution, closure, closure_text
from tunekit.records.details import Details, KernelWindow
from tunekit.records.measurement import LoopMeasurement, Measurement
from tunekit.report.blocks import Passage, Table
from tunekit.units import count_text, duration_text

_SHOWN_KERNELS = 8
_KERNEL_LETTERS = 52


def step_blocks(measurement: Measurement) -> tuple[Table | Passage, ...]:
    """Return where the time of a step goes, and whether its two halves explain it."""
    loop, found = measurement.loop, attribution(measurement)
    texts = part_texts(measurement)
    rows = [(name, *texts[name], one.source) for name, one in zip(texts, found.shares, strict=True)]
    rows.append(("step", step_text(found.step_ms / 1000), "", f"{loop.steady_batches:,} batches"))
    table = Table("Step time (measured)", ("part", "per batch", "of the step", "source"), tuple(rows), (1, 2))
    return table, Passage("", (_closure_line(measurement),))


def part_texts(measurement: Measurement) -> dict[str, tuple[str, str]]:
    """Return each part of a step by its name, such as ("41.3 ms", " 50%").

    One that lies within or beside those that add up stands further in.
    """
    return {
        one.part.value if one.is_of_sum else f"  {one.part.value}": (
            step_text(one.batch_ms / 1000),
            f"{one.share:4.0%}",
        )
        for one in attribution(measurement).shares
    }


def step_text(step_s: float) -> str:
    """Return seconds per batch such as "41.3 ms", with three digits."""
    time_ms = 1000 * step_s
    if time_ms >= 99.95:
        return f"{time_ms:,.0f} ms"
    return f"{time_ms:.1f} ms" if time_ms >= 9.995 else f"{time_ms:.2f} ms"


def _closure_line(measurement: Measurement) -> str:
    found = closure(measurement)
    isolated = measurement.isolated
    if found is not None:
        judged = found.meaning or f"consistent with each other (noise {found.slack:.0%})"
        return f"{closure_text(found).capitalize()} (measured): {judged}"
    alone = {"Loader": isolated.loader_step_s, "Training": isolated.compute_step_s}
    texts = (f"{name} alone {'n/a' if s is None else step_text(s)}" for name, s in alone.items())
    return f"{', '.join(texts)} (measured): {isolated.why_not or 'not looked at'}"


def startup_table(loop: LoopMeasurement, compiles: bool) -> Table:
    """Return what comes before the steady loop, and what comes back at each epoch."""
    first = "first step, with compilation" if compiles else "first step"
    boundary = "n/a"
    if loop.boundaries_seen and loop.boundary_s is not None:
        boundary = "none beyond the noise" if loop.boundary_s < 0 else duration_text(loop.boundary_s)
    rows = {
        "start-up, to the first batch asked for": _of_loader(loop, loop.startup_s),
        "first batch": _of_loader(loop, loop.first_batch_s),
        first if loop.has_loader else f"start-up and {first}": duration_text(loop.first_step_s),
        **({"further compilation": duration_text(loop.recompile_s)} if loop.recompile_s else {}),
        "each epoch boundary, beyond steady steps": boundary,
        "one epoch": "n/a, no length" if loop.epoch_time_s is None else duration_text(loop.epoch_time_s),
    }
    return Table("Before the steady loop (measured)", ("", ""), tuple(rows.items()), (1,))


def _of_loader(loop: LoopMeasurement, seen_s: float) -> str:
    return duration_text(seen_s) if loop.has_loader else "n/a, no DataLoader"


def kernel_blocks(details: Details | None) -> tuple[Table | Passage, ...]:
    """Return the traced kernels and the places where the script waits for the device, if any."""
    if details is None:
        return ()
    syncs = (f"  {one.where}: {one.what}, {one.per_batch:.2g} per batch" for one in details.syncs or ())
    return (
        *(() if details.kernels is None else _kernels(details.kernels)),
        Passage("Sync points (measured)", tuple(syncs)),
    )


def _kernels(seen: KernelWindow) -> Sequence[Table | Passage]:
    rows = tuple(
        (_short(one.name), f"{one.calls:,}", step_text(one.time_s / seen.batches))
        for one in seen.kernels[:_SHOWN_KERNELS]
    )
    each = step_text(seen.time_s / seen.batches)
    line = f"{count_text(seen.batches, 'traced batch', 'traced batches')}, {each} each: tracing slows them"
    if seen.device_busy_s is not None:
        line = f"device busy {step_text(seen.device_busy_s / seen.batches)} per batch; {line}"
    title = "Traced kernels, the longest (measured under torch.profiler)"
    return Table(title, ("kernel", "calls", "per batch"), rows, (1, 2)), Passage("", (line,))


def _short(name: str) -> str:
    return name if len(name) <= _KERNEL_LETTERS else f"{name[: _KERNEL_LETTERS - 3]}..."
