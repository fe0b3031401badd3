"""GPUs: which one is warned of, and which just not."""

from typing import Any

import pytest
from build_checkups import (
    H200,
    H200_BYTES,
    T4,
    checkup,
    codes,
    finding_of,
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
from tunekit.records.finding import Severity
from tunekit.records.host import Accelerator, GpuProcess


def with_state(**state: Any) -> Checkup:
    return checkup(accelerators=(gpu(state=state),))


def t4(index: int = 0) -> Accelerator:
    return gpu(
        index,
        name="Tesla T4",
        memory_bytes=T4.memory_bytes,
        compute_capability="7.5",
        profile_id="t4",
        state={"power_limit_w": 70},
    )


def test_no_gpu_is_a_note():
    finding = only_finding(without_gpu(), None)
    assert (finding.code, finding.severity) == ("no-gpu", Severity.INFO)
    assert finding.evidence == "neither the NVIDIA driver nor torch shows one"
    assert "--gpus all" in (finding.remedy or "")


def test_torch_is_no_witness_where_it_was_not_asked():
    finding = only_finding(without_gpu(torch=None), None)
    assert finding.evidence == "the NVIDIA driver shows none"


@pytest.mark.parametrize(
    ("native", "expected"), [(False, ["no-gpu", "bf16-emulated"]), (True, ["no-gpu"]), (None, ["no-gpu"])]
)
def test_a_cpu_that_emulates_bf16_is_a_note(native: bool | None, expected: list[str]):
    seen = without_gpu(cpu_bf16_native=native)
    assert codes(seen, None) == expected
    if native is False:
        finding = finding_of("bf16-emulated", seen, None)
        assert finding.severity is Severity.INFO
        assert "avx512_bf16" in (finding.evidence or "")
        assert "tunekit search" in (finding.remedy or "")


def test_beside_a_gpu_the_cpus_precisions_do_not_matter():
    assert codes(checkup(cpu_bf16_native=False)) == []


def test_a_gpu_that_a_process_computes_on_is_shared():
    other = GpuProcess(pid=4711, used_bytes=9 * GIB, name="python")
    finding = only_finding(with_state(used_bytes=9 * GIB, processes=(other,)))
    assert (finding.code, finding.severity) == ("shared-gpu", Severity.WARNING)
    assert finding.message.startswith("GPU 0 is in use")
    assert finding.evidence == "9.0 GiB of 140.4 GiB taken; computing on it: python 4711"
    assert "CUDA_VISIBLE_DEVICES" in (finding.remedy or "")
    assert finding.value == 9 * GIB


def test_of_many_processes_three_are_named():
    others = tuple(GpuProcess(pid=number, used_bytes=None) for number in range(1, 6))
    finding = only_finding(with_state(used_bytes=None, processes=others))
    assert finding.evidence == (
        "n/a of 140.4 GiB taken; computing on it: process 1, process 2, process 3 and 2 more"
    )
    assert finding.value is None
    three = only_finding(with_state(used_bytes=None, processes=others[:3]))
    assert (three.evidence or "").endswith("process 3")


def test_memory_that_nobody_owns_up_to_is_shared_above_a_twentieth():
    taken = H200_BYTES // 20
    finding = only_finding(with_state(used_bytes=taken + 1, processes=None))
    assert finding.code == "shared-gpu"
    assert finding.evidence == "7.0 GiB of 140.4 GiB taken; the driver names no process"
    assert codes(with_state(used_bytes=taken, processes=None)) == []
    exactly = gpu(memory_bytes=160 * GIB, state={"used_bytes": 8 * GIB})
    assert codes(checkup(accelerators=(exactly,))) == []
    assert codes(with_state(used_bytes=None, processes=None)) == []


@pytest.mark.parametrize(
    "reason", ["hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown"]
)
def test_a_slowed_down_gpu_is_a_warning(reason: str):
    seen = with_state(throttle_reasons=("gpu_idle", reason), sm_clock_mhz=1200, temperature_c=84.4)
    finding = only_finding(seen)
    assert (finding.code, finding.severity) == ("gpu-throttled", Severity.WARNING)
    assert finding.evidence == f"{reason}; 1200 MHz of 1980 MHz, 84 C"
    assert "cooling" in (finding.remedy or "")


def test_figures_that_the_driver_keeps_to_itself_are_not_made_up():
    seen = with_state(
        throttle_reasons=("hw_slowdown",), sm_clock_mhz=None, max_sm_clock_mhz=None, temperature_c=None
    )
    assert only_finding(seen).evidence == "hw_slowdown; n/a of n/a, n/a"


@pytest.mark.parametrize("reason", ["gpu_idle", "sw_power_cap", "applications_clocks_setting"])
def test_an_idle_or_capped_gpu_is_not_slowed_down(reason: str):
    assert codes(with_state(throttle_reasons=(reason,))) == []


def test_a_hot_gpu_is_a_warning():
    finding = only_finding(with_state(temperature_c=85))
    assert (finding.code, finding.severity) == ("gpu-hot", Severity.WARNING)
    assert finding.evidence == "85 C"
    assert "cool" in (finding.remedy or "")
    assert finding.value == 85
    assert codes(with_state(temperature_c=84.9)) == []
    assert codes(with_state(temperature_c=None)) == []


def test_a_low_power_limit_is_a_warning():
    finding = only_finding(with_state(power_limit_w=594))
    assert (finding.code, finding.severity) == ("power-limited", Severity.WARNING)
    assert finding.evidence == "limit 594 W, profile h200 has 700 W"
    assert (finding.remedy or "").startswith("nvidia-smi -i 0 -pl 700")
    assert finding.value == 594
    assert codes(with_state(power_limit_w=595)) == []
    assert codes(with_state(power_limit_w=None)) == []
    assert codes(with_state(power_limit_w=300), None) == []
    assert codes(with_state(power_limit_w=300), profile(memory_bytes=None, tdp_w=None)) == []


def test_errors_of_the_gpus_memory_are_a_warning():
    finding = only_finding(with_state(ecc_errors=1))
    assert (finding.code, finding.severity) == ("ecc-errors", Severity.WARNING)
    assert finding.evidence == "1 uncorrected error since the driver was loaded"
    assert finding.value == 1
    assert "another machine" in (finding.remedy or "")
    assert only_finding(with_state(ecc_errors=3)).evidence == (
        "3 uncorrected errors since the driver was loaded"
    )
    assert codes(with_state(ecc_errors=0)) == []
    assert codes(with_state(ecc_errors=None)) == []


@pytest.mark.parametrize(
    ("lanes", "max_lanes", "evidence", "message"),
    [
        (8, 16, "x8 now; the slot and the GPU could do x16", "by fewer PCIe lanes than it could be:"),
        (15, 16, "x15 now; the slot and the GPU could do x16", "by fewer PCIe lanes than it could be:"),
        (4, 4, "x4 now", "by few PCIe lanes:"),
        (1, None, "x1 now", "by few PCIe lanes:"),
    ],
)
def test_a_narrow_link_is_a_warning(lanes: int, max_lanes: int | None, evidence: str, message: str):
    finding = only_finding(checkup(accelerators=(gpu(pcie=link(lanes, max_lanes)),)))
    assert (finding.code, finding.severity) == ("pcie-narrow", Severity.WARNING)
    assert finding.evidence == evidence
    assert message in finding.message
    assert "slot" in (finding.remedy or "")
    assert finding.value == lanes


def test_in_a_virtual_machine_half_the_lanes_may_be_how_its_type_is_wired():
    """The driver knows the card's most there, not the slot's: an A10G with x8 of 16, say."""
    finding = only_finding(checkup(is_virtual=True, accelerators=(gpu(pcie=link(8, 16)),)))
    assert (finding.code, finding.severity) == ("pcie-narrow", Severity.INFO)
    assert finding.evidence == "x8 now; the GPU could do x16"
    assert "slot" not in (finding.remedy or "")
    very_few = checkup(is_virtual=True, accelerators=(gpu(pcie=link(4, 16)),))
    assert only_finding(very_few).severity is Severity.WARNING


@pytest.mark.parametrize("pcie", [link(5, 5), link(16, None), link(8, 8), link(None, 16), None])
def test_a_link_at_its_best_is_fine(pcie: Any):
    assert codes(checkup(accelerators=(gpu(pcie=pcie),))) == []


def test_a_partition_is_a_note():
    part = gpu(
        name="NVIDIA H200 MIG 1g.18gb", memory_bytes=16 * GIB, is_partition=True, profile_id=None, state={}
    )
    finding = only_finding(checkup(accelerators=(part,)), None)
    assert (finding.code, finding.severity) == ("mig-partition", Severity.INFO)
    assert finding.evidence == "NVIDIA H200 MIG 1g.18gb, 16.0 GiB"
    assert "measure" in (finding.remedy or "")


def test_a_gpu_without_a_profile_is_a_warning():
    finding = only_finding(checkup(accelerators=(gpu(name="NVIDIA H200 NVL", profile_id=None),)), None)
    assert (finding.code, finding.severity) == ("unknown-gpu", Severity.WARNING)
    assert finding.evidence == "the driver calls it 'NVIDIA H200 NVL'"
    assert "~/.config/tunekit/profiles" in (finding.remedy or "")


def test_a_gpu_that_torch_alone_sees_was_named_by_torch():
    strange = gpu(name="AMD Instinct MI300X", profile_id=None, seen_by=("torch",), compute_capability=None)
    build = torch_of(
        cuda_version=None, hip_version="6.4", devices=(seen_device(name=strange.name),), architectures=()
    )
    finding = only_finding(checkup(accelerators=(strange,), torch=build), None)
    assert finding.code == "unknown-gpu"
    assert finding.evidence == "torch calls it 'AMD Instinct MI300X'"


def test_a_gpu_with_less_memory_than_its_kind_is_a_warning():
    finding = only_finding(checkup(accelerators=(gpu(memory_bytes=int(0.97 * H200_BYTES)),)))
    assert (finding.code, finding.severity) == ("less-gpu-memory", Severity.WARNING)
    assert finding.evidence == "136.2 GiB, profile h200 has 140.4 GiB"
    assert finding.value == int(0.97 * H200_BYTES)
    assert "virtual GPU" in (finding.remedy or "")
    assert codes(checkup(accelerators=(gpu(memory_bytes=int(0.97 * H200_BYTES) + 1),))) == []
    of_100_gib = profile(memory_bytes=100 * GIB, tdp_w=None)
    assert codes(checkup(accelerators=(gpu(memory_bytes=97 * GIB),)), of_100_gib) == []


def test_each_gpu_is_held_against_its_own_kind():
    assert codes(checkup(accelerators=(gpu(0), t4(1)))) == ["mixed-gpus"]
    finding = only_finding(checkup(accelerators=(gpu(0), gpu(1, state={"temperature_c": 90}))))
    assert finding.message.startswith("GPU 1 is hot")


TWO_KINDS = ("NVIDIA H200", "Tesla T4")


@pytest.mark.parametrize(
    ("environment", "evidence"),
    [
        ({}, "NVIDIA H200, Tesla T4; CUDA_DEVICE_ORDER is not set"),
        (
            {"CUDA_DEVICE_ORDER": "FASTEST_FIRST", "CUDA_VISIBLE_DEVICES": "1"},
            "NVIDIA H200, Tesla T4; CUDA_DEVICE_ORDER is FASTEST_FIRST, CUDA_VISIBLE_DEVICES=1",
        ),
        (
            {"CUDA_VISIBLE_DEVICES": "GPU-1, 0"},
            "NVIDIA H200, Tesla T4; CUDA_DEVICE_ORDER is not set, CUDA_VISIBLE_DEVICES=GPU-1, 0",
        ),
    ],
)
def test_numbers_of_mixed_gpus_are_a_warning_though_one_alone_is_chosen(
    environment: dict[str, str], evidence: str
):
    finding = only_finding(checkup(gpu_models=TWO_KINDS, environment=environment))
    assert (finding.code, finding.severity) == ("device-order", Severity.WARNING)
    assert finding.evidence == evidence
    assert finding.remedy == "export CUDA_DEVICE_ORDER=PCI_BUS_ID"


@pytest.mark.parametrize(
    "environment", [{"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, {"CUDA_VISIBLE_DEVICES": "GPU-1,GPU-2"}]
)
def test_numbers_that_the_driver_gives_or_nobody_uses_are_fine(environment: dict[str, str]):
    assert codes(checkup(gpu_models=TWO_KINDS, environment=environment)) == []


def test_equal_gpus_are_numbered_alike():
    assert codes(checkup(gpu_models=("NVIDIA H200",))) == []


def test_several_kinds_of_gpu_are_a_warning():
    finding = only_finding(checkup(accelerators=(gpu(0), t4(1), gpu(2))))
    assert (finding.code, finding.severity) == ("mixed-gpus", Severity.WARNING)
    assert finding.evidence == "NVIDIA H200, Tesla T4"
    assert "CUDA_VISIBLE_DEVICES" in (finding.remedy or "")


@pytest.mark.parametrize(
    ("cpus", "gpus", "evidence"),
    [
        (3, 1, "3 CPUs for 1 GPU"),
        (1, 1, "1 CPU for 1 GPU"),
        (7, 2, "7 CPUs for 2 GPUs"),
        (4, 1, None),
        (8, 2, None),
    ],
)
def test_few_cpus_for_each_gpu_are_a_note(cpus: int, gpus: int, evidence: str | None):
    seen = checkup(
        cpus=cpus,
        cpus_total=cpus,
        cpus_affinity=cpus,
        accelerators=tuple(gpu(index) for index in range(gpus)),
        torch=torch_of(threads=1),
        unset=("OMP_NUM_THREADS",),
    )
    assert codes(seen) == ([] if evidence is None else ["few-cpus-per-gpu"])
    if evidence:
        finding = only_finding(seen)
        assert finding.severity is Severity.INFO
        assert finding.evidence == evidence
        assert "vCPUs" in (finding.remedy or "")
        assert finding.value == cpus / gpus


def test_a_gpu_that_emulates_bf16_is_a_warning():
    seen = checkup(accelerators=(t4(),), torch=torch_of(bf16_native=False))
    finding = only_finding(seen, T4)
    assert (finding.code, finding.severity) == ("bf16-emulated", Severity.WARNING)
    assert finding.evidence == "Tesla T4, compute capability 7.5; native: fp32, fp16"
    assert "GradScaler" in (finding.remedy or "")
    assert codes(seen, H200) == ["less-gpu-memory", "power-limited"]


def test_a_gpu_without_torch_compile_is_a_note():
    p100 = load_profiles()["p100-pcie-16"]
    card = gpu(
        name=p100.device_names[0],
        memory_bytes=p100.memory_bytes,
        compute_capability="6.0",
        profile_id=p100.id,
        state={"power_limit_w": p100.tdp_w},
    )
    seen = checkup(accelerators=(card,), torch=torch_of(architectures=("sm_60",)), compiler=None)
    finding = only_finding(seen, p100)
    assert (finding.code, finding.severity) == ("compile-unsupported", Severity.INFO)
    assert finding.evidence == p100.compile_note
    assert finding.remedy == "leave compile off"


def test_the_capability_stands_in_for_a_note_on_compile():
    old = profile(compile_supported=False, compile_note=None, memory_bytes=H200_BYTES, tdp_w=700)
    assert only_finding(checkup(), old).evidence == "compute capability 9.0"


def test_a_gpu_that_says_nothing_of_its_state_is_fine():
    silent = gpu().model_copy(update={"state": None, "pcie": None})
    assert codes(checkup(accelerators=(silent,))) == []
