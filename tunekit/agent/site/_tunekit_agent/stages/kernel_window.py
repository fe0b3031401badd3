"""A few batches under torch.profiler: device busy time, copies, gaps, and the longest kernels."""

from __future__ import annotations

import heapq
from contextlib import nullcontext
from typing import Any

from ..originals import time
from .runner import Missing, Stage

_BATCHES = 5
_FULL_TRIES = 2
_MAX_KERNELS = 16
_MAX_NAME = 200
_USER_SCOPE = 7
"""torch's RecordScope of what a script or a loader marks by name: no operator."""
_HOST_COPIES = ("Memcpy HtoD", "Memcpy DtoH")
_NO_WORK = ("gpu_user_annotation", "cuda_sync", "overhead")


class KernelWindow(Stage):
    """Traces five batches from ask to ask, after one that is not traced.

    An epoch's end or a validation in between restarts the trace; if that happens again, fewer batches are
    traced.
    """

    name = "kernels"

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._torch, self._on_cuda = self._loop.torch, self._loop.on_cuda
        self._per_turn = self._loop.batches_per_turn
        self._wanted = -(-_BATCHES // self._per_turn)  # turns
        self._tries = self._longest = self._count = 0
        self._traced: Any = None
        self._is_tracing = False
        self._began_at = 0.0

    def asked(self, source: Any) -> None:
        """Begin or end the trace when its batch has come."""
        is_whole = self._turns.asked()
        if self._traced is None:
            self._prepare()
        elif self._is_tracing:
            self._count += 1
            if self._count == self._wanted:
                self._conclude()
        elif is_whole:
            self._loop.synchronize()  # the window holds exactly the work launched in it
            self._traced.start_trace()
            self._is_tracing, self._count = True, 0
            self._began_at = time.perf_counter()

    def interrupted(self) -> None:
        """Discard the trace: what runs now is not a batch."""
        super().interrupted()
        if not self._is_tracing:
            return
        self._stop()
        self._tries += 1
        self._longest = max(self._longest, self._count)
        if self._tries >= _FULL_TRIES:
            self._wanted = max(1, self._longest)

    def _conclude(self) -> None:
        self._loop.synchronize()
        time_s = time.perf_counter() - self._began_at
        traced = self._stop()
        self._facts = {
            "batches": self._count * self._per_turn,
            "time_s": time_s,
            **kernel_facts(traced.events(), self._on_cuda),
        }
        self.is_over = True

    def leave(self) -> None:
        """Stop a trace that was cut short, so that the script may start its own."""
        if self._traced is None:
            return
        if not self._is_tracing:
            self._traced.start_trace()  # a prepared trace can't be stopped otherwise
        self._stop()

    def _prepare(self) -> None:
        if self._torch.autograd._profiler_enabled():
            raise RuntimeError("the script runs a profiler of its own, and torch allows one at a time")
        profiler = self._torch.profiler
        activities = [profiler.ProfilerActivity.CPU]
        if self._on_cuda:
            activities.append(profiler.ProfilerActivity.CUDA)
        traced = profiler.profile(activities=activities)
        traced.prepare_trace()
        self._traced = traced

    def _stop(self) -> Any:
        traced, self._traced, self._is_tracing = self._traced, None, False
        # It waits for the current device, on which the script may have nothing.
        device = self._loop.device
        here = self._torch.cuda.device(device) if device is not None else nullcontext()
        with here:
            traced.stop_trace()
        return traced


def kernel_facts(events: Any, on_cuda: bool) -> dict:
    """Return a trace's facts; times in seconds.

    Args:
        events: torch.autograd.profiler_util.FunctionEvent of one trace.
        on_cuda: whether device work counts; else operators do.

    Raises:
        Missing: no work of the device was traced.
    """
    events = list(events)
    on_host = [event for event in events if _kind(event) == "CPU"]
    if not on_cuda:
        operators = [event for event in on_host if getattr(event, "scope", 0) != _USER_SCOPE]
        return {"kernels": _longest((event.name, event.self_cpu_time_total / 1e6) for event in operators)}
    # What a script marks by name has a span on the device too, under the same name: no work of its own.
    marked = {event.name for event in on_host}
    work = [event for event in events if _kind(event) == "CUDA" and _is_work(event, marked)]
    if not work:
        raise Missing("torch.profiler saw no kernels: end other profilers of the GPU, such as Nsight or DCGM")
    busy_s = _busy_s(work)
    return {
        "device_busy_s": busy_s,
        "copies_alone_s": busy_s - _busy_s([one for one in work if not one.name.startswith(_HOST_COPIES)]),
        "h2d_s": sum(_length_s(event) for event in work if event.name.startswith("Memcpy HtoD")),
        "kernels": _longest((event.name, _length_s(event)) for event in work),
    }


def _kind(event: Any) -> str:
    return str(event.device_type).rsplit(".", 1)[-1]


def _is_work(event: Any, marked: set) -> bool:
    if getattr(event, "is_user_annotation", False) or event.name in marked:
        return False
    return getattr(event, "activity_type", None) not in _NO_WORK


def _length_s(event: Any) -> float:
    return max(0.0, event.time_range.end - event.time_range.start) / 1e6


def _busy_s(work: list) -> float:
    covered, reached = 0.0, float("-inf")
    for start, end in sorted((event.time_range.start, event.time_range.end) for event in work):
        covered += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return covered / 1e6


def _longest(named_s: Any) -> list:
    calls: dict = {}
    for name, seconds in named_s:
        calls.setdefault(name, []).append(max(0.0, seconds))
    longest = heapq.nlargest(_MAX_KERNELS, calls.items(), key=lambda item: sum(item[1]))
    return [{"name": name[:_MAX_NAME], "calls": len(each), "time_s": sum(each)} for name, each in longest]
