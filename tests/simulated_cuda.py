"""A CUDA device that is not there: one stream of work on a timeline that the host's clock shares.

It plays the part of `torch.cuda` that the agent touches, and nothing else.
"""

from dataclasses import dataclass, field
from typing import Any


class Stream:
    """The only one."""


@dataclass
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
    is_here: bool = True
    now_s: float = 100.0
    free_at_s: float = 0.0
    busy_s: float = 0.0
    is_capturing: bool = False
    events: list[Event] = field(default_factory=list)
    record_count: int = 0
    synchronised: int = 0
    stream: Stream = field(default_factory=Stream)
    allocated_bytes: int = 0
    peak_bytes: int = 0
    reserved_bytes: int = 0
    peak_reserved_bytes: int = 0
    asked_devices: set[Any] = field(default_factory=set)

    def host(self, seconds: float) -> None:
        """The host is busy or waits."""
        self.now_s += seconds

    def launch(self, work_s: float) -> None:
        """The host launches work, which the device does after what is queued."""
        begin = max(self.now_s + self.launch_s, self.free_at_s)
        self.free_at_s = begin + work_s
        self.busy_s += work_s

    def hold(self, count_bytes: int) -> None:
        """Change what is allocated."""
        self.allocated_bytes += count_bytes
        self.peak_bytes = max(self.peak_bytes, self.allocated_bytes)
        self.reserved_bytes = max(self.reserved_bytes, self.allocated_bytes)
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, self.reserved_bytes)

    def Event(self, enable_timing: bool) -> Event:  # noqa: N802 - torch's name
        assert enable_timing
        self.events.append(Event(self))
        return self.events[-1]

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
