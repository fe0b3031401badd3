"""Whether a real training can use a tuned config, and at which learning rate. Pure."""

from tunekit.errors import UsageError
from tunekit.recommend.learning_rate import global_batch
from tunekit.records.config import Precision, TrainConfig
from tunekit.records.recommendation import Recommendation
from tunekit.records.run import Run
from tunekit.records.target import Discovery, Target
from tunekit.trial.binding_suggestions import binding_hint, option_for


def learning_rate_to_bind(
    run: Run, config: TrainConfig, lr: float | None, target: Target, *, keep: bool
) -> float | None:
    """Return the learning rate to bind for a config, or None to keep the script's own.

    Args:
        run: the search that the config came from.
        config: the knobs to train with.
        lr: learning rate in the config, None if it has none.
        target: the command and its bindings.
        keep: whether to keep the script's own rate (`--keep-lr`).

    Raises:
        UsageError: the global batch changes and no learning rate can be bound for it.
    """
    baseline = run.baseline_config
    if baseline is None or keep:
        return None
    if lr is not None and target.is_bound("lr"):
        return lr
    before, after = global_batch(baseline, run.world_size), global_batch(config, run.world_size)
    if before == after or run.script_scales_lr:
        return None
    change = f"the global batch changes from {before} to {after}"
    if target.is_bound("lr"):
        raise UsageError(f"{change} and the config has no lr; add one to it, or keep yours with --keep-lr")
    advice = f" (recommended: {lr:.6g})" if lr is not None else ""
    seen = run.discovery.learning_rate if run.discovery else None
    hint = binding_hint("lr", run.discovery, seen, target)
    raise UsageError(
        f"{change} and lr has no binding{advice}; add {hint}, or keep the script's own with --keep-lr"
    )


def loader_only_text(run: Run, config: TrainConfig) -> str | None:
    """Return a warning if a new batch size changes only the loader; None if the script sets it itself."""
    baseline, discovery = run.baseline_config, run.discovery
    if baseline is None or discovery is None or baseline.batch_size == config.batch_size:
        return None
    if run.target.is_bound("batch_size"):
        return None
    option = option_for("batch_size", discovery)
    not_followed = f"; values computed from {option} do not follow" if option else ""
    return f"only the loader is changed{not_followed}"


def can_train_in_fp16(target: Target, discovery: Discovery | None, present: Precision | None) -> bool:
    """Return whether a script scales its gradients for fp16, which can't be injected.

    It does if it already trains in fp16, if its gradient scaler was seen in use, or if it sets the precision
    itself.

    Args:
        target: the command and its bindings.
        discovery: what the baseline learned, if known.
        present: the script's own precision, if known.
    """
    scales = discovery is not None and discovery.scales_gradients
    return scales or present is Precision.FP16 or target.is_bound("precision")


def refuse_unscaled_fp16(run: Run, config: TrainConfig, target: Target) -> None:
    """Refuse to train in fp16 if the script has no gradient scaler.

    Raises:
        UsageError: fp16 would have to be injected.
    """
    present = run.baseline_config.precision if run.baseline_config else None
    if config.precision is not Precision.FP16 or can_train_in_fp16(target, run.discovery, present):
        return
    raise UsageError(
        "precision fp16 needs a GradScaler in the script, which can't be injected; write one and bind the "
        f"precision ({binding_hint('precision', run.discovery, present)}), or take precision out of the "
        "config"
    )


def recommendation_of(run: Run, config: TrainConfig, name: str = "") -> Recommendation | None:
    """Return the recommendation with this config, or None if the config was edited.

    Args:
        run: the run with the recommendations.
        config: the config to look for.
        name: the preferred tier if several have this config.
    """
    alike = [one for one in run.recommendations if one.config == config]
    return next((one for one in alike if one.tier.value == name), alike[0] if alike else None)


def expected_it_per_s(run: Run, recommendation: Recommendation | None) -> tuple[float, float] | None:
    """Return the expected range of loop batches per second: as measured, widened by the noise floor."""
    if recommendation is None:
        return None
    noise = run.noise_floor.relative if run.noise_floor else 0.0
    pace = recommendation.it_per_s
    steady = [
        1 / trial.measurement.loop.step_time_s
        for trial in run.trials
        if trial.measurement and trial.number in recommendation.confirm_trials
    ]  # the watched rate is mostly within an epoch, where no boundary slows the loop
    return pace.low * (1 - min(noise, 0.9)), max(pace.high, *steady, 0.0) * (1 + noise)
