"""Predicts the loader's rate on a GPU's usual machine from the cost of a batch here. Pure."""

import math

from tunekit.records.attribution import LoaderWork
from tunekit.records.details import IsolatedRates
from tunekit.records.interval import Interval
from tunekit.records.measurement import DryLoop, LoopMeasurement, Measurement
from tunekit.records.profile import Instance, Profile

_MIN_GAIN = 1.1
"""Minimum gain from doubling the workers; with less, something such as a lock limits them."""
_HYPERTHREAD_SHARE = 0.5
"""Minimum speed of a vCPU as a share of a core's."""


def usual_instance(profile: Profile) -> Instance | None:
    """Return the cheapest single-GPU machine with known vCPUs; without one, that with the fewest GPUs."""
    known = [one for one in profile.instances if one.vcpus]
    return min(known, key=lambda one: (one.gpus, one.usd_per_h or math.inf), default=None)


def loader_work_of(loop: LoopMeasurement | DryLoop, isolated: IsolatedRates | None) -> LoaderWork | None:
    """Return the work of making batches, measured with the loader alone if possible.

    During training, both compete for the same CPUs, and a batch takes longer.
    """
    if isolated is not None and isolated.loader_work is not None:
        return isolated.loader_work
    return loop.loader_work if isinstance(loop, LoopMeasurement) else None


def cpus_per_worker(measurement: Measurement | None) -> float:
    """Return how many CPUs one loader worker kept busy in a trial: below 1 if it waits."""
    if measurement is None:
        return 1.0
    alone = next((one.loader_work for one in measurement.isolated.workers), None)
    work = alone or loader_work_of(measurement.loop, measurement.isolated)
    return work.cpus_per_worker if work else 1.0


def max_useful_workers(measurement: Measurement | None) -> float:
    """Return the number of workers beyond which more were hardly faster; infinite if there is none."""
    points = measurement.isolated.workers if measurement else ()
    is_flat = len(points) > 1 and points[-2].step_s < _MIN_GAIN * points[-1].step_s
    return points[-1].num_workers if is_flat else math.inf


def loader_rate(
    loop: LoopMeasurement | DryLoop, work: LoaderWork | None, instance: Instance | None, batch_size: int
) -> Interval | None:
    """Return the loading rate of each GPU's share of a machine's vCPUs, in samples/s; None if unknown.

    Each vCPU works on a separate batch, so no more are busy than an epoch has batches.

    Args:
        loop: the loop as measured here.
        work: the cost of its batches here; None if unknown.
        instance: the machine.
        batch_size: at most the samples of an epoch.
    """
    per_cpu = loader_rate_per_cpu(loop, work)
    if per_cpu is None or instance is None or instance.vcpus is None:
        return None
    vcpus = instance.vcpus / instance.gpus
    if loop.epoch_samples is not None:
        vcpus = min(vcpus, math.ceil(loop.epoch_samples / batch_size))
    return per_cpu.times(vcpus)


def loader_rate_per_cpu(loop: LoopMeasurement | DryLoop, work: LoaderWork | None) -> Interval | None:
    """Return the rate at which one vCPU of another machine could load, in samples/s; None if unknown.

    The upper bound assumes a core of this machine's speed that never waits; the lower bound assumes half a
    core, and batches that take as long as here, including their waits.
    """
    if work is None or not work.batches or not work.cpu_s or loop.batch_size is None:
        return None
    samples = work.batches * loop.batch_size
    cpu_s = min(work.cpu_s, work.time_s)
    return Interval.between(_HYPERTHREAD_SHARE * samples / work.time_s, samples / cpu_s)
