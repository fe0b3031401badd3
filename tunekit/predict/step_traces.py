"""Reads the steps that trials traced, and explains why a trial has none."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tunekit.records.codec import read_json
from tunekit.records.config import TrainConfig
from tunekit.records.details import TraceSeen
from tunekit.records.prediction import PredictionPath, StepTrace
from tunekit.records.target import Target
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.trial.binding_suggestions import binding_hint
from tunekit.units import count_text

_MEASURE = "measure on the GPU itself instead: tunekit search -- COMMAND"
_REMEDIES = (
    ("train together", "give the command of one process, without its launcher"),
    ("does not tell when memory is freed", "train with that torch"),
    ("it took too long", "give a longer --window, which that limit follows"),
)
"""Remedies by a phrase in the agent's reason."""
_TRACE_BYTES = 64 << 20
"""Maximum size of a trace file: the agent gives up at a million events, each with three figures."""
_BY_ITSELF = "the script makes its own batches, so a trial has steps of only one batch size"


class Unpredictable(Exception):  # noqa: N818 - says what is the case
    """Nothing can be predicted.

    Args:
        reason: why.
        remedy: what to do about it.
    """

    def __init__(self, reason: str, remedy: str = _MEASURE) -> None:
        super().__init__(reason)
        self.remedy = remedy


def trace_of(trial: TrialRecord) -> TraceSeen | None:
    """Return what a trial traced, if it did."""
    return trial.details.trace if trial.details else None


class TracedPair(NamedTuple):
    """The same steps at two batch sizes."""

    first: StepTrace
    second: StepTrace


def read_traces(
    trials: Iterable[TrialRecord], trials_folder: Path, is_checkpointed: bool = False
) -> dict[str | None, TracedPair]:
    """Return the steps traced at two sizes, by precision; None stands for the script's own precision.

    Args:
        trials: the trials that traced.
        trials_folder: the folder that contains the trials' own folders.
        is_checkpointed: whether to read the steps with gradient checkpointing.

    Raises:
        RecordError: a file is missing or can't be read.
    """
    steps: dict[str | None, dict[int, StepTrace]] = {}
    for trial in trials:
        seen = trace_of(trial)
        for one in seen.steps if seen else ():
            if one.is_checkpointed is not is_checkpointed:
                continue
            path = trials_folder / f"{trial.number:04d}" / one.file
            read = read_json(path, StepTrace, _TRACE_BYTES)
            steps.setdefault(one.precision, {}).setdefault(read.batch_size, read)
    pairs = {precision: [by_size[size] for size in sorted(by_size)] for precision, by_size in steps.items()}
    return {precision: TracedPair(*pair[:2]) for precision, pair in pairs.items() if len(pair) > 1}


def second_trace_config(trial: TrialRecord, target: Target) -> TrainConfig | None:
    """Return the config of a second trial for the second batch size; None if one trial traces both.

    A script without a loader makes its own batches: a trial has only one size, and a binding sets another.
    """
    if not _makes_own_batches(trial) or trial.config is None or not target.is_bound("batch_size"):
        return None
    half = trial.config.batch_size // 2
    return trial.config.changed(batch_size=half if half > 1 else 2 * trial.config.batch_size)


def _makes_own_batches(trial: TrialRecord) -> bool:
    seen = trace_of(trial)
    return seen is not None and seen.is_own_batch and bool(seen.steps)


def prediction_path(seen: TraceSeen) -> PredictionPath:
    """Return how the steps were traced."""
    if seen.device_type == "cuda":
        return PredictionPath.LOOP_ON_GPU
    return PredictionPath.LOOP_DRY if seen.is_dry else PredictionPath.LOOP_ON_CPU


def untraced_error(trials: Sequence[TrialRecord]) -> Unpredictable:
    """Return why trials have no steps at two batch sizes.

    Args:
        trials: the first should have traced its steps, one with the role TRACE the other size.
    """
    first = trials[0]
    other = next((one for one in trials if one.role is TrialRole.TRACE), None)
    if other is not None:
        failure, seen = other.failure, trace_of(other)
        reason = f"{failure.kind}: {failure.message}" if failure else (seen.why_ended if seen else None)
        size = other.config.batch_size if other.config else "n/a"
        return Unpredictable(
            f"{_BY_ITSELF}, and at {size} none were traced ({reason or 'no reason was given'})"
        )
    if _makes_own_batches(first):
        batch_size = first.config.batch_size if first.config else None
        hint = binding_hint("batch_size", first.discovery, batch_size)
        return Unpredictable(_BY_ITSELF, f"bind its batch size: {hint}")
    seen, details = trace_of(first), first.details
    faults = [one for one in (details.faults if details else ()) if one.startswith("trace: ")]
    reasons = [seen.why_ended or "no steps at two batch sizes were traced"] if seen else []
    if reasons or faults:
        reason = "; ".join([*reasons, *(fault.removeprefix("trace: ") for fault in faults[:1])])
        return Unpredictable(reason, next((remedy for said, remedy in _REMEDIES if said in reason), _MEASURE))
    if first.failure is not None:
        remedy = first.failure.remedy or _MEASURE
        return Unpredictable(f"{first.failure.kind}: {first.failure.message}", remedy)
    loop = first.measurement.loop if first.measurement else None
    if loop is not None and loop.stop_reason == "loop_ended":
        steps = count_text(loop.script_steps, "optimizer step")
        return Unpredictable(
            f"the script ended after {steps}, before any could be traced",
            "let it train longer, with more epochs or data: it is ended once it was looked at",
        )
    return Unpredictable("no steps were traced")
