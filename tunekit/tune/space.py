"""Which knobs can be searched on this target and host, with which values, and why the others can't."""

from collections.abc import Collection, Mapping, Sequence

from tunekit.errors import EmptySpaceError, UsageError
from tunekit.predict.throughput.boundary import fit_boundary
from tunekit.recommend.compatibility import can_train_in_fp16
from tunekit.recommend.tiers import POLICIES
from tunekit.records.config import KNOB, KNOBS, NUMERIC_KNOBS, WORKER_KNOBS, KnobValue, Precision, TrainConfig
from tunekit.records.host import Host
from tunekit.records.recommendation import Tier
from tunekit.records.run import FixedKnob, KnobRange, KnobSpace, SearchOptions
from tunekit.records.target import BindingKind, Target
from tunekit.trial.binding_suggestions import binding_hint
from tunekit.trial.binding_syntax import value_text, values_possible
from tunekit.tune.knob_access import SearchContext, access_of
from tunekit.units import count_text, duration_text

_BATCH_FACTORS = (0.25, 0.5, *(step * 2**power for power in range(10) for step in (1, 1.5)))
_MAX_GROWTH, _MAX_SMALL = 16, 512
"""Largest batch to try: this multiple of the script's own, or this many samples if that is more."""
_PREFETCH = (2, 4, 8)
_MIN_BATCHES_PER_EPOCH = 8
_NO_OTHER_VALUE = "its binding allows no other value"
_WHY_SINGLE = {
    "batch_size": "the data set is too small",
    "accumulate_grad_batches": "it changes the global batch, not the rate; --global-batch N makes it follow "
    "the batch size",
}
"""Why a knob that can be set has only one value."""


def build_space(context: SearchContext, options: SearchOptions) -> tuple[KnobSpace, ...]:
    """Return the space: one entry per knob, with a reason if it has a single value.

    Raises:
        UsageError: `--fix`, `--range` or `--max-batch` asks for a value that the knob can't have here.
        EmptySpaceError: every knob is fixed or inert.
    """
    fixed = {setting.knob: setting.value for setting in options.fixed}
    ranges = {bounds.knob: bounds for bounds in options.ranges}
    space = []
    for knob in KNOBS:
        entry = _natural(knob, context)
        if knob in ranges:
            entry = _bounded(entry, ranges[knob], f"--range {knob}")
        most = options.max_batch if knob == "batch_size" else None
        if most is not None and most < max(_numbers(entry)):
            low = min(most, *_numbers(entry))
            entry = _bounded(entry, KnobRange(knob=knob, low=low, high=most), f"--max-batch {most}")
        if knob in fixed:
            entry = _fixed(entry, fixed[knob], context)
        space.append(_decided(_spelled(entry, context), context))
    if options.global_batch is not None:
        space = _at_global_batch(space, options.global_batch, context)
    result = _without_worker_knobs(tuple(space))
    if not any(entry.is_searched for entry in result):
        reasons = "; ".join(f"{entry.knob}: {entry.why_fixed}" for entry in result)
        raise EmptySpaceError(f"nothing is left to search ({reasons}); remove a --fix or widen a --range")
    return result


def preview_space(
    asked: SearchOptions, target: Target, host: Host, precisions: Collection[str]
) -> dict[str, str]:
    """Return for each knob, in words, which values a search may try, as far as known before it runs.

    Args:
        asked: the search's options with the user's limits.
        target: the target, whose bindings may fix knobs.
        host: the machine that it runs on.
        precisions: precisions that the device computes natively.
    """
    fixed = {one.knob: f"{value_text(one.value)} (--fix)" for one in asked.fixed}
    bounded = {one.knob: f"{one.low} to {one.high} (--range)" for one in asked.ranges}
    bound_as_fixed = {
        one.knob: "as the script has it (--bind)" for one in target.bindings if one.kind is BindingKind.FIXED
    }
    follows = f"follows batch_size, so that the global batch is {asked.global_batch} (--global-batch)"
    trained_in = [one.value for one in Precision if one.value in precisions]
    sizes = f"{_BATCH_FACTORS[0]:g}x to {_MAX_GROWTH}x the script's own, or to {_MAX_SMALL}"
    usual = dict.fromkeys(KNOBS, "off, on") | {
        "batch_size": f"{sizes}, at most {asked.max_batch} (--max-batch)" if asked.max_batch else sizes,
        "num_workers": f"0 to {host.cpus}, one per CPU; more where they wait for storage",
        "prefetch_factor": ", ".join(map(str, _PREFETCH)),
        "precision": f"{', '.join(trained_in)} or the script's own",
        "accumulate_grad_batches": follows if asked.global_batch else "as the script has it",
    }
    return usual | bound_as_fixed | bounded | fixed


def config_from(values: Mapping[str, KnobValue], space: Sequence[KnobSpace]) -> TrainConfig:
    """Return the valid config for chosen values; the other knobs get their only value.

    With 0 workers, prefetch_factor and persistent_workers are reset. A knob that follows the batch size gets
    the matching value.
    """
    chosen = {entry.knob: values.get(entry.knob, entry.values[0]) for entry in space}
    batch_size = chosen["batch_size"]
    assert isinstance(batch_size, int)
    for entry in space:
        if entry.batch_product is not None:
            chosen[entry.knob] = entry.batch_product // batch_size
    if chosen["num_workers"] == 0:
        chosen |= WORKER_KNOBS
    elif chosen["prefetch_factor"] is None:
        chosen["prefetch_factor"] = next((v for v in _values(space, "prefetch_factor") if v), _PREFETCH[0])
    return TrainConfig.model_validate(chosen)


def with_settings(config: TrainConfig, settings: Sequence[FixedKnob], context: SearchContext) -> TrainConfig:
    """Return a config with the user's settings, each checked against what can be set here.

    Raises:
        UsageError: a knob can't have the value.
    """
    values: dict[str, KnobValue] = {}
    for setting in settings:
        entry = _fixed(knob_space(setting.knob, context), setting.value, context)
        values[setting.knob] = _spelled(entry, context).values[0]
    return config.changed(**values)


def knob_space(knob: str, context: SearchContext) -> KnobSpace:
    """Return a knob's possible values on this target and device, with a reason if there is only one."""
    return _spelled(_natural(knob, context), context)


def contains(space: Sequence[KnobSpace], config: TrainConfig) -> bool:
    """Return whether the space contains every knob value of the config."""
    values = config.model_dump()
    for entry in space:
        if config.num_workers == 0 and entry.knob in WORKER_KNOBS:
            continue
        if entry.batch_product not in (None, config.batch_size * config.accumulate_grad_batches):
            return False
        if values[entry.knob] not in entry.values:
            return False
    return True


def nearest(space: Sequence[KnobSpace], config: TrainConfig) -> TrainConfig:
    """Return the config in the space that is closest to `config`, knob by knob."""
    wanted = config.model_dump()
    chosen: dict[str, KnobValue] = {}
    for entry in space:
        value, smaller = wanted[entry.knob], list[int]()
        if entry.knob in NUMERIC_KNOBS and value is not None:
            smaller = [number for number in _numbers(entry) if number <= value]
        chosen[entry.knob] = value if value in entry.values else max(smaller, default=entry.values[0])
    return config_from(chosen, space)


def is_batch_variant(config: TrainConfig, baseline: TrainConfig) -> bool:
    """Return whether a config differs from the script's own in batch size and at most in accumulation."""
    accumulated = baseline.accumulate_grad_batches
    own_batch = config.changed(batch_size=baseline.batch_size, accumulate_grad_batches=accumulated)
    return config.batch_size != baseline.batch_size and own_batch == baseline


def _numbers(entry: KnobSpace) -> list[int]:
    return [value for value in entry.values if isinstance(value, int)]


def _values(space: Sequence[KnobSpace], knob: str) -> tuple[KnobValue, ...]:
    return next(entry.values for entry in space if entry.knob == knob)


def _natural(knob: str, context: SearchContext) -> KnobSpace:
    """Return the knob's entry without the user's options."""
    present: KnobValue = getattr(context.baseline, knob)
    access = access_of(knob, context)
    if access.kind is BindingKind.FIXED:
        return KnobSpace(knob=knob, values=(present,), why_fixed=access.why_fixed)
    values = _candidates(knob, context)
    if len(values) == 1:
        only = f"{context.profile.id} computes natively in {present} only"
        why = only if knob == "precision" else _WHY_SINGLE.get(knob, _NO_OTHER_VALUE)
        return KnobSpace(knob=knob, values=values, why_fixed=why)
    return KnobSpace(knob=knob, values=values)


def _candidates(knob: str, context: SearchContext) -> tuple[KnobValue, ...]:
    """Return the values worth trying for a knob that reaches the loop, including its current one."""
    baseline, loader = context.baseline, context.discovery.training_loader
    match knob:
        case "batch_size":
            samples = loader.dataset_samples if loader else None
            return _batch_sizes(baseline.batch_size, samples and samples // context.discovery.world_size)
        case "num_workers":
            most = POLICIES[Tier.AGGRESSIVE].max_workers(context.host.cpus, context.cpus_per_worker)
            return _worker_counts(int(min(most, context.max_workers)), baseline.num_workers)
        case "prefetch_factor":
            own = (baseline.prefetch_factor,) if baseline.prefetch_factor else ()
            return tuple(sorted({*own, *_PREFETCH}))
        case "precision":
            return _precisions(context)
        case "accumulate_grad_batches":
            return (baseline.accumulate_grad_batches,)
    choices = KNOB[knob].choices
    return tuple(dict.fromkeys((getattr(baseline, knob), *choices))) if choices else (False, True)


def _precisions(context: SearchContext) -> tuple[Precision, ...]:
    on_cuda = context.discovery.device_type == "cuda"
    native = context.profile.native_precisions
    values = {context.baseline.precision, Precision.FP32}
    if "tf32" in native and on_cuda:
        values.add(Precision.TF32)
    native_bf16 = context.discovery.bf16_native if on_cuda else context.native_bf16
    if native_bf16:
        values.add(Precision.BF16)
    if context.target.is_bound("precision") and context.baseline.precision is Precision.TF32:
        values.discard(Precision.FP32)  # the script's own matmul precision stays: it would be TF32 too
    is_wanted = context.target.is_bound("precision") or not native_bf16
    can_scale = can_train_in_fp16(context.target, context.discovery, context.baseline.precision)
    if on_cuda and "fp16" in native and is_wanted and can_scale:
        values.add(Precision.FP16)
    return tuple(precision for precision in Precision if precision in values)


def _at_global_batch(
    space: Sequence[KnobSpace], global_batch: int, context: SearchContext
) -> list[KnobSpace]:
    """Return the space in which every config keeps the global batch.

    If accumulation is bound, it follows the batch size; otherwise the batch size is fixed.
    """
    entries = {entry.knob: entry for entry in space}
    batches, accumulation = entries["batch_size"], entries["accumulate_grad_batches"]
    ranks, present = context.discovery.world_size, context.baseline.accumulate_grad_batches
    asked = f"--global-batch {global_batch}"
    if global_batch % ranks:
        raise UsageError(f"{asked} can't be split over {ranks} ranks; give a multiple of {ranks}")
    per_rank, numbers = global_batch // ranks, _numbers(batches)
    if not context.target.is_bound("accumulate_grad_batches"):
        if per_rank % present or not min(numbers) <= per_rank // present <= max(numbers):
            hint = binding_hint("accumulate_grad_batches", context.discovery, present, context.target)
            own = count_text(present, "batch", "batches")
            raise UsageError(
                f"{asked} can't be kept: the script accumulates {own} per step, which is not bound, and "
                f"batch_size can be {min(numbers)} to {max(numbers)}; bind it with {hint}"
            )
        why = f"{asked}, and accumulate_grad_batches has no binding that could make up for another batch"
        entries["batch_size"] = KnobSpace(knob="batch_size", values=(per_rank // present,), why_fixed=why)
        return list(entries.values())
    inside = range(min(numbers), max(numbers) + 1)
    binding = context.target.binding_of("batch_size")
    spelled = values_possible(binding, "batch_size") if binding is not None else None
    sizes = tuple(size for size in inside if per_rank % size == 0 and (spelled is None or size in spelled))
    if not sizes:
        raise UsageError(
            f"{asked}: no batch size from {inside[0]} to {inside[-1]} on {ranks} rank(s) divides it; "
            "widen --range batch_size or give another number"
        )
    entries["batch_size"] = KnobSpace(
        knob="batch_size", values=sizes, why_fixed=None if len(sizes) > 1 else f"{asked} allows only this"
    )
    entries["accumulate_grad_batches"] = KnobSpace(
        knob=accumulation.knob,
        values=tuple(sorted(per_rank // size for size in sizes)),
        why_fixed=f"follows batch_size, so that the global batch is {global_batch}",
        batch_product=per_rank,
    )
    return list(entries.values())


def _batch_sizes(baseline: int, dataset_samples: int | None) -> tuple[int, ...]:
    sizes = {baseline, *(round(baseline * factor) for factor in _BATCH_FACTORS)}
    most = max(baseline * _MAX_GROWTH, _MAX_SMALL)
    if dataset_samples:
        most = min(most, max(baseline, dataset_samples // _MIN_BATCHES_PER_EPOCH))
    return tuple(sorted(size for size in sizes if 1 <= size <= most))


def _worker_counts(most: int, baseline: int) -> tuple[int, ...]:
    few = range(min(most, 8) + 1)
    more = range(8, most + 1, 4) if most <= 32 else range(8, most + 1, 8)
    return tuple(sorted({*few, *more, most, baseline}))


def _bounded(entry: KnobSpace, bounds: KnobRange, flag: str) -> KnobSpace:
    """Return the entry limited to the user's bounds, with both bounds added as candidates."""
    if len(entry.values) == 1:
        present = entry.values[0]
        raise UsageError(f"{flag}: {entry.knob} is {present} and can't be changed here ({entry.why_fixed})")
    inside = {value for value in _numbers(entry) if bounds.low <= value <= bounds.high}
    values = tuple(sorted({*inside, bounds.low, bounds.high}))
    why = f"{flag} allows only {values[0]}" if len(values) == 1 else None
    return KnobSpace(knob=entry.knob, values=values, why_fixed=why)


def _decided(entry: KnobSpace, context: SearchContext) -> KnobSpace:
    """Return persistent_workers with the value that costs least at an epoch's end; other knobs unchanged.

    Within an epoch it makes no difference, so no trial is needed to choose.
    """
    if entry.knob != "persistent_workers" or not entry.is_searched:
        return entry
    start_s, value = (context.boundary or fit_boundary(())).per_worker_s, True
    cost = f"restarting a worker costs {duration_text(start_s)} per epoch (predicted)"
    why = f"on wherever there are workers: {cost}"
    if start_s <= 0:
        value = context.baseline.persistent_workers
        why = "restarting workers at an epoch's end was seen to cost nothing, so it stays as it is"
    return KnobSpace(knob=entry.knob, values=(value,), why_fixed=why)


def _spelled(entry: KnobSpace, context: SearchContext) -> KnobSpace:
    """Return the entry without values that the knob's binding can't express."""
    binding = context.target.binding_of(entry.knob)
    possible = values_possible(binding, entry.knob) if binding is not None else None
    present = getattr(context.baseline, entry.knob)
    if possible is None or entry.values == (present,):
        return entry
    values = tuple(value for value in entry.values if value in possible or value == present)
    if not values:
        raise UsageError(
            f"{entry.knob}: its binding spells none of {', '.join(map(str, entry.values))}; "
            f"it knows {', '.join(map(str, possible))}"
        )
    why = entry.why_fixed or (_NO_OTHER_VALUE if len(values) == 1 else None)
    return entry.changed(values=values, why_fixed=why)


def _fixed(entry: KnobSpace, value: KnobValue, context: SearchContext) -> KnobSpace:
    """Return the entry with only the user's value."""
    present = getattr(context.baseline, entry.knob)
    accumulates = entry.knob == "accumulate_grad_batches" and context.target.is_bound(entry.knob)
    if len(entry.values) == 1 and not accumulates:
        if value != entry.values[0]:
            raise UsageError(
                f"--fix {entry.knob}={value}: can't be set here ({entry.why_fixed}); the script has {present}"
            )
        return KnobSpace(knob=entry.knob, values=entry.values, why_fixed="fixed by --fix")
    if value is None:
        raise UsageError(f"--fix {entry.knob}={value}: must be a whole number, at least 1")
    if entry.knob == "precision" and value not in entry.values:
        names = ", ".join(str(v) for v in entry.values)
        raise UsageError(f"--fix precision={value}: can't be set here; use one of {names}")
    return KnobSpace(knob=entry.knob, values=(value,), why_fixed="fixed by --fix")


def _without_worker_knobs(space: tuple[KnobSpace, ...]) -> tuple[KnobSpace, ...]:
    """Reduce prefetch_factor and persistent_workers to one value if there can be no workers."""
    if any(value != 0 for value in _values(space, "num_workers")):
        return space
    return tuple(
        KnobSpace(knob=entry.knob, values=(WORKER_KNOBS[entry.knob],), why_fixed="no effect without workers")
        if entry.knob in WORKER_KNOBS
        else entry
        for entry in space
    )
