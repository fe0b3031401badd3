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
    gpu,
    link,
    only_finding,
    seen_device,
    torch_of,
    without_gpu,
)
from build_records import GIB, profile
from finding_texts import texts_of

from tunekit.records.checkup import Checkup
from tunekit.records.host import Accelerator, GpuProcess
from tunekit.records.profile import Profile

OTHERS = tuple(GpuProcess(pid=number, used_bytes=None) for number in range(1, 6))


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
    (with_state(used_bytes=H200_BYTES // 20 + 1, processes=None), H200),
    (with_state(throttle_reasons=("gpu_idle", "hw_thermal_slowdown")), H200),
    (with_state(power_limit_w=594), H200),
    (with_state(ecc_errors=1), H200),
    *((of_one(pcie=link(*lanes)), H200) for lanes in [(15, 16), (4, 4), (1, None)]),
    (checkup(is_virtual=True, accelerators=(gpu(pcie=link(8, 16)),)), H200),
    (checkup(is_virtual=True, accelerators=(gpu(pcie=link(4, 16)),)), H200),
    (of_one(name="NVIDIA H200 MIG 1g.18gb", is_partition=True, profile_id=None, state={}), None),
    (of_one(name="NVIDIA H200 NVL", profile_id=None), None),
    (amd(), None),
    (checkup(accelerators=(gpu(0), t4(1), gpu(2))), H200),
    (checkup(accelerators=(t4(),), torch=torch_of()), T4),
]


def test_what_is_wrong_with_a_gpu_is_told(golden: Callable[[str], object]):
    assert texts_of([only_finding(seen, of) for seen, of in ROWS]) == golden("gpus.txt")


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
        (checkup(accelerators=(gpu().model_copy(update={"state": None, "pcie": None}),)), H200),
    ],
)
def test_a_gpu_in_good_order_is_no_finding(seen: Checkup, profile: Profile | None):
    assert codes(seen, profile) == []


def test_each_gpu_is_held_against_its_own_kind():
    assert codes(checkup(accelerators=(gpu(0), t4(1)))) == ["mixed-gpus"]
    finding = only_finding(checkup(accelerators=(gpu(0), gpu(1, state={"ecc_errors": 1}))))
    assert finding.gpu == 1
    assert codes(checkup(accelerators=(t4(),), torch=torch_of())) == ["power-limited"]
