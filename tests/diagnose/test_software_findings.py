"""The command, its torch and the environment: what is warned of, at which values."""

import subprocess
import sys
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
    loader_plan,
    only_finding,
    seen_device,
    torch_of,
    without_gpu,
)
from build_records import profile

from tunekit.records.checkup import Checkup
from tunekit.records.profile import Profile

VOLTA = {"name": "Tesla V100-SXM2-16GB", "compute_capability": "7.0", "state": None}
CPU_BUILD = {"version": "2.13.0+cpu", "cuda_version": None, "architectures": (), "devices": ()}
WHY = "/env/bin/python has no torch that can be imported: No module named 'torch'"


def under(**environment: str) -> Checkup:
    return checkup(environment=environment)


def omp(text: str, **more: Any) -> Checkup:
    return checkup(environment={"OMP_NUM_THREADS": text}, **more)


def unknown_python(**more: Any) -> Checkup:
    seen = checkup(torch=None, why_no_torch="which Python 'uv' runs is not known before it runs", **more)
    return seen.model_copy(update={"has_python_answered": False})


def only_torch_sees(**build: Any) -> Checkup:
    return checkup(accelerators=(gpu(seen_by=("torch",)),), torch=torch_of(**build))


@pytest.mark.parametrize(
    ("code", "severity", "seen", "evidence", "value", "remedy"),
    [
        (
            "command-absent",
            "error",
            checkup(why_no_command="no script 'a.py' in /x; did you mean b.py?"),
            "no script 'a.py' in /x",
            None,
            "did you mean b.py?",
        ),
        ("torch-absent", "error", checkup(torch=None, why_no_torch=WHY), WHY, None, "install torch there"),
        (
            "torch-unknown",
            "info",
            unknown_python(),
            "which Python 'uv' runs is not known before it runs",
            None,
            "tunekit doctor -- /path/to/env/bin/python train.py",
        ),
        *(
            (
                "torch-cpu-build",
                "error",
                checkup(torch=torch_of(**CPU_BUILD, hip_version=hip)),
                "torch 2.13.0+cpu in /env/bin/python; the driver shows NVIDIA H200",
                None,
                "pytorch.org/get-started",
            )
            for hip in (None, "6.4")
        ),
        *(
            (
                "torch-sees-no-gpu",
                "error",
                checkup(accelerators=(gpu(driver=driver),), torch=torch_of(devices=(), problem=problem)),
                f"torch 2.13.0+cu130 for CUDA 13.0, driver {evidence}",
                None,
                "update the driver",
            )
            for driver, problem, evidence in [
                ("470.1", "The NVIDIA driver is too old", "470.1: The NVIDIA driver is too old"),
                (None, None, "n/a: torch.cuda.is_available() is False and says no more"),
            ]
        ),
        (
            "torch-lacks-architecture",
            "error",
            checkup(accelerators=(gpu(**VOLTA, profile_id="v100-sxm-16"),)),
            f"the GPU is sm_70; torch 2.13.0+cu130 has {', '.join(CU130)}",
            None,
            "`tunekit gpus v100-sxm-16` names the builds",
        ),
        (
            "no-gpu-telemetry",
            "warning",
            only_torch_sees(),
            "NVIDIA H200 is seen by torch alone",
            None,
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        ),
        (
            "threads-above-cpus",
            "warning",
            checkup(torch=torch_of(threads=33)),
            "torch.get_num_threads() is 33; affinity and quota allow 32 CPUs",
            33,
            "export OMP_NUM_THREADS=32",
        ),
        *(
            (
                "threads-above-cpus",
                "warning",
                omp(text, loader=loader),
                f"OMP_NUM_THREADS={threads}; affinity and quota allow 32 CPUs",
                threads,
                "export OMP_NUM_THREADS=32",
            )
            for text, threads in [("64", 64), ("64,2", 64), ("33", 33)]
            for loader in (None, loader_plan(1))
        ),
        # What torch starts is not told twice.
        (
            "threads-above-cpus",
            "warning",
            omp("64", torch=torch_of(threads=64)),
            "torch.get_num_threads() is 64; affinity and quota allow 32 CPUs",
            64,
            "",
        ),
        (
            "tf32-off",
            "info",
            checkup(torch=torch_of(float32_matmul_precision="highest")),
            'torch.get_float32_matmul_precision() is "highest", its default',
            None,
            'set_float32_matmul_precision("high")',
        ),
        (
            "omp-threads",
            "info",
            omp("11", loader=loader_plan(3)),
            "OMP_NUM_THREADS=11 x 3 workers = 33, 32 CPUs",
            33,
            "threadpool_limits(10)",
        ),
        (
            "omp-threads",
            "info",
            checkup(unset=("OMP_NUM_THREADS",), loader=loader_plan(2, processes=2)),
            "OMP_NUM_THREADS is not set; 4 workers on 32 CPUs",
            None,
            "cv2.setNumThreads(0)",
        ),
        *(
            (
                "omp-ignored",
                "warning",
                omp(text, loader=loader),
                f"OMP_NUM_THREADS={text!r}",
                None,
                "unset OMP_NUM_THREADS",
            )
            for text in ("abc", "4;2", "-1", "4.0", "9" * 400, "4,", "$N")
            for loader in (None, loader_plan(8))
        ),
        *(
            (
                "slow-environment",
                "warning",
                under(**{name: text}),
                f"{name}={text}: {why}",
                None,
                f"unset {name}",
            )
            for name, text, why in [
                ("CUDA_LAUNCH_BLOCKING", "1", "every kernel is waited for"),
                ("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", "every tensor is allocated by the driver anew"),
                ("PYTORCH_NO_CUDA_MEMORY_CACHING", "0", "every tensor is allocated by the driver anew"),
                ("PYTORCH_NO_CUDA_MEMORY_CACHING", "", "every tensor is allocated by the driver anew"),
                ("TORCH_DISTRIBUTED_DEBUG", "DETAIL", "every collective is checked"),
                ("TORCH_DISTRIBUTED_DEBUG", "detail", "every collective is checked"),
                ("NCCL_P2P_DISABLE", "1", "GPUs don't talk to each other directly"),
                ("NCCL_IB_DISABLE", "1", "InfiniBand is not used"),
                ("PYTHONDEVMODE", "1", "Python checks itself"),
                ("PYTHONDEVMODE", "0", "Python checks itself"),
                ("PYTHONDEVMODE", "info", "Python checks itself"),
                ("PYTHONMALLOC", "malloc_debug", "Python checks its memory"),
            ]
        ),
        (
            "slow-environment",
            "warning",
            under(CUDA_LAUNCH_BLOCKING="1", NCCL_P2P_DISABLE="1"),
            "CUDA_LAUNCH_BLOCKING=1: every kernel is waited for; "
            "NCCL_P2P_DISABLE=1: GPUs don't talk to each other directly",
            None,
            "unset CUDA_LAUNCH_BLOCKING NCCL_P2P_DISABLE",
        ),
        *(
            (
                "compile-disabled",
                "warning",
                under(**dict.fromkeys(names, "1")),
                ", ".join(f"{name}=1" for name in names),
                None,
                f"unset {' '.join(names)}",
            )
            for names in [
                ("TORCH_COMPILE_DISABLE",),
                ("TORCHDYNAMO_DISABLE",),
                ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"),
            ]
        ),
        *(
            (
                "expandable-segments-off",
                "info",
                checkup(environment={"PYTORCH_CUDA_ALLOC_CONF": "", **variables}),
                evidence,
                None,
                f"export {remedy}",
            )
            for variables, evidence, remedy in [
                (
                    {},
                    "PYTORCH_CUDA_ALLOC_CONF is not set",
                    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
                ),
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
            ]
        ),
        (
            "tf32-forbidden",
            "warning",
            under(NVIDIA_TF32_OVERRIDE="0"),
            "NVIDIA_TF32_OVERRIDE=0",
            None,
            "unset NVIDIA_TF32_OVERRIDE",
        ),
        (
            "no-compiler",
            "warning",
            checkup(compiler=None),
            "PATH holds neither gcc nor clang nor cc, or not what $CC names",
            None,
            "apt install gcc",
        ),
    ],
)
def test_what_is_wrong_with_the_software_is_told(
    code: str, severity: str, seen: Checkup, evidence: str, value: float | None, remedy: str
):
    finding = only_finding(seen)
    assert (finding.code, finding.severity) == (code, severity)
    assert (finding.evidence, finding.value) == (evidence, value)
    assert remedy in (finding.remedy or "")


@pytest.mark.parametrize(
    "seen",
    [
        checkup(torch=None),  # nobody asked for it
        checkup(torch=torch_of(threads=32)),
        checkup(torch=torch_of(float32_matmul_precision="medium")),
        checkup(torch=torch_of(float32_matmul_precision=None)),
        omp("4", loader=loader_plan(8)),
        omp("32", loader=loader_plan(1)),
        omp("", loader=loader_plan(1)),
        omp("4,2", loader=loader_plan(8)),
        omp(" 4 , 2 ", loader=loader_plan(8)),
        checkup(unset=("OMP_NUM_THREADS",), loader=loader_plan(1)),
        checkup(unset=("OMP_NUM_THREADS",), loader=loader_plan(0)),
        under(CUDA_LAUNCH_BLOCKING="0"),
        under(TORCH_DISTRIBUTED_DEBUG="OFF"),
        under(TORCH_DISTRIBUTED_DEBUG="INFO"),
        under(NCCL_P2P_DISABLE="0"),
        under(NCCL_IB_DISABLE=""),
        under(PYTHONMALLOC="malloc"),
        under(PYTHONDEVMODE=""),
        under(TORCH_COMPILE_DISABLE="0", TORCHDYNAMO_DISABLE="0"),
        under(CUDA_VISIBLE_DEVICES="0"),
        under(NVIDIA_TF32_OVERRIDE="1"),
        under(NVIDIA_TF32_OVERRIDE=""),
        *(
            under(**{"PYTORCH_CUDA_ALLOC_CONF": "", name: "backend:native,expandable_segments:true"})
            for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
        ),
        *(
            checkup(accelerators=(gpu(profile_id="h200", compute_capability=of),))
            for of in ("7.5", None, "unheard of")
        ),
    ],
)
def test_what_can_do_no_harm_is_no_finding(seen: Checkup):
    assert codes(seen) == []


@pytest.mark.parametrize(
    ("absent", "seen", "profile"),
    [
        ("torch-lacks-architecture", checkup(accelerators=(gpu(**VOLTA),), torch=torch_of(**build)), H200)
        for build in ({"architectures": ()}, {"architectures": CU126})
    ]
    + [
        ("torch-lacks-architecture", checkup(accelerators=(gpu(**VOLTA, seen_by=("torch",)),)), H200),
        ("tf32-off", checkup(torch=torch_of(float32_matmul_precision="highest")), T4),
        ("tf32-off", checkup(torch=torch_of(float32_matmul_precision="highest")), None),
        ("tf32-off", checkup(torch=torch_of(float32_matmul_precision="highest", devices=())), H200),
        ("tf32-forbidden", under(NVIDIA_TF32_OVERRIDE="0"), T4),
        ("tf32-forbidden", under(NVIDIA_TF32_OVERRIDE="0"), None),
        # GPUs of others have no driver of NVIDIA's.
        (
            "no-gpu-telemetry",
            only_torch_sees(devices=(seen_device(type="mps", compute_capability=None),), cuda_version=None),
            H200,
        ),
        (
            "no-gpu-telemetry",
            only_torch_sees(hip_version="6.4", cuda_version=None, architectures=("gfx942",)),
            H200,
        ),
        (
            "omp-threads",
            checkup(
                unset=("OMP_NUM_THREADS",),
                loader=loader_plan(2),
                cpus=1,
                cpus_total=1,
                cpus_affinity=1,
                torch=torch_of(threads=1),
            ),
            H200,
        ),
    ],
)
def test_what_does_not_concern_a_machine_is_not_told(absent: str, seen: Checkup, profile: Profile | None):
    assert absent not in codes(seen, profile)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"CUDA_LAUNCH_BLOCKING": "1"},
        {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
        {"NCCL_P2P_DISABLE": "1"},
    ],
)
def test_without_a_gpu_neither_the_cpu_build_nor_cudas_variables_matter(environment: dict[str, str]):
    assert codes(without_gpu(environment=environment, unset=("PYTORCH_CUDA_ALLOC_CONF",)), None) == ["no-gpu"]


def test_a_program_that_is_not_there_has_no_torch_to_ask_after():
    missing = {"why_no_command": "no program 'a' on PATH; give it"}
    assert codes(unknown_python(**missing)) == ["command-absent"]
    assert codes(checkup(torch=None, why_no_torch=WHY, **missing)) == ["command-absent", "torch-absent"]


def test_the_gpu_that_lacks_code_is_named_among_others():
    seen = checkup(accelerators=(gpu(0), gpu(1, **VOLTA, profile_id=None)))
    finding = finding_of("torch-lacks-architecture", seen)
    assert finding.message.startswith("this torch holds no code for Tesla V100-SXM2-16GB")
    assert "pytorch.org/get-started" in (finding.remedy or "")


@pytest.mark.parametrize("chosen", ["", "-1", "7"])
def test_hidden_gpus_are_a_warning(chosen: str):
    finding = finding_of("gpus-hidden", without_gpu(environment={"CUDA_VISIBLE_DEVICES": chosen}), None)
    assert (finding.severity, finding.evidence) == ("warning", f"CUDA_VISIBLE_DEVICES={chosen!r}")
    assert "nvidia-smi -L" in (finding.remedy or "")


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


@pytest.mark.parametrize(
    "seen",
    [
        without_gpu(compiler=None),
        checkup(
            accelerators=(gpu(seen_by=("torch",), profile_id=None),),
            torch=torch_of(devices=(seen_device(type="mps"),)),
            compiler=None,
        ),
    ],
)
def test_without_triton_torch_compiles_with_cpp(seen: Checkup):
    finding = finding_of("no-compiler", seen, None)
    assert (finding.severity, finding.evidence) == (
        "warning",
        "PATH does not hold g++, or not what $CXX names",
    )


def test_a_gpu_without_torch_compile_needs_no_compiler():
    old = profile(compile_supported=False, memory_bytes=None, tdp_w=None)
    assert codes(checkup(compiler=None), old) == ["compile-unsupported"]
