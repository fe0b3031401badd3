"""What one trial measured: its loop from inside, its process tree and its machine from outside."""

from collections.abc import Iterable
from statistics import fmean

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from tunekit.records.attribution import BatchSeen, DeviceParts, LoaderWork, ModelBytes, StepParts
from tunekit.records.base import Record
from tunekit.records.config import LoaderKnobs
from tunekit.records.data_parallel import DataParallelSeen, RankSeen
from tunekit.records.details import Details, IsolatedRates
from tunekit.records.host import GpuProcess
from tunekit.units import MIB


class DeviceSeen(Record):
    """The device that the training loop ran on."""

    type: str
    name: str
    memory_bytes: PositiveInt | None
    """Memory that torch sees on the device, or was held to; None on a CPU."""
    free_bytes: PositiveInt | None = None
    """What torch had of that memory or could still take; None where it was not asked."""
    uuid: str | None = None
    """As torch writes it, without "GPU-"; None on a CPU and from torch below 2.4."""
    pci_bus_id: str | None = None
    """Such as "00000000:65:00.0"; None on a CPU and from torch below 2.8."""

    @property
    def usable_bytes(self) -> int | None:
        """What torch can reserve: its own context and other processes have the rest; None on a CPU."""
        return min((one for one in (self.memory_bytes, self.free_bytes) if one is not None), default=None)


THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OMP_THREAD_LIMIT",
    "OMP_DYNAMIC",
    "OMP_WAIT_POLICY",
    "OMP_PROC_BIND",
    "OMP_PLACES",
    "GOMP_CPU_AFFINITY",
    "GOMP_SPINCOUNT",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "MKL_NUM_THREADS",
    "MKL_DYNAMIC",
    "OPENBLAS_NUM_THREADS",
)
"""What of the environment decides how many threads compute on the CPU, where they run and how they wait."""
_MAX_VARIABLES = 32
"""In a record, however many there were when it was saved."""


class Threads(Record):
    """CPU threads of the training process, as they were in its loop."""

    intra_op: PositiveInt
    """torch.get_num_threads()."""
    inter_op: PositiveInt
    """torch.get_num_interop_threads()."""
    variables: dict[str, str] = Field(default_factory=dict, max_length=_MAX_VARIABLES)
    """Of THREAD_VARIABLES those that were set there; a launcher sets some, as torchrun does."""


GROWING_EPOCHS = 32
"""torch hands out 32 CUDA streams in turn (kStreamsPerPool in c10/cuda/CUDAStream.cpp), each with a pool of
memory: one more an epoch is one that was there before after as many."""
_MAX_RANKS = 1024
_MIN_UNLIKE = 1.05
"""Ratio of two ranks' batches: by less they differ where a last one is not full, or where lengths vary."""


class LoopMeasurement(LoaderKnobs):
    """The training loop, as the agent saw it from inside the process."""

    device: DeviceSeen
    world_size: PositiveInt = 1
    """Ranks of the training; rank 0 is measured, peaks are the maximum over ranks."""
    data_parallel: DataParallelSeen | None = None
    """What trained them together; None of one process without a group or a wrapper."""
    ranks: tuple[RankSeen, ...] = Field(default=(), max_length=_MAX_RANKS)
    """Those that ran here, rank 0 first; empty of one process, and in a window too short to time each."""
    has_loader: bool = True
    """Whether a DataLoader makes the batches; the script by itself otherwise."""
    compile_graphs: NonNegativeInt
    """Graphs that torch.compile captured in this process."""
    float32_matmul_precision: str | None
    threads: Threads | None = None

    steady_batches: PositiveInt
    """Loop batches in the steady window."""
    steady_samples: PositiveInt
    steady_time_s: PositiveFloat
    rate_interval_relative: NonNegativeFloat | None
    """Half width of the 95% interval of the steady rate, as a share of it.

    Batch means, adjusted for skewness and correlation; of this process alone: others may differ.
    """
    rate_trend_relative: float | None = None
    """How much longer the window's last batches took than its first; 0 if that may be chance."""
    stop_reason: str
    """Why the window closed: "interval", "time_cap", "loop_ended" or, surely too slow, "abandoned"."""
    discarded_batches: NonNegativeInt
    """Batches that the loop trained on before the window opened."""
    parts: StepParts
    """Where the steady window's time went, by the host's clock."""
    device_parts: DeviceParts | None = None
    """The same by the device's; None on a CPU."""
    loader_work: LoaderWork | None = None
    """None where the loader's processes could not be looked into."""

    epoch_samples: PositiveInt | None
    """Samples per epoch and rank; None for a data set without a length of which no whole epoch was seen."""
    epoch_batches: PositiveInt | None
    boundary_s: float | None
    """Cost of one epoch boundary beyond steady steps: worker shut-down, start-up and refill."""
    boundary_deviation_s: NonNegativeFloat | None = None
    """Standard deviation of that cost from boundary to boundary; None with fewer than two."""
    boundaries_seen: NonNegativeInt

    startup_s: NonNegativeFloat
    """From process start to the first batch asked for."""
    first_batch_s: NonNegativeFloat
    first_step_s: NonNegativeFloat
    """From the first batch at hand to the end of the first optimizer step, compilation included."""
    recompile_s: NonNegativeFloat = 0.0
    """What later batches took beyond a steady one because torch.compile captured further graphs."""
    batch_bytes: NonNegativeInt
    """Bytes of one full batch, walked in the real batch."""
    batch: BatchSeen | None = None
    """That batch, leaf by leaf; None for a loop without a DataLoader."""
    model: ModelBytes | None = None
    peak_allocated_bytes: NonNegativeInt | None
    peak_reserved_bytes: NonNegativeInt | None
    allocation_retries: NonNegativeInt | None
    growth_bytes_per_batch: NonNegativeFloat = 0.0
    """What each batch adds until its epoch ends: of the device's memory, without a GPU of the process's."""
    growth_bytes_per_epoch: NonNegativeInt | None = None
    """What torch reserves more of the device in each epoch, its tensors as large as before; None where the
    window saw no epoch begin."""
    losses: tuple[float | None, ...] = Field(default=(), max_length=256)
    """Of the first backward passes, in order; None for one that was NaN or infinite."""
    script_steps: NonNegativeInt
    """Optimizer steps that the process made in all."""

    @property
    def once_s(self) -> float:
        """Seconds of the first step and of later compilation: a training pays them once."""
        return self.first_step_s + self.recompile_s

    @property
    def growth_bytes(self) -> int:
        """What memory grows by, in an epoch and over epochs, beyond the peak that was seen; predicted."""
        batches = max(0, (self.epoch_batches or 0) - self.steady_batches)
        epochs = max(0, GROWING_EPOCHS - 1 - self.boundaries_seen)
        return round(batches * self.growth_bytes_per_batch + epochs * (self.growth_bytes_per_epoch or 0))

    @property
    def is_abandoned(self) -> bool:
        """Whether the window was given up early because the loop was surely too slow."""
        return self.stop_reason == "abandoned"

    @property
    def step_time_s(self) -> float:
        """Seconds per loop batch in the steady window."""
        return self.steady_time_s / self.steady_batches

    @property
    def data_wait_share(self) -> float | None:
        """Share of the steady window that waits for data; None without a DataLoader."""
        return min(1.0, self.parts.data_wait_s / self.steady_time_s) if self.has_loader else None

    @property
    def bytes_per_sample(self) -> float:
        """Bytes of one sample in a batch."""
        return self.batch_bytes * self.steady_batches / self.steady_samples

    @property
    def shared_bytes_per_sample(self) -> float:
        """What one sample takes in /dev/shm on its way from a worker; its own bytes where that is unknown."""
        return self.batch.shared_bytes / self.batch.samples if self.batch else self.bytes_per_sample

    @property
    def epoch_samples_total(self) -> int | None:
        """Samples per epoch over all ranks; None for a data set without a length."""
        return None if self.epoch_samples is None else self.world_size * self.epoch_samples

    @property
    def epoch_time_s(self) -> float | None:
        """Seconds of one whole epoch, its boundary included; None without an epoch length."""
        if self.epoch_samples is None:
            return None
        steady_s = self.epoch_samples * self.steady_time_s / self.steady_samples
        return max(steady_s + (self.boundary_s or 0.0), 1e-9)

    @property
    def rate_samples_per_s(self) -> float:
        """The objective: samples/s of all ranks over whole epochs, boundary cost included.

        Ranks on other hosts are taken to be as fast as those here.
        """
        return self.world_size * self.rank_rate_samples_per_s * self._ranks_mean_over_first

    @property
    def _ranks_mean_over_first(self) -> float:
        """The mean rate of the ranks over that of the first; 1 where they were not timed.

        Ranks that sum their gradients make their steps together: what each takes in one then says more than
        their clocks.
        """
        each = [one.batch_samples for one in self.ranks if one.batch_samples is not None]
        seen = self.data_parallel
        if (seen is not None and seen.syncs_gradients is False) or len(each) < len(self.ranks):
            each = [one.samples_per_s for one in self.ranks]
        elif each and max(each) < _MIN_UNLIKE * min(each):
            return 1.0
        return fmean(each) / each[0] if each else 1.0

    @property
    def slowest_rank_share(self) -> float | None:
        """Rate of the slowest rank over their mean, None where they were not timed.

        Ranks that sum their gradients go at the pace of the slowest, all at one rate; apart they show it.
        """
        if not self.ranks:
            return None
        rates = [one.samples_per_s for one in self.ranks]
        return min(rates) / fmean(rates)

    @property
    def rank_rate_samples_per_s(self) -> float:
        """Samples/s of one rank over whole epochs, boundary cost included."""
        epoch_time_s = self.epoch_time_s
        if epoch_time_s is None or self.epoch_samples is None:
            return self.steady_samples / self.steady_time_s
        return self.epoch_samples / epoch_time_s

    @property
    def epoch_it_per_s(self) -> float:
        """Loop batches per second over whole epochs."""
        return self.rank_rate_samples_per_s * self.steady_batches / self.steady_samples


def samples_of_epoch(loops: Iterable[LoopMeasurement]) -> int | None:
    """Return the samples that an epoch trains on over all ranks, by the first loop that knows; else None."""
    return next((one.epoch_samples_total for one in loops if one.epoch_samples is not None), None)


class DryLoop(Record):
    """A training loop whose arithmetic was skipped from its first forward on: shapes, and no rate."""

    device: DeviceSeen
    batch_size: PositiveInt | None
    """Of the training loader; None when the script batches by itself."""
    batch_samples: PositiveInt
    """In the batch that was seen last."""
    num_workers: NonNegativeInt
    epoch_samples: PositiveInt | None
    """Samples per epoch and rank; None for a data set without a length."""
    startup_s: NonNegativeFloat
    """From process start to the first batch asked for."""
    first_batch_s: NonNegativeFloat
    script_steps: NonNegativeInt
    """Optimizer steps that the process went through."""


class TreeMemory(Record):
    """Host memory of the trial's whole process tree, as the parent saw it from outside."""

    peak_pss_bytes: NonNegativeInt
    """Largest proportional set size summed over the tree that was read, or bounded from below."""
    peak_shm_bytes: NonNegativeInt
    """Largest growth of /dev/shm during the trial."""
    processes: NonNegativeInt
    """Most processes seen at once."""
    samples: NonNegativeInt = Field(description="readings taken")


class Measurement(Record):
    """One trial's figures: the loop from inside, the tree from outside."""

    loop: LoopMeasurement
    memory: TreeMemory
    details: Details | None = None
    """What was looked at afterwards; None where nothing was asked for."""

    @property
    def isolated(self) -> IsolatedRates:
        """What either half of the loop took alone; empty where that was not looked at."""
        return (self.details and self.details.floors) or IsolatedRates()

    @property
    def rate_samples_per_s(self) -> float:
        """The objective: samples/s over whole epochs."""
        return self.loop.rate_samples_per_s


class DryRun(Record):
    """What one trial saw of a loop without its arithmetic."""

    loop: DryLoop
    details: Details
    is_whole: bool = True
    """Whether all was looked at that was asked for, before the script ended or was ended."""


class GpuTelemetry(Record):
    """One GPU over the measured window. None is a counter that the device or driver does not have."""

    index: NonNegativeInt
    """Its place in the driver's order."""
    is_used: bool
    """Whether the trial computed on it, by its processes' memory there, or by memory that came with it."""
    utilization_percent: NonNegativeFloat | None = None
    """Mean share of time in which any kernel ran: busy, not how busy."""
    sm_activity_percent: NonNegativeFloat | None = None
    """Mean share of multiprocessors with work (GPM, Hopper and newer)."""
    tensor_activity_percent: NonNegativeFloat | None = None
    dram_activity_percent: NonNegativeFloat | None = None
    peak_used_bytes: NonNegativeInt | None = None
    """Of all processes."""
    peak_tree_bytes: NonNegativeInt | None = None
    """Of the trial's processes, their CUDA contexts included; None where the driver does not tell."""
    power_w: NonNegativeFloat | None = None
    """Mean of the driver's samples, which cover a part of the time only (arXiv 2312.02741)."""
    max_temperature_c: float | None = None
    sm_clock_mhz: NonNegativeFloat | None = None
    """Mean; the next four are of the window's first and last third, None in one of fewer than six samples."""
    first_sm_clock_mhz: NonNegativeFloat | None = None
    last_sm_clock_mhz: NonNegativeFloat | None = None
    first_temperature_c: float | None = None
    last_temperature_c: float | None = None
    throttle_reasons: tuple[str, ...] = ()
    """Every reason seen in the window, by NVML's names."""
    pcie_tx_mb_per_s: NonNegativeFloat | None = None
    pcie_rx_mb_per_s: NonNegativeFloat | None = None
    neighbours: tuple[GpuProcess, ...] = ()
    """Other processes that started on it during the trial, each with the memory that it had last."""


class HostTelemetry(Record):
    """The trial's process tree over the measured window."""

    cpu_cores: NonNegativeFloat | None = None
    """CPU seconds of the whole tree per second."""
    read_bytes_per_s: NonNegativeFloat | None = None
    """Fetched from storage."""
    rchar_bytes_per_s: NonNegativeFloat | None = None
    """Asked for by read calls, wherever they were served from; mapped files are not in it."""

    @property
    def unfetched_share(self) -> float | None:
        """Share of what was read that no disk and no NFS server was asked for.

        That is the page cache's, mostly; pipes, and file systems in user space, which the kernel does not
        count, are in it too. None when less than 1 MiB/s was read.
        """
        if self.rchar_bytes_per_s is None or self.rchar_bytes_per_s < MIB or self.read_bytes_per_s is None:
            return None
        return max(0.0, 1.0 - self.read_bytes_per_s / self.rchar_bytes_per_s)


class Telemetry(Record):
    """One trial's time series in a few figures; the series are in telemetry.zarr."""

    window_s: NonNegativeFloat
    """Time between the first and the last sample that the figures are of."""
    samples: PositiveInt
    is_of_steady_window: bool
    """Whether they are of the steady window; else of the whole trial, which was too short for two samples."""
    cost_cpu_s: NonNegativeFloat
    """CPU time that sampling took in tunekit's own process."""
    host: HostTelemetry
    gpus: tuple[GpuTelemetry, ...] = ()
