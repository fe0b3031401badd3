"""A measured scaling: speedup and efficiency, what an iteration loses and where, what to set. Pure."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tunekit.diagnose.scaling import NO_WRAPPER, SAME_SAMPLES
from tunekit.plain_text import printable
from tunekit.predict.scaling import SOURCE
from tunekit.recommend.measured_scaling import losses_of, trials_of, why_no_further
from tunekit.records.data_parallel import DataParallelKind
from tunekit.records.interval import Interval
from tunekit.records.recommendation import LearningRateRule
from tunekit.records.scaling import ScalingMode
from tunekit.records.scaling_run import ScaledCount, ScalingRun
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
from tunekit.report.loop_time import step_text
from tunekit.report.plan_figures import PREDICTED_MARK
from tunekit.report.text import (
    TOO_WIDE_IN_TABLE,
    config_text,
    how_measured,
    interval_text,
    is_too_wide,
    speedup_text,
)
from tunekit.report.tiers import lr_text
from tunekit.trial.typed_commands import quoted
from tunekit.units import bytes_text, count_text, digits_text, rate_text, share_text

_FORM = ".1f"
"""Of per cents."""
_WORTH_A_WORD = 0.02
"""Of an iteration, from which on the answer says what it is lost to."""
_NO_ERROR = 5e-4
"""Of a step, up to which a fitted law goes through its figures."""
_NONE = "-"
_KINDS = {
    DataParallelKind.DDP: "DistributedDataParallel",
    DataParallelKind.FSDP: "FullyShardedDataParallel",
    DataParallelKind.FSDP2: "fully_shard",
    DataParallelKind.NONE: "no torch wrapper",
}
_PARTS = {
    "compute_s": "compute",
    "exposed_s": "exposed communication",
    "straggler_s": "waiting for the slowest process",
    "data_wait_s": "waiting for data",
}
"""Of an iteration, by field."""


def scaling_report(run: ScalingRun, folder: str = "FOLDER") -> Report:
    """Return everything that is shown of a measured scaling, with commands on the folder that it lies in."""
    return Report(
        printable(f"Scaling of {run.target.name} on {run.measured_on}"),
        (
            *map(Lead, _answers(run)),
            Line(_setting(run), is_quiet=True),
            Section("rates", "Rates and efficiency", "Rates"),
            *_rate_chart(run),
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
            Line(_how_measured(run), is_quiet=True, is_apart=True),
            Section("next", "What to do next", "Next"),
            Commands("Next", _next_steps(run, folder)),
        ),
    )


def _answers(run: ScalingRun) -> tuple[str, ...]:
    least, largest = run.reference, run.largest
    if least is None:
        return ("Nothing was measured.",)
    if largest is None or largest.efficiency is None:
        rate = interval_text(least.rate_samples_per_s, " samples/s")
        return (f"{_processes(least)}: {rate} (measured). No other count was measured.",)
    times = speedup_text(largest.efficiency.times(largest.processes / least.processes))
    efficiency = f"efficiency {_with_range(largest.efficiency)} (measured)"
    many = _processes(largest)
    wrong = "".join(f" (not one training: {code})" for code in _wrong_codes(run))
    first = f"Speedup of {many} over {least.processes}: {times}, {efficiency}{wrong}."
    return tuple(filter(None, (first, _largest_loss(least, largest))))


def _wrong_codes(run: ScalingRun) -> list[str]:
    """Return what was found that keeps the processes from being one training that goes faster."""
    return [one.code for one in run.findings if one.code in (NO_WRAPPER, SAME_SAMPLES)]


def _largest_loss(least: ScaledCount, largest: ScaledCount) -> str:
    if least.step is None or largest.step is None or largest.step.exposed_s is None:
        return ""
    lost = losses_of(least, largest)
    part = max(_PARTS, key=lambda name: getattr(lost, name))
    seconds = getattr(lost, part)
    if not lost.is_felt(seconds, _WORTH_A_WORD):
        return ""
    what = "slower compute" if part == "compute_s" else _PARTS[part]
    of_iteration = f"{step_text(lost.at_most(seconds))} of {step_text(lost.time_s)} per iteration"
    return f"Largest loss: {what}, {of_iteration}."


def _setting(run: ScalingRun) -> str:
    if run.reference is None:
        return ""
    kept = "batch per process" if run.mode is ScalingMode.WEAK else "global batch"
    config = next((one.config for one in run.trials if one.config is not None), None)
    how = [f"{run.mode.value.capitalize()} scaling (same {kept})", config_text(config, run.discovery)]
    if run.measured_on == "cpu" and run.reference.threads is not None:
        how.append(f"{count_text(run.reference.threads, 'CPU thread')} each")
    if (seen := run.data_parallel) is not None:
        how.append(" over ".join(filter(None, (_KINDS[seen.kind], seen.backend))))
        how += [f"gradients {bytes_text(seen.gradient_bytes)}"] if seen.gradient_bytes else []
        how += [f"hook {seen.comm_hook}"] if seen.comm_hook else []
    return printable(f"{', '.join(how)}.")


# --- tables ----------------------------------------------------------------------------------


def _share(share: float) -> str:
    return share_text(share, _FORM)


def _with_range(share: Interval) -> str:
    if is_too_wide(share):
        return f"{_share(share.value)} ({TOO_WIDE_IN_TABLE})"
    low, high = (digits_text(100 * end, _FORM) for end in (share.low, share.high))
    return _share(share.value) + f" ({low} to {high})" * (share.low != share.high)


def _label(count: ScaledCount) -> str:
    return f"{count.processes}" if count.trials else f"{PREDICTED_MARK}{count.processes}"


def _part(name: str) -> Callable[[ScaledCount], str]:
    """Return what writes a part of an iteration and its share."""

    def cell(count: ScaledCount) -> str:
        assert count.step is not None
        seconds = getattr(count.step, name)
        return _NONE if seconds is None else f"{step_text(seconds)} {seconds / count.step.time_s:4.0%}"

    return cell


_RATE_COLUMNS: tuple[Column[ScaledCount], ...] = (
    Column("processes", _label),
    Column("samples/s", field_text("rate_samples_per_s", partial(interval_text, too_wide=TOO_WIDE_IN_TABLE))),
    Column("linear", field_text("linear_samples_per_s", rate_text)),
    Column("it/s", field_text("it_per_s", rate_text, _NONE)),
    Column("efficiency", field_text("efficiency", _with_range)),
    Column("fitted", field_text("fitted", _share), is_optional=True),
    Column("predicted", field_text("predicted.efficiency", _with_range), is_optional=True),
)
_STEP_COLUMNS: tuple[Column[ScaledCount], ...] = (
    Column("processes", _label),
    Column("iteration", field_text("step.time_s", step_text)),
    Column("compute", _part("compute_s")),
    Column("communication", _part("exposed_s")),
    Column("slowest process", _part("straggler_s")),
    Column("data", _part("data_wait_s")),
)


def _rate_table(run: ScalingRun) -> Table:
    marked = f"; {PREDICTED_MARK} predicted" if run.expected else ""
    title = f"Samples/s of all processes (measured{marked})"
    table = table_of(title, _RATE_COLUMNS, (*run.counts, *run.expected), Basis.MEASURED)
    return replace(table, predicted_rows=tuple(range(len(run.counts), len(table.rows))))


def _rate_notes(run: ScalingRun) -> tuple[str, ...]:
    notes = [f"{_processes(one)}: not measured, {one.why_missing}" for one in run.counts if one.why_missing]
    if run.largest is not None and run.reference is not None:
        notes.append(f"linear: no loss against {_processes(run.reference)}")
        notes.append(_fit_note(run))
        if run.fit is not None and (why := why_no_further(run.largest)) is not None:
            notes.append(f"more processes are not predicted: {why}")
    links = {one.predicted.link for one in run.measured if one.predicted and one.predicted.gpus > 1}
    if links:
        basis = SOURCE.removeprefix("scaling: ")
        notes.append(
            f"predicted: one process's step, its gradients over {' or '.join(sorted(links))}; {basis}"
        )
    return tuple(map(printable, notes))


def _fit_note(run: ScalingRun) -> str:
    fit = run.fit
    if fit is None:
        why = "no torch wrapper sums the gradients" if run.is_without_wrapper else "needs --processes 1,2,4"
        return f"no fitted law: {why}"
    # Two counts beside one determine the law's two figures, unless one of them came to less than none.
    is_tested = len(run.measured) > 3 or fit.residual > _NO_ERROR
    error = f"off by {_share(fit.residual)} of a step" if is_tested else "error unknown with three counts"
    return (
        f"fitted, without data waits: {_share(fit.communication)} of a step to move the gradients once, "
        f"{_share(fit.spread)} spread between processes, {error}"
    )


def _step_blocks(run: ScalingRun) -> tuple[Block, ...]:
    counts = [one for one in run.measured if one.step is not None]
    notes = (
        "communication: exposed, by difference to training without summing gradients",
        f"{_NONE}: not measured, included in compute",
    )
    table = table_of("Where an iteration goes (measured)", _STEP_COLUMNS, counts, Basis.MEASURED)
    return *_step_chart(counts), table, Passage("", notes if counts else (), is_quiet=True)


def _host_blocks(run: ScalingRun) -> tuple[Block, ...]:
    rule, cpus = run.lr_rule, run.host.cpus
    star = {one: " *" * (rule is one) for one in LearningRateRule}
    columns: tuple[Column[ScaledCount], ...] = (
        Column("processes", _label),
        Column("batch", field_text("batch_size", "{:,}".format)),
        Column("global batch", field_text("global_batch", "{:,}".format)),
        Column(f"lr linear{star[LearningRateRule.LINEAR]}", field_text("lr_linear", lr_text)),
        Column(f"lr sqrt{star[LearningRateRule.SQRT]}", field_text("lr_sqrt", lr_text)),
        Column("workers", field_text("workers", "{:,}".format)),
        Column("per CPU", field_text("workers", lambda workers: rate_text(workers / cpus))),
        Column("RAM", field_text("ram_bytes", bytes_text)),
    )
    notes = [f"{_processes(one)}: {warning}" for one in run.measured for warning in one.warnings]
    if run.measured and rule is None:
        notes.append("no rule is published for this optimizer: use either lr only as a start")
    starred = "; * the rule of your optimizer" if rule else ""
    title = f"Batch, learning rate (predicted{starred}), and this host"
    return table_of(title, columns, run.measured), Passage("", tuple(map(printable, notes)))


# --- method and next steps -------------------------------------------------------------------


def _how_measured(run: ScalingRun) -> str:
    if not run.measured:
        return ""
    rounds = count_text(max(len(one.trials) for one in run.measured), "round")
    how = f"fresh processes in {rounds}, counts interleaved, steady iterations without the ends of epochs"
    return how_measured(run, run.scale_time_s, f"{how}, 95% intervals")


def _next_steps(run: ScalingRun, folder: str) -> tuple[str, ...]:
    largest = run.largest
    if largest is None or largest.efficiency is None:
        counts = run.options.processes
        failed = [one for count in counts for one in trials_of(run, count) if one.failure is not None]
        logs = [f"{folder}/trials/{one.number:04d}/output.log" for one in failed[:1]]
        return tuple(f"less {printable(quoted(log))}" for log in logs)
    steps = []
    ends, is_of_one = largest.efficiency, run.measured[0].processes == 1
    if is_of_one and not _wrong_codes(run) and run.measured_on != "cpu" and not is_too_wide(ends):
        low, high = (min(1.0, one / 100) for one in (math.floor(100 * ends.low), math.ceil(100 * ends.high)))
        steps.append(f"tunekit plan RUN --scaling {low:.2f}..{high:.2f}  # RUN: a search on one GPU")
    return (*steps, f"tunekit report {printable(quoted(folder))} --html  (this as a page)")


# --- charts ----------------------------------------------------------------------------------


def _rate_chart(run: ScalingRun) -> tuple[Chart, ...]:
    points = tuple(
        Point(
            x=float(one.processes),
            y=rate.value,
            text=interval_text(rate, " samples/s"),
            low=rate.low,
            high=rate.high,
            note=f"efficiency {_with_range(one.efficiency)}" if one.efficiency else "",
        )
        for one in run.measured
        if (rate := one.rate_samples_per_s) is not None
    )
    lines = {
        "linear": _line(run, lambda one: 1.0),
        "fitted law without waiting for data": _line(run, lambda one: one.fitted),
        "predicted from one": _line(run, lambda one: one.predicted and one.predicted.efficiency.value),
    }
    measured = Series("measured", Basis.MEASURED, points, "points", stands_out=True)
    series = (measured, *(Series(name, Basis.PREDICTED, line, "line") for name, line in lines.items()))
    chart = Chart(
        id="scaling",
        title="Samples/s against processes",
        summary="; ".join(f"{point.x:g}: {point.text}" for point in points) + ".",
        x_title="processes",
        y_title="samples/s",
        series=tuple(one for one in series if one.points),
    )
    return (chart,) if chart.series else ()


def _line(run: ScalingRun, share: Callable[[ScaledCount], Any]) -> tuple[Point, ...]:
    """Return the rates of all counts at a share of linear scaling."""
    found = []
    for one in (*run.counts, *run.expected):
        efficiency, linear = share(one), one.linear_samples_per_s
        if efficiency is not None and linear is not None:
            rate = linear * efficiency
            found.append(Point(x=float(one.processes), y=rate, text=f"{rate_text(rate)} samples/s"))
    return tuple(found)


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
