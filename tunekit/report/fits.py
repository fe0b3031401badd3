"""What fits which GPU, in words: the answer on one screen; every GPU and the basis in full. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tunekit.plain_text import printable
from tunekit.predict.roofline import ERROR
from tunekit.records.config import Precision
from tunekit.records.details import IsolatedRates
from tunekit.records.finding import Severity
from tunekit.records.interval import Interval
from tunekit.records.prediction import (
    BytesRange,
    DevicePrediction,
    OutsideTorch,
    PredictedFit,
    PredictionPath,
    Purpose,
)
from tunekit.records.run import BatchFit, FitsRun, GpuFacts, RequestedBatch, RunStatus
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
    Table,
    fitted_table,
)
from tunekit.report.text import UNKNOWN, command_text, quoted
from tunekit.units import GIB, bytes_text, count_text, rate_text, short_rate_text

_ABSENT = "-"
_OTHER, _UNKNOWN_LOADER = "*", "?"
_HALVES = (Precision.BF16, Precision.FP16)
_CAPACITY, _LARGEST, _RATE, _BOUND = "GiB", "batch, ", "samples/s", "bottleneck"
_VCPUS, _MACHINE = "vCPUs", "machine"
_BAR, _BAR_WIDTH, _LEAST_BAR = "peak memory", 24, 20
_TITLE = "What fits which GPU (predicted), by memory"
_SAME_GIB = 4.0
"""GPUs whose memory differs by less are of one size."""
_MOST_BARS = 8
"""GPUs whose bars are worth a table of their own."""
_SCREEN_ROWS = 8
"""GPUs of the answer: one of each memory size."""
_SMALLER_ROWS = 2
"""Of them, that the batch does not fit."""
_BUSY_SHARE = 0.8
"""Of a batch's time, that its process has a CPU where nothing holds it up."""


@dataclass(frozen=True)
class _Row:
    """One GPU."""

    name: str
    facts: GpuFacts
    whole: PredictedFit | None
    """In fp32 or TF32."""
    half: PredictedFit | None
    """In 16 bit."""
    asked: tuple[RequestedBatch, ...]

    @property
    def shown(self) -> PredictedFit:
        """The one that rate and bar are of: in 16 bit where that fits."""
        either = [one for one in (self.half, self.whole) if one is not None]
        return next((one for one in either if one.peak is not None), either[0])


def fits_report(run: FitsRun, width: int = 80) -> Report:
    """Return everything that is shown of what fits which GPU; the table drops columns to fit the width."""
    title = printable(f"What fits which GPU: {run.target.name}")
    prediction = run.prediction
    if prediction is None or not prediction.fits:
        return Report(title, (Lead(_nothing(run)),))
    rows = _rows(run, prediction)
    table = fitted_table(_TITLE, _columns(run, prediction), rows, width)
    return Report(
        title,
        (
            Lead(_answer(run, prediction)),
            Section("fits", "What fits which GPU", "GPUs"),
            table,
            Passage("", _below(run, prediction, rows, table)),
            *_bars(prediction, rows, table, width),
            Section("basis", "How it was predicted", "Basis"),
            Passage("How it was predicted", _basis_lines(run, prediction)),
            *(Note(Severity.WARNING, printable(one)) for one in prediction.doubts),
            Section("next", "Next", "Next"),
            _next_steps(run),
        ),
    )


def fits_answer(run: FitsRun, width: int = 80, folder: str = "") -> tuple[Block, ...]:
    """Return which GPUs hold the batch and how fast they would be, in one screen.

    Args:
        run: the whole prediction.
        width: letters of a line.
        folder: that it lies in.
    """
    prediction = run.prediction
    if prediction is None or not prediction.fits:
        return fits_report(run, width).blocks
    rows = _rows(run, prediction)
    shown = _screen_rows(run, rows)
    columns = _columns(run, prediction)
    has_own_rate = any(column.title == _asked_rate_title(run) for column in columns)
    left_out = {_BAR, _VCPUS, _MACHINE, *((_RATE, _BOUND) if has_own_rate else ())}
    kept = [column for column in columns if column.title not in left_out]
    table = fitted_table(_TITLE, kept, shown, width)
    lines = (
        *_largest_lines(prediction, shown, table),
        *_asked_lines(run),
        *_rate_lines(run, prediction, shown, table),
    )
    doubts = f", {count_text(len(prediction.doubts), 'doubt')}" if prediction.doubts else ""
    rest = f"all {count_text(len(rows), 'GPU')}{doubts}, memory and method"
    return (
        Lead(_answer(run, prediction)),
        table,
        Passage("", lines),
        Line(f"{rest}: tunekit report {printable(quoted(folder))} --full", is_quiet=True),
        _next_steps(run),
    )


def _screen_rows(run: FitsRun, rows: Sequence[_Row]) -> list[_Row]:
    """Return all GPUs where they are few, else the fastest of each memory size.

    Where these are too many, the ones from a little below what the batch needs.
    """
    if len(rows) <= _SCREEN_ROWS:
        return list(rows)
    by_size: dict[int, _Row] = {}
    for row in rows:
        size = round(row.shown.capacity_bytes / GIB / _SAME_GIB)
        other = by_size.get(size)
        if other is None or _preference(run, row) > _preference(run, other):
            by_size[size] = row
    kept = list(by_size.values())
    batch = run.batch_size or 1
    first_fit = next((place for place, row in enumerate(kept) if row.shown.largest.low >= batch), len(kept))
    start = max(0, min(first_fit - _SMALLER_ROWS, len(kept) - _SCREEN_ROWS))
    return kept[start : start + _SCREEN_ROWS]


def _preference(run: FitsRun, row: _Row) -> tuple[bool, bool, float]:
    """Return what a GPU stands before others of its memory size by: it is here, it is rented, it is fast."""
    rate = row.shown.rate
    is_here = row.facts.profile_id == run.measured_on
    return is_here, row.facts.instance is not None, rate.value if rate else 0.0


def _nothing(run: FitsRun) -> str:
    if run.why_not is not None:
        return printable(f"Nothing can be predicted: {run.why_not}.")
    failed = next((one.failure for one in run.trials if one.failure is not None), None)
    if failed is not None:
        return printable(f"Nothing was predicted: the script failed ({failed.kind}): {failed.message}.")
    why = "it was interrupted" if run.status is RunStatus.INTERRUPTED else f"status: {run.status}"
    return f"Nothing was predicted yet ({why})."


def _next_steps(run: FitsRun) -> Commands:
    gpu = run.options.gpus[0] if len(run.options.gpus) == 1 else "NAME"
    if run.target.builtin:
        return Commands("Next, with your own script", ("tunekit fits -- python train.py",))
    search = command_text("search", run.target, gpu)
    return Commands("Next, on a machine with that GPU", (search, "tunekit plan RUN  # hours and dollars"))


# --- the answer ------------------------------------------------------------------------------


def _answer(run: FitsRun, prediction: DevicePrediction) -> str:
    asked, batch = run.options.batch_size, run.batch_size
    if batch is None:
        return f"What fits {count_text(len({fit.profile_id for fit in prediction.fits}), 'GPU')}: predicted."
    name = f"Batch {batch}" if asked else f"Your batch of {batch}"
    first, *rest = (_fit_count_text(fits, batch) for _, fits in _by_kind(prediction.fits))
    on = ", ".join([first.replace(" in ", " GPUs in ", 1), *rest])
    sentence = f"{name} fits with {prediction.margin:.0%} margin on {on} (predicted)."
    samples = prediction.epoch_samples
    if asked is None or samples is None or asked <= samples:
        return sentence
    return f"{sentence} No such batch can be made: an epoch has {samples:,} samples."


def _fit_count_text(fits: Sequence[PredictedFit], batch: int) -> str:
    """Return on how many GPUs a batch fits, such as "3 of 7 in bf16 or fp16 (1 more in the best case)"."""
    surely = sum(batch <= fit.largest.low for fit in fits)
    tight = sum(fit.largest.low < batch <= fit.largest.high for fit in fits)
    main = _main_precision(fits)
    what = " or ".join(sorted({str(fit.precision) for fit in fits}, key=lambda name: (name != main, name)))
    return f"{surely} of {len(fits)} in {what}" + (f" ({tight} more in the best case)" if tight else "")


def _by_kind(every: Sequence[PredictedFit]) -> list[tuple[str, list[PredictedFit]]]:
    """Return the fits in 32 bit, then in 16 bit, each with the precision that was traced."""
    whole = [fit for fit in every if fit.precision not in _HALVES]
    half = [fit for fit in every if fit.precision in _HALVES]
    return [(_main_precision(fits), fits) for fits in (whole, half) if fits]


def _main_precision(fits: Iterable[PredictedFit]) -> str:
    """Return the precision that was traced: fp32 and fp16 stand in for TF32 and bf16 where a GPU has none."""
    found = {fit.precision for fit in fits}
    order = (Precision.TF32, Precision.BF16, Precision.FP32, Precision.FP16)
    return str(next(one for one in order if one in found))


# --- the table -------------------------------------------------------------------------------


def _rows(run: FitsRun, prediction: DevicePrediction) -> list[_Row]:
    rows = []
    for facts in run.gpus:
        own = [fit for fit in prediction.fits if fit.profile_id == facts.profile_id]
        if not own:
            continue
        rows.append(
            _Row(
                name=printable(facts.profile_id + (" (here)" if facts.profile_id == run.measured_on else "")),
                facts=facts,
                whole=next((fit for fit in own if fit.precision not in _HALVES), None),
                half=next((fit for fit in own if fit.precision in _HALVES), None),
                asked=tuple(one for one in run.asked if one.profile_id == facts.profile_id),
            )
        )
    return sorted(
        rows,
        key=lambda row: (
            row.shown.capacity_bytes,
            row.shown.rate.value if row.shown.rate else 0.0,
            row.name,
        ),
    )


def _columns(run: FitsRun, prediction: DevicePrediction) -> list[Column[_Row]]:
    """Return every column; where a batch was asked for, what is told of it stays longest."""
    kinds = _by_kind(prediction.fits)
    is_asked = run.options.batch_size is not None
    verdicts = [
        Column(f"{run.batch_size}, {what}", _verdict_of(fits[0].precision in _HALVES)) for what, fits in kinds
    ]
    are_known = not _has_unknown_loader(prediction)
    asked_rate: Column[_Row] = Column(
        _asked_rate_title(run), lambda row: _asked_rate(row, are_known), drop=1 if is_asked else 2
    )
    return [
        Column("GPU", lambda row: row.name, is_numeric=False),
        Column(_CAPACITY, lambda row: f"{row.shown.capacity_bytes / GIB:.1f}", drop=4),
        *(
            Column(f"{_LARGEST}{what}", _largest_of(what, fits, prediction), drop=2 if is_asked else 0)
            for what, fits in kinds
        ),
        *(verdicts if is_asked else ()),
        *([asked_rate] if any(one.rate is not None for one in run.asked) else ()),
        Column(_RATE, lambda row: _rate(row, are_known), drop=3),
        Column(_BOUND, _bound_text, is_numeric=False, drop=5),
        Column(_VCPUS, _vcpus_text, drop=6, is_optional=True),
        Column(_BAR, lambda row: _bar_of(row, _BAR_WIDTH), is_numeric=False, drop=7, is_optional=True),
        Column(_MACHINE, _machine_text, is_numeric=False, drop=8, is_optional=True),
    ]


def _has_unknown_loader(prediction: DevicePrediction) -> bool:
    """Return whether a rate is of the GPU alone, as the loader of its usual machine is not known."""
    return any(fit.rate is not None and fit.loader is None for fit in prediction.fits)


def _largest_of(
    what: str, fits: Sequence[PredictedFit], prediction: DevicePrediction
) -> Callable[[_Row], str]:
    """Return what draws the largest batch in a precision, marked where the GPU has another in its place."""
    is_half, has_others = fits[0].precision in _HALVES, len({fit.precision for fit in fits}) > 1

    def text(row: _Row) -> str:
        fit = row.half if is_half else row.whole
        mark = "" if not has_others else _OTHER if fit and str(fit.precision) != what else " "
        return (_ABSENT if fit is None else _largest_text(fit, prediction)) + mark

    return text


def _largest_text(fit: PredictedFit, prediction: DevicePrediction) -> str:
    """Return the largest batch, "all 50,000" where memory holds every sample of an epoch."""
    low, high = fit.largest.low, fit.largest.high
    if not high:
        return "nothing fits"
    trusted = _batch_size_text(fit, prediction)
    if low == high or prediction.has_whole_epoch(low):
        return trusted
    return f"{trusted} (to {'all' if prediction.has_whole_epoch(high) else _count(high)})"


def _batch_size_text(fit: PredictedFit, prediction: DevicePrediction) -> str:
    is_all = prediction.has_whole_epoch(fit.batch_size)
    return f"all {fit.batch_size:,}" if is_all else _count(fit.batch_size)


def _count(samples: int) -> str:
    """Return a batch size as it is typed, from 100,000 on in thousands or millions, cut off."""
    if samples < 100_000:
        return str(samples)
    return f"{samples // 1000}k" if samples < 1_000_000 else f"{samples // 10_000 / 100:.2f}M"


def _verdict_of(is_half: bool) -> Callable[[_Row], str]:
    """Return what draws whether the batch that was asked for fits: "yes 12.1/19.5" in GiB."""

    def text(row: _Row) -> str:
        one = next((one for one in row.asked if (one.precision in _HALVES) == is_half), None)
        if one is None:
            return _ABSENT
        room = one.most_bytes if one.verdict is BatchFit.NO else one.least_bytes
        return f"{one.verdict} {one.reserved_bytes / GIB:.1f}/{room / GIB:.1f}"

    return text


def _asked_rate_title(run: FitsRun) -> str:
    return f"{_RATE} at {run.batch_size}"


def _asked_rate(row: _Row, are_known: bool) -> str:
    one = next((one for one in row.asked if one.precision is row.shown.precision), None)
    return _marked_rate(None if one is None or one.verdict is BatchFit.NO else one, are_known)


def _rate(row: _Row, are_known: bool) -> str:
    return _marked_rate(None if row.shown.peak is None else row.shown, are_known)


def _marked_rate(of: RequestedBatch | PredictedFit | None, are_known: bool) -> str:
    """Return a rate, marked without a loader, and blank beside those that have one where not all have."""
    text, is_known = _ABSENT, True
    if of is not None:
        rate, is_known = of.rate, of.loader is not None or of.rate is None
        text = UNKNOWN if rate is None else f"{short_rate_text(rate.low)} to {short_rate_text(rate.high)}"
    return text + ("" if are_known else " " if is_known else _UNKNOWN_LOADER)


def _bound_text(row: _Row) -> str:
    """Return the bottleneck; "either" where compute and loader are too close to tell."""
    fit = row.shown
    if fit.bound_by is None or fit.bound_by == "VRAM":
        return fit.bound_by or UNKNOWN
    if fit.loader is None or fit.compute is None:
        return f"{fit.bound_by}{_UNKNOWN_LOADER}"
    return "either" if _overlap(fit.loader, fit.compute) else fit.bound_by


def _overlap(one: Interval, other: Interval) -> bool:
    return one.low <= other.high and other.low <= one.high


def _vcpus_text(row: _Row) -> str:
    if row.shown.peak is None:
        return _ABSENT
    is_known = row.shown.instance is not None and row.facts.vcpus is not None
    return f"{row.facts.vcpus:g}" if is_known else UNKNOWN


def _machine_text(row: _Row) -> str:
    return _ABSENT if row.shown.peak is None else printable(row.shown.instance or UNKNOWN)


# --- below the table -------------------------------------------------------------------------


def _below(run: FitsRun, prediction: DevicePrediction, rows: Sequence[_Row], table: Table) -> tuple[str, ...]:
    lines = _largest_lines(prediction, rows, table) + _epoch_lines(prediction, table)
    lines += _asked_lines(run)
    lines += _rate_lines(run, prediction, rows, table)
    if _VCPUS in table.columns:
        lines.append(
            f"{_VCPUS}: a GPU's share of the loader's machine, the cheapest of those with fewest GPUs"
        )
    if _BAR in table.columns:
        lines.append(f"{_BAR} of that batch: {legend_text(_bar_of(row, _BAR_WIDTH) for row in rows)}")
    shown = {
        "the largest batch": _has_largest(table),
        "the GPU's GiB": _CAPACITY in table.columns,
        "the bottleneck": _BOUND in table.columns,
        "what takes the memory (or with --gpu NAME)": _BAR in table.columns or len(rows) <= _MOST_BARS,
    }
    missing = [what for what, is_there in shown.items() if not is_there]
    return (*lines, *([f"on a wider terminal: {', '.join(missing)}"] if missing else ()))


def _asked_lines(run: FitsRun) -> list[str]:
    """Return how the columns of a batch that was asked for are read."""
    if run.options.batch_size is None:
        return []
    return [f"{run.options.batch_size}: whether it fits, GiB reserved without margin / available at worst"]


def _largest_lines(prediction: DevicePrediction, rows: Sequence[_Row], table: Table) -> list[str]:
    """Return how the largest batches are read, and which precision stands in for another."""
    fits = [fit for row in rows for fit in (row.half, row.whole) if fit is not None]
    lines = []
    if _has_largest(table):
        lines.append(
            f"batch: the largest that fits with {prediction.margin:.0%} margin (in the best case), per GPU"
        )
    for what, own in _by_kind(fits):
        others = {str(fit.precision) for fit in own} - {what}
        lines += [f"{_OTHER} {other}: the GPU has no {what}" for other in others]
    return lines


def _epoch_lines(prediction: DevicePrediction, table: Table) -> list[str]:
    """Return what it means that a batch holds all samples of an epoch."""
    is_shown = any(prediction.has_whole_epoch(fit.largest.high) for fit in prediction.fits)
    if not is_shown or not _has_largest(table):
        return []
    samples = prediction.epoch_samples
    return [f"all {samples:,}: the whole epoch fits in one batch, which one worker loads; none is larger"]


def _has_largest(table: Table) -> bool:
    return any(title.startswith(_LARGEST) for title in table.columns)


def _rate_lines(run: FitsRun, prediction: DevicePrediction, rows: Sequence[_Row], table: Table) -> list[str]:
    """Return what the rates are of, and what binds."""
    lines = []
    of, half = "per GPU, the lower of compute and loader at", ", in 16 bit where known"
    if _asked_rate_title(run) in table.columns:
        whose = "that batch" if run.options.batch_size is not None else "the script's own batch"
        lines.append(f"{_asked_rate_title(run)}: {of} {whose}{half}")
        of, half = "the same at", ""
    if _RATE in table.columns:
        lines.append(f"{_RATE}: {of} the largest batch with margin{half}")
    if lines and _has_unknown_loader(prediction):
        lines[-1] += f"; {_UNKNOWN_LOADER}: compute only, the loader there is unknown"
    if _BOUND in table.columns:
        either = "; either: too close to tell" if "either" in map(_bound_text, rows) else ""
        lines.append(f"{_BOUND}: of the largest batch with margin{either}")
    return lines


# --- memory as a bar of letters --------------------------------------------------------------

_FREE = "."
_LEGEND = {
    "P": "parameters and buffers",
    "G": "gradients",
    "O": "optimizer state",
    "B": "batch",
    "A": "activations",
    "W": "workspaces (at most)",
    "H": "held by the script",
    "C": "CUDA context (at most)",
    _FREE: "free or cached",
}
"""What each letter stands for, in the order of the bar."""
_LETTERS = {
    Purpose.PARAMETERS: "P",
    Purpose.BUFFERS: "P",
    Purpose.GRADIENTS: "G",
    Purpose.OPTIMIZER: "O",
    Purpose.BATCH: "B",
    Purpose.ACTIVATIONS: "A",
    Purpose.WORKSPACE: "W",
    Purpose.HELD: "H",
}


def _bars(prediction: DevicePrediction, rows: Sequence[_Row], table: Table, width: int) -> tuple[Block, ...]:
    """Return the bars of a few GPUs in a table of their own, where the first has no room for them."""
    having = [row for row in rows if row.shown.peak is not None]
    if _BAR in table.columns or not having or len(rows) > _MOST_BARS:
        return ()
    labels = [
        (row.name, f"{_batch_size_text(row.shown, prediction)} {row.shown.precision}") for row in having
    ]
    taken = sum(max(len(label[place]) for label in labels) for place in (0, 1)) + 2 * 2
    bars = [_bar_of(row, max(_LEAST_BAR, width - taken)) for row in having]
    title = "Peak memory of the largest batch with margin (predicted)"
    cells = tuple((*label, bar) for label, bar in zip(labels, bars, strict=True))
    return Table(title, ("", "", ""), cells), Passage("", (legend_text(bars),))


def _bar_of(row: _Row, width: int) -> str:
    return memory_bar(row.shown, row.facts.outside, width)


def memory_bar(fit: PredictedFit, outside: OutsideTorch, width: int) -> str:
    """Return what takes a GPU's memory at the peak of the largest batch with margin, in so many letters.

    Each stands for a part of it; what takes less than a letter may be left out, and of what lies outside
    torch's tensors the most is shown. A fit without a peak has no bar.
    """
    if fit.peak is None:
        return ""
    sizes = dict.fromkeys(_LEGEND, 0)
    for purpose, size_bytes in fit.peak.by_purpose.items():
        sizes[_LETTERS[purpose]] += size_bytes
    sizes["W"] += outside.workspace.high
    sizes["C"] += outside.context.high
    sizes[_FREE] = max(0, fit.capacity_bytes - sum(sizes.values()))
    total = sum(sizes.values())
    counts = {letter: width * size // total for letter, size in sizes.items()}
    rests = sorted(sizes, key=lambda letter: width * sizes[letter] % total, reverse=True)
    for letter in rests[: width - sum(counts.values())]:  # letters left over go to the largest rests
        counts[letter] += 1
    return "".join(letter * count for letter, count in counts.items())


def legend_text(bars: Iterable[str]) -> str:
    """Return what the letters of bars stand for, such as "P parameters and buffers, A activations"."""
    shown = set("".join(bars))
    return ", ".join(f"{letter} {meaning}" for letter, meaning in _LEGEND.items() if letter in shown)


# --- what the prediction goes by -------------------------------------------------------------


def _basis_lines(run: FitsRun, prediction: DevicePrediction) -> tuple[str, ...]:
    lines = [_traced(prediction), *_untraced(run), _memory(prediction), *_outside(run), _rates(prediction)]
    return tuple(printable(line) for line in (*lines, _loader(run, prediction)))


def _traced(prediction: DevicePrediction) -> str:
    sizes = " and ".join(str(size) for size in prediction.traced_sizes)
    others = "any other GPU" if prediction.path is PredictionPath.LOOP_ON_GPU else "a GPU"
    return f"Traced here: {prediction.path}, at batch sizes {sizes}; nothing ran on {others}."


def _untraced(run: FitsRun) -> list[str]:
    details = (one.details for one in run.trials if one.details)
    ended = (one.trace.why_ended for one in details if one.trace and one.trace.why_ended)
    return [f"Not all was traced: {why}." for why in ended]


def _memory(prediction: DevicePrediction) -> str:
    doubts = count_text(len(prediction.doubts), "doubt")
    because = f", with {doubts} (below)" if prediction.doubts else ""
    return (
        "Memory: the traced allocations at each batch size, replayed by the rules of torch's allocator; "
        f"margin {prediction.margin:.0%} either way{because}."
    )


def _outside(run: FitsRun) -> list[str]:
    """Return what lies beside torch's tensors, a line for all GPUs of which the same is known."""
    lines = []
    for name in ("context", "workspace"):
        gpus: dict[BytesRange, list[str]] = {}
        for one in run.gpus:
            gpus.setdefault(getattr(one.outside, name), []).append(one.profile_id)
        for known, ids in gpus.items():
            of = "" if len(gpus) == 1 else f" of {_ids_text(ids)}"
            size = f"{bytes_text(known.low)} to {bytes_text(known.high)}"
            has_bounds = known.source.startswith("assumed")  # with its bounds
            lines.append(f"{name.capitalize()}{of}: {'' if has_bounds else f'{size}, '}{known.source}.")
    return lines


def _ids_text(ids: list[str]) -> str:
    return ", ".join(ids) if len(ids) <= 3 else f"{len(ids)} GPUs"


def _rates(prediction: DevicePrediction) -> str:
    factor = prediction.speed_factor
    here = "" if factor is None else f", times {factor:.2f} as measured on the GPU here"
    return (
        f"Compute: a roofline model of each traced op{here}, +-{ERROR:.0%}; memory layout, fusion and "
        "torch.compile are not modelled."
    )


def _loader(run: FitsRun, prediction: DevicePrediction) -> str:
    measured, cpus = prediction.loader_measured, prediction.loader_cpus
    seen = next(
        (one.measurement or one.dry for one in reversed(run.trials) if one.measurement or one.dry), None
    )
    isolated = seen.details.floors if seen and seen.details else None
    if measured is None or cpus is None:
        why = f" ({isolated.why_not})" if isolated and isolated.why_not else ""
        alone = "; there by a batch's cost here" if any(fit.loader for fit in prediction.fits) else ""
        but = "" if alone else ", so samples/s are those of compute alone"
        return f"Loader: n/a here{why}{alone}{but}."
    workers = "" if seen is None else f" with {count_text(seen.loop.num_workers, 'worker')}"
    return (
        f"Loader: {rate_text(measured)} samples/s{workers} on {count_text(cpus, 'CPU')}, measured here; "
        "there by a batch's cost here, with one worker per vCPU and at most one per batch of an epoch, each "
        f"as fast as a CPU here, down to half{_loader_wait_text(isolated)}."
    )


def _loader_wait_text(isolated: IsolatedRates | None) -> str:
    """Return why the loader's range is wide, where its processes had no CPU for most of a batch."""
    work = isolated.loader_work if isolated else None
    share = work.cpu_share if work else None
    if share is None or share >= _BUSY_SHARE:
        return ""
    return f", and less where batches wait {1 - share:.0%} of their time, as here, for storage or busy CPUs"
