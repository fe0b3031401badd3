"""What keeps a training on several processes from being as many times as fast, and what is wrong with it."""

import math
from dataclasses import dataclass
from typing import ClassVar

from tunekit.diagnose.registry import INFO, WARNING, Hit, Hits, check, findings_of
from tunekit.predict.ram import OOM_SHARE
from tunekit.recommend.measured_scaling import Losses, losses_of
from tunekit.records.finding import Finding
from tunekit.records.scaling import ScalingMode
from tunekit.records.scaling_run import ScaledCount, ScalingRun, StepSplit
from tunekit.units import bytes_text, count_text, duration_text, share_text

NO_WRAPPER = "no-wrapper"
SAME_SAMPLES = "same-samples"

_FELT_SHARE = 0.10
"""Of an iteration, from which on a part of it is worth a word."""


@dataclass(frozen=True)
class ScalingFacts:
    """The least count beside the largest that was measured."""

    called: ClassVar[str] = "the training"
    run: ScalingRun
    least: ScaledCount
    largest: ScaledCount

    @property
    def steps(self) -> tuple[StepSplit, StepSplit]:
        """An iteration of the least count, and of the largest."""
        assert self.least.step is not None and self.largest.step is not None
        return self.least.step, self.largest.step

    @property
    def lost(self) -> Losses:
        """What an iteration of the largest count loses against linear scaling."""
        return losses_of(self.least, self.largest)

    @property
    def world_sizes(self) -> tuple[int, int]:
        """Processes of all hosts, of the least count and of the largest."""
        return self.run.world_of(self.least.processes), self.run.world_of(self.largest.processes)

    @property
    def of_host(self) -> str:
        """Whose CPUs and memory are meant, where several hosts train together."""
        return " of this host" if self.run.nodes > 1 else ""

    @property
    def is_on_cpu(self) -> bool:
        """Whether the processes compute on the CPU, which they share."""
        loops = (one.measurement.loop for one in self.run.trials if one.measurement)
        return any(loop.device.type == "cpu" for loop in loops)

    @property
    def keeps_batch(self) -> bool:
        """Whether each process has the batch that it had alone."""
        return self.run.mode is ScalingMode.WEAK


def scaling_findings(run: ScalingRun) -> tuple[Finding, ...]:
    """Return what is to be known of a measured scaling; nothing before two counts are measured."""
    least, largest = run.reference, run.largest
    found = [] if least is None or largest is None else findings_of(ScalingFacts(run, least, largest))
    return tuple(one for one in found if one.code not in run.options.ignored)


@check(SAME_SAMPLES, WARNING, "every process goes through all samples of the data set")
def _same_samples(facts: ScalingFacts) -> Hits:
    """Find a loader that doesn't share the samples out: an epoch of each process is as long as alone."""
    least, largest = facts.least, facts.largest
    if least.epoch_samples is None or largest.epoch_samples is None:
        return
    few, many = facts.world_sizes
    if largest.epoch_samples > 0.9 * least.epoch_samples:
        yield Hit(
            f"{largest.epoch_samples:,} samples an epoch in each of {many} processes, "
            f"{least.epoch_samples:,} with {count_text(few, 'process', 'processes')}",
            "give the DataLoader a torch.utils.data.DistributedSampler, which makes an epoch as many times "
            "shorter; until then the rates count the same samples several times",
            largest.epoch_samples,
        )


@check(NO_WRAPPER, WARNING, "nothing of torch's is seen to sum the gradients of the processes")
def _no_wrapper(facts: ScalingFacts) -> Hits:
    seen = facts.run.data_parallel
    if seen is not None and facts.run.is_without_wrapper:
        yield Hit(
            f"{facts.world_sizes[1]} processes in a {seen.backend} group, no DistributedDataParallel and "
            "no FSDP",
            "unless the script sums them itself, each process trains a model of its own: wrap it in "
            "torch.nn.parallel.DistributedDataParallel",
        )


@check(
    "loader-shares-cpus", WARNING, "the processes' loaders share the CPUs, and the processes wait for them"
)
def _loader_shares_cpus(facts: ScalingFacts) -> Hits:
    before, after = facts.steps
    workers, cpus, lost = facts.largest.workers, facts.run.host.cpus, facts.lost
    if not lost.is_felt(lost.data_wait_s, _FELT_SHARE) or workers is None:
        return
    wait = after.data_wait_s / after.time_s
    processes = facts.largest.processes
    on_gpu = "" if facts.is_on_cpu else ", transforms on the GPU"
    fewer = (
        f"{count_text(cpus // processes, 'worker')} a process fit the CPUs"
        if workers > cpus > processes
        else f"make samples cheaper: smaller or decoded files{on_gpu}"
    )
    few, many = facts.world_sizes
    yield Hit(
        f"{share_text(wait)} of an iteration on {many} processes waits for data, "
        f"{share_text(before.data_wait_s / before.time_s)} on {few}; {count_text(workers, 'worker')} and "
        f"{count_text(processes, 'process', 'processes')} on {count_text(cpus, 'CPU')}{facts.of_host}",
        fewer,
        wait,
        gain=lost.gain(lost.data_wait_s),
    )


@check("exposed-communication", INFO, "the backward pass does not hide the sum of the gradients")
def _exposed_communication(facts: ScalingFacts) -> Hits:
    _, after = facts.steps
    lost = facts.lost
    if after.exposed_s is None or not lost.is_felt(lost.exposed_s, _FELT_SHARE):
        return
    knobs = "" if facts.run.options.tries_knobs else ", try DDP's settings with --knobs"
    yield Hit(
        f"{duration_text(after.exposed_s)} of {duration_text(after.time_s)} an iteration on "
        f"{facts.world_sizes[1]} processes",
        f"accumulate gradients under no_sync(), or take a larger batch: both sum them less often{knobs}",
        after.exposed_s / after.time_s,
        gain=lost.gain(lost.exposed_s),
    )


@check("processes-share-cpu", INFO, "the processes compute on CPUs that one of them alone could use too")
def _share_cpu(facts: ScalingFacts) -> Hits:
    threads, processes, cpus = facts.largest.threads, facts.largest.processes, facts.run.host.cpus
    if not facts.is_on_cpu or threads is None or processes * threads <= cpus:
        return
    fewer = f"train with no more than {count_text(cpus, 'process', 'processes')} here"
    one_each = f"{fewer}, one for each CPU" + (", and set OMP_NUM_THREADS=1" if threads > 1 else "")
    yield Hit(
        f"{count_text(processes, 'process', 'processes')} x {count_text(threads, 'thread')} on "
        f"{count_text(cpus, 'CPU')}{facts.of_host}",
        one_each if processes > cpus else f"set OMP_NUM_THREADS={cpus // processes}",
        processes * threads / cpus,
    )


@check("slower-side-by-side", INFO, "each process computes slower when there are more of them")
def _slower_side_by_side(facts: ScalingFacts) -> Hits:
    before, after = facts.steps
    if not facts.keeps_batch or after.exposed_s is None or not before.compute_s:
        return
    factor = after.compute_s / before.compute_s
    few, many = facts.world_sizes
    if factor > 1 + _FELT_SHARE:
        shared = (
            "the CPUs' caches, memory and clock"
            if facts.is_on_cpu
            else "CPUs, and the GPUs their power and heat"
        )
        yield Hit(
            f"{duration_text(after.compute_s)} an iteration on {many} processes, without summing gradients; "
            f"{duration_text(before.compute_s)} on {few}",
            f"they share {shared}: `tunekit doctor` looks for other programs and limits",
            factor,
        )


@check(
    "threads-differ",
    INFO,
    "each process computes with another number of CPU threads when there are more processes",
)
def _threads_differ(facts: ScalingFacts) -> Hits:
    alone, beside = facts.least.threads, facts.largest.threads
    few, many = facts.world_sizes
    if alone is not None and beside is not None and alone != beside:
        yield Hit(
            f"{count_text(beside, 'thread')} on {many} processes, {alone} on {few}",
            f"set OMP_NUM_THREADS={max(1, facts.run.host.cpus // facts.largest.processes)} for all of them",
            beside / alone,
        )


@check("global-batch-kept", INFO, "the script keeps the global batch: its processes share it")
def _global_batch_kept(facts: ScalingFacts) -> Hits:
    if facts.keeps_batch or facts.run.options.mode is ScalingMode.STRONG:
        return
    few, many = facts.world_sizes
    yield Hit(
        f"batch {facts.least.batch_size} on {few}, {facts.largest.batch_size} on {many}",
        "so this is strong scaling; for weak scaling give the script a batch that is as many times larger",
    )


@check("lr-follows-processes", INFO, "the script sets another learning rate on more processes by itself")
def _lr_follows(facts: ScalingFacts) -> Hits:
    rates = {one.number: one.learning_rate for one in facts.run.trials}
    before, after = (
        next((rates[one] for one in count.trials if rates.get(one) is not None), None)
        for count in (facts.least, facts.largest)
    )
    if before and after and not math.isclose(before, after, rel_tol=1e-6):
        few, many = facts.world_sizes
        yield Hit(
            f"lr {before:.3g} on {few}, {after:.3g} on {many}",
            "it needs no rule of ours on top",
            after / before,
        )


@check("ram-of-all-processes", WARNING, "the processes take most of the RAM together")
def _ram(facts: ScalingFacts) -> Hits:
    ram_bytes, limit_bytes = facts.largest.ram_bytes, facts.run.host.ram_limit_bytes
    if ram_bytes is not None and ram_bytes > OOM_SHARE * limit_bytes:
        yield Hit(
            f"{bytes_text(ram_bytes)} of {bytes_text(limit_bytes)} with "
            f"{count_text(facts.largest.processes, 'process', 'processes')}{facts.of_host}",
            "use fewer workers or a smaller prefetch_factor in each process",
            ram_bytes / limit_bytes,
        )
