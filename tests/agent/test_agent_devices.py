"""What the devices are asked for, of a torch that is not there."""

import sys
from types import SimpleNamespace

import pytest
from _tunekit_agent.measure import device


class Cuda:
    """Two devices, the second of which is used; what it is asked for."""

    def __init__(self, is_capturing: bool = False) -> None:
        self.is_capturing = is_capturing
        self.reserved_bytes, self.peak_bytes, self.retries = [0, 300], [0, 5000], 4
        self.waited: list[int] = []

    def is_initialized(self) -> bool:
        return True

    def is_current_stream_capturing(self) -> bool:
        return self.is_capturing

    def device_count(self) -> int:
        return 2

    def max_memory_reserved(self, device: int) -> int:
        return self.peak_bytes[device]

    max_memory_allocated = max_memory_reserved

    def memory_stats(self, device: int) -> dict[str, int]:
        return {"num_alloc_retries": self.retries}

    def reset_peak_memory_stats(self, device: int) -> None:
        self.peak_bytes[device] = self.reserved_bytes[device]

    def reset_accumulated_memory_stats(self, device: int) -> None:
        self.retries = 0

    def synchronize(self, device: int) -> None:
        self.waited.append(device)


def torch_with(monkeypatch: pytest.MonkeyPatch, cuda: Cuda, benchmark: bool = False) -> SimpleNamespace:
    has_context = SimpleNamespace(_cuda_hasPrimaryContext=lambda device: device == 1)
    backends = SimpleNamespace(cudnn=SimpleNamespace(benchmark=benchmark))
    torch = SimpleNamespace(cuda=cuda, backends=backends, _C=has_context)
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch


@pytest.mark.parametrize(("is_capturing", "waited"), [(False, [1]), (True, [])])
def test_nothing_is_waited_for_while_a_graph_is_captured(
    monkeypatch: pytest.MonkeyPatch, is_capturing: bool, waited: list[int]
) -> None:
    cuda = Cuda(is_capturing)
    torch_with(monkeypatch, cuda)
    device.synchronize()
    assert cuda.waited == waited


@pytest.mark.parametrize(("benchmark", "peak_bytes", "retries"), [(True, 300, 0), (False, 5000, 4)])
def test_the_workspaces_that_cudnn_tried_are_no_peak_of_the_training(
    monkeypatch: pytest.MonkeyPatch, benchmark: bool, peak_bytes: int, retries: int
) -> None:
    torch_with(monkeypatch, Cuda(), benchmark)
    device.forget_cudnn_tries()
    reported = device.memory_facts()
    assert (reported["peak_reserved_bytes"], reported["allocation_retries"]) == (peak_bytes, retries)


@pytest.mark.parametrize(
    ("name", "is_native"), [("gfx906:sramecc-:xnack-", False), ("gfx90a:sramecc+", True), ("gfx1030", False)]
)
def test_bf16_on_rocm_goes_by_the_architecture_and_not_by_its_numbers(name: str, is_native: bool) -> None:
    cuda = SimpleNamespace(get_device_properties=lambda device: SimpleNamespace(gcnArchName=name))
    torch = SimpleNamespace(version=SimpleNamespace(hip="6.4"), cuda=cuda)
    assert device.bf16_native(torch, SimpleNamespace(type="cuda")) is is_native
