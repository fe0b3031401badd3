"""The command, its torch and the environment: what is warned of, at which values."""

from collections.abc import Callable
from typing import Any

import pytest
from build_checkups import (
    CU126,
    H200,
    T4,
    checkup,
    codes,
    gpu,
    loader_plan,
    only_finding,
    seen_device,
    torch_of,
    without_gpu,
)
from finding_texts import texts_of

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
    seen = checkup(torch=None, why_no_torch="can't tell which Python 'uv' runs", **more)
    return seen.model_copy(update={"has_python_answered": False})


def only_torch_sees(**build: Any) -> Checkup:
    return checkup(accelerators=(gpu(seen_by=("torch",)),), torch=torch_of(**build))


ROWS = [
    checkup(why_no_command="no script 'a.py' in /x; did you mean b.py?"),
    checkup().changed(other_tunekit="2.0.1"),
    checkup(torch=None, why_no_torch=WHY),
    unknown_python(),
    *(checkup(torch=torch_of(**CPU_BUILD, hip_version=hip)) for hip in (None, "6.4")),
    *(
        checkup(accelerators=(gpu(driver=driver),), torch=torch_of(devices=(), problem=problem))
        for driver, problem in [("470.1", "The NVIDIA driver is too old"), (None, None)]
    ),
    checkup(accelerators=(gpu(**VOLTA, profile_id="v100-sxm-16"),)),
    only_torch_sees(),
    checkup(torch=torch_of(threads=33)),
    omp("64"),
    checkup(torch=torch_of(float32_matmul_precision="highest")),
    *(
        under(**{name: text})
        for name, text in [
            ("CUDA_LAUNCH_BLOCKING", "1"),
            ("PYTORCH_NO_CUDA_MEMORY_CACHING", ""),
            ("TORCH_DISTRIBUTED_DEBUG", "detail"),
            ("NCCL_IB_DISABLE", "1"),
            ("PYTHONDEVMODE", "0"),
            ("PYTHONMALLOC", "malloc_debug"),
        ]
    ),
    under(CUDA_LAUNCH_BLOCKING="1", NCCL_P2P_DISABLE="1"),
    under(TORCH_COMPILE_DISABLE="1", TORCHDYNAMO_DISABLE="1"),
    under(NVIDIA_TF32_OVERRIDE="0"),
    checkup(compiler=None),
]


def test_what_is_wrong_with_the_software_is_told(golden: Callable[[str], object]):
    assert texts_of([only_finding(seen) for seen in ROWS]) == golden("software.txt")


@pytest.mark.parametrize(
    "seen",
    [
        checkup(torch=None),  # nobody asked for it
        checkup(torch=torch_of(threads=32)),
        checkup(torch=torch_of(float32_matmul_precision="medium")),
        checkup(torch=torch_of(float32_matmul_precision=None)),
        *(omp(text) for text in ("4", "abc", "9" * 400)),
        omp("32", loader=loader_plan(1)),
        omp("", loader=loader_plan(1)),
        under(CUDA_LAUNCH_BLOCKING="0", TORCH_DISTRIBUTED_DEBUG="INFO", NCCL_P2P_DISABLE="0"),
        under(NCCL_IB_DISABLE="", PYTHONMALLOC="malloc", PYTHONDEVMODE="", TORCHDYNAMO_DISABLE="0"),
        under(CUDA_VISIBLE_DEVICES="0", NVIDIA_TF32_OVERRIDE="1"),
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
        ("slow-environment", under(NVIDIA_TF32_OVERRIDE="0"), T4),
        ("slow-environment", under(NVIDIA_TF32_OVERRIDE="0"), None),
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
    ],
)
def test_what_does_not_concern_a_machine_is_not_told(absent: str, seen: Checkup, profile: Profile | None):
    assert absent not in codes(seen, profile)


@pytest.mark.parametrize(
    "environment",
    [{}, *({name: "1"} for name in ("CUDA_LAUNCH_BLOCKING", "NCCL_P2P_DISABLE"))],
)
def test_without_a_gpu_neither_the_cpu_build_nor_cudas_variables_matter(environment: dict[str, str]):
    assert codes(without_gpu(environment=environment, unset=("PYTORCH_CUDA_ALLOC_CONF",)), None) == ["no-gpu"]
