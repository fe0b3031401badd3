"""GPUs: which one is warned of, and which just not."""

from collections.abc import Callable
from typing import Any

import pytest
from build_checkups import (
    H200,
    H200_BYTES,
    T4,
    checkup,
    codes,
    found,
    gpu,
    link,
    only_finding,
    seen_device,
    torch_of,
    without_gpu,
)
from build_records import GIB, profile
from finding_texts import texts_of

from tunekit.machine.profiles import load_profiles
from tunekit.records.checkup import Checkup
from tunekit.records.host import Accelerator, GpuProcess
from tunekit.records.profile import Profile

OTHERS = tuple(GpuProcess(pid=number, used_bytes=None) for number in range(1, 6))
P100 = load_profiles()["p100-pcie-16"]
TWO_KINDS = ("NVIDIA H200", "Tesla T4")


def of_one(**gpu_fields: Any) -> Checkup:
    return checkup(accelerators=(gpu(**gpu_fields),))


def with_state(**state: Any) -> Checkup:
    return of_one(state=state)


def t4(index: int = 0) -> Accelerator:
    return gpu(
        index,
        name="Tesla T4",
        memory_bytes=T4.memory_bytes,
        compute_capability="7.5",
        profile_id="t4",
        state={"power_limit_w": 70},
    )


def p100() -> Checkup:
    card = gpu(
        name=P100.device_names[0],
        memory_bytes=P100.memory_bytes,
        compute_capability="6.0",
        profile_id=P100.id,
        state={"power_limit_w": P100.tdp_w},
    )
    return checkup(accelerators=(card,), torch=torch_of(architectures=("sm_60",)), compiler=None)


def rented(cpus: int, gpus: int = 1) -> Checkup:
    return checkup(
        cpus=cpus,
        cpus_total=cpus,
        cpus_affinity=cpus,
        accelerators=tuple(gpu(index) for index in range(gpus)),
        torch=torch_of(threads=1),
        unset=("OMP_NUM_THREADS",),
    )


def amd() -> Checkup:
    card = gpu(name="AMD Instinct MI300X", profile_id=None, seen_by=("torch",), compute_capability=None)
    devices = (seen_device(name=card.name),)
    build = torch_of(cuda_version=None, hip_version="6.4", devices=devices, architectures=())
    return checkup(accelerators=(card,), torch=build)


ROWS = [
    (without_gpu(), None),
    (without_gpu(torch=None), None),
    (
        with_state(used_bytes=9 * GIB, processes=(GpuProcess(pid=4711, used_bytes=9 * GIB, name="python"),)),
        H200,
    ),
    (with_state(used_bytes=None, processes=OTHERS), H200),
    (with_state(used_bytes=None, processes=OTHERS[:3]), H200),
    (with_state(used_bytes=H200_BYTES // 20 + 1, processes=None), H200),
    *(
        (with_state(throttle_reasons=("gpu_idle", reason), sm_clock_mhz=1200, temperature_c=84.4), H200)
        for reason in ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
    ),
    (
        with_state(
            throttle_reasons=("hw_slowdown",), sm_clock_mhz=None, max_sm_clock_mhz=None, temperature_c=None
        ),
        H200,
    ),
    (with_state(temperature_c=85), H200),
    (with_state(power_limit_w=594), H200),
    (with_state(ecc_errors=1), H200),
    (with_state(ecc_errors=3), H200),
    *((of_one(pcie=link(*lanes)), H200) for lanes in [(8, 16), (15, 16), (4, 4), (1, None)]),
    (checkup(is_virtual=True, accelerators=(gpu(pcie=link(8, 16)),)), H200),
    (checkup(is_virtual=True, accelerators=(gpu(pcie=link(4, 16)),)), H200),
    (
        of_one(
            name="NVIDIA H200 MIG 1g.18gb",
            memory_bytes=16 * GIB,
            is_partition=True,
            profile_id=None,
            state={},
        ),
        None,
    ),
    (of_one(name="NVIDIA H200 NVL", profile_id=None), None),
    (amd(), None),
    (of_one(memory_bytes=int(0.97 * H200_BYTES)), H200),
    (checkup(accelerators=(gpu(0), t4(1), gpu(2))), H200),
    *(
        (checkup(gpu_models=TWO_KINDS, environment=environment), H200)
        for environment in (
            {},
            {"CUDA_DEVICE_ORDER": "FASTEST_FIRST", "CUDA_VISIBLE_DEVICES": "1"},
            {"CUDA_VISIBLE_DEVICES": "GPU-1, 0"},
        )
    ),
    (rented(3), H200),
    (rented(1), H200),
    (rented(7, 2), H200),
    (checkup(accelerators=(t4(),), torch=torch_of(bf16_native=False)), T4),
    (p100(), P100),
    (checkup(), profile(compile_supported=False, compile_note=None, memory_bytes=H200_BYTES, tdp_w=700)),
]


def test_what_is_wrong_with_a_gpu_is_told(golden: Callable[[str, str], None]):
    golden("gpus.txt", texts_of([only_finding(seen, of) for seen, of in ROWS]))


@pytest.mark.parametrize(
    ("seen", "profile"),
    [
        (checkup(cpu_bf16_native=False), H200),  # beside a GPU the CPU's precisions do not matter
        (with_state(used_bytes=H200_BYTES // 20, processes=None), H200),
        (of_one(memory_bytes=160 * GIB, state={"used_bytes": 8 * GIB}), H200),
        (with_state(used_bytes=None, processes=None), H200),
        *(
            (with_state(throttle_reasons=(reason,)), H200)
            for reason in ("gpu_idle", "sw_power_cap", "applications_clocks_setting")
        ),
        (with_state(temperature_c=84.9), H200),
        (with_state(temperature_c=None), H200),
        (with_state(power_limit_w=595), H200),
        (with_state(power_limit_w=None), H200),
        (with_state(power_limit_w=300), None),
        (with_state(power_limit_w=300), profile(memory_bytes=None, tdp_w=None)),
        (with_state(ecc_errors=0), H200),
        (with_state(ecc_errors=None), H200),
        *(
            (of_one(pcie=pcie), H200)
            for pcie in (link(5, 5), link(16, None), link(8, 8), link(None, 16), None)
        ),
        (of_one(memory_bytes=int(0.97 * H200_BYTES) + 1), H200),
        (of_one(memory_bytes=97 * GIB), profile(memory_bytes=100 * GIB, tdp_w=None)),
        (checkup(gpu_models=TWO_KINDS, environment={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}), H200),
        (checkup(gpu_models=TWO_KINDS, environment={"CUDA_VISIBLE_DEVICES": "GPU-1,GPU-2"}), H200),
        (checkup(gpu_models=("NVIDIA H200",)), H200),
        (rented(4), H200),
        (rented(8, 2), H200),
        (checkup(accelerators=(gpu().model_copy(update={"state": None, "pcie": None}),)), H200),
    ],
)
def test_a_gpu_in_good_order_is_no_finding(seen: Checkup, profile: Profile | None):
    assert codes(seen, profile) == []


@pytest.mark.parametrize(
    ("native", "expected"), [(False, ["no-gpu", "bf16-emulated"]), (True, ["no-gpu"]), (None, ["no-gpu"])]
)
def test_a_cpu_that_emulates_bf16_is_a_note(native: bool | None, expected: list[str]):
    seen = found(without_gpu(cpu_bf16_native=native), None)
    assert [(one.code, one.severity) for one in seen] == [(code, "info") for code in expected]


def test_each_gpu_is_held_against_its_own_kind():
    assert codes(checkup(accelerators=(gpu(0), t4(1)))) == ["mixed-gpus"]
    finding = only_finding(checkup(accelerators=(gpu(0), gpu(1, state={"temperature_c": 90}))))
    assert finding.message == "GPU 1 is hot before training has started"
    assert codes(checkup(accelerators=(t4(),), torch=torch_of(bf16_native=False))) == [
        "less-gpu-memory",
        "power-limited",
    ]
