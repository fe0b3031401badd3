"""Predicts what fits each GPU, and how fast it would be, from the script's own steps at two batch sizes.

Each memory figure has a margin, and so has the GPU memory outside torch's tensors; each rate has an interval.
A loader feeds a GPU only as fast as the vCPUs of its usual machine make batches.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tunekit.machine.gpu.outside_torch import BLAS_BYTES, LARGE_BLAS_BYTES
from tunekit.predict.calibrated import calibrated_model
from tunekit.predict.loader_rate import loader_rate, loader_work_of, usual_instance
from tunekit.predict.roofline import compute_rate
from tunekit.predict.step_traces import (
    TracedPair,
    Unpredictable,
    prediction_path,
    read_traces,
    trace_of,
    untraced_error,
)
from tunekit.predict.vram.allocator import OutOfDeviceMemory
from tunekit.predict.vram.predict import MemoryPrediction
from tunekit.predict.vram.trace import AllocationTrace, TracesDiffer, ops_between, with_more
from tunekit.records.config import Precision
from tunekit.records.interval import Interval
from tunekit.records.prediction import (
    Calibration,
    CheckpointingPredicted,
    DevicePrediction,
    LargestBatch,
    OutsideTorch,
    PeakShown,
    PredictedFit,
    Purpose,
)
from tunekit.records.profile import Profile
from tunekit.records.run import BatchFit, RequestedBatch
from tunekit.records.trial import TrialRecord

MARGIN = 0.07
"""Margin of a batch that fits: the tightest without a wrong verdict on 22 models of timm. On 40 others it
left none (benchmarks/vram_accuracy.py)."""
FAVOURABLE_MARGIN = 0.03
"""Margin of a batch that does not fit; 2% was the tightest without a wrong verdict."""
DOUBT_MARGIN = 0.15
"""Additional margin for each doubt."""
_NOT_CHECKPOINTED = "no steps were traced both with it and without at two batch sizes"
_BLAS_BYTES = (BLAS_BYTES, LARGE_BLAS_BYTES)


@dataclass(frozen=True)
class _Rates:
    """Rates of both halves of a loop in samples/s; None if unknown."""

    compute: Interval | None
    loader: Interval | None

    @property
    def slower(self) -> Interval | None:
        """The rate that the slower half allows."""
        compute, loader = self.compute, self.loader
        if compute is None or loader is None:
            return compute
        return compute.at_most(loader)

    @property
    def bound_by(self) -> Literal["loader", "compute"] | None:
        """The slower half; compute if the loader's rate is unknown."""
        if self.compute is None:
            return None
        return "loader" if self.loader and self.loader.value < self.compute.value else "compute"


class _Headroom:
    """Bounds on the bytes that torch can reserve on a GPU next to the context.

    cuDNN's workspaces do not count: where one does not fit, torch runs an algorithm that needs less
    (try_configs in aten/src/ATen/native/cudnn/Conv_v8.cpp).
    """

    def __init__(self, capacity_bytes: int, outside: OutsideTorch) -> None:
        self.min_bytes = max(0, capacity_bytes - outside.context.high)
        self.max_bytes = max(0, capacity_bytes - outside.context.low)


class Fits:
    """Predictions for any GPU, from a trial that traced its own steps.

    If the script makes its own batches, a trial has only one batch size, and a second trial traces the other.

    Args:
        trials: the first one with Detail.TRACE counts; with Detail.FLOORS, its loader's rate is better known.
        trials_folder: the folder that contains the trials' own folders.
        cpus: the CPUs that the trial could use.
        here: the GPU that the trial ran on, which calibrates the speed of others; None without a GPU.
        calibrations: those kept on this machine.

    Raises:
        Unpredictable: the trial has no traced steps to predict from.
        RecordError: its files can't be read.
    """

    def __init__(
        self,
        trials: Sequence[TrialRecord],
        trials_folder: Path,
        cpus: int,
        here: Profile | None = None,
        calibrations: Sequence[Calibration] = (),
    ) -> None:
        self._calibrations = calibrations
        traced = [trial for trial in trials if trace_of(trial)]
        trial = (traced or list(trials))[0]
        looked, seen = trial.measurement or trial.dry, trace_of(trial)
        if looked is None or seen is None or trial.config is None:
            raise untraced_error(trials)
        self._seen, self._loop = seen, looked.loop
        self._isolated = looked.details.floors if looked.details else None
        kernels = looked.details.kernels if looked.details else None
        self._busy_step_s = (
            kernels.device_busy_s / kernels.batches if kernels and kernels.device_busy_s else None
        )
        self._cpus = cpus
        pairs = read_traces(traced[:2], trials_folder)
        if not pairs:
            raise untraced_error((trial, *trials))
        traces = [trace for one in traced[:2] if (trace := trace_of(one))]
        self._doubts = tuple(sorted({doubt for trace in traces for doubt in trace.doubts}))
        own = trial.config.precision
        self._pairs = _of_same_steps(pairs, own)
        self._checkpointed: dict[Precision, TracedPair] = {}
        with contextlib.suppress(Unpredictable):
            more = read_traces(traced[:2], trials_folder, is_checkpointed=True)
            with_it = _of_same_steps(more, own)
            # Checkpointing is reported relative to the same steps without it.
            self._checkpointed = {one: pair for one, pair in with_it.items() if one in self._pairs}
        self._memory: dict[tuple[Precision, bool, tuple[int, ...]], MemoryPrediction] = {}
        self._largest: dict[tuple[MemoryPrediction, int], int] = {}
        self._speed_factor = self._measured_over_roofline(own, here)

    @property
    def precisions(self) -> tuple[Precision, ...]:
        """The traced precisions: the script's own, and bf16 if it can be set."""
        return tuple(self._pairs)

    @property
    def margin(self) -> float:
        """Share by which a peak may be above its prediction."""
        return MARGIN + DOUBT_MARGIN * len(self._doubts)

    def for_profiles(
        self, profiles: Iterable[Profile], outside: Callable[[Profile], OutsideTorch]
    ) -> DevicePrediction:
        """Return what fits each GPU with known memory, in each traced precision that it supports.

        Args:
            profiles: the GPUs' profiles; a CPU's is skipped.
            outside: returns the bounds on a GPU's memory outside torch's tensors.
        """
        fits = [
            self._fit(profile, precision, outside(profile))
            for profile in profiles
            if profile.has_own_memory
            for precision in self._precisions(profile)
        ]
        return DevicePrediction(
            path=prediction_path(self._seen),
            margin=self.margin,
            doubts=self._doubts,
            traced_sizes=tuple(sorted({one.batch_size for pair in self._pairs.values() for one in pair})),
            epoch_samples=self._loop.epoch_samples,
            fits=tuple(fits),
            checkpointing=self._checkpointing(),
            loader_measured=self._loader_here(),
            loader_cpus=self._cpus,
            speed_factor=self._speed_factor,
            flops_per_sample=self._flops_per_sample(),
        )

    def unlimited_peak(
        self, precision: Precision, batch_size: int, outside: OutsideTorch, is_checkpointed: bool = False
    ) -> PeakShown | None:
        """Return a batch size's peak with unlimited memory, without the margin; None if not traced."""
        memory = self._memory_of(precision, outside, is_checkpointed)
        return None if memory is None else memory.peak(batch_size)

    def at(
        self, profile: Profile, precision: Precision, batch_size: int, outside: OutsideTorch
    ) -> PredictedFit | None:
        """Return the prediction for one batch size; None if the GPU's memory or the precision is unknown.

        The batch is limited to the samples of an epoch. If it does not fit, the peak is that with unlimited
        memory.

        Args:
            profile: the GPU's profile.
            precision: the precision to train in.
            batch_size: per device.
            outside: bounds on the GPU memory outside torch's tensors.
        """
        if self._traced(precision) is None or not profile.has_own_memory:
            return None
        return self._fit(profile, precision, outside, batch_size)

    def asked(
        self, profile: Profile, fit: PredictedFit, outside: OutsideTorch, batch_size: int
    ) -> RequestedBatch:
        """Return whether a batch size fits a GPU, what torch would reserve for it, and its rate there.

        It fits up to the largest batch with the margin; above the largest batch that fits in the best case,
        it does not.

        Args:
            profile: the GPU's profile.
            fit: the GPU's prediction from `for_profiles`.
            outside: bounds on the GPU memory outside torch's tensors.
            batch_size: per device.
        """
        headroom = _Headroom(fit.capacity_bytes, outside)
        peak = self._peak(fit.precision, outside, batch_size, headroom)
        runs = batch_size <= min(fit.largest.high, self._made(batch_size))
        rates = self._rates(profile, fit.precision, batch_size) if runs else _Rates(None, None)
        verdict = BatchFit.NO if batch_size > fit.largest.high else BatchFit.TIGHT
        return RequestedBatch(
            profile_id=fit.profile_id,
            precision=fit.precision,
            batch_size=batch_size,
            verdict=BatchFit.YES if batch_size <= fit.largest.low else verdict,
            reserved_bytes=peak.reserved_bytes,
            min_bytes=headroom.min_bytes,
            max_bytes=headroom.max_bytes,
            rate=rates.slower,
            compute=rates.compute,
            loader=rates.loader,
        )

    # --- one GPU ---------------------------------------------------------------------------

    def _precisions(self, profile: Profile) -> list[Precision]:
        """Return the precisions to predict for: the traced ones, as they are called on the GPU."""
        names = (profile.precision_for(precision) for precision in self._pairs)
        return [name for name in names if name is not None]

    def _fit(
        self, profile: Profile, precision: Precision, outside: OutsideTorch, batch_size: int | None = None
    ) -> PredictedFit:
        capacity = profile.capacity_bytes
        assert capacity is not None
        headroom = _Headroom(capacity, outside)
        largest = self._largest_batch(precision, outside, headroom)
        assert largest is not None
        batch = self._made(batch_size or largest.low)
        peak, rates = None, _Rates(None, None)
        if batch:
            peak = self._peak(precision, outside, batch, headroom)
            rates = self._rates(profile, precision, batch)
        instance = usual_instance(profile)
        return PredictedFit(
            profile_id=profile.id,
            precision=precision,
            capacity_bytes=capacity,
            largest=largest,
            checkpointed=self._largest_batch(precision, outside, headroom, is_checkpointed=True),
            peak=peak,
            rate=rates.slower,
            compute=rates.compute,
            loader=rates.loader,
            bound_by=rates.bound_by if batch else "VRAM",
            instance=instance.full_name if instance and rates.loader else None,
        )

    def _made(self, batch_size: int) -> int:
        """Return the size of the batches that the loader makes for a requested size: at most an epoch."""
        return min(batch_size, self._loop.epoch_samples or batch_size)

    def _rates(self, profile: Profile, precision: Precision, batch_size: int) -> _Rates:
        """Return the rates of a GPU, and of the loader on its usual machine, at a batch size."""
        compute = self._compute(precision, batch_size, profile)
        if compute is not None and self._speed_factor is not None:
            compute = _times(compute, self._speed_factor)
        loader = loader_rate(
            self._loop, loader_work_of(self._loop, self._isolated), usual_instance(profile), batch_size
        )
        return _Rates(compute, loader)

    def _compute(self, precision: Precision, batch_size: int, profile: Profile) -> Interval | None:
        """Return the training rate of a GPU by the roofline model, in samples/s; None if it is unknown.

        That is the case if the GPU's rates are unknown or the precision was not traced, such as the script's
        own if its steps differed.
        """
        traced = self._traced(precision)
        if traced is None:
            return None
        ops, samples = ops_between(*self._pairs[traced], batch_size), batch_size * self._seen.batches_per_step
        model = calibrated_model(profile, self._calibrations)
        return compute_rate(ops, samples, profile, precision is Precision.TF32, model)

    def _measured_over_roofline(self, script_precision: Precision, here: Profile | None) -> float | None:
        """Return the measured over the predicted speed of the GPU that is present; None without one.

        Only the time in which it was busy counts, if known: waiting for the host says nothing about other
        GPUs.
        """
        alone_s, batch = self._isolated.compute_step_s if self._isolated else None, self._loop.batch_size
        if here is None or self._seen.device_type != "cuda" or batch is None or alone_s is None:
            return None
        roofline = self._compute(script_precision, batch, here)
        step_s = min(alone_s, self._busy_step_s or alone_s)
        return batch / step_s / roofline.value if roofline else None

    def _largest_batch(
        self, precision: Precision, outside: OutsideTorch, headroom: _Headroom, is_checkpointed: bool = False
    ) -> LargestBatch | None:
        memory = self._memory_of(precision, outside, is_checkpointed)
        if memory is None:
            return None
        for most in self._headrooms(headroom):
            if (memory, most) not in self._largest:
                self._largest[memory, most] = memory.largest_batch(most) if most > 0 else 0
        low, value, high = sorted(self._largest[memory, most] for most in self._headrooms(headroom))
        return LargestBatch(low=low, value=value, high=high)

    def _checkpointing(self) -> CheckpointingPredicted | None:
        """Return the cost of gradient checkpointing in the trace, or why it was not traced."""
        seen = self._seen.checkpointing
        if seen is None:
            return None
        why_not, extra = seen.why_not, None
        precision = next(iter(self._checkpointed), None)
        if precision is not None:
            pairs = (self._pairs[precision], self._checkpointed[precision])
            usual, more = (sum(op.flops for op in pair.second.ops) for pair in pairs)
            extra = max(0.0, more / usual - 1) if usual else None
        else:
            why_not = why_not or self._seen.why_ended or _NOT_CHECKPOINTED
        return CheckpointingPredicted(
            blocks=seen.blocks, names=seen.names, extra_flops=extra, why_not=why_not
        )

    def _headrooms(self, headroom: _Headroom) -> tuple[int, int, int]:
        """Return the memory for a prediction: with the margin against it, without, and in its favour."""
        above = 1 + self.margin - MARGIN + FAVOURABLE_MARGIN
        middle_bytes = (headroom.min_bytes + headroom.max_bytes) // 2
        return int(headroom.min_bytes / (1 + self.margin)), middle_bytes, int(headroom.max_bytes * above)

    def _peak(
        self, precision: Precision, outside: OutsideTorch, batch_size: int, headroom: _Headroom
    ) -> PeakShown:
        """Return the peak with the smallest headroom that suffices, or without a limit if none does.

        With less memory, torch frees its cache before it asks for more, so that the peak is lower.
        """
        memory = self._memory_of(precision, outside)
        assert memory is not None
        for most in self._headrooms(headroom):
            with contextlib.suppress(OutOfDeviceMemory):
                return memory.peak(batch_size, most)
        return memory.peak(batch_size)

    def _traced(self, precision: Precision, is_checkpointed: bool = False) -> Precision | None:
        """Return the traced precision that uses the same memory: either 16-bit one, or fp32 and TF32."""
        pairs = self._checkpointed if is_checkpointed else self._pairs
        return next((one for one in (precision, precision.alike) if one in pairs), None)

    def _memory_of(
        self, precision: Precision, outside: OutsideTorch, is_checkpointed: bool = False
    ) -> MemoryPrediction | None:
        traced, blas_blocks = self._traced(precision, is_checkpointed), self._blas_blocks(outside)
        if traced is None:
            return None
        key = (traced, is_checkpointed, blas_blocks)
        if key not in self._memory:
            held = [size for size in self._seen.kept or () if size not in _BLAS_BYTES]
            first, second = (
                with_more(
                    with_more(AllocationTrace.of(steps), held, Purpose.HELD), blas_blocks, Purpose.WORKSPACE
                )
                for steps in (self._checkpointed if is_checkpointed else self._pairs)[traced]
            )
            self._memory[key] = MemoryPrediction(first, second, self._seen.is_expandable)
        return self._memory[key]

    def _blas_blocks(self, outside: OutsideTorch) -> tuple[int, ...]:
        """Return cuBLAS's workspaces: one per thread if torch keeps them, else one at a time.

        A trace on a GPU shows whether it does: workspaces that are not kept are among its temporaries.
        """
        whole, is_kept = outside.blas_workspace_bytes, outside.blas_is_kept is not False
        if not whole:
            return ()
        seen, of_thread = self._seen.kept, whole // 2 if is_kept else whole
        if seen is None:
            return (of_thread, of_thread) if is_kept else (of_thread,)
        return (of_thread, of_thread) if any(size in _BLAS_BYTES for size in seen) else ()

    def _flops_per_sample(self) -> float | None:
        pair = next(iter(self._pairs.values()))
        first, second = (sum(op.flops for op in one.ops) for one in pair)
        samples = (pair.second.batch_size - pair.first.batch_size) * self._seen.batches_per_step
        return max(0.0, second - first) / samples or None

    def _loader_here(self) -> float | None:
        """Return the measured rate of the loader alone on this machine, in samples/s."""
        step_s, batch = self._isolated.loader_step_s if self._isolated else None, self._loop.batch_size
        return batch / step_s if step_s and batch else None


def _of_same_steps(pairs: Mapping[str | None, TracedPair], own: Precision) -> dict[Precision, TracedPair]:
    """Return the pairs by precision, without those whose two traces are not of the same steps.

    Raises:
        Unpredictable: none is left.
    """
    kept, why = {}, ""
    for name, pair in pairs.items():
        try:
            MemoryPrediction.of(*pair)
            ops_between(*pair, pair.first.batch_size)
        except TracesDiffer as error:
            why = why or str(error)
        else:
            kept[Precision(name) if name else own] = pair
    if not kept:
        raise Unpredictable(why)
    return kept


def _times(figure: Interval, factor: float) -> Interval:
    """Scale a rate by a factor measured at another batch size; the range also includes the unscaled rate."""
    low, high = min(1.0, factor), max(1.0, factor)
    return Interval(value=figure.value * factor, low=figure.low * low, high=figure.high * high)
