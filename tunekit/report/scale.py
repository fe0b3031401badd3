"""A measured scaling in words: how many times as fast, what is lost and where, what to set. Pure."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from tunekit.diagnose.scaling import NO_WRAPPER, SAME_SAMPLES
from tunekit.plain_text import printable
from tunekit.predict.scaling import SOURCE
from tunekit.recommend.measured_scaling import losses_of, trials_of, why_no_further
from tunekit.recommend.noise import verdict
from tunekit.records.data_parallel import DataParallelKind
from tunekit.records.finding import Severity
from tunekit.records.interval import Interval
from tunekit.records.recommendation import LearningRateRule
from tunekit.records.run import RunStatus
from tunekit.records.scaling import ScalingMode
from tunekit.records.scaling_run import DdpGain, ExpectedCount, ScaledCount, ScalingRun, StepSplit
from tunekit.records.trial import OutcomeKind
from tunekit.report.blocks import (
    Basis,
    Block,
    Chart,
    Column,
    Commands,
    Lead,
    Line,
    Note,
    Passage,
    Point,
    Report,
    Section,
    Series,
    fitted_table,
    found_blocks,
    note_of,
)
from tunekit.report.loop_time import step_text
from tunekit.report.plan_figures import PREDICTED_MARK
from tunekit.report.text import (
    TOO_WIDE_IN_TABLE,
    UNKNOWN,
    config_text,
    factor_text,
    interval_text,
    is_too_wide,
    range_text,
    speedup_text,
)
from tunekit.report.tiers import lr_text
from tunekit.trial.typed_commands import command_text, quoted
from tunekit.units import (
    bytes_text,
    count_text,
    digits_text,
    duration_text,
    rate_text,
    share_text,
    typed_duration_text,
)

_PERCENT = ".1f"
_NEXT_TO_NOTHING = 1e-12
_WORTH_A_WORD = 0.02
"""Of an iteration, from which on the answer says what it is lost to."""
_NO_ERROR = 5e-4
"""Of a step, up to which a fitted law is as good as through its figures."""
_KINDS = {
    DataParallelKind.DDP: "DistributedDataParallel",
    DataParallelKind.FSDP: "FullyShardedDataParallel",
    DataParallelKind.FSDP2: "fully_shard",
}
_MODES = {
    ScalingMode.WEAK: "Weak scaling, each process keeps its batch",
    ScalingMode.STRONG: "Strong scaling, the processes share the global batch of one",
}
_LEAST_APART = 0.04
"""Of the axis, from one named count of processes to the next."""
_UNTESTED = "; three counts can't tell its error, a fourth would"
_UNTOLD = "-"
"""What there is none of, or can't be told apart."""


@dataclass(frozen=True)
class _Row:
    """A count that was measured, or one that the fitted law speaks of."""

    run: ScalingRun
    world_size: int
    """Processes of all hosts."""
    count: ScaledCount | None = None
    expected: ExpectedCount | None = None

    @property
    def label(self) -> str:
        """Its processes, marked where they were not measured."""
        return f"{self.world_size}" if self.expected is None else f"{PREDICTED_MARK}{self.world_size}"

    @property
    def linear(self) -> float | None:
        """Samples/s if each process were as fast as those of the least count."""
        least = self.run.reference
        if least is None or least.rate_samples_per_s is None or not least.world_size:
            return None
        return least.rate_samples_per_s.value * self.world_size / least.world_size


def scaling_report(run: ScalingRun, folder: str = "FOLDER", width: int = 80) -> Report:
    """Return everything that is shown of a measured scaling, with commands on the folder that it lies in.

    Tables drop columns to fit the width.
    """
    return Report(
        printable(f"Scaling of {run.target.name} on {run.measured_on}"),
        (
            *map(Lead, _answers(run)),
            Line(_setting(run), is_quiet=True),
            Section("rates", "Rates and efficiency", "Rates"),
            *_rate_blocks(run, width),
            Section("step", "Where an iteration goes", "Iteration"),
            *_step_blocks(run, width),
            Section("host", "Batch, learning rate and this host", "Host"),
            *_host_blocks(run, width),
            Section("ddp", "Settings of DistributedDataParallel", "DDP"),
            *_gain_blocks(run, width),
            Section("findings", "Findings", "Findings"),
            *found_blocks(run.findings),
            Section("method", "How it was measured", "Method"),
            *_notes(run),
            Line(_how_measured(run), is_quiet=True, is_apart=True),
            Section("next", "What to do next", "Next"),
            Commands("Next", _next_steps(run, folder)),
        ),
    )


def scaling_page(run: ScalingRun, folder: str = "FOLDER", width: int = 80) -> Report:
    """Return the same with its charts, which only a page draws."""
    report = scaling_report(run, folder, width)
    charts = {"rates": _rate_chart(run), "step": _step_chart(run)}
    blocks: list[Block] = []
    for block in report.blocks:
        blocks.append(block)
        chart = charts.get(block.id) if isinstance(block, Section) else None
        if chart is not None and chart.series:
            blocks.append(chart)
    return replace(report, blocks=tuple(blocks))


# --- the answer ------------------------------------------------------------------------------


def _answers(run: ScalingRun) -> tuple[str, ...]:
    least, largest = run.reference, run.largest
    if least is None:
        return ("Nothing was measured.",)
    if largest is None or largest.efficiency is None or not largest.world_size or not least.world_size:
        rate = interval_text(least.rate_samples_per_s, " samples/s")
        return (f"{_processes(run.world_of(least.processes))}: {rate} (measured); no more were measured.",)
    times = largest.efficiency.times(largest.world_size / least.world_size)
    many, alone = _processes(largest.world_size), _count_alone(least)
    first = (
        f"{many} train {speedup_text(times)} as fast as {alone}: "
        f"efficiency {_efficiency_text(largest.efficiency)} (measured)."
    )
    wrongs = _wrongs(run, least, largest)
    if wrongs:
        first = f"Side by side, {many} take {speedup_text(times)} as many samples/s as {alone} (measured)."
    return tuple(text for text in (*wrongs, first, _lost(run, least, largest)) if text)


def _wrongs(run: ScalingRun, least: ScaledCount, largest: ScaledCount) -> tuple[str, ...]:
    """Return why the rates are not those of one training that goes faster, by what was found."""
    codes = {finding.code for finding in run.findings}
    many, alone = _processes(run.world_of(largest.processes)), _count_alone(least)
    wrongs = []
    if NO_WRAPPER in codes:
        wrongs.append(
            f"{many} do not seem to train together: no sum of their gradients was seen. Unless the script "
            "sums them itself, each trains a model of its own."
        )
    if SAME_SAMPLES in codes and largest.efficiency and largest.epoch_samples and least.epoch_samples:
        share, rate = largest.epoch_samples / least.epoch_samples, largest.efficiency
        longer = Interval(
            value=share / rate.value, low=share / rate.high, high=share / max(rate.low, _NEXT_TO_NOTHING)
        )
        wrongs.append(
            f"Every process read the same samples: an epoch on {many} takes {speedup_text(longer)} as long "
            f"as on {alone} (measured)."
        )
    return tuple(wrongs)


def _lost(run: ScalingRun, least: ScaledCount, largest: ScaledCount) -> str:
    """Return what the largest count loses most by, in a sentence; nothing where it loses next to nothing."""
    if least.step is None or largest.step is None or largest.step.exposed_s is None:
        return ""
    lost = losses_of(least, largest)
    parts = {
        "exposed communication": lost.exposed_s,
        "waiting for the slowest process": lost.straggler_s,
        "waiting for data": lost.data_wait_s,
        f"computing slower than {_on_least(run)}": lost.compute_s,
    }
    what, most_s = max(parts.items(), key=lambda one: one[1])
    if not lost.is_felt(most_s, _WORTH_A_WORD):
        return ""
    of_iteration = (
        f"{step_text(lost.at_most(most_s))} of the {step_text(lost.time_s)} that an iteration takes on "
        f"{run.world_of(largest.processes)}"
    )
    if most_s < lost.total_s:
        return f"Most is lost to {what}: {of_iteration}."
    return f"What is lost, {of_iteration}, goes to {what}."


def _setting(run: ScalingRun) -> str:
    if run.reference is None:
        return ""
    seen = run.data_parallel
    config = next((one.config for one in run.trials if one.config is not None), None)
    how = [config_text(config, run.discovery)]
    if run.measured_on == "cpu" and run.reference.threads is not None:
        how.append(f"{count_text(run.reference.threads, 'CPU thread')} each")
    if seen is not None:
        wrapper = _KINDS.get(seen.kind, "no wrapper of torch's seen")
        how.append(" over ".join(part for part in (wrapper, seen.backend) if part))
        how += [f"gradients {bytes_text(seen.gradient_bytes)}"] if seen.gradient_bytes else []
        how += [f"hook {seen.comm_hook}"] if seen.comm_hook else []
    if run.nodes > 1:
        how.append(f"{run.nodes} hosts")
    return printable(f"{_MODES[run.mode]}: {', '.join(how)}.")


# --- rates -----------------------------------------------------------------------------------


def _rate_blocks(run: ScalingRun, width: int) -> tuple[Block, ...]:
    rows = _rows(run)
    columns = (
        Column[_Row]("processes", lambda row: row.label),
        Column[_Row]("samples/s", lambda row: rate_text(_value(_rate(row)))),
        Column[_Row]("range", lambda row: _ends(_rate(row), rate_text), drop=3, is_optional=True),
        Column[_Row]("linear", lambda row: rate_text(row.linear), drop=2),
        Column[_Row]("it/s", lambda row: _of_count(row, lambda one: rate_text(one.it_per_s)), drop=4),
        Column[_Row]("efficiency", lambda row: _share(_value(_efficiency(row)))),
        Column[_Row](
            "range",
            lambda row: _ends(_efficiency(row), _percent),
            drop=1,
            is_optional=True,
        ),
        Column[_Row]("fitted", _fitted_text, is_optional=True),
        Column[_Row]("predicted", _predicted_text, is_optional=True),
    )
    marked = f"; {PREDICTED_MARK} predicted" if run.expected else ""
    title = f"Samples/s of all processes (measured{marked})"
    table = fitted_table(title, columns, rows, width, Basis.MEASURED)
    predicted = tuple(place for place, row in enumerate(rows) if row.expected is not None)
    return replace(table, predicted_rows=predicted), Passage("", _rate_lines(run), is_quiet=True)


def _rows(run: ScalingRun) -> list[_Row]:
    measured = [_Row(run, run.world_of(one.processes), count=one) for one in run.counts]
    return [*measured, *(_Row(run, one.processes, expected=one) for one in run.expected)]


def _rate(row: _Row) -> Interval | None:
    if row.count is not None:
        return row.count.rate_samples_per_s
    assert row.expected is not None
    return row.expected.rate_samples_per_s


def _efficiency(row: _Row) -> Interval | None:
    told = row.count or row.expected
    return told.efficiency if told else None


def _of_count(row: _Row, text: Callable[[ScaledCount], str]) -> str:
    return _UNTOLD if row.count is None or row.count.rate_samples_per_s is None else text(row.count)


def _value(interval: Interval | None) -> float | None:
    return None if interval is None else interval.value


def _fitted(row: _Row) -> float | None:
    if row.expected is not None:
        return row.expected.efficiency.value
    return row.count.fitted if row.count else None


def _fitted_text(row: _Row) -> str:
    return UNKNOWN if row.run.fit is None else _of_count(row, lambda one: _share(one.fitted))


def _predicted_text(row: _Row) -> str:
    predicted = row.count.predicted if row.count else None
    if predicted is None or predicted.gpus == 1:
        return UNKNOWN if row.count is not None and predicted is None else _UNTOLD
    return f"{_percent(predicted.efficiency.low)} to {_percent(predicted.efficiency.high)}%"


def _rate_lines(run: ScalingRun) -> tuple[str, ...]:
    lines = [
        f"{_processes(run.world_of(one.processes))}: not measured, {one.why_missing}"
        for one in run.counts
        if one.why_missing
    ]
    if len(run.measured) > 1:
        lines.append(f"linear: if each process were as fast as {_on_least(run)}")
    if run.fit is not None:
        # Two counts beside one determine the law's two figures, unless one of them came to less than none.
        is_tested = len(run.measured) > 3 or run.fit.residual > _NO_ERROR
        moved, spread, error = (
            share_text(one, _PERCENT) for one in (run.fit.communication, run.fit.spread, run.fit.residual)
        )
        lines.append(
            f"fitted, without waiting for data: the law with {moved} of a step for moving the gradients once "
            f"and {spread} of spread between the processes"
            + (f", off by {error} of a step" if is_tested else _UNTESTED)
        )
        if run.expected:
            lines.append(f"{PREDICTED_MARK}: predicted by the fitted law, without waiting for data")
        elif run.largest is not None and (why := why_no_further(run.largest)) is not None:
            lines.append(f"more processes are not predicted: {why}")
    elif len(run.measured) > 1:
        why = "it takes one process and two more counts, as with --processes 1,2,4"
        if run.is_without_wrapper:
            why = "nothing of torch's is seen to sum the gradients"
        elif run.nodes > 1:
            why = f"it goes by one process alone, and {run.nodes} hosts have at least {run.nodes}"
        lines.append(f"no law is fitted: {why}")
    if any(one.predicted is not None for one in run.measured):
        links = {one.predicted.link for one in run.measured if one.predicted and one.predicted.gpus > 1}
        basis = SOURCE.partition(": ")[2]
        lines.append(
            f"predicted: one process's step, its gradients over {' or '.join(sorted(links))}; {basis}"
        )
    return tuple(map(printable, lines))


# --- where an iteration goes -----------------------------------------------------------------


def _step_blocks(run: ScalingRun, width: int) -> tuple[Block, ...]:
    counts = [one for one in run.measured if one.step is not None]

    def part(seconds: Callable[[StepSplit], float | None]) -> Callable[[ScaledCount], str]:
        def text(one: ScaledCount) -> str:
            taken_s = seconds(one.step) if one.step else None
            if taken_s is None:
                return _UNTOLD
            share = taken_s / one.step.time_s if one.step else 0.0
            return f"{step_text(taken_s)} {share:4.0%}"

        return text

    columns = (
        Column[ScaledCount]("processes", lambda one: str(one.world_size)),
        Column[ScaledCount]("iteration", lambda one: step_text(one.step.time_s) if one.step else UNKNOWN),
        Column[ScaledCount]("compute", part(lambda step: step.compute_s)),
        Column[ScaledCount]("communication", part(lambda step: step.exposed_s)),
        Column[ScaledCount]("slowest process", part(lambda step: step.straggler_s), drop=1),
        Column[ScaledCount]("data", part(lambda step: step.data_wait_s)),
    )
    lines = []
    if any(one.step and one.step.exposed_s is not None for one in counts):
        lines.append(
            "communication: exposed, what an iteration takes beyond one in which no gradient is summed; "
            "slowest process: waiting for it; data: waiting for the loader"
        )
    if any(one.step and one.step.exposed_s is None and run.world_of(one.processes) > 1 for one in counts):
        lines.append(f"{_UNTOLD}: not told apart, it is in compute")
    table = fitted_table("Where an iteration goes (measured)", columns, counts, width, Basis.MEASURED)
    return table, Passage("", tuple(lines), is_quiet=True)


# --- the host --------------------------------------------------------------------------------


def _host_blocks(run: ScalingRun, width: int) -> tuple[Block, ...]:
    rule = run.lr_rule
    cpus = run.host.cpus
    columns = (
        Column[ScaledCount]("processes", lambda one: str(one.world_size)),
        Column[ScaledCount]("batch", lambda one: f"{one.batch_size:,}", drop=2),
        Column[ScaledCount]("global batch", lambda one: f"{one.global_batch:,}"),
        Column[ScaledCount](
            "lr linear" + " *" * (rule is LearningRateRule.LINEAR), lambda one: lr_text(one.lr_linear)
        ),
        Column[ScaledCount](
            "lr sqrt" + " *" * (rule is LearningRateRule.SQRT), lambda one: lr_text(one.lr_sqrt)
        ),
        Column[ScaledCount]("workers", lambda one: f"{one.workers:,}"),
        Column[ScaledCount]("per CPU", lambda one: rate_text((one.workers or 0) / cpus), drop=1),
        Column[ScaledCount]("RAM", lambda one: bytes_text(one.ram_bytes)),
    )
    starred = "; * the rule of your optimizer" if rule else ""
    lines = [
        f"{_processes(run.world_of(one.processes))}: {warning}"
        for one in run.measured
        for warning in one.warnings
    ]
    if run.measured and run.nodes > 1:
        lines.append(f"workers, per CPU and RAM: of this host, one of {run.nodes}")
    if run.measured and rule is None:
        lines.append("no rule is published for this optimizer: neither lr is more than a start")
    title = f"Batch, learning rate (predicted{starred}), and this host"
    return (
        fitted_table(title, columns, run.measured, width),
        Passage("", tuple(map(printable, lines))),
    )


# --- settings of DDP -------------------------------------------------------------------------


def _gain_blocks(run: ScalingRun, width: int) -> tuple[Block, ...]:
    gains = run.gains
    if not gains:
        return ()

    noise = run.noise_floor

    def factor(one: DdpGain) -> str:
        if one.factor is None:
            return "failed" if one.why_missing else UNKNOWN
        return factor_text(one.factor.value)

    def judged(one: DdpGain) -> str:
        return _UNTOLD if one.factor is None or noise is None else verdict(one.factor, noise)

    columns = (
        Column[DdpGain]("", lambda one: one.name, is_numeric=False),
        Column[DdpGain]("factor", factor),
        Column[DdpGain]("range", lambda one: range_text(one.factor)),
        Column[DdpGain]("", judged, is_numeric=False),
    )
    world_size = run.world_of(gains[0].processes)
    title = f"Settings of DistributedDataParallel on {world_size} (measured, rate over that as it is)"
    lines = [printable(f"{one.name}: {one.why_missing}") for one in gains if one.why_missing]
    if noise is None and any(one.factor is not None for one in gains):
        lines.append(f"{_UNTOLD}: one round can't tell a gain from noise; more --rounds can")
    return fitted_table(title, columns, gains, width, Basis.MEASURED), Passage("", tuple(lines))


# --- how it was measured ---------------------------------------------------------------------


def _notes(run: ScalingRun) -> tuple[Note, ...]:
    counted = {number for one in run.counts if one.why_missing for number in one.trials}
    failures = [
        printable(f"trial {record.number} failed, {record.failure.text}")
        for record in run.trials
        if record.failure is not None and record.number not in counted
    ]
    return (
        *(note_of(finding) for finding in run.machine_findings),
        *(Note(Severity.INFO, line) for line in failures),
    )


def _how_measured(run: ScalingRun) -> str:
    if not run.measured:
        return ""
    rounds = max(len(one.trials) for one in run.measured)
    noise = run.noise_floor
    floor = f"; A/A noise floor {noise.relative:.1%} over {noise.processes} fresh processes" if noise else ""
    status = "" if run.status is RunStatus.FINISHED else f" (status: {run.status})"
    ranges = "95% intervals" if rounds > 1 else "95% intervals of one process each"
    return printable(
        f"Measured on {run.measured_on} in {count_text(len(run.trials), 'trial')}, "
        f"{duration_text(run.scale_time_s)}{status}: fresh processes in {count_text(rounds, 'round')}, "
        f"every count in turns; rates are of steady iterations, without the ends of epochs, {ranges}{floor}."
    )


def _next_steps(run: ScalingRun, folder: str) -> tuple[str, ...]:
    asked, largest = run.options, run.largest
    if largest is None or largest.efficiency is None:
        return _steps_after_nothing(run, folder)
    steps = []
    least = run.reference
    is_on_gpu = run.measured_on != "cpu"
    is_one_training = least is not None and not _wrongs(run, least, largest)
    is_of_one = least is not None and least.world_size == 1
    if is_of_one and is_one_training and is_on_gpu and not is_too_wide(largest.efficiency):
        ends = largest.efficiency
        low, high = (min(1.0, one / 100) for one in (math.floor(100 * ends.low), math.ceil(100 * ends.high)))
        steps.append(f"tunekit plan RUN --scaling {low:.2f}..{high:.2f}  # RUN: a search on one GPU")
    if not asked.tries_knobs and _is_ddp(run):
        steps.append(command_text("scale", run.target, asked.gpu, ["--knobs", *_flags(run)]))
    steps.append(f"tunekit report {printable(quoted(folder))} --html  (this as a page)")
    return tuple(steps)


def _steps_after_nothing(run: ScalingRun, folder: str) -> tuple[str, ...]:
    """Return what to do where no two counts were measured: what failed would fail again."""
    again = command_text("scale", run.target, run.options.gpu, _flags(run))
    for count in run.options.processes:
        failed = next((one for one in trials_of(run, count) if one.failure is not None), None)
        if failed is not None:
            if failed.failure is not None and failed.failure.kind is OutcomeKind.KNOB_NOT_APPLIED:
                return (f"{again}  # once the script trains its processes together",)
            log = printable(quoted(f"{folder}/trials/{failed.number:04d}/output.log"))
            return (f"less {log}  # what {_processes(run.world_of(count))} wrote until they failed",)
    if run.left_out:
        weak = run.changed(options=run.options.changed(mode=ScalingMode.WEAK))
        again = command_text("scale", run.target, run.options.gpu, _flags(weak))
        return (f"{again}  # each process keeps the script's batch",)
    return (again,)


def _is_ddp(run: ScalingRun) -> bool:
    seen = run.data_parallel
    return seen is not None and seen.kind is DataParallelKind.DDP


def _flags(run: ScalingRun) -> list[str]:
    asked = run.options
    flags = ["--processes", ",".join(map(str, asked.processes))]
    flags += ["--strong"] if asked.mode is ScalingMode.STRONG else []
    if asked.hosts is not None:
        flags += ["--nnodes", str(asked.hosts.nodes), "--rdzv-endpoint", asked.hosts.endpoint]
    if asked.budget_s is not None:
        flags += ["--budget", typed_duration_text(asked.budget_s)]
    return flags


# --- charts ----------------------------------------------------------------------------------


def _rate_chart(run: ScalingRun) -> Chart:
    measured = run.measured
    points = tuple(
        Point(
            x=float(run.world_of(one.processes)),
            y=one.rate_samples_per_s.value,
            text=interval_text(one.rate_samples_per_s, " samples/s"),
            low=one.rate_samples_per_s.low,
            high=one.rate_samples_per_s.high,
            note=f"efficiency {_efficiency_text(one.efficiency)}" if one.efficiency else "",
        )
        for one in measured
        if one.rate_samples_per_s is not None
    )
    rows = _rows(run)
    series = [Series("measured", Basis.MEASURED, points, "points", stands_out=True)]
    series.append(Series("linear", Basis.PREDICTED, _line(run, rows, lambda row: 1.0), "line"))
    if run.fit is not None:
        fitted = _line(run, rows, _fitted)
        series.append(Series("fitted law without waiting for data", Basis.PREDICTED, fitted, "line"))
    predicted = _line(
        run,
        rows,
        lambda row: row.count.predicted.efficiency.value if row.count and row.count.predicted else None,
    )
    series.append(Series("predicted from one", Basis.PREDICTED, predicted, "line"))
    return Chart(
        id="scaling",
        title="Samples/s against processes",
        summary="; ".join(f"{point.x:g}: {point.text}" for point in points) + ".",
        x_title="processes",
        y_title="samples/s",
        series=tuple(one for one in series if one.points),
        x_places=_apart([row.world_size for row in rows]),
    )


def _apart(counts: list[int]) -> tuple[float, ...]:
    """Return the counts to name along an axis, the largest first, each far enough from the next."""
    named: list[int] = []
    for count in sorted(counts, reverse=True):
        if not named or named[-1] - count >= _LEAST_APART * named[0]:
            named.append(count)
    return tuple(map(float, named))


def _line(run: ScalingRun, rows: list[_Row], share: Callable[[_Row], float | None]) -> tuple[Point, ...]:
    found = []
    for row in rows:
        efficiency, linear = share(row), row.linear
        if efficiency is not None and linear is not None:
            rate = linear * efficiency
            found.append(Point(x=float(row.world_size), y=rate, text=f"{rate_text(rate)} samples/s"))
    return tuple(found)


_PARTS: dict[str, Callable[[StepSplit], float | None]] = {
    "compute": lambda step: step.compute_s,
    "exposed communication": lambda step: step.exposed_s,
    "waiting for the slowest process": lambda step: step.straggler_s,
    "waiting for data": lambda step: step.data_wait_s,
}


def _step_chart(run: ScalingRun) -> Chart:
    counts = [(one, one.step) for one in run.measured if one.step is not None]
    series = [
        Series(
            name,
            Basis.MEASURED,
            tuple(
                Point(
                    x=_processes(run.world_of(one.processes)),
                    y=1000 * (seconds(step) or 0.0),
                    text=step_text(seconds(step) or 0.0),
                )
                for one, step in counts
            ),
            "bars",
        )
        for name, seconds in _PARTS.items()
        if any(seconds(step) for _, step in counts)
    ]
    totals = tuple(
        Point(x=_processes(run.world_of(one.processes)), y=1000 * step.time_s, text=step_text(step.time_s))
        for one, step in counts
    )
    return Chart(
        id="iteration",
        title="Where an iteration goes (measured)",
        summary=f"Time of an iteration: {', '.join(f'{one.x} {one.text}' for one in totals)}.",
        x_title="processes",
        y_title="ms",
        series=(*series, Series("total", Basis.MEASURED, totals, "totals")) if series else (),
        is_horizontal=True,
        is_stacked=True,
    )


# --- texts -----------------------------------------------------------------------------------


def _processes(number: int) -> str:
    return count_text(number, "process", "processes")


def _count_alone(least: ScaledCount) -> str:
    return "one" if least.world_size == 1 else f"{least.world_size}"


def _on_least(run: ScalingRun) -> str:
    """Return where a process is as fast as the least count's."""
    least = run.reference
    return "one alone" if least is None or least.world_size == 1 else f"with {least.world_size} processes"


def _percent(share: float) -> str:
    return digits_text(100 * share, _PERCENT)


def _share(share: float | None) -> str:
    return UNKNOWN if share is None else share_text(share, _PERCENT)


def _efficiency_text(efficiency: Interval) -> str:
    if is_too_wide(efficiency):
        return f"{_share(efficiency.value)} ({TOO_WIDE_IN_TABLE})"
    return f"{_share(efficiency.value)} ({_percent(efficiency.low)} to {_percent(efficiency.high)}%)"


def _ends(interval: Interval | None, text: Callable[[float], str]) -> str:
    if interval is None or interval.low == interval.high:
        return ""
    if is_too_wide(interval):
        return TOO_WIDE_IN_TABLE
    return f"{text(interval.low)} to {text(interval.high)}"
