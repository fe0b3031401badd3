"""Upper bounds on the gain from fixing a cause, as a factor of the present rate; all predicted. Pure."""

import math

from tunekit.diagnose.attribution import (
    Part,
    attribution,
    copies_alone_share,
    idle_for_host,
    is_own_clock,
    ratio,
)
from tunekit.records.measurement import LoopMeasurement, Measurement


def without(measurement: Measurement, saved_s: float) -> float | None:
    """Return the factor by which the rate grows if each batch takes `saved_s` less; None if unbounded."""
    step_s = measurement.loop.step_time_s
    return _of_rate(measurement.loop, ratio(step_s, step_s - saved_s))


def data_gain(measurement: Measurement) -> float | None:
    """Return the gain from data that costs no time: 1/(1 - wait), at most the rate of training alone.

    Returns:
        The factor. None if the device's own stall was not measured and training was not timed alone, or if
        the whole step was stall.
    """
    loop, compute_s = measurement.loop, measurement.isolated.compute_step_s
    if compute_s is None and not is_own_clock(measurement):
        return None
    waited_s = attribution(measurement).stall_share * loop.step_time_s
    alone = None if compute_s is None else _of_rate(loop, ratio(loop.step_time_s, compute_s))
    return smaller(without(measurement, waited_s), alone)


def training_gain(measurement: Measurement, times: float = math.inf) -> float | None:
    """Return the gain from training that is `times` as fast: at most the rate of the loader alone.

    Returns:
        The factor. None if the whole step was training and the loader was not timed alone.
    """
    trains_s = attribution(measurement).trains_share * measurement.loop.step_time_s
    return smaller(without(measurement, trains_s * (1 - 1 / times)), loader_cap(measurement))


def workers_gain(measurement: Measurement, workers: int) -> float | None:
    """Return the largest gain from a number of workers: T / max(Tc, Tl with these workers).

    Tl is the loader sweep's. Without a sweep, the loader's time alone, or its processes' time per batch, is
    assumed to fall in proportion to the number of workers; without either, the gain is `data_gain`.
    """
    gain, loader_s = data_gain(measurement), loader_alone_s(measurement)
    if gain is None or loader_s is None:
        return gain
    loop = measurement.loop
    tried = {one.num_workers: one.step_s for one in measurement.isolated.workers}
    shared_s = tried.get(workers, loader_s * max(1, loop.num_workers) / workers)
    return smaller(gain, _of_rate(loop, ratio(loop.step_time_s, shared_s)))


def loader_alone_s(measurement: Measurement) -> float | None:
    """Return the seconds per batch of the loader alone, else those of its processes; None if unknown."""
    alone_s, work = measurement.isolated.loader_step_s, measurement.loop.loader_work
    if alone_s is not None or work is None or work.batch_s is None:
        return alone_s
    return work.batch_s / max(1, measurement.loop.num_workers)


def loader_cap(measurement: Measurement) -> float | None:
    """Return how much faster the loader alone was than the loop: T/Tl; None if it was not timed alone."""
    loop, loader_s = measurement.loop, measurement.isolated.loader_step_s
    return None if loader_s is None else _of_rate(loop, ratio(loop.step_time_s, loader_s))


def launch_gain(measurement: Measurement) -> float | None:
    """Return the gain from a device without gaps between its kernels; None without a trace.

    Tracing widens the gaps, so they are computed as an untraced step's time less device work and data wait.
    """
    if attribution(measurement).of(Part.DEVICE_IDLE) is None:
        return None
    idle_s = (idle_for_host(measurement) or 0.0) * measurement.loop.step_time_s
    return smaller(without(measurement, idle_s), loader_cap(measurement))


def copy_gain(measurement: Measurement) -> float | None:
    """Return the gain from copies that all overlap with kernels, as far as the kernels are long enough."""
    saved_s = copies_alone_share(measurement) * measurement.loop.step_time_s
    return smaller(without(measurement, saved_s), loader_cap(measurement))


def boundary_gain(loop: LoopMeasurement, saved_s: float) -> float | None:
    """Return the gain from an epoch that is `saved_s` shorter; None without a length or a timed boundary."""
    epoch_s = loop.epoch_time_s
    if epoch_s is None or loop.boundary_s is None:
        return None
    factor = ratio(epoch_s, epoch_s - saved_s)
    return None if factor is None else max(1.0, factor)


def smaller(first: float | None, second: float | None) -> float | None:
    """Return the smaller of two bounds on the same gain, ignoring unknown ones."""
    return min((one for one in (first, second) if one is not None), default=None)


def _of_rate(loop: LoopMeasurement, steady: float | None) -> float | None:
    """Convert a factor of the steady rate to one of the rate over whole epochs, with unchanged boundaries."""
    if steady is None:
        return None
    steady = max(1.0, steady)
    epoch_s, boundary_s = loop.epoch_time_s, max(0.0, loop.boundary_s or 0.0)
    if epoch_s is None or not 0 < boundary_s < epoch_s:
        return steady
    whole = ratio(epoch_s, (epoch_s - boundary_s) / steady + boundary_s)
    return steady if whole is None else min(steady, max(1.0, whole))
