"""Checks a training on several processes: what keeps it from scaling linearly, and what is wrong with it."""

import math
from dataclasses import dataclass
from typing import ClassVar

from tunekit.diagnose.policy import FELT_OF_ITERATION, SAME_EPOCH
from tunekit.diagnose.registry import INFO, WARNING, Hit, Hits, check, findings_of
from tunekit.predict.ram import OOM_SHARE
from tunekit.recommend.measured_scaling import Losses, losses_of
from tunekit.records.finding import Finding
from tunekit.records.scaling import ScalingMode
from tunekit.records.scaling_run import ScaledCount, ScalingRun, StepSplit
from tunekit.units import bytes_text, count_text, duration_text, share_text

NO_WRAPPER = "no-wrapper"
SAME_SAMPLES = "same-samples"


@dataclass(frozen=True)
class ScalingFacts:
    """The smallest and the largest measured number of processes."""

    called: ClassVar[str] = "the training"
    run: ScalingRun
    least: ScaledCount
    largest: ScaledCount

    @property
    def steps(self) -> tuple[StepSplit, StepSplit]:
        """How an iteration splits up, for the smallest and for the largest count."""
        assert self.least.step is not None and self.largest.step is not None
        return self.least.step, self.largest.step

    @property
    def lost(self) -> Losses:
        """What an iteration with the largest count loses compared with linear scaling."""
        return losses_of(self.least, self.largest)

    def against(self, largest: str, least: str) -> str:
        """Return the figures of the largest and of the smallest count in one phrase."""
        return f"{largest} on {_processes(self.largest)}, {least} on {self.least.processes}"


def _processes(count: ScaledCount) -> str:
    return count_text(count.processes, "process", "processes")


def scaling_findings(run: ScalingRun) -> tuple[Finding, ...]:
    """Return the findings about a measured scaling; empty before two counts are measured."""
    least, largest = run.reference, run.largest
    found = [] if least is None or largest is None else findings_of(ScalingFacts(run, least, largest))
    return tuple(one for one in found if one.code not in run.options.ignored)


@check(SAME_SAMPLES, WARNING, "every process goes through all samples of the data set")
def _same_samples(facts: ScalingFacts) -> Hits:
    """Find a loader that doesn't divide the samples: each process's epoch is as long as a single one's."""
    alone, beside = facts.least.epoch_samples, facts.largest.epoch_samples
    if alone is not None and beside is not None and beside > SAME_EPOCH * alone:
        yield Hit(
            facts.against(f"{beside:,} samples per epoch and process", f"{alone:,}"),
            "give the DataLoader a torch.utils.data.DistributedSampler",
            beside,
        )


@check(NO_WRAPPER, WARNING, "no DistributedDataParallel and no FSDP sums the gradients of the processes")
def _no_wrapper(facts: ScalingFacts) -> Hits:
    seen = facts.run.data_parallel
    if seen is not None and facts.run.is_without_wrapper:
        yield Hit(
            f"{_processes(facts.largest)} in a {seen.backend} group",
            "unless the script sums them itself, each process trains its own model: wrap it in "
            "torch.nn.parallel.DistributedDataParallel",
        )


@check("loader-shares-cpus", WARNING, "the loaders of all processes share the CPUs and are too slow")
def _loader_shares_cpus(facts: ScalingFacts) -> Hits:
    before, after = facts.steps
    workers, cpus, lost = facts.largest.workers, facts.run.host.cpus, facts.lost
    if not lost.is_felt(lost.data_wait_s, FELT_OF_ITERATION) or workers is None:
        return
    wait, processes = after.data_wait_s / after.time_s, facts.largest.processes
    remedy = "make samples cheaper: smaller or decoded files"
    if workers > cpus > processes:
        remedy = f"use {count_text(cpus // processes, 'worker')} per process"
    alone = share_text(before.data_wait_s / before.time_s)
    waits = facts.against(f"{share_text(wait)} of an iteration waits for data", alone)
    seen = f"{waits}; {count_text(workers, 'worker')} on {count_text(cpus, 'CPU')}"
    yield Hit(seen, remedy, wait, lost.gain(lost.data_wait_s))


@check("exposed-communication", INFO, "the backward pass does not hide the sum of the gradients")
def _exposed_communication(facts: ScalingFacts) -> Hits:
    (_, after), lost = facts.steps, facts.lost
    if after.exposed_s is not None and lost.is_felt(lost.exposed_s, FELT_OF_ITERATION):
        yield Hit(
            f"{duration_text(after.exposed_s)} of {duration_text(after.time_s)} per iteration on "
            f"{_processes(facts.largest)}",
            "sum gradients less often: accumulate them under no_sync(), or use a larger batch",
            after.exposed_s / after.time_s,
            gain=lost.gain(lost.exposed_s),
        )


@check("processes-share-cpu", INFO, "the processes compute with more threads than there are CPUs")
def _share_cpu(facts: ScalingFacts) -> Hits:
    threads, processes, cpus = facts.largest.threads, facts.largest.processes, facts.run.host.cpus
    devices = {one.measurement.loop.device.type for one in facts.run.trials if one.measurement}
    if "cpu" not in devices or threads is None or processes * threads <= cpus:
        return
    remedy = f"set OMP_NUM_THREADS={max(1, cpus // processes)}, with at most {cpus} processes"
    seen = f"{_processes(facts.largest)} x {count_text(threads, 'thread')} on {count_text(cpus, 'CPU')}"
    yield Hit(seen, remedy, processes * threads / cpus)


@check("global-batch-kept", INFO, "the script keeps the global batch: its processes share it")
def _global_batch_kept(facts: ScalingFacts) -> Hits:
    if facts.run.mode is ScalingMode.STRONG and facts.run.options.mode is ScalingMode.WEAK:
        yield Hit(
            facts.against(f"batch {facts.largest.batch_size}", f"{facts.least.batch_size}"),
            "this is strong scaling; for weak scaling multiply the script's batch by the processes",
        )


@check("lr-follows-processes", INFO, "the script changes the learning rate with the number of processes")
def _lr_follows(facts: ScalingFacts) -> Hits:
    rates = {one.number: one.learning_rate for one in facts.run.trials}
    before, after = (
        next((rate for one in count.trials if (rate := rates.get(one)) is not None), None)
        for count in (facts.least, facts.largest)
    )
    if before and after and not math.isclose(before, after, rel_tol=1e-6):
        yield Hit(
            facts.against(f"lr {after:.3g}", f"{before:.3g}"), "don't scale it a second time", after / before
        )


@check("ram-of-all-processes", WARNING, "the processes take most of the RAM together")
def _ram(facts: ScalingFacts) -> Hits:
    ram_bytes, limit_bytes = facts.largest.ram_bytes, facts.run.host.ram_limit_bytes
    if ram_bytes is not None and ram_bytes > OOM_SHARE * limit_bytes:
        seen = f"{bytes_text(ram_bytes)} of {bytes_text(limit_bytes)} with {_processes(facts.largest)}"
        yield Hit(seen, "use fewer workers or a smaller prefetch_factor in each process")
