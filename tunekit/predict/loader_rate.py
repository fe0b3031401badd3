"""How fast the loader would be on a GPU's usual machine, by what a batch costs here. Pure."""

import math

from tunekit.records.attribution import LoaderWork
from tunekit.records.details import IsolatedRates
from tunekit.records.interval import Interval
from tunekit.records.measurement import DryLoop, LoopMeasurement, Measurement
from tunekit.records.profile import Instance, Profile

_MIN_GAIN = 1.1
"""Of twice the workers: below it something behind the loader holds them back, such as a lock."""
_HYPERTHREAD_SHARE = 0.5
"""Of a core, that a vCPU is at least."""


def usual_instance(profile: Profile) -> Instance | None:
    """Return the cheapest machine with one GPU whose vCPUs are known; without one, the smallest there is."""
    known = [one for one in profile.instances if one.vcpus]
    return min(known, key=lambda one: (one.gpus, one.usd_per_h or math.inf), default=None)


def loader_work_of(loop: LoopMeasurement | DryLoop, isolated: IsolatedRates | None) -> LoaderWork | None:
    """Return what a batch costs in the processes that make it: by the loader alone where that was looked at.

    Beside the training both want the same CPUs, and a batch takes longer.
    """
    if isolated is not None and isolated.loader_work is not None:
        return isolated.loader_work
    return loop.loader_work if isinstance(loop, LoopMeasurement) else None


def cpus_per_worker(measurement: Measurement | None) -> float:
    """Return how many CPUs one loader worker keeps busy as a trial has shown it: few where it waits."""
    if measurement is None:
        return 1.0
    alone = next((one.loader_work for one in measurement.isolated.workers), None)
    work = alone or loader_work_of(measurement.loop, measurement.isolated)
    return work.cpus_per_worker if work else 1.0


def max_useful_workers(measurement: Measurement | None) -> float:
    """Return the workers beyond which more were seen to be hardly faster; infinite where none were."""
    points = measurement.isolated.workers if measurement else ()
    is_flat = len(points) > 1 and points[-2].step_s < _MIN_GAIN * points[-1].step_s
    return points[-1].num_workers if is_flat else math.inf


def loader_rate(
    loop: LoopMeasurement | DryLoop, work: LoaderWork | None, instance: Instance | None, batch_size: int
) -> Interval | None:
    """Return the samples/s that each GPU's share of a machine's vCPUs could load; None where not known.

    A vCPU works on a batch of its own: no more of them are at work than an epoch has batches.

    Args:
        loop: as it was here.
        work: what its batches cost here; None where that is not known.
        instance: the machine.
        batch_size: up to the samples of an epoch.
    """
    per_cpu = loader_rate_per_cpu(loop, work)
    if per_cpu is None or instance is None or instance.vcpus is None:
        return None
    vcpus = instance.vcpus / instance.gpus
    if loop.epoch_samples is not None:
        vcpus = min(vcpus, math.ceil(loop.epoch_samples / batch_size))
    return per_cpu.times(vcpus)


def loader_rate_per_cpu(loop: LoopMeasurement | DryLoop, work: LoaderWork | None) -> Interval | None:
    """Return the samples/s that one vCPU of another machine could load; None where not known.

    At most it is a core of this machine's speed that only computes; at least half a core, and batches take as
    long as they took here with whatever they waited for.
    """
    if work is None or not work.batches or not work.cpu_s or loop.batch_size is None:
        return None
    samples = work.batches * loop.batch_size
    cpu_s = min(work.cpu_s, work.time_s)
    return Interval.between(_HYPERTHREAD_SHARE * samples / work.time_s, samples / cpu_s)
