"""Whether the knobs of a trial really hold in its training process. Pure.

A figure that belongs to another config is worse than none: what was set in the loader's constructor, on
the command line or in a file is read back from the loop itself.
"""

import math
from collections.abc import Mapping, Sequence

from tunekit.records.agent_messages import KnobsAsked, LearntEvent
from tunekit.records.config import LOADER_KNOBS, MODEL_KNOBS, Precision
from tunekit.records.measurement import LoopMeasurement
from tunekit.records.target import Discovery, RootSeen

_LEAST_FULL = 0.75
"""Mean batch, as a share of the wanted one, from which a sampler is taken to make such batches."""
_AUTOCAST_DTYPES = {Precision.BF16: "bfloat16", Precision.FP16: "float16"}


def knob_missed(
    loop: LoopMeasurement,
    changed: Mapping[str, object],
    injected: KnobsAsked,
    learnt: LearntEvent,
    baseline: Discovery | None,
    own_batch: int | None = None,
) -> str | None:
    """Return which knob does not hold in the training process, None when all do.

    Args:
        loop: the loop as it was measured.
        changed: every knob that differs from the script as it is, however it is bound.
        injected: those of them that the agent had to set.
        learnt: what the trial's agent found in its loop.
        baseline: what the baseline's agent found; None at the baseline.
        own_batch: samples in a batch of the script as it is.
    """
    if not learnt.applied.addressed:
        return "the loader that trains is not the one that the baseline found"
    checks = (
        _missed_batch(changed, learnt.discovery, baseline, own_batch),
        _missed_in_loader(loop, changed, learnt),
        _missed_in_roots(injected, learnt, baseline.roots if baseline else ()),
        _missed_by_the_script(changed, injected, learnt.discovery),
    )
    return next((missed for missed in checks if missed is not None), None)


def _missed_in_loader(
    loop: LoopMeasurement,
    changed: Mapping[str, object],
    learnt: LearntEvent,
) -> str | None:
    if learnt.discovery.training_loader is None:
        return None
    for name in LOADER_KNOBS:
        wanted, real = changed.get(name), getattr(learnt.applied, name)
        if name == "batch_size" and wanted is not None and real is None:
            mean = loop.steady_samples / loop.steady_batches  # a sampler of the script's own tells no size
            real = wanted if _is_about(mean, wanted) else f"batches of {mean:.1f} samples"
        if wanted is not None and real != wanted:
            return f"{name} was set to {wanted}, but the training loader has {real}"
    return None


def _is_about(mean: float, wanted: object) -> bool:
    """Return whether batches of this mean size were meant to have the wanted one; some are not full."""
    return isinstance(wanted, int) and _LEAST_FULL * wanted <= mean <= wanted / _LEAST_FULL


def _missed_batch(
    changed: Mapping[str, object], discovery: Discovery, baseline: Discovery | None, own_batch: int | None
) -> str | None:
    """Return whether another batch size of a loop without a loader did not reach the first root's input."""
    if discovery.training_loader is not None or "batch_size" not in changed:
        return None
    if not discovery.roots or baseline is None or not baseline.roots:
        return None
    before, now = baseline.roots[0].input_elements, discovery.roots[0].input_elements
    wanted = changed["batch_size"]
    if before is None or now is None or not isinstance(wanted, int) or own_batch is None:
        return None
    if now * own_batch == before * wanted:
        return None
    return (
        f"batch_size was set from {own_batch} to {wanted}, but the model's input went from {before} to "
        f"{now} elements"
    )


def _missed_in_roots(injected: KnobsAsked, learnt: LearntEvent, roots: Sequence[RootSeen]) -> str | None:
    if all(getattr(injected, name) is None for name in MODEL_KNOBS):
        return None
    reached = {root.address for root in learnt.applied.roots_applied}
    for root in roots:
        if root.address not in reached:
            return f"{root.class_name} with {root.parameters} parameters was not found again"
    return None


def _missed_by_the_script(
    changed: Mapping[str, object], injected: KnobsAsked, found: Discovery
) -> str | None:
    """Return which knob the script was told to set by itself, but did not."""
    bound = {name: value for name, value in changed.items() if getattr(injected, name, None) is None}
    accumulation = bound.get("accumulate_grad_batches")
    if accumulation is not None and accumulation != found.batches_per_step:
        return (
            f"accumulate_grad_batches was set to {accumulation}, but the loop makes a step every "
            f"{found.batches_per_step} batches"
        )
    if "precision" in bound:
        wanted = _AUTOCAST_DTYPES.get(Precision(str(bound["precision"])))
        seen = {found.autocast_dtype, *(root.autocast_dtype for root in found.roots)} - {None}
        if (wanted is None and seen) or (wanted is not None and wanted not in seen):
            shown = " and ".join(sorted(str(dtype) for dtype in seen)) or "float32"
            return f"precision was set to {bound['precision']}, but the script computes in {shown}"
    wanted_lr, lr = bound.get("lr"), found.learning_rate
    if isinstance(wanted_lr, float) and lr is not None and not math.isclose(wanted_lr, lr, rel_tol=1e-6):
        return f"lr was set to {wanted_lr:g}, but the optimizer has {lr:g}"
    if bound.get("compile") is False and found.compiles:
        return "compile was set to false, but the script still compiles"
    layouts = {root.channels_last for root in found.roots if root.has_4d_weights}
    if "channels_last" in bound and layouts and bound["channels_last"] not in layouts:
        return f"channels_last was set to {bound['channels_last']}, but the model's weights are not so"
    return None
