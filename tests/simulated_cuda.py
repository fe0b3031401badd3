"""A CUDA device that is not there: one stream of work on a timeline that the host's clock shares.

It plays the part of `torch.cuda` that the agent touches, and nothing else.
"""

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from weakref import WeakSet

from _tunekit_agent.measure.device_times import DeviceTimes

from tunekit.records.attribution import DeviceParts, StepParts


class Stream:
    """The only one."""


@dataclass(eq=False)
class Event:
    """A mark in the stream, which comes to pass when the work before it is done."""

    cuda: "SimulatedCuda"
    at_s: float | None = None
    records: int = 0

    def record(self, stream: Stream) -> None:
        assert stream is self.cuda.stream
        assert not self.cuda.is_capturing, "an event would become part of the graph"
        self.at_s = max(self.cuda.now_s, self.cuda.free_at_s)
        self.records += 1
        self.cuda.record_count += 1

    def query(self) -> bool:
        assert not self.cuda.is_capturing, "a query would end the capture"
        return self.at_s is None or self.at_s <= self.cuda.now_s

    def elapsed_time(self, other: "Event") -> float:
        if not (self.query() and other.query()) or self.at_s is None or other.at_s is None:
            raise RuntimeError("CUDA error: device not ready")
        return 1000 * (other.at_s - self.at_s)


@dataclass
class SimulatedCuda:
    """The clock of host and device, the device's queue, and a caching allocator's figures."""

    launch_s: float = 5e-6
    """From a launch to the start of its work on an idle device."""
    depth: int = 1024
    """Launches whose work is not done: one more blocks the host."""
    is_here: bool = True
    now_s: float = 100.0
    free_at_s: float = 0.0
    busy_s: float = 0.0
    is_capturing: bool = False
    events: WeakSet[Event] = field(default_factory=WeakSet)
    record_count: int = 0
    synchronised: int = 0
    stream: Stream = field(default_factory=Stream)
    allocated_bytes: int = 0
    peak_bytes: int = 0
    reserved_bytes: int = 0
    peak_reserved_bytes: int = 0
    asked_devices: set[Any] = field(default_factory=set)
    _queued: deque[float] = field(default_factory=deque)  # when the work of each launch is done

    def host(self, seconds: float) -> None:
        """The host is busy or waits."""
        self.now_s += seconds

    def launch(self, work_s: float) -> None:
        """The host launches work, which the device does after what is queued."""
        if len(self._queued) == self.depth:
            self.now_s = max(self.now_s, self._queued.popleft())
        begin = max(self.now_s + self.launch_s, self.free_at_s)
        self.free_at_s = begin + work_s
        self.busy_s += work_s
        self._queued.append(self.free_at_s)

    def hold(self, count_bytes: int) -> None:
        """Change what is allocated."""
        self.allocated_bytes += count_bytes
        self.peak_bytes = max(self.peak_bytes, self.allocated_bytes)
        self.reserved_bytes = max(self.reserved_bytes, self.allocated_bytes)
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, self.reserved_bytes)

    def Event(self, enable_timing: bool) -> Event:  # noqa: N802 - torch's name
        assert enable_timing
        event = Event(self)
        self.events.add(event)
        return event

    def is_available(self) -> bool:
        return self.is_here

    def is_initialized(self) -> bool:
        return self.is_here

    def is_current_stream_capturing(self) -> bool:
        return self.is_capturing

    def current_stream(self, device: object = None) -> Stream:
        self.asked_devices.add(device)
        return self.stream

    def synchronize(self, device: object = None) -> None:
        self.synchronised += 1
        self.now_s = max(self.now_s, self.free_at_s)

    def max_memory_allocated(self, device: object = None) -> int:
        self.asked_devices.add(device)
        return self.peak_bytes

    def reset_peak_memory_stats(self, device: object = None) -> None:
        self.asked_devices.add(device)
        self.peak_bytes, self.peak_reserved_bytes = self.allocated_bytes, self.reserved_bytes

    def max_memory_reserved(self, device: object = None) -> int:
        self.asked_devices.add(device)
        return self.peak_reserved_bytes

    def empty_cache(self) -> None:
        self.reserved_bytes = self.allocated_bytes


@dataclass
class Torch:
    """What plays torch."""

    cuda: SimulatedCuda


@dataclass
class DeviceLoop:
    """A training loop on a simulated device; seconds of each batch."""

    wait_s: float
    """The host's, for a batch."""
    host_s: float
    """To launch the batch's work."""
    work_s: float
    """The device's, forward and backward."""
    step_s: float = 0.0
    """The device's, of one optimizer's step."""
    log_s: float = 0.0
    """The device's, after the step."""
    steps: int = 1
    launches: int = 20
    reads_loss: bool = False
    """After each batch: the host waits for the device."""
    cuda: SimulatedCuda = field(default_factory=SimulatedCuda)
    bounds_s: list[float] = field(default_factory=list)
    """When the window opened, and when the device was done with each batch of it."""
    busy_before_s: float = 0.0
    """The device's, until the window opened."""
    seen: DeviceParts | None = None
    """What was measured."""
    host_parts_s: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0, 0.0])
    """The host's: waiting, launching, within optimizer steps, and after them."""

    def __post_init__(self) -> None:
        self.times = DeviceTimes(Torch(self.cuda), "cuda", "cuda:1", clock=lambda: self.cuda.now_s)

    def measure(self, batches: int) -> DeviceParts | None:
        """Warm up, open the window, run it and close it."""
        for _ in range(5):
            self.batch()
            self.times.asked(False)
        self.cuda.synchronize()
        self.times.open()
        self.host_parts_s = [0.0, 0.0, 0.0, 0.0]
        self.busy_before_s = self.cuda.busy_s
        self.bounds_s.append(self.cuda.now_s)
        for _ in range(batches):
            self.batch()
            self.times.asked(True)
            self.bounds_s.append(max(self.cuda.now_s, self.cuda.free_at_s))
        self.cuda.synchronize()
        facts = self.times.facts()
        self.seen = None if facts is None else DeviceParts.model_validate(facts)
        return self.seen

    @property
    def time_s(self) -> float:
        """Of the window."""
        return self.bounds_s[-1] - self.bounds_s[0]

    @property
    def host_parts(self) -> StepParts:
        """The window by the host's clock."""
        waiting_s, launching_s, stepping_s, other_s = self.host_parts_s
        return StepParts(
            data_wait_s=waiting_s, compute_s=launching_s, optimizer_s=stepping_s, other_s=other_s
        )

    @property
    def busy_share(self) -> float:
        """Of the window, as NVML has it."""
        return (self.cuda.busy_s - self.busy_before_s) / self.time_s

    def batch(self) -> None:
        """Wait for a batch, train on it, step, log."""
        cuda, times, began_s = self.cuda, self.times, [self.cuda.now_s]
        cuda.host(self.wait_s)
        times.fetched()
        began_s.append(cuda.now_s)
        self._launch(self.host_s, self.work_s)
        began_s.append(cuda.now_s)
        for _ in range(self.steps):
            times.step_began()
            self._launch(20e-6, self.step_s)
            times.step_ended()
        began_s.append(cuda.now_s)
        if self.log_s:
            cuda.launch(self.log_s)
        cuda.host(10e-6)
        if self.reads_loss:
            cuda.synchronize()
        began_s.append(cuda.now_s)
        for place, (begin_s, end_s) in enumerate(pairwise(began_s)):
            self.host_parts_s[place] += end_s - begin_s

    def _launch(self, host_s: float, work_s: float) -> None:
        for _ in range(self.launches):
            self.cuda.host(host_s / self.launches)
            self.cuda.launch(work_s / self.launches)
