"""Tries bindings: sets each to another value in a short trial and checks that the loop follows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tunekit.records.config import Precision
from tunekit.records.target import Binding, Target
from tunekit.records.trial import OutcomeKind, TrialRecord, TrialRole
from tunekit.trial.binding_syntax import BoundValue, value_text
from tunekit.trial.executor import KnownTarget, TrialSpec
from tunekit.trial.knob_names import LEARNING_RATE
from tunekit.units import count_text

RunTrial = Callable[[Target, TrialSpec, KnownTarget], TrialRecord]
"""Runs one trial of a target with these bindings."""


@dataclass(frozen=True)
class BindingTrial:
    """A binding, and what the loop did when it was set to another value."""

    binding: Binding
    value: BoundValue
    """The value that was tried."""
    did: str
    """What the loop then did, or why the trial failed."""
    works: bool
    record: TrialRecord | None = None
    """None if there was no other value to try."""


def try_bindings(
    candidates: Mapping[str, Sequence[Binding]], target: Target, known: KnownTarget, run: RunTrial
) -> Iterator[BindingTrial]:
    """Yield the trial of each candidate, in order; a knob's candidates are tried until one works.

    Args:
        candidates: bindings by knob, likeliest first.
        target: the training command, with its other bindings.
        known: what the baseline learnt.
        run: runs a trial.
    """
    number = 0
    for bindings in candidates.values():
        for binding in bindings:
            number += 1
            tried = _try(binding, target, known, run, number)
            yield tried
            if tried.works:
                break


def _try(binding: Binding, target: Target, known: KnownTarget, run: RunTrial, number: int) -> BindingTrial:
    value = other_value(binding, known)
    if value is None:
        return BindingTrial(binding, None, "there is no other value to try", works=False)
    config = known.baseline
    lr = value if binding.knob == LEARNING_RATE and isinstance(value, float) else None
    if lr is None:
        config = known.baseline.changed(**{binding.knob: value})
    others = tuple(one for one in target.bindings if one.knob != binding.knob)
    bound = target.changed(bindings=(*others, binding))
    record = run(bound, TrialSpec(number, TrialRole.SEARCH, config, lr=lr), known)
    if record.failure is None:
        return BindingTrial(binding, value, observed_effect(binding.knob, record), works=True, record=record)
    last = record.failure.last_lines[-1:] if record.failure.kind is OutcomeKind.SCRIPT_ERROR else ()
    return BindingTrial(
        binding, value, " | ".join((record.failure.message, *last)), works=False, record=record
    )


def other_value(binding: Binding, known: KnownTarget) -> BoundValue:
    """Return a value to try, near the baseline's and if possible no costlier in memory; None without one."""
    knob, baseline = binding.knob, known.baseline
    if knob == LEARNING_RATE:
        lr = known.discovery.learning_rate
        return None if lr is None else float(f"{lr / 2:.6g}")
    present: BoundValue = getattr(baseline, knob)
    if binding.spelling:
        spelled = [value for value, _ in binding.spelling if value != value_text(present)]
        return next((one for one in spelled if one != Precision.FP16), next(iter(spelled), None))
    if isinstance(present, bool):
        return not present
    if not isinstance(present, int):
        return None
    if knob == "num_workers":
        return present - 1 if present > 1 else present + 1
    return present // 2 if present > 1 else 2


def observed_effect(knob: str, record: TrialRecord) -> str:
    """Return the effect of a knob that was observed in the loop of a measured trial."""
    loop, config = record.measurement.loop if record.measurement else None, record.config
    if loop is None or config is None:
        return "n/a"
    lr = "n/a" if record.learning_rate is None else f"{record.learning_rate:.6g}"
    texts = {
        "batch_size": f"batches of {round(loop.steady_samples / loop.steady_batches)}",
        "num_workers": count_text(loop.num_workers, "worker"),
        "prefetch_factor": f"each worker kept {_batches_text(loop.prefetch_factor or 0)}",
        "accumulate_grad_batches": f"a step every {_batches_text(config.accumulate_grad_batches)}",
        "precision": f"it computed in {config.precision}",
        "compile": count_text(loop.compile_graphs, "compiled graph"),
        LEARNING_RATE: f"the optimizer had {lr}",
    }
    return texts[knob] if knob in texts else f"{knob} was {value_text(getattr(config, knob))}"


def _batches_text(number: int) -> str:
    return count_text(number, "batch", "batches")
