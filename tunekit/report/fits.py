"""What fits which GPU: the answer on one screen; every GPU, precision and the basis in full. Pure."""

from typing import NamedTuple

from tunekit.predict.checkpointing import blocks_text, cost_text
from tunekit.records.config import Precision
from tunekit.records.finding import Severity
from tunekit.records.interval import Interval
from tunekit.records.prediction import DevicePrediction, LargestBatch, PredictedFit, PredictionPath, Purpose
from tunekit.records.run import BatchFit, FitsRun, GpuFacts, RequestedBatch
from tunekit.report.blocks import (
    Block,
    Column,
    Commands,
    Lead,
    Line,
    Note,
    Passage,
    Report,
    Section,
    field_text,
    table_of,
)
from tunekit.report.text import PATHS, UNKNOWN
from tunekit.trial.typed_commands import command_text, quoted
from tunekit.units import GIB, bytes_text, count_text, rate_text, short_rate_text

_HALVES = (Precision.BF16, Precision.FP16)
_TITLE = "What fits which GPU (predicted), by memory"
_SAME_GIB = 4.0
"""GPUs whose memory differs by less are of one size."""
_SCREEN_ROWS = 8
"""GPUs of the answer, one of each memory size."""
_SMALLER_ROWS = 2
"""GPUs of the answer that are too small for the batch."""


class _Row(NamedTuple):
    """One GPU in one precision."""

    name: str
    facts: GpuFacts
    fit: PredictedFit
    asked: RequestedBatch | None
    """The batch that was asked for, else the script's own."""
    epoch_samples: int | None

    @property
    def largest(self) -> str:
        """The largest batch at worst and at best; no loader makes one beyond an epoch."""
        return self._sizes_text(self.fit.largest)

    @property
    def checkpointed(self) -> str:
        """As `largest`, with gradient checkpointing."""
        return self._sizes_text(self.fit.checkpointed)

    def _sizes_text(self, of: LargestBatch | None) -> str:
        ends = [min(one, self.epoch_samples or one) for one in ((of.low, of.high) if of else ())]
        return "-".join(f"{one:,}" for one in dict.fromkeys(ends)) or UNKNOWN


def _gib_text(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.1f}"


def _ends_text(rate: Interval) -> str:
    return f"{short_rate_text(rate.low)}-{short_rate_text(rate.high)}"


def _verdict_text(asked: RequestedBatch) -> str:
    """Return whether a batch fits, such as "yes 12.1/19.5" in GiB: at worst for a yes, at best for a no."""
    room = asked.max_bytes if asked.verdict is BatchFit.NO else asked.min_bytes
    return f"{asked.verdict} {_gib_text(asked.reserved_bytes)}/{_gib_text(room)}"


_SCREEN_COLUMNS: tuple[Column[_Row], ...] = (
    Column("GPU", field_text("name"), is_numeric=False),
    Column("in", field_text("fit.precision"), is_numeric=False),
    Column("GiB", field_text("fit.capacity_bytes", _gib_text)),
    Column("largest", field_text("largest")),
    Column("fits", field_text("asked", _verdict_text), is_optional=True),
    Column("compute", field_text("asked.compute", _ends_text), is_optional=True),
    Column("loader", field_text("asked.loader", _ends_text), is_optional=True),
)
_COLUMNS: tuple[Column[_Row], ...] = (
    *_SCREEN_COLUMNS,
    Column("checkpointed", field_text("checkpointed"), is_optional=True),
    Column("compute at largest", field_text("fit.compute", _ends_text), is_optional=True),
    Column("loader at largest", field_text("fit.loader", _ends_text), is_optional=True),
    Column("machine", field_text("facts.instance"), is_optional=True),
    Column("vCPUs", field_text("facts.vcpus", "{:g}".format), is_optional=True),
)


def fits_report(run: FitsRun) -> Report:
    """Return the report on what fits which GPU."""
    title, rows = f"What fits which GPU: {run.target.name}", _rows(run)
    if not rows or run.prediction is None:
        failed = next((one.failure.text for one in run.trials if one.failure is not None), None)
        why = run.why_not or failed or f"status: {run.status}"
        return Report(title, (Lead(f"Nothing predicted: {why}."),))
    return Report(
        title,
        (
            Lead(_answer(run, rows)),
            Section("fits", "What fits which GPU", "GPUs"),
            table_of(_TITLE, _COLUMNS, rows),
            Passage("", (*_legend(run, run.prediction), "machine: the cheapest for its loader, per GPU")),
            Section("peak", "What takes the memory", "Memory"),
            *_peak_blocks(rows),
            Section("basis", "How it was predicted", "Basis"),
            Passage("How it was predicted", _basis(run, run.prediction)),
            *(Note(Severity.WARNING, one) for one in run.prediction.doubts),
            Section("next", "Next", "Next"),
            _next_steps(run),
        ),
    )


def fits_answer(run: FitsRun, folder: str = "") -> tuple[Block, ...]:
    """Return which GPUs hold the batch and how fast they would be, in one screen.

    Args:
        run: the whole prediction.
        folder: its folder, for commands.
    """
    rows, prediction = _rows(run), run.prediction
    if not rows or prediction is None:
        return fits_report(run).blocks
    known, doubts = prediction.checkpointing, len(prediction.doubts)
    more = (
        count_text(len(run.gpus), "GPU"),
        *(["gradient checkpointing"] if known and known.why_not is None else []),
        *([count_text(doubts, "doubt")] if doubts else []),
    )
    return (
        Lead(_answer(run, rows)),
        table_of(_TITLE, _SCREEN_COLUMNS, _screen_rows(run, rows)),
        Passage("", _legend(run, prediction)),
        Line(f"{', '.join(more)}, memory and method: tunekit report {quoted(folder)} --full", is_quiet=True),
        _next_steps(run, folder),
    )


def _rows(run: FitsRun) -> list[_Row]:
    """Return every GPU and precision, by memory; none where nothing was predicted."""
    if run.prediction is None:
        return []
    asked = {(one.profile_id, one.precision): one for one in run.asked}
    facts = {one.profile_id: one for one in run.gpus}
    rows = []
    for fit in run.prediction.fits:
        if fit.profile_id in facts:
            name = fit.profile_id + " (here)" * (fit.profile_id == run.measured_on)
            batch = asked.get((fit.profile_id, fit.precision))
            rows.append(_Row(name, facts[fit.profile_id], fit, batch, run.prediction.epoch_samples))
    return sorted(rows, key=lambda row: (row.fit.capacity_bytes, row.name, row.fit.precision in _HALVES))


def _own_rows(run: FitsRun, rows: list[_Row]) -> list[_Row]:
    """Return one row for each GPU: as wide as the script's own precision, or in the only one that it has."""
    config = run.script_config
    is_half = config is not None and config.precision in _HALVES
    ordered = sorted(rows, key=lambda row: (row.fit.precision in _HALVES) is is_half)
    own = {row.name: row for row in ordered}.values()
    return sorted(own, key=lambda row: (row.fit.capacity_bytes, row.name))


def _screen_rows(run: FitsRun, rows: list[_Row]) -> list[_Row]:
    """Return all GPUs where they are few, else the best of each memory size.

    That is the GPU here, else a rented one, else the fastest. Where these are too many, they start a little
    below what the batch needs.
    """
    own = _own_rows(run, rows)
    if len(own) <= _SCREEN_ROWS:
        return own

    def preference(row: _Row) -> tuple[bool, bool, float]:
        rate = row.fit.rate.value if row.fit.rate else 0.0
        return row.facts.profile_id == run.measured_on, row.facts.instance is not None, rate

    best = {round(row.fit.capacity_bytes / GIB / _SAME_GIB): row for row in sorted(own, key=preference)}
    kept = sorted(best.values(), key=lambda row: row.fit.capacity_bytes)
    too_small = sum(row.fit.largest.low < (run.batch_size or 1) for row in kept)
    start = max(0, min(too_small - _SMALLER_ROWS, len(kept) - _SCREEN_ROWS))
    return kept[start : start + _SCREEN_ROWS]


def _next_steps(run: FitsRun, folder: str = "") -> Commands:
    if run.target.builtin:
        return Commands("Next, with your own script", ("tunekit fits -- python train.py",))
    gpu = run.options.gpus[0] if len(run.options.gpus) == 1 else "NAME"
    search = command_text("search", run.target, gpu)
    where = "" if folder else "; RUN: this folder"
    plan = f"tunekit plan {quoted(folder or 'RUN')} --epochs N  # hours and dollars{where}"
    return Commands("Next", (plan, f"{search}  # on a machine with that GPU"))


def _answer(run: FitsRun, rows: list[_Row]) -> str:
    own, batch = _own_rows(run, rows), run.batch_size
    gpus = count_text(len(own), "GPU")
    if batch is None or run.prediction is None:
        return f"Largest batch on {gpus} (predicted)."
    name = f"Batch {batch}" if run.options.batch_size else f"Your batch of {batch}"
    if batch > (run.prediction.epoch_samples or batch):
        name += f" (an epoch has {run.prediction.epoch_samples:,} samples)"
    fitting = sum(batch <= row.fit.largest.low for row in own)
    return f"{name} fits with {run.prediction.margin:.0%} margin on {fitting} of {gpus} (predicted)."


def _legend(run: FitsRun, prediction: DevicePrediction) -> tuple[str, ...]:
    """Return what the columns are."""
    epoch = prediction.epoch_samples
    most = f"; an epoch has {epoch:,} samples" if epoch else ""
    lines = [f"largest: batch size that fits with {prediction.margin:.0%} margin, worst case-best case{most}"]
    if run.asked:
        lines.append(f"fits: batch {run.batch_size}, GiB reserved without margin / available")
    if any(one.compute is not None for one in run.asked):
        lines.append(f"compute, loader: samples/s per GPU at batch {run.batch_size}; the lower is the limit")
    return tuple(lines)


def _peak_blocks(rows: list[_Row]) -> tuple[Block, ...]:
    """Return what takes each GPU's memory at the peak of its largest batch, in GiB."""

    def part(purpose: Purpose) -> Column[_Row]:
        def cell(row: _Row) -> str:
            size = row.fit.peak.by_purpose.get(purpose, 0) if row.fit.peak else 0
            return _gib_text(size) if size else ""

        return Column(purpose.split()[0], cell, is_optional=True)

    columns: list[Column[_Row]] = [
        *_SCREEN_COLUMNS[:2],
        Column("batch", field_text("fit.batch_size", "{:,}".format)),
        *map(part, Purpose),
        Column("other", field_text("facts.outside.context.high", _gib_text)),
    ]
    kept = [row for row in rows if row.fit.peak is not None]
    title = "GiB at the peak of the largest batch with margin (predicted)"
    note = "other: CUDA context, at most"
    return (table_of(title, columns, kept), Passage("", (note,))) if kept else ()


# --- what the prediction goes by -------------------------------------------------------------


def _basis(run: FitsRun, prediction: DevicePrediction) -> tuple[str, ...]:
    """Return what the prediction goes by, a line each."""
    sizes = " and ".join(map(str, prediction.traced_sizes))
    elsewhere = "any other GPU" if prediction.path is PredictionPath.LOOP_ON_GPU else "a GPU"
    traces = [one.details.trace for one in run.trials if one.details and one.details.trace]
    factor = f", times {prediction.speed_factor:.2f} as measured here" if prediction.speed_factor else ""
    outside = [
        f"Context: {bytes_text(known.low)} to {bytes_text(known.high)}, {known.source}."
        for known in (one.outside.context for one in run.gpus)
    ]
    lines = [
        f"Traced here: {PATHS[prediction.path]}, at batch sizes {sizes}; nothing ran on {elsewhere}.",
        *(f"Not all was traced: {trace.why_ended}." for trace in traces if trace.why_ended),
        "Memory: the traced allocations at each batch size, replayed by the rules of torch's allocator; "
        f"a batch fits with a margin of {prediction.margin:.0%}.",
        *dict.fromkeys(outside),
        f"Compute: a roofline model of each traced op and of the host{factor}, fitted to published training "
        "rates; the range covers 90% of models that the fit did not see. torch.compile is not modelled.",
        _loader(run, prediction),
    ]
    known = prediction.checkpointing
    if known is not None:
        what = known.why_not or f"{blocks_text(known)}, {cost_text(known.extra_flops)}"
        lines.append(f"Gradient checkpointing: {what}.")
    return tuple(lines)


def _loader(run: FitsRun, prediction: DevicePrediction) -> str:
    seen = next((done for one in reversed(run.trials) if (done := one.measurement or one.dry)), None)
    if prediction.loader_measured is None or prediction.loader_cpus is None:
        isolated = seen.details.floors if seen and seen.details else None
        return f"Loader: n/a here ({(isolated and isolated.why_not) or 'not measured'})."
    workers = count_text(seen.loop.num_workers if seen else 0, "worker")
    return (
        f"Loader: {rate_text(prediction.loader_measured)} samples/s measured with {workers} on "
        f"{count_text(prediction.loader_cpus, 'CPU')}; elsewhere one worker per vCPU, at most one per batch "
        "of an epoch, each at 50% to 100% of the speed here."
    )
