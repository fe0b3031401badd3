"""Samples a trial's processes and GPUs at regular intervals, from the parent.

A reading of a GPU combines the driver's figures with those from the GPU's own counters.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Self

from tunekit.machine.gpu.nvml import GpuReading, Nvml
from tunekit.machine.telemetry.series import CONTEXT_BYTES, MAX_SAMPLES, Series
from tunekit.machine.telemetry.tree import TreeMeter
from tunekit.records.host import GpuProcess, GpuState

MIN_GPM_INTERVAL_S = 0.1
"""MIN time between two samples of a GPU's counters, so that their difference is meaningful."""

_PCIE_EVERY_S = 5.0
"""Interval between queries of PCIe traffic, each of which blocks for 40 ms per GPU."""
MAX_PATIENCE_S = 1.0
"""A GPU that takes longer than this to answer is not queried again: the caller has a trial to watch."""

HOST_EVERY_S = 0.5
GPU_EVERY_S = 1.0
_HOST_COLUMNS = (
    *("t_s", "cpu_s", "pss_bytes", "anonymous_bytes", "shm_bytes"),
    *("read_bytes", "rchar_bytes", "processes"),
)
"""CPU time and reads are totals since the tree started, PSS is the latest exact reading, and shm_bytes is the
growth of /dev/shm."""
_LOOP_COLUMNS = ("t_s", "phase", "batches", "steps", "wait_s")
_GPU_COLUMNS = tuple(field.name for field in fields(GpuReading) if field.name != "process_bytes")


class GpuSampler:
    """Reads some GPUs repeatedly while it is open.

    Args:
        nvml: the driver's library; without a driver all readings are empty.
        indexes: the GPUs' indexes in the driver's order.
        clock: returns seconds.
    """

    def __init__(
        self, nvml: Nvml, indexes: Sequence[int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._nvml = nvml
        self._indexes = tuple(dict.fromkeys(indexes))
        self._clock = clock
        self._counted: dict[int, tuple[float, object]] = {}
        """For each GPU, when its counters were last sampled, and the sample."""
        self._pcie_asked_at: dict[int, float] = {}
        self._silent: set[int] = set()
        self._tree: set[int] = set()
        """Every process id passed to `sample` so far."""
        self._at_first: dict[int, frozenset[int]] = {}
        """For each GPU, the processes that were on it at the first reading."""
        self._came: dict[int, dict[int, GpuProcess]] = {}

    def __enter__(self) -> Self:
        if self._indexes:
            self._nvml.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        for index in tuple(self._counted):
            self._forget(index)
        if self._indexes:
            self._nvml.__exit__(*error)

    def sample(self, pids: frozenset[int] = frozenset()) -> dict[int, GpuReading]:
        """Return a reading of each GPU by its index, in the order in which they were given.

        Args:
            pids: the processes whose memory to sum up in `tree_bytes`.
        """
        readings = {}
        for index in self._indexes:
            if index in self._silent:
                continue
            before = self._clock()
            readings[index] = self._of(index, pids)
            if self._clock() - before > MAX_PATIENCE_S:
                self._silent.add(index)
        return readings

    def neighbours(self, index: int) -> tuple[GpuProcess, ...]:
        """Return the other processes that appeared on a GPU after its first reading and use its memory."""
        came = (one for one in self._came.get(index, {}).values() if one.pid not in self._tree)
        return tuple(one for one in came if one.used_bytes is None or one.used_bytes >= CONTEXT_BYTES)

    def _note_neighbours(self, index: int, listed: Collection[int], pids: frozenset[int]) -> None:
        self._tree |= pids
        came = set(listed) - self._at_first.setdefault(index, frozenset(listed)) - self._tree
        named = ((self._nvml.state(index) or GpuState()).processes or ()) if came else ()
        self._came.setdefault(index, {}).update({one.pid: one for one in named if one.pid in came})

    def _of(self, index: int, pids: frozenset[int]) -> GpuReading:
        activity = self._activity(index)
        now_s, asked_s = self._clock(), self._pcie_asked_at.get(index, -_PCIE_EVERY_S)
        asks_pcie = activity.pcie_tx_mb_per_s is None and now_s - asked_s >= _PCIE_EVERY_S
        if asks_pcie:
            self._pcie_asked_at[index] = now_s
        reading = self._nvml.reading(index, pcie=asks_pcie)
        self._note_neighbours(index, reading.process_bytes or (), pids)
        counted = {name: figure for name, figure in asdict(activity).items() if figure is not None}
        return replace(reading, tree_bytes=_tree_bytes(reading.process_bytes, pids), **counted)

    def _activity(self, index: int) -> GpuReading:
        """Return the GPU's activity since its last sample; if that is too recent, it is kept."""
        now_s = self._clock()
        before_s, before = self._counted.get(index, (now_s, None))
        if before is not None and now_s - before_s < MIN_GPM_INTERVAL_S:
            return GpuReading()
        sample = self._nvml.gpm_sample(index)
        activity = None
        if before is not None and sample is not None:
            activity = self._nvml.gpm_between(before, sample)
        self._forget(index)
        if sample is not None:
            self._counted[index] = (now_s, sample)
        return activity or GpuReading()

    def _forget(self, index: int) -> None:
        _, sample = self._counted.pop(index, (0.0, None))
        if sample is not None:
            self._nvml.gpm_free(sample)


def _tree_bytes(process_bytes: Mapping[int, int | None] | None, pids: Collection[int]) -> float | None:
    """Sum the memory of some processes; None if any is unknown, as in containers with other process ids."""
    ours = [used for pid, used in (process_bytes or {}).items() if pid in pids]
    known = [used for used in ours if used is not None]
    return float(sum(known)) if ours and len(known) == len(ours) else None


@dataclass(frozen=True)
class LoopSample:
    """The training loop's progress, as the agent last reported it."""

    phase: str
    batches: int
    steps: int
    wait_s: float = 0.0
    """Total time spent in the loader's next()."""


class Sampler:
    """Takes samples at fixed intervals while it is open.

    Args:
        tree: the meter of the trial's processes.
        gpus: the sampler of the GPUs that the trial may use; opened and closed with this one.
        clock: returns seconds.
    """

    def __init__(
        self, tree: TreeMeter, gpus: GpuSampler, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tree = tree
        self._gpus = gpus
        self._clock = clock
        self._started_at = clock()
        self._next_host_at = self._next_gpu_at = self._started_at
        self._host, self._loop = _Rows(), _Rows()
        self._gpu: dict[int, _Rows] = {}
        self._phases: list[str] = []
        self._tick_cpu_s = 0.0

    def __enter__(self) -> Self:
        self._gpus.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._gpus.__exit__(*error)

    def tick(self, loop: LoopSample) -> None:
        """Take the samples that are due; call it a few times a second."""
        now = self._clock()
        before = time.process_time()
        if now >= self._next_host_at:
            self._next_host_at = _next(self._next_host_at, HOST_EVERY_S, now)
            self._take_host(now - self._started_at, loop)
        if now >= self._next_gpu_at:
            self._next_gpu_at = _next(self._next_gpu_at, GPU_EVERY_S, now)
            self._take_gpus(now - self._started_at)
        self._tick_cpu_s += time.process_time() - before

    @property
    def cost_cpu_s(self) -> float:
        """CPU time that sampling has used in this process, including reading the tree's memory."""
        return self._tick_cpu_s + self._tree.cost_cpu_s

    def series(self) -> tuple[Series, ...]:
        """Return the tables so far: "host" and "loop", and one for each GPU that has answered."""
        gpus = [
            Series(f"gpu{index}", ("t_s", *_GPU_COLUMNS), rows.kept, (), self._gpus.neighbours(index))
            for index, rows in sorted(self._gpu.items())
            if any(value is not None for row in rows.kept for value in row[1:])
        ]
        return (
            Series("host", _HOST_COLUMNS, self._host.kept),
            Series("loop", _LOOP_COLUMNS, self._loop.kept, tuple(self._phases)),
            *gpus,
        )

    def _take_host(self, t_s: float, loop: LoopSample) -> None:
        tree, activity = self._tree, self._tree.activity()
        memory = (tree.last_pss_bytes, tree.anonymous_bytes(), tree.shm_growth_bytes())
        counters = (activity.read_bytes, activity.rchar_bytes, activity.processes)
        self._host.add((t_s, activity.cpu_s, *memory, *counters))
        if loop.phase not in self._phases:
            self._phases.append(loop.phase)
        phase = self._phases.index(loop.phase)
        self._loop.add((t_s, float(phase), float(loop.batches), float(loop.steps), loop.wait_s))

    def _take_gpus(self, t_s: float) -> None:
        for index, reading in self._gpus.sample(self._tree.pids).items():
            rows = self._gpu.setdefault(index, _Rows())
            rows.add((t_s, *(getattr(reading, name) for name in _GPU_COLUMNS)))


def _next(planned_at: float, every_s: float, now: float) -> float:
    """Return when the next sample is due: one interval later, without catching up on missed samples."""
    following = planned_at + every_s
    return following if following > now else now + every_s


class _Rows:
    """A table that drops every second row whenever it is full, and from then on keeps rows half as often."""

    def __init__(self) -> None:
        self._rows: list[tuple[float | None, ...]] = []
        self._count = 0
        self._stride = 1

    @property
    def kept(self) -> tuple[tuple[float | None, ...], ...]:
        return tuple(self._rows)

    def add(self, row: tuple[float | None, ...]) -> None:
        if self._count % self._stride == 0:
            self._rows.append(row)
        self._count += 1
        if len(self._rows) > MAX_SAMPLES:
            del self._rows[1::2]
            self._stride *= 2
