"""What one trial measured: the loop from inside, the process tree and the machine from outside."""

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
    """Memory that torch sees on the device, or the limit it was given; None on a CPU."""
    free_bytes: PositiveInt | None = None
    """torch's reserved memory plus free memory; None if it wasn't read."""
    uuid: str | None = None
    """As torch writes it, without "GPU-"; None on a CPU and from torch below 2.4."""
    pci_bus_id: str | None = None
    """Such as "00000000:65:00.0"; None on a CPU and from torch below 2.8."""

    @property
    def usable_bytes(self) -> int | None:
        """What torch can reserve; the CUDA context and other processes hold the rest. None on a CPU."""
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
"""Environment variables that control how many CPU threads compute, where they run and how they wait."""
_MAX_VARIABLES = 32
"""The most that a record may hold."""


class Threads(Record):
    """CPU threads of the training process while its loop ran."""

    intra_op: PositiveInt
    """torch.get_num_threads()."""
    inter_op: PositiveInt
    """torch.get_num_interop_threads()."""
    variables: dict[str, str] = Field(default_factory=dict, max_length=_MAX_VARIABLES)
    """Those THREAD_VARIABLES that were set there; launchers such as torchrun set some."""


GROWING_EPOCHS = 32
"""torch hands out 32 CUDA streams in turn (kStreamsPerPool in c10/cuda/CUDAStream.cpp), each with a memory
pool. A loop that takes a new stream per epoch reuses the first one after this many epochs."""
_MAX_RANKS = 1024
_MIN_UNLIKE = 1.05
"""Ratio of two ranks' batch sizes; smaller differences come from a partial last batch or varying lengths."""


class LoopMeasurement(LoaderKnobs):
    """The training loop, as the agent saw it from inside the process."""

    device: DeviceSeen
    world_size: PositiveInt = 1
    """Number of ranks; rank 0 is measured, peaks are the maximum over ranks."""
    data_parallel: DataParallelSeen | None = None
    """How the ranks train together; None for one process without a group or a wrapper."""
    ranks: tuple[RankSeen, ...] = Field(default=(), max_length=_MAX_RANKS)
    """The ranks on this host, rank 0 first; empty for one process, or if the window was too short to time
    each."""
    processes_apart: PositiveInt = 1
    """Processes of the command that train at once without a process group; the figures are of one of them."""
    has_loader: bool = True
    """Whether a DataLoader makes the batches; otherwise the script does."""
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

    Computed from batch means, adjusted for skewness and correlation. It covers this process only: others
    may differ.
    """
    rate_trend_relative: float | None = None
    """How much longer the window's last batches took than its first, as a share; 0 if that may be chance."""
    stop_reason: str
    """Why the window closed: "interval", "time_cap", "loop_ended" or, if clearly too slow, "abandoned"."""
    discarded_batches: NonNegativeInt
    """Batches that the loop processed before the window opened."""
    parts: StepParts
    """Where the steady window's time went, by the host's clock."""
    device_parts: DeviceParts | None = None
    """The same by the device's clock; None on a CPU."""
    loader_work: LoaderWork | None = None
    """What making batches cost; None if the loader's processes could not be inspected."""

    epoch_samples: PositiveInt | None
    """Samples per epoch and rank; None if the data set has no length and no whole epoch was seen."""
    epoch_batches: PositiveInt | None
    boundary_s: float | None
    """Cost of one epoch boundary beyond steady steps: worker shut-down, start-up and refill."""
    boundary_deviation_s: NonNegativeFloat | None = None
    """Standard deviation of that cost over boundaries; None with fewer than two."""
    boundaries_seen: NonNegativeInt

    startup_s: NonNegativeFloat
    """From process start to the first request for a batch."""
    first_batch_s: NonNegativeFloat
    first_step_s: NonNegativeFloat
    """From receiving the first batch to the end of the first optimizer step, compilation included."""
    recompile_s: NonNegativeFloat = 0.0
    """Extra time that later batches took because torch.compile captured more graphs."""
    batch_bytes: NonNegativeInt
    """Bytes of one full batch, summed over its tensors and other leaves."""
    batch: BatchSeen | None = None
    """That batch, leaf by leaf; None for a loop without a DataLoader."""
    model: ModelBytes | None = None
    peak_allocated_bytes: NonNegativeInt | None
    peak_reserved_bytes: NonNegativeInt | None
    allocation_retries: NonNegativeInt | None
    growth_bytes_per_batch: NonNegativeFloat = 0.0
    """Memory that each batch adds until its epoch ends: device memory, or process memory without a GPU."""
    growth_bytes_per_epoch: NonNegativeInt | None = None
    """Additional device memory that torch reserves per epoch although its tensors don't grow; None if no
    epoch began within the window."""
    losses: tuple[float | None, ...] = Field(default=(), max_length=256)
    """Losses of the first backward passes, in order; None for a NaN or infinite one."""
    script_steps: NonNegativeInt
    """Total optimizer steps of the process."""

    @property
    def once_s(self) -> float:
        """Seconds of the first step and of later compilation, which a training pays once."""
        return self.first_step_s + self.recompile_s

    @property
    def growth_bytes(self) -> int:
        """Predicted memory growth beyond the observed peak, within an epoch and over epochs."""
        batches = max(0, (self.epoch_batches or 0) - self.steady_batches)
        epochs = max(0, GROWING_EPOCHS - 1 - self.boundaries_seen)
        return round(batches * self.growth_bytes_per_batch + epochs * (self.growth_bytes_per_epoch or 0))

    @property
    def is_abandoned(self) -> bool:
        """Whether the window was given up early because the loop was clearly too slow."""
        return self.stop_reason == "abandoned"

    @property
    def step_time_s(self) -> float:
        """Seconds per loop batch in the steady window."""
        return self.steady_time_s / self.steady_batches

    @property
    def data_wait_share(self) -> float | None:
        """Share of the steady window spent waiting for data; None without a DataLoader."""
        return min(1.0, self.parts.data_wait_s / self.steady_time_s) if self.has_loader else None

    @property
    def bytes_per_sample(self) -> float:
        """Bytes of one sample in a batch."""
        return self.batch_bytes * self.steady_batches / self.steady_samples

    @property
    def shared_bytes_per_sample(self) -> float:
        """What one sample takes in /dev/shm on its way from a worker; its plain size if that is unknown."""
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

        Ranks on other hosts are assumed to be as fast as those here.
        """
        return self.world_size * self.rank_rate_samples_per_s * self._ranks_mean_over_first

    @property
    def _ranks_mean_over_first(self) -> float:
        """The mean rate of the ranks over that of the first; 1 if they were not timed.

        Ranks that sum their gradients step together, so their batch sizes are more precise than their clocks.
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
        """Rate of the slowest rank over the mean of all; None if they were not timed.

        It only shows in ranks that train independently: those that sum gradients all run at the slowest's
        pace.
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
    """Return the samples per epoch over all ranks from the first loop that knows them, else None."""
    return next((one.epoch_samples_total for one in loops if one.epoch_samples is not None), None)


class DryLoop(Record):
    """A training loop without its arithmetic, from the first forward pass on: it has shapes but no rate."""

    device: DeviceSeen
    batch_size: PositiveInt | None
    """The training loader's batch size; None if the script makes its own batches."""
    batch_samples: PositiveInt
    """Samples in the last batch that was seen."""
    num_workers: NonNegativeInt
    epoch_samples: PositiveInt | None
    """Samples per epoch and rank; None for a data set without a length."""
    startup_s: NonNegativeFloat
    """From process start to the first request for a batch."""
    first_batch_s: NonNegativeFloat
    script_steps: NonNegativeInt
    """Optimizer steps of the process."""


class TreeMemory(Record):
    """Host memory of the trial's whole process tree, observed by tunekit from outside."""

    peak_pss_bytes: NonNegativeInt
    """Largest proportional set size (PSS) summed over the tree, as read or as a lower bound."""
    peak_shm_bytes: NonNegativeInt
    """Largest growth of /dev/shm during the trial."""
    processes: NonNegativeInt
    """Largest number of processes seen at once."""
    samples: NonNegativeInt = Field(description="readings taken")


class Measurement(Record):
    """One trial's figures: the loop from inside, the process tree from outside."""

    loop: LoopMeasurement
    memory: TreeMemory
    details: Details | None = None
    """What was examined after the measurement; None if no details were requested."""

    @property
    def isolated(self) -> IsolatedRates:
        """The rates of loader and training measured separately; empty if they were not measured."""
        return (self.details and self.details.floors) or IsolatedRates()

    @property
    def rate_samples_per_s(self) -> float:
        """The objective: samples/s over whole epochs."""
        return self.loop.rate_samples_per_s


class DryRun(Record):
    """What one trial observed in a loop without its arithmetic."""

    loop: DryLoop
    details: Details
    is_whole: bool = True
    """Whether all requested details were completed before the script ended or was ended."""


class GpuTelemetry(Record):
    """One GPU over the measured window. None stands for a counter that the device or driver doesn't have."""

    index: NonNegativeInt
    """Its index in the driver's order."""
    is_used: bool
    """Whether the trial computed on it: its processes held memory there, or memory use rose with the
    trial."""
    utilization_percent: NonNegativeFloat | None = None
    """Mean share of time in which any kernel ran, however small."""
    sm_activity_percent: NonNegativeFloat | None = None
    """Mean share of multiprocessors with work (GPM, Hopper and newer)."""
    tensor_activity_percent: NonNegativeFloat | None = None
    dram_activity_percent: NonNegativeFloat | None = None
    peak_used_bytes: NonNegativeInt | None = None
    """Peak memory of all processes."""
    peak_tree_bytes: NonNegativeInt | None = None
    """Peak memory of the trial's processes, CUDA contexts included; None if the driver doesn't report it."""
    power_w: NonNegativeFloat | None = None
    """Mean of the driver's samples, which cover only part of the time (arXiv 2312.02741)."""
    counted_power_w: NonNegativeFloat | None = None
    """Mean power of the whole GPU from its energy counter, without sampling gaps."""
    max_temperature_c: float | None = None
    sm_clock_mhz: NonNegativeFloat | None = None
    """Mean over the window; the next four cover its first and last third, None with fewer than six
    samples."""
    first_sm_clock_mhz: NonNegativeFloat | None = None
    last_sm_clock_mhz: NonNegativeFloat | None = None
    first_temperature_c: float | None = None
    last_temperature_c: float | None = None
    throttle_reasons: tuple[str, ...] = ()
    """Every reason seen in the window, under NVML's names."""
    pcie_tx_mb_per_s: NonNegativeFloat | None = None
    pcie_rx_mb_per_s: NonNegativeFloat | None = None
    neighbours: tuple[GpuProcess, ...] = ()
    """Other processes that started on it during the trial, each with its last known memory."""


class HostTelemetry(Record):
    """The trial's process tree over the measured window."""

    cpu_cores: NonNegativeFloat | None = None
    """CPUs in use on average: CPU seconds of the whole tree per second."""
    read_bytes_per_s: NonNegativeFloat | None = None
    """Bytes fetched from storage."""
    rchar_bytes_per_s: NonNegativeFloat | None = None
    """Bytes requested by read calls, whatever served them; memory-mapped files are not included."""

    @property
    def unfetched_share(self) -> float | None:
        """Share of the bytes read that no disk or NFS server had to deliver.

        Mostly the page cache served them; pipes and user-space file systems, which the kernel doesn't count,
        are included. None if less than 1 MiB/s was read.
        """
        if self.rchar_bytes_per_s is None or self.rchar_bytes_per_s < MIB or self.read_bytes_per_s is None:
            return None
        return max(0.0, 1.0 - self.read_bytes_per_s / self.rchar_bytes_per_s)


class Telemetry(Record):
    """Summary figures of one trial's time series, which is in telemetry.zarr."""

    window_s: NonNegativeFloat
    """Time between the first and the last sample that the figures cover."""
    samples: PositiveInt
    is_of_steady_window: bool
    """Whether the figures cover the steady window; else the whole trial, if the window had fewer than two
    samples."""
    cost_cpu_s: NonNegativeFloat
    """CPU time that sampling took in tunekit's own process."""
    host: HostTelemetry
    gpus: tuple[GpuTelemetry, ...] = ()
