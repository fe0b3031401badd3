"""The cap on a device's memory, on modules whose parameters claim to lie on a CUDA device."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from _tunekit_agent.model.roots import MemoryCap, RootFinder
from torch import nn

GIB = 1 << 30
CUDA0 = torch.device("cuda", 0)
CPU = torch.device("cpu")


@dataclass
class Cuda:
    """What the cap asks of torch.cuda."""

    total_bytes: int = 140 * GIB
    is_started: bool = True
    refuses: bool = False
    fractions: list[tuple[float, Any]] = field(default_factory=list)

    def is_initialized(self) -> bool:
        return self.is_started

    def get_device_properties(self, device: Any) -> Any:
        assert self.is_started, "the question would start CUDA"
        return SimpleNamespace(total_memory=self.total_bytes)

    def set_per_process_memory_fraction(self, fraction: float, device: Any) -> None:
        assert self.is_started, "the call would start CUDA"
        if self.refuses:
            raise RuntimeError("the plugged-in allocator has no such thing")
        assert isinstance(fraction, float)
        self.fractions.append((fraction, device))


class OnDevices:
    """A module of which only its parameters' devices are looked at."""

    def __init__(self, *devices: torch.device) -> None:
        self.devices = devices

    def parameters(self) -> Any:
        return iter([SimpleNamespace(device=device) for device in self.devices])


def entered(limit_bytes: int | None, *modules: OnDevices, **cuda: Any) -> tuple[MemoryCap, Cuda]:
    cap, there = MemoryCap(limit_bytes), Cuda(**cuda)
    for module in modules:
        cap.entering(SimpleNamespace(cuda=there), module)
    return cap, there


FACTS = {"type": "cuda", "name": "NVIDIA H200", "memory_bytes": 140 * GIB}


def test_a_larger_device_is_held_to_the_limit_once() -> None:
    cap, cuda = entered(22 * GIB, OnDevices(CUDA0, CUDA0), OnDevices(CUDA0))
    assert cuda.fractions == [(22 / 140, CUDA0)]
    assert cap.with_cap(FACTS, CUDA0) == {**FACTS, "memory_bytes": 22 * GIB}


@pytest.mark.parametrize("total_gib", [16, 22])
def test_a_device_that_has_no_more_is_left_alone(total_gib: int) -> None:
    cap, cuda = entered(22 * GIB, OnDevices(CUDA0), total_bytes=total_gib * GIB)
    assert cuda.fractions == []
    assert cap.with_cap(FACTS, CUDA0) == FACTS


def test_cuda_is_never_started_and_capped_once_the_script_has_started_it() -> None:
    cap, cuda = entered(22 * GIB, OnDevices(CPU), OnDevices(CUDA0), OnDevices(), is_started=False)
    assert cuda.fractions == []
    cuda.is_started = True
    cap.entering(SimpleNamespace(cuda=cuda), OnDevices(CUDA0))
    assert cuda.fractions == [(22 / 140, CUDA0)]


def test_an_allocator_that_can_not_cap_leaves_the_device_whole() -> None:
    cap, _ = entered(22 * GIB, OnDevices(CUDA0), refuses=True)
    assert cap.with_cap(FACTS, CUDA0) == FACTS


def test_the_devices_are_looked_at_before_a_forward_without_gradients_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[str] = []
    monkeypatch.setattr(MemoryCap, "entering", lambda self, torch, module: order.append("cap"))

    class Net(nn.Linear):
        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            order.append("forward")
            return super().forward(rows)

    net, rows, faults = Net(2, 2), torch.ones(1, 2), []
    finder = RootFinder([], lambda *seen: None, lambda: False, faults.append, lambda *seen: None, 1 << 30)
    finder.install(torch.nn.modules.module)
    try:
        with torch.no_grad():
            net(rows)
        net(rows)
    finally:
        finder.stop()
    assert faults == []
    assert order == ["cap", "forward", "cap", "forward"]
