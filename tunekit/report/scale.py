"""A measured scaling: speedup and efficiency, what an iteration loses and where, what to set. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from tunekit.diagnose.scaling import NO_WRAPPER, SAME_SAMPLES
from tunekit.recommend.measured_scaling import why_no_further
from tunekit.records.data_parallel import DataParallelKind
from tunekit.records.interval import Interval
from tunekit.records.scaling import ScalingFit, ScalingMode
from tunekit.records.scaling_run import ScaledCount, ScalingRun, StepSplit
from tunekit.report.blocks import (
    Basis,
    Block,
    Chart,
    Column,
    Commands,
    Lead,
    Line,
    Passage,
    Point,
    Report,
    Section,
    Series,
    Table,
    field_text,
    found_blocks,
    stacked_bars,
    table_of,
    trial_notes,
)
from tunekit.report.charts.trials import rate_point, samples_point
from tunekit.report.loop_time import step_text
from tunekit.report.plan import PREDICTED_MARK
from tunekit.report.text import (
    TOO_WIDE_IN_TABLE,
    UNKNOWN,
    config_text,
    how_measured,
    interval_text,
    is_too_wide,
    speedup_text,
)
from tunekit.report.tiers import lr_text
from tunekit.trial.typed_commands import quoted
from tunekit.units import bytes_text, count_text, digits_text, rate_text, share_text

_METHOD = (
    "fresh processes in rounds, counts interleaved, steady iterations without the ends of epochs, 95% CI"
)
_KINDS = {
    DataParallelKind.DDP: "DistributedDataParallel",
    DataParallelKind.FSDP: "FullyShardedDataParallel",
    DataParallelKind.FSDP2: "fully_shard",
    DataParallelKind.NONE: "no torch wrapper",
}
_PARTS = {
    "compute_s": "compute",
    "exposed_s": "communication",
    "straggler_s": "slowest process",
    "data_wait_s": "data wait",
}
"""The parts of an iteration, by field."""


def scaling_report(run: ScalingRun, folder: str = "FOLDER") -> Report:
    """Return the report on a measured scaling, with commands for its folder."""
    title = f"Scaling of {run.target.name} on {run.measured_on}"
    if run.reference is None:
        return Report(title, (Lead("Nothing was measured."), *trial_notes(run)))
    return Report(
        title,
        (
            Lead(_answer(run, run.reference)),
            Line(_setting(run), is_quiet=True),
            Section("rates", "Rates and efficiency", "Rates"),
            _rate_chart(run),
            _rate_table(run),
            Passage("", _rate_notes(run), is_quiet=True),
            Section("step", "Where an iteration goes", "Iteration"),
            *_step_blocks(run),
            Section("host", "Batch, learning rate and this host", "Host"),
            *_host_blocks(run),
            Section("findings", "Findings", "Findings"),
            *found_blocks(run.findings),
            Section("method", "How it was measured", "Method"),
            *trial_notes(run),
            Line(how_measured(run, run.scale_time_s, _METHOD), is_quiet=True, is_apart=True),
            Section("next", "What to do next", "Next"),
            Commands("Next", _next_steps(run, folder)),
        ),
    )


def _answer(run: ScalingRun, least: ScaledCount) -> str:
    largest = run.largest
    if largest is None or largest.efficiency is None:
        rate = interval_text(least.rate_samples_per_s, " samples/s")
        return f"{_processes(least)}: {rate} (measured). No other count was measured."
    times = speedup_text(largest.efficiency.times(largest.processes / least.processes))
    wrong = "".join(f" (not one training: {code})" for code in _wrong_codes(run))
    return (
        f"Speedup of {_processes(largest)} over {least.processes}: {times}, "
        f"efficiency {_with_range(largest.efficiency)} (measured){wrong}."
    )


def _wrong_codes(run: ScalingRun) -> list[str]:
    """Return findings that say the processes are not one faster training."""
    return [one.code for one in run.findings if one.code in (NO_WRAPPER, SAME_SAMPLES)]


def _setting(run: ScalingRun) -> str:
    kept = "batch per process" if run.mode is ScalingMode.WEAK else "global batch"
    config = next((one.config for one in run.trials if one.config is not None), None)
    how = [f"{run.mode.value.capitalize()} scaling (same {kept})", config_text(config, run.discovery)]
    if (seen := run.data_parallel) is not None:
        how.append(" over ".join(filter(None, (_KINDS[seen.kind], seen.backend))))
        how += [f"gradients {bytes_text(seen.gradient_bytes)}"] if seen.gradient_bytes else []
        how += [f"hook {seen.comm_hook}"] if seen.comm_hook else []
    return f"{', '.join(how)}."


# --- tables ----------------------------------------------------------------------------------


def _share(share: float) -> str:
    return share_text(share, ".1f")


def _with_range(share: Interval) -> str:
    if is_too_wide(share):
        return f"{_share(share.value)} ({TOO_WIDE_IN_TABLE})"
    low, high = (digits_text(100 * end, ".1f") for end in (share.low, share.high))
    return _share(share.value) + f" ({low} to {high})" * (low != high)


def _part(name: str) -> Column[ScaledCount]:
    """Return a column with a part of an iteration and its share."""

    def cell(step: StepSplit) -> str:
        seconds = getattr(step, name)
        return UNKNOWN if seconds is None else f"{step_text(seconds)} {seconds / step.time_s:4.0%}"

    return Column(_PARTS[name], field_text("step", cell))


_PROCESSES: Column[ScaledCount] = Column("processes", field_text("processes"))
_RATE_COLUMNS: tuple[Column[ScaledCount], ...] = (
    Column(
        "processes",
        lambda count: f"{count.processes}" if count.trials else f"{PREDICTED_MARK}{count.processes}",
    ),
    Column("samples/s", field_text("rate_samples_per_s", partial(interval_text, too_wide=TOO_WIDE_IN_TABLE))),
    Column("linear", field_text("linear_samples_per_s", rate_text)),
    Column("efficiency", field_text("efficiency", _with_range)),
    Column("fitted", field_text("fitted", _share), is_optional=True),
    Column("predicted", field_text("predicted.efficiency", _with_range), is_optional=True),
)
_STEP_COLUMNS = (_PROCESSES, Column("iteration", field_text("step.time_s", step_text)), *map(_part, _PARTS))
_HOST_COLUMNS: tuple[Column[ScaledCount], ...] = (
    _PROCESSES,
    Column("batch", field_text("batch_size", "{:,}".format)),
    Column("global batch", field_text("global_batch", "{:,}".format)),
    Column("lr linear", field_text("lr_linear", lr_text)),
    Column("lr sqrt", field_text("lr_sqrt", lr_text)),
    Column("workers", field_text("workers", "{:,}".format)),
    Column("threads", field_text("threads", "{:,}".format), is_optional=True),
    Column("RAM", field_text("ram_bytes", bytes_text)),
)


def _rate_table(run: ScalingRun) -> Table:
    marked = f"; {PREDICTED_MARK} predicted" if run.expected else ""
    title = f"Samples/s of all processes (measured{marked})"
    table = table_of(title, _RATE_COLUMNS, (*run.counts, *run.expected), Basis.MEASURED)
    return replace(table, predicted_rows=tuple(range(len(run.counts), len(table.rows))))


def _rate_notes(run: ScalingRun) -> tuple[str, ...]:
    notes = [f"{_processes(one)}: not measured, {one.why_missing}" for one in run.counts if one.why_missing]
    if run.largest is not None:
        notes.append(_fit_text(run.fit))
        if run.fit is not None and (why := why_no_further(run.largest)) is not None:
            notes.append(f"more processes are not predicted: {why}")
    links = {one.predicted.link for one in run.measured if one.predicted and one.predicted.gpus > 1}
    if links:
        notes.append(
            f"predicted: one process's step and a ring all-reduce of its gradients over "
            f"{' or '.join(sorted(links))}, up to 10% less"
        )
    return tuple(notes)


def _fit_text(fit: ScalingFit | None) -> str:
    if fit is None:
        return "no fitted law: needs --processes 1,2,4 and a torch wrapper"
    error = "error n/a with three counts"
    if fit.residual is not None:
        error = f"off by {_share(fit.residual)} of a step"
    return (
        f"fitted, without data waits: {_share(fit.communication)} of a step to move the gradients once, "
        f"{_share(fit.spread)} spread between processes, {error}"
    )


def _step_blocks(run: ScalingRun) -> tuple[Block, ...]:
    counts = [one for one in run.measured if one.step is not None]
    note = "communication: exposed, by difference to training without summing gradients; n/a: in compute"
    table = table_of("Where an iteration goes (measured)", _STEP_COLUMNS, counts, Basis.MEASURED)
    return *_step_chart(counts), table, Passage("", (note,) if counts else (), is_quiet=True)


def _host_blocks(run: ScalingRun) -> tuple[Block, ...]:
    rule = f"the {run.lr_rule} rule is published" if run.lr_rule else "no rule is published"
    warnings = [f"{_processes(one)}: {warning}" for one in run.measured for warning in one.warnings]
    title = f"Batch, learning rate (predicted), and this host of {count_text(run.host.cpus, 'CPU')}"
    return table_of(title, _HOST_COLUMNS, run.measured), Passage(
        "", (f"lr: {rule} for this optimizer", *warnings)
    )


def _next_steps(run: ScalingRun, folder: str) -> tuple[str, ...]:
    steps = [f"tunekit report {quoted(folder)} --html  (this as a page)"]
    ends = run.largest.efficiency if run.largest and run.measured[0].processes == 1 else None
    if ends is not None and not _wrong_codes(run) and run.measured_on != "cpu" and not is_too_wide(ends):
        low, high = (f"{min(1.0, end):.2f}" for end in (ends.low, ends.high))
        steps.insert(0, f"tunekit plan RUN --scaling {low}..{high}  # RUN: a search on one GPU")
    return tuple(steps)


# --- charts ----------------------------------------------------------------------------------


def _rate_chart(run: ScalingRun) -> Chart:
    points = tuple(
        rate_point(one.processes, one.rate_samples_per_s)
        for one in run.measured
        if one.rate_samples_per_s is not None
    )
    shares: dict[str, Callable[[ScaledCount], float | None]] = {
        "linear": lambda one: 1.0,
        "fitted law without waiting for data": lambda one: one.fitted,
        "predicted from one": lambda one: one.predicted.efficiency.value if one.predicted else None,
    }
    lines = {
        name: tuple(
            samples_point(one.processes, one.linear_samples_per_s * share)
            for one in (*run.counts, *run.expected)
            if one.linear_samples_per_s is not None and (share := share_of(one)) is not None
        )
        for name, share_of in shares.items()
    }
    measured = Series("measured", Basis.MEASURED, points, "points", stands_out=True)
    series = (measured, *(Series(name, Basis.PREDICTED, line, "line") for name, line in lines.items()))
    return Chart(
        id="scaling",
        title="Samples/s against processes",
        summary="; ".join(f"{point.x:g}: {point.text}" for point in points) + ".",
        x_title="processes",
        y_title="samples/s",
        series=tuple(one for one in series if one.points),
    )


def _step_chart(counts: Sequence[ScaledCount]) -> tuple[Chart, ...]:
    def bars(name: str) -> tuple[Point, ...]:
        taken = [(_processes(one), getattr(one.step, name) or 0.0) for one in counts]
        return tuple(Point(x=count, y=1000 * taken_s, text=step_text(taken_s)) for count, taken_s in taken)

    totals = bars("time_s")
    chart = stacked_bars(
        "iteration",
        "Where an iteration goes (measured)",
        f"Time of an iteration: {', '.join(f'{one.x} {one.text}' for one in totals)}.",
        ("processes", "ms"),
        [Series(name, Basis.MEASURED, bars(field), "bars") for field, name in _PARTS.items()],
        [Series("total", Basis.MEASURED, totals, "totals")],
    )
    return (chart,) if totals else ()


def _processes(count: ScaledCount) -> str:
    return count_text(count.processes, "process", "processes")
