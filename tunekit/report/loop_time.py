"""Where a loop's time goes, before and in its steady part. Pure."""

from tunekit.diagnose.attribution import Attribution, Share, attribution, closure
from tunekit.records.details import Details, Kernel, SyncPoint
from tunekit.records.measurement import LoopMeasurement, Measurement
from tunekit.report.blocks import (
    Basis,
    Block,
    Chart,
    Column,
    Passage,
    Point,
    Series,
    Table,
    field_text,
    stacked_bars,
    table_of,
)
from tunekit.report.text import UNKNOWN
from tunekit.units import count_text, duration_text

_SHOWN_KERNELS = 8
_KERNEL_LETTERS = 52


def step_text(step_s: float | None) -> str:
    """Return seconds per batch such as "41.3 ms", with three digits; "n/a" for None."""
    if step_s is None:
        return UNKNOWN
    time_ms = 1000 * step_s
    return f"{time_ms:,.{0 if time_ms >= 99.95 else 1 if time_ms >= 9.995 else 2}f} ms"


def part_name(part: Share) -> str:
    """Return the name of a part; parts that don't add to the sum are indented."""
    return part.part.value if part.is_of_sum else f"  {part.part.value}"


def part_text(part: Share) -> str:
    """Return a part's time and share, such as "41.3 ms  50%"."""
    return f"{step_text(part.batch_ms / 1000)} {part.share:4.0%}"


_STEP_COLUMNS: tuple[Column[Share], ...] = (
    Column("part", part_name, is_numeric=False),
    Column("per batch", part_text),
    Column("source", field_text("source"), is_numeric=False),
)
_SYNC_COLUMNS: tuple[Column[SyncPoint], ...] = (
    Column("where", field_text("where"), is_numeric=False),
    Column("what", field_text("what"), is_numeric=False),
    Column("per batch", field_text("per_batch", "{:.2g}".format)),
)


def step_blocks(measurement: Measurement) -> tuple[Block, ...]:
    """Return where the time of a step goes, and whether its two halves explain it."""
    found, isolated, halves = attribution(measurement), measurement.isolated, closure(measurement)
    why = isolated.why_not or "not measured"
    if halves is not None:
        why = halves.gap or f"consistent with the loop (noise {halves.slack:.0%})"
    loader, training = map(step_text, (isolated.loader_step_s, isolated.compute_step_s))
    alone = f"Loader alone {loader}, training alone {training} (measured): {why}"
    title = f"Step time: {step_text(found.step_ms / 1000)} (measured)"
    return _step_chart(found), table_of(title, _STEP_COLUMNS, found.shares), Passage("", (alone,))


def _step_chart(found: Attribution) -> Chart:
    def bar(batch_ms: float) -> tuple[Point, ...]:
        return (Point(x="batch", y=max(0.0, batch_ms), text=step_text(batch_ms / 1000)),)

    parts = [one for one in found.shares if one.is_of_sum]
    return stacked_bars(
        "step_time",
        "Step time (measured)",
        f"By the {found.source}: {', '.join(f'{one.part.value} {one.share:.0%}' for one in parts)}.",
        ("", "ms per batch"),
        [Series(one.part.value, Basis.MEASURED, bar(one.batch_ms), "bars") for one in parts],
        [Series("total", Basis.MEASURED, bar(found.step_ms), "totals")],
    )


def startup_table(loop: LoopMeasurement) -> Table:
    """Return the times before the steady loop, and those of each epoch boundary."""
    boundary_s = None if loop.boundary_s is None else max(0.0, loop.boundary_s)
    seconds = {
        "start-up": loop.startup_s if loop.has_loader else None,
        "first batch": loop.first_batch_s if loop.has_loader else None,
        "first step" if loop.has_loader else "start-up and first step": loop.first_step_s,
        **({"further compilation": loop.recompile_s} if loop.recompile_s else {}),
        "each epoch boundary": boundary_s if loop.boundaries_seen else None,
        "one epoch": loop.epoch_time_s,
    }
    rows = tuple((name, duration_text(part_s)) for name, part_s in seconds.items())
    return Table("Before the steady loop (measured)", ("", ""), rows, (1,))


def kernel_blocks(details: Details | None) -> tuple[Table | Passage, ...]:
    """Return the traced kernels and the places where the script waits for the device, if any."""
    seen, syncs = (details.kernels, details.syncs) if details else (None, None)
    blocks: tuple[Table | Passage, ...] = ()
    if seen is not None:
        columns: tuple[Column[Kernel], ...] = (
            Column("kernel", field_text("name", f"{{:.{_KERNEL_LETTERS}}}".format), is_numeric=False),
            Column("calls", field_text("calls", "{:,}".format)),
            Column("per batch", lambda one: step_text(one.time_s / seen.batches)),
        )
        traced = count_text(seen.batches, "traced batch", "traced batches")
        busy, each = (step_text(s and s / seen.batches) for s in (seen.device_busy_s, seen.time_s))
        title = "Traced kernels, the longest (measured under torch.profiler)"
        note = f"device busy {busy} per batch; {traced}, {each} each: tracing slows them"
        blocks = table_of(title, columns, seen.kernels[:_SHOWN_KERNELS]), Passage("", (note,))
    return *blocks, table_of("Sync points (measured)", _SYNC_COLUMNS, syncs or ())
