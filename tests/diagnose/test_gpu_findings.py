"""GPUs: which one is warned of, and which just not."""

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

from tunekit.hardware.profiles import load_profiles
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


@pytest.mark.parametrize(
    ("code", "severity", "seen", "profile", "evidence", "value", "remedy"),
    [
        (
            "no-gpu",
            "info",
            without_gpu(),
            None,
            "neither the NVIDIA driver nor torch shows one",
            None,
            "--gpus all",
        ),
        ("no-gpu", "info", without_gpu(torch=None), None, "the NVIDIA driver shows none", None, ""),
        (
            "shared-gpu",
            "warning",
            with_state(
                used_bytes=9 * GIB, processes=(GpuProcess(pid=4711, used_bytes=9 * GIB, name="python"),)
            ),
            H200,
            "9.0 GiB of 140.4 GiB taken; computing on it: python 4711",
            9 * GIB,
            "CUDA_VISIBLE_DEVICES",
        ),
        (
            "shared-gpu",
            "warning",
            with_state(used_bytes=None, processes=OTHERS),
            H200,
            "n/a of 140.4 GiB taken; computing on it: process 1, process 2, process 3 and 2 more",
            None,
            "",
        ),
        (
            "shared-gpu",
            "warning",
            with_state(used_bytes=None, processes=OTHERS[:3]),
            H200,
            "n/a of 140.4 GiB taken; computing on it: process 1, process 2, process 3",
            None,
            "",
        ),
        (
            "shared-gpu",
            "warning",
            with_state(used_bytes=H200_BYTES // 20 + 1, processes=None),
            H200,
            "7.0 GiB of 140.4 GiB taken; the driver names no process",
            H200_BYTES // 20 + 1,
            "",
        ),
        *(
            (
                "gpu-throttled",
                "warning",
                with_state(throttle_reasons=("gpu_idle", reason), sm_clock_mhz=1200, temperature_c=84.4),
                H200,
                f"{reason}; 1200 MHz of 1980 MHz, 84 C",
                None,
                "cooling",
            )
            for reason in (
                "hw_slowdown",
                "hw_thermal_slowdown",
                "hw_power_brake_slowdown",
                "sw_thermal_slowdown",
            )
        ),
        (
            "gpu-throttled",
            "warning",
            with_state(
                throttle_reasons=("hw_slowdown",),
                sm_clock_mhz=None,
                max_sm_clock_mhz=None,
                temperature_c=None,
            ),
            H200,
            "hw_slowdown; n/a of n/a, n/a",
            None,
            "",
        ),
        ("gpu-hot", "warning", with_state(temperature_c=85), H200, "85 C", 85, "cool"),
        (
            "power-limited",
            "warning",
            with_state(power_limit_w=594),
            H200,
            "limit 594 W, profile h200 has 700 W",
            594,
            "nvidia-smi -i 0 -pl 700",
        ),
        (
            "ecc-errors",
            "warning",
            with_state(ecc_errors=1),
            H200,
            "1 uncorrected error since the driver was loaded",
            1,
            "another machine",
        ),
        (
            "ecc-errors",
            "warning",
            with_state(ecc_errors=3),
            H200,
            "3 uncorrected errors since the driver was loaded",
            3,
            "",
        ),
        *(
            ("pcie-narrow", "warning", of_one(pcie=link(*lanes)), H200, evidence, lanes[0], "slot")
            for lanes, evidence in [
                ((8, 16), "x8 now; the slot and the GPU could do x16"),
                ((15, 16), "x15 now; the slot and the GPU could do x16"),
                ((4, 4), "x4 now"),
                ((1, None), "x1 now"),
            ]
        ),
        # The driver knows the card's most in a virtual machine, not the slot's: an A10G with x8 of 16, say.
        (
            "pcie-narrow",
            "info",
            checkup(is_virtual=True, accelerators=(gpu(pcie=link(8, 16)),)),
            H200,
            "x8 now; the GPU could do x16",
            8,
            "wired so",
        ),
        (
            "pcie-narrow",
            "warning",
            checkup(is_virtual=True, accelerators=(gpu(pcie=link(4, 16)),)),
            H200,
            "x4 now; the GPU could do x16",
            4,
            "",
        ),
        (
            "mig-partition",
            "info",
            of_one(
                name="NVIDIA H200 MIG 1g.18gb",
                memory_bytes=16 * GIB,
                is_partition=True,
                profile_id=None,
                state={},
            ),
            None,
            "NVIDIA H200 MIG 1g.18gb, 16.0 GiB",
            None,
            "measure",
        ),
        (
            "unknown-gpu",
            "warning",
            of_one(name="NVIDIA H200 NVL", profile_id=None),
            None,
            "the driver calls it 'NVIDIA H200 NVL'",
            None,
            "~/.config/tunekit/profiles",
        ),
        ("unknown-gpu", "warning", amd(), None, "torch calls it 'AMD Instinct MI300X'", None, ""),
        (
            "less-gpu-memory",
            "warning",
            of_one(memory_bytes=int(0.97 * H200_BYTES)),
            H200,
            "136.2 GiB, profile h200 has 140.4 GiB",
            int(0.97 * H200_BYTES),
            "virtual GPU",
        ),
        (
            "mixed-gpus",
            "warning",
            checkup(accelerators=(gpu(0), t4(1), gpu(2))),
            H200,
            "NVIDIA H200, Tesla T4",
            None,
            "CUDA_VISIBLE_DEVICES",
        ),
        *(
            (
                "device-order",
                "warning",
                checkup(gpu_models=TWO_KINDS, environment=environment),
                H200,
                f"NVIDIA H200, Tesla T4; CUDA_DEVICE_ORDER is {evidence}",
                None,
                "export CUDA_DEVICE_ORDER=PCI_BUS_ID",
            )
            for environment, evidence in [
                ({}, "not set"),
                (
                    {"CUDA_DEVICE_ORDER": "FASTEST_FIRST", "CUDA_VISIBLE_DEVICES": "1"},
                    "FASTEST_FIRST, CUDA_VISIBLE_DEVICES=1",
                ),
                ({"CUDA_VISIBLE_DEVICES": "GPU-1, 0"}, "not set, CUDA_VISIBLE_DEVICES=GPU-1, 0"),
            ]
        ),
        ("few-cpus-per-gpu", "info", rented(3), H200, "3 CPUs for 1 GPU", 3, "vCPUs"),
        ("few-cpus-per-gpu", "info", rented(1), H200, "1 CPU for 1 GPU", 1, ""),
        ("few-cpus-per-gpu", "info", rented(7, 2), H200, "7 CPUs for 2 GPUs", 3.5, ""),
        (
            "bf16-emulated",
            "warning",
            checkup(accelerators=(t4(),), torch=torch_of(bf16_native=False)),
            T4,
            "Tesla T4, compute capability 7.5; native: fp32, fp16",
            None,
            "GradScaler",
        ),
        ("compile-unsupported", "info", p100(), P100, P100.compile_note, None, "leave compile off"),
        (
            "compile-unsupported",
            "info",
            checkup(),
            profile(compile_supported=False, compile_note=None, memory_bytes=H200_BYTES, tdp_w=700),
            "compute capability 9.0",
            None,
            "",
        ),
    ],
)
def test_what_is_wrong_with_a_gpu_is_told(
    code: str,
    severity: str,
    seen: Checkup,
    profile: Profile | None,
    evidence: str,
    value: float | None,
    remedy: str,
):
    finding = only_finding(seen, profile)
    assert (finding.code, finding.severity) == (code, severity)
    assert (finding.evidence, finding.value) == (evidence, value)
    assert remedy in (finding.remedy or "")


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


@pytest.mark.parametrize(
    ("lanes", "by"), [((8, 16), "fewer PCIe lanes than it could be"), ((4, 4), "few PCIe lanes")]
)
def test_a_link_below_its_best_is_told_from_one_that_can_do_no_more(lanes: tuple[int, int], by: str):
    message = only_finding(of_one(pcie=link(*lanes))).message
    assert message == f"GPU 0 is linked by {by}: batches take longer to reach it"
