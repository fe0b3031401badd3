"""Every trial of a run as a row that can be sorted. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from tunekit.plain_text import printable
from tunekit.records.config import TrainConfig
from tunekit.records.run import Run
from tunekit.records.trial import OutcomeKind, TrialRecord
from tunekit.report.text import value_text
from tunekit.units import bytes_text, count_text, duration_text, rate_text, share_text

Key = float | str | None
"""What a cell is sorted by; None sorts last."""


class TrialState(StrEnum):
    """What came of a trial, in a word."""

    MEASURED = "measured"
    ABANDONED = "abandoned"
    """Given up early as surely too slow."""
    REFUSED = "refused"
    """Not run, for it would not fit."""
    FAILED = "failed"


@dataclass(frozen=True)
class TrialRow:
    """One trial."""

    cells: tuple[str, ...]
    keys: tuple[Key, ...]
    state: TrialState
    reason: str
    """Why it failed or was refused, with the remedy; empty otherwise."""


@dataclass(frozen=True)
class TrialTable:
    """Every trial, in the order they ran."""

    columns: tuple[str, ...]
    numeric: tuple[int, ...]
    rows: tuple[TrialRow, ...]
    summary: str
    """How many came to what."""


_COLUMNS = (
    "trial",
    "for",
    "batch",
    "workers",
    "prefetch",
    "precision",
    "compile",
    "other knobs",
    "samples/s",
    "data wait",
    "VRAM reserved",
    "RAM peak",
    "took",
    "outcome",
)
_TEXTS = ("for", "precision", "compile", "other knobs", "outcome")


def trials_table(run: Run) -> TrialTable:
    """Return every trial of a run with its config, its figures (measured) and its outcome."""
    rows = tuple(_row(record) for record in run.trials)
    states = [row.state for row in rows]
    counts = [f"{states.count(state)} {state}" for state in TrialState if state in states]
    return TrialTable(
        columns=_COLUMNS,
        numeric=tuple(place for place, name in enumerate(_COLUMNS) if name not in _TEXTS),
        rows=rows,
        summary=f"{count_text(len(rows), 'trial')}: {', '.join(counts) or 'none yet'}",
    )


def _row(record: TrialRecord) -> TrialRow:
    state = trial_state(record)
    role = record.role.value if record.round is None else f"{record.role.value} {record.round + 1}"
    if record.is_baseline_config and record.role.value != "baseline":
        role += " (baseline)"
    figures: list[tuple[str, Key]] = [
        (str(record.number), record.number),
        (role, role),
        *_knobs(record.config),
        *_measured(record),
        (duration_text(record.duration_s), record.duration_s),
        (_outcome(record, state), state.value),
    ]
    texts, keys = zip(*figures, strict=True)
    return TrialRow(texts, keys, state, _reason(record))


def trial_state(record: TrialRecord) -> TrialState:
    """Return what came of a trial."""
    if record.failure is not None:
        return TrialState.REFUSED if record.failure.kind is OutcomeKind.REFUSED else TrialState.FAILED
    return TrialState.ABANDONED if record.is_abandoned else TrialState.MEASURED


def _outcome(record: TrialRecord, state: TrialState) -> str:
    if record.failure is not None and state is TrialState.FAILED:
        return record.failure.kind.value
    return state.value


def _reason(record: TrialRecord) -> str:
    if record.failure is None:
        return ""
    remedy = f"; {record.failure.remedy}" if record.failure.remedy else ""
    return printable(f"{record.failure.message}{remedy}")


def _knobs(config: TrainConfig | None) -> list[tuple[str, Key]]:
    if config is None:
        return [("n/a", None)] * 6
    steps = config.accumulate_grad_batches
    others = [word for word in config.switched_on if word != "compile"]
    others += [f"{steps} accumulated"] if steps > 1 else []
    compiles = value_text(config.compile)
    return [
        (f"{config.batch_size:,}", config.batch_size),
        (str(config.num_workers), config.num_workers),
        (value_text(config.prefetch_factor), config.prefetch_factor),
        (config.precision.value, config.precision.value),
        (compiles, compiles),
        (", ".join(others) or "-", ", ".join(others)),
    ]


def _measured(record: TrialRecord) -> list[tuple[str, Key]]:
    """Return samples/s, the share of a step that waits for data, device memory and RAM."""
    if record.measurement is None:
        return [("n/a", None)] * 4
    loop, tree = record.measurement.loop, record.measurement.memory
    waits = loop.parts.data_wait_s / loop.steady_time_s if loop.has_loader else None
    return [
        (rate_text(loop.rate_samples_per_s), loop.rate_samples_per_s),
        ("n/a" if waits is None else share_text(waits), waits),
        (bytes_text(loop.peak_reserved_bytes), loop.peak_reserved_bytes),
        (bytes_text(tree.peak_pss_bytes), tree.peak_pss_bytes),
    ]
