from dataclasses import replace

import pytest
from machine.scripted_nvml import H200, L4, T4, UNKNOWN, ScriptedNvml
from machine.shipped import PROFILES

from tunekit.errors import UnknownGpuError
from tunekit.machine.detect import detect_host
from tunekit.machine.device import (
    device_profile,
    memory_cap_bytes,
    profile_here,
    usual_profile,
    with_first,
    with_named_first,
)
from tunekit.machine.gpu.nvml import NvmlDevice
from tunekit.records.host import GpuState, Host
from tunekit.records.measurement import DeviceSeen
from tunekit.units import GIB, MIB


def host_with(*devices: NvmlDevice) -> Host:
    return detect_host(ScriptedNvml(devices), PROFILES)


@pytest.fixture(autouse=True)
def no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.parametrize(
    ("option", "devices", "asked", "here"),
    [
        ("auto", (), "cpu", "cpu"),
        ("AUTO", (T4, H200), "t4", "t4"),
        ("t4", (T4,), "t4", "t4"),
        ("A100", (H200,), "a100-sxm-40", "h200"),
        ("a10g", (), "a10g", "cpu"),
        ("cpu", (), "cpu", "cpu"),
        ("cpu", (T4,), "cpu", "cpu"),
        ("h200", (UNKNOWN,), "h200", "nvidia-l20"),
    ],
)
def test_the_device_asked_for_and_the_one_that_measures(
    option: str, devices: tuple[NvmlDevice, ...], asked: str, here: str
) -> None:
    profile, measured_on = device_profile(option, host_with(*devices), PROFILES)
    assert (profile.id, measured_on) == (asked, here)


@pytest.mark.parametrize("option", ["auto", "nvidia-l20", "NVIDIA-L20", "NVIDIA L20"])
def test_an_unknown_device_speaks_for_itself(option: str) -> None:
    profile, measured_on = device_profile(option, host_with(UNKNOWN), PROFILES)
    assert profile.id == measured_on == "nvidia-l20"
    assert profile.memory_bytes == UNKNOWN.memory_bytes
    assert profile.native_precisions == ("fp32", "tf32", "bf16", "fp16", "fp8")
    assert profile.bf16_tflops is None


def test_a_name_without_a_profile_is_an_error_even_beside_a_gpu() -> None:
    with pytest.raises(UnknownGpuError, match="a10x"):
        device_profile("a10x", host_with(T4), PROFILES)


def cap(option: str, *devices: NvmlDevice) -> int | None:
    here = host_with(*devices)
    return memory_cap_bytes(*device_profile(option, here, PROFILES), here)


def test_a_larger_gpu_gets_the_memory_of_the_one_asked_for() -> None:
    assert cap("a10g", H200) == 22587 * MIB
    # What torch sees is not known: the driver's figure stands in for it.
    assert cap("a100-sxm-80", H200) == PROFILES["a100-sxm-80"].memory_bytes


@pytest.mark.parametrize(
    ("option", "devices"),
    [
        ("auto", (H200,)),
        ("h200", (H200,)),
        ("h200", (T4,)),
        ("a10g", (T4,)),
        ("a10g", ()),
        ("cpu", (H200,)),
        ("mps-m1", (H200,)),
    ],
)
def test_no_memory_is_capped_on_the_device_itself_a_smaller_one_or_a_cpu(
    option: str, devices: tuple[NvmlDevice, ...]
) -> None:
    assert cap(option, *devices) is None


BUSES = {0: "00000000:0A:00.0", 1: "00000000:BB:00.0", 2: "00000000:CC:00.0"}
TWINS = (T4, L4, NvmlDevice(2, "GPU-99999999-eeee", L4.name, L4.memory_bytes, "8.9"))


@pytest.mark.parametrize(
    ("told", "order"),
    [
        ({"name": L4.name, "uuid": "99999999-eeee"}, [2, 0, 1]),
        ({"name": L4.name, "uuid": "11112222-bbbb"}, [1, 0, 2]),
        ({"name": L4.name, "pci_bus_id": "00000000:cc:00.0"}, [2, 0, 1]),
        ({"name": L4.name}, [1, 0, 2]),
        ({"name": T4.name}, [0, 1, 2]),
        ({"name": "AMD Instinct MI300X"}, [0, 1, 2]),
        ({"type": "cpu", "name": "x86_64"}, [0, 1, 2]),
    ],
)
def test_the_gpu_that_a_trial_trained_on_comes_first(told: dict[str, str], order: list[int]) -> None:
    host = detect_host(ScriptedNvml(TWINS, bus_ids=BUSES), PROFILES)
    device = DeviceSeen.model_validate({"type": "cuda", "memory_bytes": GIB, **told})
    assert [gpu.index for gpu in with_first(host, device).accelerators] == order


def test_a_gpu_of_the_kind_that_was_measured_on_comes_first() -> None:
    host = host_with(*TWINS)
    assert [gpu.index for gpu in with_named_first(host, "l4").accelerators] == [1, 0, 2]
    assert with_named_first(host, "h200") == host
    assert with_named_first(host_with(), "l4").accelerators == ()


@pytest.mark.parametrize(("memory_gib", "taken_gib"), [(3, 0), (22, 19)])
def test_a_device_with_less_memory_than_its_kind_is_planned_with_by_what_it_has(
    memory_gib: int, taken_gib: int
) -> None:
    states = {0: GpuState(used_bytes=taken_gib * GIB)}
    host = detect_host(
        ScriptedNvml([replace(L4, index=0, memory_bytes=memory_gib * GIB)], states=states), PROFILES
    )
    for profile in (
        device_profile("auto", host, PROFILES)[0],
        device_profile("l4", host, PROFILES)[0],
        profile_here("l4", host, PROFILES),
    ):
        assert (profile.id, profile.memory_bytes, profile.torch_memory_bytes) == ("l4", 3 * GIB, None)
    assert usual_profile(host.accelerators[0], PROFILES) == PROFILES["l4"]
    usual = host_with(replace(L4, memory_bytes=PROFILES["l4"].memory_bytes))
    assert device_profile("auto", usual, PROFILES)[0] == PROFILES["l4"]
    untold = host_with(replace(L4, memory_bytes=None))
    assert device_profile("auto", untold, PROFILES)[0] == PROFILES["l4"]
