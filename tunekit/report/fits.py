"""Everything that is shown of what fits which GPU, computed once. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from tunekit.plain_text import printable
from tunekit.records.finding import Severity
from tunekit.records.fits import FitsRun
from tunekit.records.prediction import DevicePrediction, PredictedFit
from tunekit.records.run import RunStatus
from tunekit.report.columns import fitted_table
from tunekit.report.commands import command_text
from tunekit.report.fits_basis import basis_lines
from tunekit.report.fits_table import (
    BAR,
    BAR_WIDTH,
    BOUND,
    CAPACITY,
    LARGEST,
    OTHER,
    RATE,
    UNKNOWN_LOADER,
    Row,
    all_text,
    asked_rate_title,
    bar_of,
    bound_text,
    by_kind,
    fits_columns,
    fits_rows,
    has_unknown_loader,
    main_precision,
    trusted_text,
)
from tunekit.report.memory_bar import legend_text
from tunekit.report.table import Passage, Table
from tunekit.report.text import Note
from tunekit.units import count_text

_LEAST_BAR = 20
_MOST_BARS = 8
"""GPUs whose bars are worth a table of their own."""


@dataclass(frozen=True)
class FitsView:
    """What is shown of a prediction, in its order."""

    answer: str
    parts: tuple[Table | Passage, ...]
    notes: tuple[Note, ...]
    """What may be otherwise on a GPU."""
    next_steps: tuple[str, ...]


def fits_view(run: FitsRun, folder: str = "FOLDER", width: int = 80) -> FitsView:
    """Return everything that is shown of what fits which GPU.

    Args:
        run: as it was saved.
        folder: where it lies.
        width: the terminal's, in letters; the table drops columns to fit.
    """
    prediction = run.prediction
    if prediction is None or not prediction.fits:
        return FitsView(_nothing(run), (), (), ())
    rows = fits_rows(run, prediction)
    table = fitted_table(
        "What fits which GPU (predicted), by memory", fits_columns(run, prediction), rows, width
    )
    return FitsView(
        answer=_answer(run, prediction),
        parts=(
            table,
            Passage("", _below(run, prediction, rows, table)),
            *_bars(prediction, rows, table, width),
            Passage("How it was predicted", basis_lines(run, prediction)),
        ),
        notes=tuple(Note(Severity.WARNING, printable(one)) for one in prediction.doubts),
        next_steps=_next_steps(run),
    )


def _nothing(run: FitsRun) -> str:
    if run.why_not is not None:
        return printable(f"Nothing can be predicted: {run.why_not}.")
    failed = next((one.failure for one in run.trials if one.failure is not None), None)
    if failed is not None:
        return printable(f"Nothing was predicted: the script failed ({failed.kind}): {failed.message}.")
    why = "it was interrupted" if run.status is RunStatus.INTERRUPTED else f"status: {run.status}"
    return f"Nothing was predicted yet ({why})."


# --- the answer ----------------------------------------------------------------------------


def _answer(run: FitsRun, prediction: DevicePrediction) -> str:
    """Return on how many GPUs the batch fits that was asked for, else the script's own."""
    asked, batch = run.options.batch_size, run.batch_size
    if batch is None:
        return f"What fits {count_text(len({fit.profile_id for fit in prediction.fits}), 'GPU')}: predicted."
    name = f"Batch {batch}" if asked else f"Your batch of {batch}"
    first, *rest = (_fitting(fits, batch) for _, fits in by_kind(prediction.fits))
    told = f"{name} surely fits {', '.join([first.replace(' in ', ' GPUs in ', 1), *rest])} (predicted)."
    samples = prediction.epoch_samples
    if asked is None or samples is None or asked <= samples:
        return told
    return f"{told} No such batch can be made: an epoch has {samples:,} samples."


def _fitting(fits: Sequence[PredictedFit], batch: int) -> str:
    """Return on how many GPUs a batch fits, such as "3 of 7 in bf16 or fp16, and perhaps 1 more"."""
    surely = sum(batch <= fit.largest.low for fit in fits)
    tight = sum(fit.largest.low < batch <= fit.largest.high for fit in fits)
    main = main_precision(fits)
    what = " or ".join(sorted({str(fit.precision) for fit in fits}, key=lambda name: (name != main, name)))
    return f"{surely} of {len(fits)} in {what}" + (f" (perhaps {tight} more)" if tight else "")


# --- below the table -----------------------------------------------------------------------


def _below(run: FitsRun, prediction: DevicePrediction, rows: Sequence[Row], table: Table) -> tuple[str, ...]:
    """Return how the table is read."""
    lines = _largest_lines(prediction, rows, table)
    if run.options.batch_size is not None:
        lines.append(
            f"{run.options.batch_size}: whether it fits; GiB that torch would reserve, without the margin / "
            "that it surely can have (at best, with no)"
        )
    lines += _rate_lines(run, prediction, rows, table)
    if "vCPUs" in table.columns:
        lines.append("vCPUs: a GPU's share of the loader's machine, the cheapest of those with fewest GPUs")
    if BAR in table.columns:
        lines.append(f"{BAR} of that batch: {legend_text(bar_of(row, BAR_WIDTH) for row in rows)}")
    return (*lines, *_left_out(rows, table))


def _largest_lines(prediction: DevicePrediction, rows: Sequence[Row], table: Table) -> list[str]:
    """Return how the largest batches are read, and which precision stands in for another."""
    fits = [fit for row in rows for fit in (row.half, row.whole) if fit is not None]
    lines = []
    if _has_largest(table):
        lines.append(
            "batch: the one to trust (to the largest that fits if everything is at its best), on one GPU"
        )
        samples = prediction.epoch_samples
        if samples and any(prediction.has_whole_epoch(fit.largest.high) for fit in fits):
            lines.append(
                f"{all_text(samples)}: every sample of an epoch fits in one batch, which one worker then "
                "loads; no larger one can be made"
            )
    for what, own in by_kind(fits):
        others = {str(fit.precision) for fit in own} - {what}
        lines += [f"{OTHER} {other}: the GPU has no {what}" for other in others]
    return lines


def _has_largest(table: Table) -> bool:
    return any(title.startswith(LARGEST) for title in table.columns)


def _rate_lines(run: FitsRun, prediction: DevicePrediction, rows: Sequence[Row], table: Table) -> list[str]:
    """Return what the rates are of, and what binds."""
    lines = []
    of, half = "of one GPU, the slower of compute and loader, at", ", in 16 bit where that is known"
    if asked_rate_title(run) in table.columns:
        whose = "that batch" if run.options.batch_size is not None else "the batch that the script has now"
        lines.append(f"{asked_rate_title(run)}: {of} {whose}{half}")
        of, half = "likewise at", ""
    if RATE in table.columns:
        lines.append(f"{RATE}: {of} the batch to trust{half}")
    if lines and has_unknown_loader(prediction):
        lines[-1] += f"; {UNKNOWN_LOADER}: of compute alone, the loader there is not known"
    if BOUND in table.columns:
        either = "; either: too close to tell" if "either" in map(bound_text, rows) else ""
        lines.append(f"{BOUND}: which of the two that is, at the batch to trust{either}")
    return lines


def _left_out(rows: Sequence[Row], table: Table) -> list[str]:
    """Return what a wider terminal would show."""
    missing = [
        what
        for what, is_there in (
            ("the largest batch", _has_largest(table)),
            ("the GPU's GiB", CAPACITY in table.columns),
            ("what binds the rate", BOUND in table.columns),
            ("what takes the memory (or with --gpu NAME)", BAR in table.columns or len(rows) <= _MOST_BARS),
        )
        if not is_there
    ]
    return [f"on a wider terminal: {', '.join(missing)}"] if missing else []


def _bars(
    prediction: DevicePrediction, rows: Sequence[Row], table: Table, width: int
) -> tuple[Table | Passage, ...]:
    """Return the bars of a few GPUs in a table of their own, where the first has no room for them."""
    having = [row for row in rows if row.shown.peak is not None]
    if BAR in table.columns or not having or len(rows) > _MOST_BARS:
        return ()
    labels = [
        (printable(row.name), f"{trusted_text(row.shown, prediction)} {row.shown.precision}")
        for row in having
    ]
    taken = sum(max(len(label[place]) for label in labels) for place in (0, 1)) + 2 * 2
    bars = [bar_of(row, max(_LEAST_BAR, width - taken)) for row in having]
    return (
        Table(
            "Memory at the peak of the batch to trust (predicted)",
            ("", "", ""),
            tuple((*label, bar) for label, bar in zip(labels, bars, strict=True)),
        ),
        Passage("", (legend_text(bars),)),
    )


def _next_steps(run: FitsRun) -> tuple[str, ...]:
    gpu = run.options.gpus[0] if len(run.options.gpus) == 1 else "NAME"
    if run.target.builtin:
        return ("on your own script: tunekit fits -- python train.py",)
    return (
        f"measure it where the GPU is: {command_text('search', run.target, gpu)}",
        "hours and prices from that search: tunekit plan RUN",
    )
