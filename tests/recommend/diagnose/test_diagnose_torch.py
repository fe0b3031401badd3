"""Torch held against the machine: absent, blind to the GPU, or without code for it."""

from typing import Any

import pytest
from build_checkups import (
    CU126,
    CU130,
    H200,
    T4,
    checkup,
    codes,
    finding_of,
    gpu,
    only_finding,
    seen_device,
    torch_of,
    without_gpu,
)
from build_records import unhurried
from hypothesis import given
from hypothesis import strategies as st

from tunekit.recommend.diagnose.torch_build import has_code_for
from tunekit.records.checkup import Checkup
from tunekit.records.finding import Severity

GPUS = {
    "K80": "3.7",
    "P100": "6.0",
    "GTX 1080 Ti": "6.1",
    "V100": "7.0",
    "T4": "7.5",
    "A100": "8.0",
    "RTX 3090": "8.6",
    "RTX 4090": "8.9",
    "H200": "9.0",
    "B200": "10.0",
    "B300": "10.3",
    "RTX 5090": "12.0",
    "GB10": "12.1",
}
RUNS = {
    # sm_50 runs on all of Maxwell alone, sm_60 on the GTX 1080 Ti too, sm_86 on the RTX 4090.
    CU126: {"P100", "GTX 1080 Ti", "V100", "T4", "A100", "RTX 3090", "RTX 4090", "H200"},
    CU130: {"T4", "A100", "RTX 3090", "RTX 4090", "H200", "B200", "B300", "RTX 5090", "GB10"},
}

versions = st.tuples(st.integers(3, 13), st.integers(0, 9))


def named(kind: str, version: tuple[int, int], suffix: str = "") -> str:
    return f"{kind}_{version[0]}{version[1]}{suffix}"


def capability(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


@pytest.mark.parametrize("build", [CU126, CU130])
@pytest.mark.parametrize("name", GPUS)
def test_builds_run_on_the_gpus_that_nvidia_says(build: tuple[str, ...], name: str):
    assert has_code_for(build, GPUS[name]) is (name in RUNS[build])


@unhurried
@given(versions, versions)
def test_machine_code_runs_on_its_generation_from_its_version_on(
    code: tuple[int, int], device: tuple[int, int]
):
    fits = code[0] == device[0] and code[1] <= device[1]
    assert has_code_for((named("sm", code),), capability(device)) is fits
    assert has_code_for((named("sm", code, "f"),), capability(device)) is fits


@unhurried
@given(versions, versions)
def test_ptx_runs_on_all_that_is_as_new(code: tuple[int, int], device: tuple[int, int]):
    assert has_code_for((named("compute", code),), capability(device)) is (device >= code)


@unhurried
@given(st.sampled_from(["sm", "compute"]), versions, versions)
def test_code_bound_to_an_architecture_runs_on_it_alone(
    kind: str, code: tuple[int, int], device: tuple[int, int]
):
    assert has_code_for((named(kind, code, "a"),), capability(device)) is (device == code)


@unhurried
@given(versions, versions)
def test_ptx_of_a_family_stays_in_it(code: tuple[int, int], device: tuple[int, int]):
    fits = code[0] == device[0] and code[1] <= device[1]
    assert has_code_for((named("compute", code, "f"),), capability(device)) is fits


@unhurried
@given(
    st.lists(st.builds(named, st.sampled_from(["sm", "compute"]), versions, st.sampled_from(["", "a", "f"]))),
    versions,
)
def test_any_of_a_builds_codes_is_enough(names: list[str], device: tuple[int, int]):
    each = [has_code_for((name,), capability(device)) for name in names]
    assert has_code_for(tuple(names), capability(device)) is any(each)


@pytest.mark.parametrize("names", [(), ("gfx90a",), ("sm_", "compute", "sm_9", "")])
def test_names_that_are_none_of_cudas_run_nowhere(names: tuple[str, ...]):
    assert not has_code_for(names, "9.0")


def test_an_absent_torch_is_an_error():
    reason = "/env/bin/python has no torch that can be imported: No module named 'torch'"
    finding = only_finding(checkup(torch=None, why_no_torch=reason))
    assert (finding.code, finding.severity) == ("torch-absent", Severity.ERROR)
    assert finding.evidence == reason
    assert "install torch" in (finding.remedy or "")


def test_a_torch_that_nobody_asked_for_is_no_finding():
    assert codes(checkup(torch=None)) == []


def test_a_python_that_is_not_known_may_have_any_torch():
    reason = "which Python 'uv' runs is not known before it runs"
    seen = checkup(torch=None, why_no_torch=reason).model_copy(update={"has_python_answered": False})
    finding = only_finding(seen)
    assert (finding.code, finding.severity) == ("torch-unknown", Severity.INFO)
    assert finding.evidence == reason
    assert finding.remedy == (
        "give the training environment's Python after --, as in: "
        "tunekit doctor -- /path/to/env/bin/python train.py"
    )


@pytest.mark.parametrize("hip_version", [None, "6.4"])
def test_a_torch_without_cuda_beside_a_gpu_is_an_error(hip_version: str | None):
    build = torch_of(
        version="2.13.0+cpu", cuda_version=None, hip_version=hip_version, architectures=(), devices=()
    )
    finding = only_finding(checkup(torch=build))
    assert (finding.code, finding.severity) == ("torch-cpu-build", Severity.ERROR)
    assert finding.evidence == "torch 2.13.0+cpu in /env/bin/python; the driver shows NVIDIA H200"
    assert "pytorch.org/get-started" in (finding.remedy or "")


def test_without_a_gpu_the_cpu_build_is_right():
    assert codes(without_gpu(), None) == ["no-gpu"]


@pytest.mark.parametrize(
    ("driver", "problem", "evidence"),
    [
        ("470.1", "The NVIDIA driver is too old", "driver 470.1: The NVIDIA driver is too old"),
        (None, None, "driver n/a: torch.cuda.is_available() is False and says no more"),
    ],
)
def test_a_torch_that_can_not_use_the_gpu_is_an_error(driver: Any, problem: Any, evidence: str):
    seen = checkup(accelerators=(gpu(driver=driver),), torch=torch_of(devices=(), problem=problem))
    finding = only_finding(seen)
    assert (finding.code, finding.severity) == ("torch-sees-no-gpu", Severity.ERROR)
    assert finding.evidence == f"torch 2.13.0+cu130 for CUDA 13.0, {evidence}"
    assert "update the driver" in (finding.remedy or "")


def test_a_build_without_code_for_the_gpu_is_an_error():
    volta = gpu(name="Tesla V100-SXM2-16GB", compute_capability="7.0", profile_id="v100-sxm-16", state=None)
    finding = finding_of("torch-lacks-architecture", checkup(accelerators=(volta,)))
    assert finding.severity is Severity.ERROR
    assert finding.message.startswith("this torch holds no code for Tesla V100-SXM2-16GB")
    assert finding.evidence == f"the GPU is sm_70; torch 2.13.0+cu130 has {', '.join(CU130)}"
    assert finding.remedy == "`tunekit gpus v100-sxm-16` names the builds that support it"
    unknown = volta.model_copy(update={"profile_id": None})
    finding = finding_of("torch-lacks-architecture", checkup(accelerators=(unknown,)), None)
    assert "pytorch.org/get-started" in (finding.remedy or "")


@pytest.mark.parametrize(
    ("accelerator", "build"),
    [
        ({"compute_capability": "7.5"}, {}),
        ({"compute_capability": None}, {}),
        ({"compute_capability": "unheard of"}, {}),
        ({"compute_capability": "7.0"}, {"architectures": ()}),
        ({"compute_capability": "7.0"}, {"architectures": CU126}),
        ({"compute_capability": "7.0", "seen_by": ("torch",)}, {}),
    ],
)
def test_a_build_with_code_or_one_that_can_not_be_told_is_fine(accelerator: Any, build: Any):
    seen = checkup(accelerators=(gpu(**accelerator),), torch=torch_of(**build))
    assert "torch-lacks-architecture" not in codes(seen)


def test_the_gpu_that_lacks_code_is_named_among_others():
    second = gpu(1, name="NVIDIA TITAN V", compute_capability="7.0")
    finding = finding_of("torch-lacks-architecture", checkup(accelerators=(gpu(0), second)))
    assert "NVIDIA TITAN V" in finding.message


def only_torch_sees(**build: Any) -> Checkup:
    return checkup(accelerators=(gpu(seen_by=("torch",)),), torch=torch_of(**build))


def test_a_silent_driver_is_a_warning():
    finding = only_finding(only_torch_sees(), H200)
    assert (finding.code, finding.severity) == ("no-gpu-telemetry", Severity.WARNING)
    assert finding.evidence == "NVIDIA H200 is seen by torch alone"
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in (finding.remedy or "")


@pytest.mark.parametrize(
    "build",
    [
        {"devices": (seen_device(type="mps", compute_capability=None),), "cuda_version": None},
        {"hip_version": "6.4", "cuda_version": None, "architectures": ("gfx942",)},
    ],
)
def test_gpus_of_others_have_no_nvidia_driver(build: dict[str, Any]):
    assert "no-gpu-telemetry" not in codes(only_torch_sees(**build))


def test_more_threads_than_cpus_are_a_warning():
    finding = only_finding(checkup(torch=torch_of(threads=33)))
    assert (finding.code, finding.severity) == ("threads-above-cpus", Severity.WARNING)
    assert finding.evidence == "torch.get_num_threads() is 33; affinity and quota allow 32 CPUs"
    assert finding.remedy == "export OMP_NUM_THREADS=32"
    assert finding.value == 33
    assert codes(checkup(torch=torch_of(threads=32))) == []


def test_tf32_that_is_off_is_a_note():
    finding = only_finding(checkup(torch=torch_of(float32_matmul_precision="highest")))
    assert (finding.code, finding.severity) == ("tf32-off", Severity.INFO)
    assert '"highest"' in (finding.evidence or "")
    assert 'set_float32_matmul_precision("high")' in (finding.remedy or "")


@pytest.mark.parametrize(
    ("build", "profile"),
    [
        ({"float32_matmul_precision": "high"}, H200),
        ({"float32_matmul_precision": "medium"}, H200),
        ({"float32_matmul_precision": None}, H200),
        ({"float32_matmul_precision": "highest"}, T4),
        ({"float32_matmul_precision": "highest"}, None),
        ({"float32_matmul_precision": "highest", "devices": ()}, H200),
    ],
)
def test_tf32_is_not_missed_where_there_is_none(build: Any, profile: Any):
    assert "tf32-off" not in codes(checkup(torch=torch_of(**build)), profile)
