"""Checks that a trial's training process really has the trial's knobs. Pure.

A figure for the wrong config is worse than none, so everything that was set in the loader's constructor, on
the command line or in a file is read back from the loop itself.
"""

import math
from collections.abc import Mapping, Sequence

from tunekit.records.agent_messages import LearntEvent
from tunekit.records.config import LOADER_KNOBS, MODEL_KNOBS, Precision
from tunekit.records.measurement import LoopMeasurement
from tunekit.records.target import Discovery, InputSeen, RootSeen
from tunekit.units import count_text

_MIN_FULL = 0.75
"""Minimum mean batch, as a share of the wanted size, for a sampler to count as making such batches."""
_MAX_INPUTS = 4
"""Maximum number of a model's inputs in a message."""
_DROPPED = "the collate function drops or merges the other samples"
_SPLIT = "one forward pass takes only a part of it; bind the flag of that part"
_MIN_FOLLOWING, _MAX_FOLLOWING = 0.5, 1.5
"""Range of log(change of an input's size) / log(change of the batch size): varying lengths follow roughly."""
_AUTOCAST_DTYPES = {Precision.BF16: "bfloat16", Precision.FP16: "float16"}


def unapplied_knob(
    loop: LoopMeasurement,
    changed: Mapping[str, object],
    injected: Mapping[str, object],
    learnt: LearntEvent,
    baseline: Discovery | None,
    own_batch: int | None = None,
) -> str | None:
    """Return which knob the training process does not have; None if it has all.

    Args:
        loop: the measured loop.
        changed: every knob that differs from the unchanged script, however it is bound.
        injected: the changed knobs that the agent had to set.
        learnt: what the trial's agent found in its loop.
        baseline: what the baseline's agent found; None for the baseline itself.
        own_batch: samples in a batch of the unchanged script.
    """
    if not learnt.applied.addressed:
        return "the loader that trains is not the one that the baseline found"
    checks = (
        _missed_in_loader(loop, changed, learnt),
        _missed_batch(changed, learnt.discovery, baseline, own_batch),
        _missed_in_roots(injected, learnt, baseline.roots if baseline else ()),
        _missed_matmul(injected, learnt.discovery),
        _missed_by_the_script(changed, injected, learnt.discovery),
    )
    return next((missed for missed in checks if missed is not None), None)


def unjoined(loop: LoopMeasurement, processes: int) -> str | None:
    """Return why the started processes do not train together; None if they do.

    Args:
        loop: the loop as measured by rank 0.
        processes: number of started processes.
    """
    if loop.world_size != processes:
        joined = count_text(loop.world_size, "process trains", "processes train together")
        return f"{count_text(processes, 'process', 'processes')} were started here, but {joined}"
    if processes > 1 and (loop.data_parallel is None or loop.data_parallel.backend is None):
        return (
            f"{processes} processes were started here, but they join no process group: each trains on its own"
        )
    return None


def _missed_in_loader(
    loop: LoopMeasurement, changed: Mapping[str, object], learnt: LearntEvent
) -> str | None:
    loader = learnt.discovery.training_loader
    for name in LOADER_KNOBS if loader else ():
        wanted, real = changed.get(name), getattr(loader, name)
        if name == "batch_size" and wanted is not None and real is None:
            mean = loop.steady_samples / loop.steady_batches  # a custom sampler doesn't declare its size
            is_about = isinstance(wanted, int) and _MIN_FULL * wanted <= mean <= wanted / _MIN_FULL
            real = wanted if is_about else f"batches of {mean:.1f} samples"
        if wanted is not None and real != wanted:
            return f"{name} was set to {wanted}, but the training loader has {real}"
    return None


def _missed_batch(
    changed: Mapping[str, object], discovery: Discovery, baseline: Discovery | None, own_batch: int | None
) -> str | None:
    """Return why a changed batch size did not reach the models' inputs or the loader's batches, else None.

    A dimension of an input that was the batch size, or a multiple of it, must scale with it. Varying lengths
    only have to follow roughly.
    """
    wanted = changed.get("batch_size")
    if baseline is None or own_batch is None or not isinstance(wanted, int) or wanted == own_batch:
        return None
    if discovery.training_loader is not None:
        return _missed_behind_loader(discovery, baseline, own_batch, wanted)
    pairs = _paired_input_sizes(baseline, discovery)
    if not pairs:
        return None
    scaled = [before for before, now in pairs if _is_scaled(before, now, own_batch, wanted)]
    if any(_holds(own_batch, before) for before in scaled):
        return None
    message = (
        f"batch_size was set from {own_batch} to {wanted}, and the model's input went from "
        f"{inputs_text(baseline)} to {inputs_text(discovery)}"
    )
    batches, ranks = baseline.batches_per_step, baseline.world_size
    shares = (batches, ranks, batches * ranks)
    is_shared = any(before * share == own_batch for before in scaled for share in shares)
    if is_shared or _is_scaled(batches, discovery.batches_per_step, own_batch, wanted):
        return f"{message}: {_SPLIT}"
    if any(before != now == wanted for before, now in pairs):
        return message
    follows = any(_follows(before, now, own_batch, wanted) for before, now in pairs)
    stays = all(before == now for before, now in pairs) or (own_batch, own_batch) in pairs
    return message if stays and not follows else None


def _missed_behind_loader(now: Discovery, before: Discovery, own_batch: int, wanted: int) -> str | None:
    """Return how samples of the loader's batch get lost before the model sees them; None if they don't.

    Padded, packed and graph batches vary: samples are lost if all sizes stay the same, or if no part that had
    one row per sample has grown accordingly.
    """
    loader, known = now.training_loader, before.training_loader
    message = f"batch_size was set from {own_batch} to {wanted}"
    batch = loader.batch if loader is not None and loader.batch_size is not None else ()
    own = known.batch if known is not None else ()
    rows = {one.path: one.sizes[0] for one in batch}
    held = [rows.get(one.path, 0) for one in own if one.sizes[0] == own_batch]
    is_short = bool(held) and not any(_follows(own_batch, one, own_batch, wanted) for one in held)
    if batch and (batch == own or is_short):
        return f"{message}, but a batch holds {_sizes_text(batch)}: {_DROPPED}"
    pairs = _paired_input_sizes(before, now)
    follows = any(_follows(*pair, own_batch, wanted) for pair in pairs)
    if (own_batch, own_batch) in pairs and not follows:
        return f"{message}, but the model's input stays {inputs_text(now)}: {_SPLIT}"
    return None


def batch_contradicted(found: Discovery, batch_size: int) -> bool:
    """Return whether no input of a loop without a loader can hold a batch of this size."""
    sizes = [size for root in found.roots for one in root.inputs for size in one.sizes]
    return bool(sizes) and not any(_holds(batch_size, size) for size in sizes)


def inputs_text(found: Discovery) -> str:
    """Return the shapes of the models' inputs, such as "35 x 20 and 1 x 20 x 64"; "n/a" if unknown."""
    return _sizes_text(*(root.inputs for root in found.roots))


def _sizes_text(*groups: Sequence[InputSeen]) -> str:
    shapes = dict.fromkeys(
        " x ".join(map(str, one.sizes))
        for group in groups
        for one in group
        if not any(other.path.startswith(f"{one.path}[") for other in group)
    )
    return " and ".join(list(shapes)[:_MAX_INPUTS]) or "n/a"


def _paired_input_sizes(before: Discovery, now: Discovery) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for old, new in zip(before.roots, now.roots, strict=False):
        known = {one.path: one.sizes for one in new.inputs}
        for one in old.inputs:
            sizes = known.get(one.path, ())
            if len(sizes) == len(one.sizes):
                pairs += zip(one.sizes, sizes, strict=True)
    return pairs


def _holds(batch_size: int, size: int) -> bool:
    """Return whether a dimension may be a batch's: its samples, their parts, or offsets of packed samples."""
    return size > 0 and (size % batch_size == 0 or size == batch_size + 1)


def _is_scaled(before: int, now: int, own_batch: int, wanted: int) -> bool:
    are_bounds = (before, now) == (own_batch + 1, wanted + 1)
    return before > 0 and (before * wanted == now * own_batch or are_bounds)


def _follows(before: int, now: int, own_batch: int, wanted: int) -> bool:
    """Return whether a size roughly followed the batch size, as with padded or packed samples."""
    if not before or not now:
        return False
    share = math.log(now / before) / math.log(wanted / own_batch)
    return _MIN_FOLLOWING <= share <= _MAX_FOLLOWING


def _missed_in_roots(
    injected: Mapping[str, object], learnt: LearntEvent, roots: Sequence[RootSeen]
) -> str | None:
    if injected.keys().isdisjoint(MODEL_KNOBS):
        return None
    reached = {root.address for root in learnt.applied.roots_applied}
    for root in roots:
        if root.address not in reached:
            return f"{root.class_name} with {root.parameters} parameters was not found again"
    return None


def _missed_matmul(injected: Mapping[str, object], found: Discovery) -> str | None:
    """Return why matrix products have another precision: the script reset it, or the device lacks it."""
    precision = injected.get("precision")
    if precision not in (Precision.FP32, Precision.TF32) or found.tf32_in_matmul is None:
        return None
    if found.tf32_in_matmul == (precision == Precision.TF32):
        return None
    real = "TF32" if found.tf32_in_matmul else "IEEE float32"
    return f"precision was set to {precision}, but matrix products run in {real}"


def _missed_by_the_script(
    changed: Mapping[str, object], injected: Mapping[str, object], found: Discovery
) -> str | None:
    bound = {name: value for name, value in changed.items() if name not in injected}
    accumulation = bound.get("accumulate_grad_batches")
    if accumulation is not None and accumulation != found.batches_per_step:
        return (
            f"accumulate_grad_batches was set to {accumulation}, but the loop makes a step every "
            f"{count_text(found.batches_per_step, 'batch', 'batches')}"
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
        return f"channels_last was set to {bound['channels_last']}, but the model's weights differ"
    return None
