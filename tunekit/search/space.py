"""Which knobs can be searched on this target and host, with which values, and why not the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tunekit.errors import EmptySpaceError, UsageError
from tunekit.records.config import KNOBS, LOADER_KNOBS, WORKER_KNOBS, Precision, TrainConfig
from tunekit.records.hardware import Host, Profile
from tunekit.records.run import KnobRange, KnobSpace, KnobValue, SearchOptions
from tunekit.records.target import Discovery

NUMERIC_KNOBS = ("batch_size", "num_workers", "prefetch_factor")
"""Knobs that `--range` can bound."""

_BATCH_FACTORS = (0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16)
_PREFETCH = (2, 4, 8)
_MIN_BATCHES_PER_EPOCH = 8


@dataclass(frozen=True)
class Surroundings:
    """What bounds the space: the machine, the device and what the baseline learnt."""

    host: Host
    profile: Profile
    """Of the device that is really here."""
    native_bf16: bool | None
    discovery: Discovery
    baseline: TrainConfig


def build_space(around: Surroundings, options: SearchOptions) -> tuple[KnobSpace, ...]:
    """Return the space: one entry per knob, those with a single value saying why.

    Raises:
        UsageError: `--fix` or `--range` names a value that the knob can't have here.
        EmptySpaceError: every knob is fixed or inert.
    """
    fixed = {setting.knob: setting.value for setting in options.fixed}
    ranges = {bounds.knob: bounds for bounds in options.ranges}
    space = []
    for knob in KNOBS:
        entry = _natural(knob, around)
        if knob in ranges:
            entry = _bounded(entry, ranges[knob])
        if knob in fixed:
            entry = _fixed(entry, fixed[knob], around.baseline)
        space.append(entry)
    result = _without_worker_knobs(tuple(space))
    if all(len(entry.values) == 1 for entry in result):
        reasons = "; ".join(f"{entry.knob}: {entry.why_fixed}" for entry in result)
        raise EmptySpaceError(f"nothing is left to search ({reasons}); remove a --fix or widen a --range")
    return result


def config_from(values: Mapping[str, KnobValue], space: Sequence[KnobSpace]) -> TrainConfig:
    """Return the legal config for chosen values; knobs that were not chosen take their only value.

    With 0 workers, prefetch_factor and persistent_workers fall away.
    """
    chosen = {entry.knob: values.get(entry.knob, entry.values[0]) for entry in space}
    if chosen["num_workers"] == 0:
        chosen["prefetch_factor"], chosen["persistent_workers"] = None, False
    elif chosen["prefetch_factor"] is None:
        chosen["prefetch_factor"] = next((v for v in _values(space, "prefetch_factor") if v), _PREFETCH[0])
    return TrainConfig.model_validate(chosen)


def contains(space: Sequence[KnobSpace], config: TrainConfig) -> bool:
    """Return whether every knob of the config has a value of the space."""
    values = config.model_dump()
    for entry in space:
        if config.num_workers == 0 and entry.knob in WORKER_KNOBS:
            continue
        if values[entry.knob] not in entry.values:
            return False
    return True


def nearest(space: Sequence[KnobSpace], config: TrainConfig) -> TrainConfig:
    """Return the config of the space that is closest to `config`, knob by knob."""
    wanted = config.model_dump()
    chosen: dict[str, KnobValue] = {}
    for entry in space:
        value = wanted[entry.knob]
        if value in entry.values or value is None:
            chosen[entry.knob] = value if value in entry.values else entry.values[0]
        elif entry.knob in NUMERIC_KNOBS:
            numbers = [v for v in entry.values if isinstance(v, int)]
            at_most = [v for v in numbers if v <= value]
            chosen[entry.knob] = max(at_most) if at_most else min(numbers, default=entry.values[0])
        else:
            chosen[entry.knob] = entry.values[0]
    return config_from(chosen, space)


def _values(space: Sequence[KnobSpace], knob: str) -> tuple[KnobValue, ...]:
    return next(entry.values for entry in space if entry.knob == knob)


def _natural(knob: str, around: Surroundings) -> KnobSpace:
    """Return the knob's entry before the user's own wishes."""
    if knob in LOADER_KNOBS:
        return _loader_knob(knob, around)
    if knob == "accumulate_grad_batches":
        value = around.baseline.accumulate_grad_batches
        return KnobSpace(knob=knob, values=(value,), why_fixed="the script's own; it has no binding")
    return _model_knob(knob, around)


def _loader_knob(knob: str, around: Surroundings) -> KnobSpace:
    loader, baseline = around.discovery.training_loader, around.baseline
    present: KnobValue = getattr(baseline, knob)

    def only(why: str) -> KnobSpace:
        return KnobSpace(knob=knob, values=(present,), why_fixed=why)

    if loader is None:
        return only("the script trains without a DataLoader")
    if knob == "batch_size":
        if not loader.batch_size_bound:
            return only("the script batches by itself, out of the agent's reach")
        sizes = _batch_sizes(baseline.batch_size, loader.dataset_samples)
        return KnobSpace(knob=knob, values=sizes) if len(sizes) > 1 else only("the data set is too small")
    if loader.iterable and knob in ("num_workers", "prefetch_factor", "persistent_workers"):
        return only("an iterable data set may repeat its samples in every worker")
    if knob == "pin_memory":
        if around.discovery.device_type != "cuda":
            return only(f"no effect on {around.discovery.device_type}")
        return KnobSpace(knob=knob, values=(False, True))
    if knob == "num_workers":
        return KnobSpace(knob=knob, values=_worker_counts(around.host.cpus, baseline.num_workers))
    if knob == "prefetch_factor":
        own = (baseline.prefetch_factor,) if baseline.prefetch_factor else ()
        return KnobSpace(knob=knob, values=tuple(sorted({*own, *_PREFETCH})))
    return KnobSpace(knob=knob, values=(False, True))


def _model_knob(knob: str, around: Surroundings) -> KnobSpace:
    discovery, baseline = around.discovery, around.baseline
    present: KnobValue = getattr(baseline, knob)

    def only(why: str) -> KnobSpace:
        return KnobSpace(knob=knob, values=(present,), why_fixed=why)

    if not discovery.roots or not discovery.roots_cover_step:
        return only("no outermost module owns all the parameters that are stepped")
    if knob == "compile":
        if baseline.compile:
            return only("the script compiles by itself")
        if around.profile.compile_supported is False:
            return only(f"torch.compile does not support {around.profile.id}")
        return KnobSpace(knob=knob, values=(False, True))
    if knob == "channels_last":
        if baseline.channels_last:
            return only("the script sets it by itself")
        if not any(root.has_4d_weights for root in discovery.roots):
            return only("no 4-D weights, so no effect")
        return KnobSpace(knob=knob, values=(False, True))
    if any(root.autocast_dtype for root in discovery.roots):
        return only("the script sets its own precision")
    values = _precisions(around)
    if len(values) == 1:
        return only(f"{around.profile.id} computes natively in fp32 only")
    return KnobSpace(knob=knob, values=values)


def _precisions(around: Surroundings) -> tuple[Precision, ...]:
    values = {around.baseline.precision, Precision.FP32}
    if "tf32" in around.profile.native_precisions and around.discovery.device_type == "cuda":
        values.add(Precision.TF32)
    native_bf16 = (
        around.discovery.bf16_native if around.discovery.device_type == "cuda" else around.native_bf16
    )
    if native_bf16:
        values.add(Precision.BF16)
    return tuple(precision for precision in Precision if precision in values)


def _batch_sizes(baseline: int, dataset_samples: int | None) -> tuple[int, ...]:
    sizes = {baseline, *(round(baseline * factor) for factor in _BATCH_FACTORS)}
    most = baseline * 16
    if dataset_samples:
        most = min(most, max(baseline, dataset_samples // _MIN_BATCHES_PER_EPOCH))
    return tuple(sorted(size for size in sizes if 1 <= size <= most))


def _worker_counts(cpus: int, baseline: int) -> tuple[int, ...]:
    few = range(min(cpus, 8) + 1)
    more = range(8, cpus + 1, 4) if cpus <= 32 else range(8, cpus + 1, 8)
    return tuple(sorted({*few, *more, cpus, baseline}))


def _bounded(entry: KnobSpace, bounds: KnobRange) -> KnobSpace:
    """Return the entry within the user's bounds, both ends added as candidates."""
    if len(entry.values) == 1:
        raise UsageError(f"--range {entry.knob}: the knob is not searched here ({entry.why_fixed})")
    if bounds.low > bounds.high or (entry.knob != "num_workers" and bounds.low < 1):
        raise UsageError(
            f"--range {entry.knob}={bounds.low}..{bounds.high} has no legal value; write it as lo..hi"
        )
    inside = {v for v in entry.values if isinstance(v, int) and bounds.low <= v <= bounds.high}
    values = tuple(sorted({*inside, bounds.low, bounds.high}))
    why = f"--range allows only {values[0]}" if len(values) == 1 else None
    return KnobSpace(knob=entry.knob, values=values, why_fixed=why)


def _fixed(entry: KnobSpace, value: KnobValue, baseline: TrainConfig) -> KnobSpace:
    """Return the entry with the user's value alone."""
    present = getattr(baseline, entry.knob)
    if len(entry.values) == 1:
        if value != entry.values[0]:
            raise UsageError(
                f"--fix {entry.knob}={value}: can't be set here ({entry.why_fixed}); the script has {present}"
            )
        return KnobSpace(knob=entry.knob, values=entry.values, why_fixed="fixed by --fix")
    if entry.knob in NUMERIC_KNOBS:
        least = 0 if entry.knob == "num_workers" else 1
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise UsageError(f"--fix {entry.knob}={value}: must be a whole number, at least {least}")
    elif isinstance(present, bool) != isinstance(value, bool):
        raise UsageError(f"--fix {entry.knob}={value}: not a value of this knob; the script has {present}")
    if entry.knob == "precision" and value not in entry.values:
        names = ", ".join(str(v) for v in entry.values)
        raise UsageError(f"--fix precision={value}: can't be set here; use one of {names}")
    return KnobSpace(knob=entry.knob, values=(value,), why_fixed="fixed by --fix")


def _without_worker_knobs(space: tuple[KnobSpace, ...]) -> tuple[KnobSpace, ...]:
    """Reduce prefetch_factor and persistent_workers to one value when there can be no workers."""
    if any(value != 0 for value in _values(space, "num_workers")):
        return space
    inert = {"prefetch_factor": None, "persistent_workers": False}
    return tuple(
        KnobSpace(knob=entry.knob, values=(inert[entry.knob],), why_fixed="no effect without workers")
        if entry.knob in inert
        else entry
        for entry in space
    )
