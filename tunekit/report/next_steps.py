"""What to do with a run, as commands. Pure."""

import shlex

from tunekit.recommend.learning_rate import global_batch
from tunekit.records.recommendation import Recommendation
from tunekit.records.run import Run, RunStatus
from tunekit.report.commands import search_again
from tunekit.report.text import target_text


def next_steps(run: Run, best: Recommendation | None, folder: str) -> tuple[str, ...]:
    """Return what to do next.

    Args:
        run: the saved run.
        best: the recommendation that the answer speaks of.
        folder: where the run lies.
    """
    if best is None or run.status is not RunStatus.FINISHED:
        return (f"tunekit search --resume {shlex.quote(folder)}",)
    steps = []
    if run.is_emulated:
        steps.append(f"on a machine with {run.profile.device_names[0]}: {search_again(run)}")
    if run.target.builtin:
        steps.append("on your own script: tunekit search -- python train.py")
    else:
        steps += _training_steps(run, best, f"{folder}/{best.tier.value}.yaml")
    return tuple(steps)


def _training_steps(run: Run, best: Recommendation, config: str) -> list[str]:
    """Return how to train with the best config."""
    if best.is_baseline:
        return [f"train as before: {target_text(run.target)}"]
    command = f"tunekit run {shlex.quote(config)}"
    baseline = run.baseline_config
    same_batch = baseline is None or global_batch(best.config) == global_batch(baseline)
    if same_batch or run.target.is_bound("lr") or run.script_scales_lr:
        return [command]
    lr = f"set lr to {best.learning_rate.value:.4g}" if best.learning_rate else "choose an lr"
    return [f"{lr} in your script for the new batch, or bind it (--bind), then:", f"{command} --keep-lr"]
