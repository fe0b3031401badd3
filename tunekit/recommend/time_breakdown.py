"""Where a loop's time goes, for the same number of samples in any config. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean

from tunekit.records.measurement import LoopMeasurement

SAMPLES = 1000
"""Batch sizes differ between configs, so all times are for this many samples."""

Seconds = Callable[[LoopMeasurement], float]
"""Seconds of one part, for a thousand samples of all ranks."""


def _of_host(name: str) -> Seconds:
    return lambda loop: SAMPLES * float(getattr(loop.parts, name)) / loop.steady_samples / loop.world_size


def _of_device(name: str) -> Seconds:
    def seconds(loop: LoopMeasurement) -> float:
        seen = loop.device_parts
        assert seen is not None
        samples = seen.batches * loop.steady_samples / loop.steady_batches
        return SAMPLES * float(getattr(seen, name)) / samples / loop.world_size

    return seconds


_NAMES = {"transfer, forward, backward": "compute_s", "optimizer": "optimizer_s", "other": "other_s"}

HOST_PARTS: Mapping[str, Seconds] = {
    "data wait": _of_host("data_wait_s"),
    **{label: _of_host(name) for label, name in _NAMES.items()},
}
"""Parts by the host's clock; they add up to the steady window."""

DEVICE_PARTS: Mapping[str, Seconds] = {
    "data wait": _of_device("stall_s"),
    **{label: _of_device(name) for label, name in _NAMES.items()},
}
"""Parts by the device's clock: the host only queues work for a GPU, and waits wherever the queue is full."""


def boundary_s(loop: LoopMeasurement) -> float:
    """Return the time that epoch boundaries add per thousand samples; 0 if unknown.

    If boundaries vary, it may be negative.
    """
    if loop.epoch_samples_total is None:
        return 0.0
    return SAMPLES * (loop.boundary_s or 0.0) / loop.epoch_samples_total


def have_device_parts(loops: Iterable[LoopMeasurement]) -> bool:
    """Return whether all loops have device times."""
    return all(loop.device_parts is not None and loop.device_parts.batches for loop in loops)


def mean_s(loops: Sequence[LoopMeasurement], seconds: Seconds) -> float:
    """Return the mean of a part over processes."""
    return fmean(map(seconds, loops))
