"""Variables and tools: which change how training runs, and at which values."""

import subprocess
import sys
from typing import Any

import pytest
from build_checkups import (
    H200,
    T4,
    checkup,
    codes,
    finding_of,
    gpu,
    loader_plan,
    only_finding,
    seen_device,
    torch_of,
    without_gpu,
)
from build_records import profile

from tunekit.records.checkup import Checkup, LoaderPlan
from tunekit.records.finding import Severity


def under(**environment: str) -> Checkup:
    return checkup(environment=environment)


def test_threads_of_all_workers_beyond_the_cpus_are_a_note():
    seen = checkup(environment={"OMP_NUM_THREADS": "11"}, loader=loader_plan(3))
    finding = only_finding(seen)
    assert (finding.code, finding.severity) == ("omp-threads", Severity.INFO)
    assert finding.message.startswith("in each loader worker torch uses one thread")
    assert finding.evidence == "OMP_NUM_THREADS=11 x 3 workers = 33, 32 CPUs"
    assert "threadpool_limits(10)" in (finding.remedy or "")
    assert finding.value == 33
    assert codes(checkup(environment={"OMP_NUM_THREADS": "4"}, loader=loader_plan(8))) == []
    assert codes(checkup(environment={"OMP_NUM_THREADS": "17"}, loader=loader_plan(2))) == ["omp-threads"]


def test_threads_that_are_not_set_are_a_note():
    finding = only_finding(checkup(unset=("OMP_NUM_THREADS",), loader=loader_plan(2, processes=2)))
    assert (finding.code, finding.severity) == ("omp-threads", Severity.INFO)
    assert finding.evidence == "OMP_NUM_THREADS is not set; 4 workers on 32 CPUs"
    assert "cv2.setNumThreads(0)" in (finding.remedy or "")


@pytest.mark.parametrize(("workers", "text"), [(1, None), (0, None), (1, "32"), (8, "4,2"), (8, " 4 , 2 ")])
def test_threads_that_can_not_harm_are_no_finding(workers: int, text: str | None):
    unset = ("OMP_NUM_THREADS",) if text is None else ()
    seen = checkup(environment={"OMP_NUM_THREADS": text or ""}, unset=unset, loader=loader_plan(workers))
    assert codes(seen) == []


@pytest.mark.parametrize("text", ["64", "64,2", "33"])
@pytest.mark.parametrize("loader", [None, loader_plan(1)])
def test_more_threads_than_cpus_are_a_warning_without_workers_too(text: str, loader: LoaderPlan | None):
    finding = only_finding(checkup(environment={"OMP_NUM_THREADS": text}, loader=loader))
    threads = text.split(",", maxsplit=1)[0]
    assert (finding.code, finding.severity) == ("threads-above-cpus", Severity.WARNING)
    assert finding.evidence == f"OMP_NUM_THREADS={threads}; affinity and quota allow 32 CPUs"
    assert finding.remedy == "export OMP_NUM_THREADS=32"
    assert finding.value == int(threads)


def test_threads_that_torch_starts_are_not_told_twice():
    seen = checkup(environment={"OMP_NUM_THREADS": "64"}, torch=torch_of(threads=64))
    assert codes(seen) == ["threads-above-cpus"]
    assert "torch.get_num_threads()" in (only_finding(seen).evidence or "")


@pytest.mark.parametrize("text", ["abc", "4;2", "-1", "4.0", "9" * 400, "4,", "$N"])
@pytest.mark.parametrize("loader", [None, loader_plan(8)])
def test_threads_that_are_no_number_are_a_warning(text: str, loader: LoaderPlan | None):
    finding = only_finding(checkup(environment={"OMP_NUM_THREADS": text}, loader=loader))
    assert (finding.code, finding.severity) == ("omp-ignored", Severity.WARNING)
    assert finding.evidence == f"OMP_NUM_THREADS={text!r}"
    assert "unset OMP_NUM_THREADS" in (finding.remedy or "")


def test_on_one_cpu_nothing_starts_more_threads():
    seen = checkup(
        unset=("OMP_NUM_THREADS",),
        loader=loader_plan(2),
        cpus=1,
        cpus_total=1,
        cpus_affinity=1,
        torch=torch_of(threads=1),
    )
    assert "omp-threads" not in codes(seen)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("CUDA_LAUNCH_BLOCKING", "1", "every kernel is waited for"),
        ("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", "every tensor is allocated by the driver anew"),
        ("PYTORCH_NO_CUDA_MEMORY_CACHING", "0", "every tensor is allocated by the driver anew"),
        ("TORCH_DISTRIBUTED_DEBUG", "DETAIL", "every collective is checked"),
        ("NCCL_P2P_DISABLE", "1", "GPUs don't talk to each other directly"),
        ("NCCL_IB_DISABLE", "1", "InfiniBand is not used"),
        ("PYTHONDEVMODE", "1", "Python checks itself"),
        ("PYTORCH_NO_CUDA_MEMORY_CACHING", "", "every tensor is allocated by the driver anew"),
        ("TORCH_DISTRIBUTED_DEBUG", "detail", "every collective is checked"),
        ("PYTHONDEVMODE", "0", "Python checks itself"),
        ("PYTHONDEVMODE", "info", "Python checks itself"),
        ("PYTHONMALLOC", "malloc_debug", "Python checks its memory"),
    ],
)
def test_a_variable_that_slows_training_is_a_warning(name: str, value: str, why: str):
    finding = only_finding(under(**{name: value}))
    assert (finding.code, finding.severity) == ("slow-environment", Severity.WARNING)
    assert finding.evidence == f"{name}={value}: {why}"
    assert finding.remedy == f"unset {name}"


def test_several_variables_are_one_finding():
    finding = only_finding(under(CUDA_LAUNCH_BLOCKING="1", NCCL_P2P_DISABLE="1"))
    assert finding.evidence == (
        "CUDA_LAUNCH_BLOCKING=1: every kernel is waited for; "
        "NCCL_P2P_DISABLE=1: GPUs don't talk to each other directly"
    )
    assert finding.remedy == "unset CUDA_LAUNCH_BLOCKING NCCL_P2P_DISABLE"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CUDA_LAUNCH_BLOCKING", "0"),
        ("TORCH_DISTRIBUTED_DEBUG", "OFF"),
        ("TORCH_DISTRIBUTED_DEBUG", "INFO"),
        ("NCCL_P2P_DISABLE", "0"),
        ("NCCL_IB_DISABLE", ""),
        ("PYTHONMALLOC", "malloc"),
        ("PYTHONDEVMODE", ""),
    ],
)
def test_a_variable_that_is_off_slows_nothing(name: str, value: str):
    assert codes(under(**{name: value})) == []


@pytest.mark.parametrize(
    "name", ["CUDA_LAUNCH_BLOCKING", "PYTORCH_NO_CUDA_MEMORY_CACHING", "NCCL_P2P_DISABLE"]
)
def test_cudas_variables_slow_no_cpu(name: str):
    assert codes(without_gpu(environment={name: "1"}), None) == ["no-gpu"]


@pytest.mark.parametrize(
    ("variables", "evidence", "remedy"),
    [
        ({"TORCH_COMPILE_DISABLE": "1"}, "TORCH_COMPILE_DISABLE=1", "unset TORCH_COMPILE_DISABLE"),
        ({"TORCHDYNAMO_DISABLE": "1"}, "TORCHDYNAMO_DISABLE=1", "unset TORCHDYNAMO_DISABLE"),
        (
            {"TORCH_COMPILE_DISABLE": "1", "TORCHDYNAMO_DISABLE": "1"},
            "TORCH_COMPILE_DISABLE=1, TORCHDYNAMO_DISABLE=1",
            "unset TORCH_COMPILE_DISABLE TORCHDYNAMO_DISABLE",
        ),
    ],
)
def test_compile_that_is_switched_off_is_a_warning(variables: dict[str, str], evidence: str, remedy: str):
    finding = only_finding(under(**variables))
    assert (finding.code, finding.severity) == ("compile-disabled", Severity.WARNING)
    assert finding.evidence == evidence
    assert finding.remedy == remedy
    assert codes(under(**dict.fromkeys(variables, "0"))) == []


@pytest.mark.parametrize("chosen", ["", "-1", "7"])
def test_hidden_gpus_are_a_warning(chosen: str):
    finding = finding_of("gpus-hidden", without_gpu(environment={"CUDA_VISIBLE_DEVICES": chosen}), None)
    assert finding.severity is Severity.WARNING
    assert finding.evidence == f"CUDA_VISIBLE_DEVICES={chosen!r}"
    assert "nvidia-smi -L" in (finding.remedy or "")


def test_a_choice_that_leaves_a_gpu_hides_nothing_that_matters():
    assert codes(under(CUDA_VISIBLE_DEVICES="0")) == []


@pytest.mark.parametrize(
    ("variables", "evidence", "remedy"),
    [
        ({}, "PYTORCH_CUDA_ALLOC_CONF is not set", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"),
        (
            {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:128,expandable_segments:False"},
            "PYTORCH_CUDA_ALLOC_CONF is 'max_split_size_mb:128,expandable_segments:False'",
            "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128,expandable_segments:True",
        ),
        (
            {"PYTORCH_ALLOC_CONF": "expandable_segments:False, backend:native"},
            "PYTORCH_ALLOC_CONF is 'expandable_segments:False, backend:native'",
            "PYTORCH_ALLOC_CONF=backend:native,expandable_segments:True",
        ),
    ],
)
def test_segments_that_can_not_grow_are_a_note(variables: dict[str, str], evidence: str, remedy: str):
    finding = only_finding(checkup(environment={"PYTORCH_CUDA_ALLOC_CONF": "", **variables}))
    assert (finding.code, finding.severity) == ("expandable-segments-off", Severity.INFO)
    assert finding.evidence == evidence
    assert finding.remedy == f"export {remedy}"


@pytest.mark.parametrize("name", ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"])
def test_segments_may_grow_by_either_variable(name: str):
    seen = checkup(
        environment={"PYTORCH_CUDA_ALLOC_CONF": "", name: "backend:native,expandable_segments:true"}
    )
    assert codes(seen) == []


def test_without_a_gpu_its_allocator_does_not_matter():
    assert codes(without_gpu(unset=("PYTORCH_CUDA_ALLOC_CONF",)), None) == ["no-gpu"]


def test_tf32_that_is_forbidden_is_a_warning():
    finding = only_finding(under(NVIDIA_TF32_OVERRIDE="0"))
    assert (finding.code, finding.severity) == ("tf32-forbidden", Severity.WARNING)
    assert finding.evidence == "NVIDIA_TF32_OVERRIDE=0"
    assert finding.remedy == "unset NVIDIA_TF32_OVERRIDE"


@pytest.mark.parametrize(("value", "of"), [("1", H200), ("", H200), ("0", T4), ("0", None)])
def test_tf32_is_forbidden_only_to_gpus_that_have_it(value: str, of: Any):
    assert "tf32-forbidden" not in codes(under(NVIDIA_TF32_OVERRIDE=value), of)


@pytest.mark.parametrize("text", ["", "0", "1"])
def test_python_itself_agrees_when_its_development_mode_is_on(text: str):
    told = subprocess.run(
        [sys.executable, "-c", "import sys; print(sys.flags.dev_mode)"],
        env={"PYTHONDEVMODE": text},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ("slow-environment" in codes(under(PYTHONDEVMODE=text))) is (told.stdout == "True\n")


@pytest.mark.parametrize("of", [H200, None])
def test_without_a_c_compiler_triton_compiles_nothing_for_a_gpu(of: Any):
    finding = only_finding(checkup(compiler=None), of)
    assert (finding.code, finding.severity) == ("no-compiler", Severity.WARNING)
    assert finding.evidence == "PATH holds neither gcc nor clang nor cc, or not what $CC names"
    assert "apt install gcc" in (finding.remedy or "")


def test_without_a_cpp_compiler_nothing_is_compiled_for_the_cpu():
    finding = finding_of("no-compiler", without_gpu(compiler=None), None)
    assert finding.severity is Severity.WARNING
    assert finding.evidence == "PATH does not hold g++, or not what $CXX names"
    assert "apt install g++" in (finding.remedy or "")


def test_a_gpu_without_triton_compiles_with_cpp():
    apple = gpu(seen_by=("torch",), profile_id=None)
    build = torch_of(devices=(seen_device(type="mps"),))
    finding = finding_of("no-compiler", checkup(accelerators=(apple,), torch=build, compiler=None), None)
    assert "g++" in (finding.evidence or "")


def test_a_gpu_without_torch_compile_needs_no_compiler():
    old = profile(compile_supported=False, memory_bytes=None, tdp_w=None)
    assert codes(checkup(compiler=None), old) == ["compile-unsupported"]
