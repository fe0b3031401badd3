"""The script's own settings of knobs, such as its `--batch-size`: what a search binds by itself."""

from tunekit.records.run import Run
from tunekit.records.target import Binding, Target
from tunekit.records.trial import OutcomeKind, TrialRecord
from tunekit.records.trials import measured
from tunekit.trial.binding_suggestions import candidate_bindings
from tunekit.trial.knob_names import STEPS

_NOT_FOLLOWED = (OutcomeKind.KNOB_NOT_APPLIED, OutcomeKind.SCRIPT_ERROR)
_ACCUMULATION = "accumulate_grad_batches"


def own_settings(run: Run, target: Target) -> dict[str, tuple[Binding, ...]]:
    """Return the script's own settings of knobs that are not bound, the likeliest first.

    Args:
        run: a run with a measured baseline.
        target: the training command with its bindings.
    """
    config, discovery = run.baseline_config, run.discovery
    if config is None or discovery is None:
        return {}
    seen = {"batch_size": config.batch_size}
    if run.options.global_batch or any(one.knob == _ACCUMULATION for one in run.options.fixed):
        seen[_ACCUMULATION] = config.accumulate_grad_batches
    baseline = run.history.baseline
    limits = [one.steps for one in baseline.step_numbers if one.is_option] if baseline else []
    seen |= {STEPS: limits[0]} if limits else {}
    places = candidate_bindings(target, seen, discovery)
    return {knob: tuple(one.changed(is_typed=False) for one in found) for knob, found in places.items()}


def is_not_followed(record: TrialRecord) -> bool:
    """Return whether a trial failed as it does where the script's own setting does not set the knob."""
    return record.failure is not None and record.failure.kind in _NOT_FOLLOWED


def binding_in_doubt(run: Run, failed: TrialRecord) -> Binding | None:
    """Return the binding that may have failed a trial: no user typed it, and no measured trial used it."""
    own = run.baseline_config
    if own is None or failed.config is None or not is_not_followed(failed):
        return None
    ran = [one.config for one in measured(run.trials)]
    for one in run.target.bindings:
        if not one.is_typed and run.target.is_bound(one.knob):
            present, failed_at = getattr(own, one.knob, None), getattr(failed.config, one.knob, None)
            if failed_at != present and all(getattr(config, one.knob) == present for config in ran):
                return one
    return None
