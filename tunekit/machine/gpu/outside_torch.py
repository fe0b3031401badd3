"""What a GPU's memory holds beside torch's tensors: by default within wide bounds, narrower once measured."""

import math
from collections.abc import Sequence

from tunekit.machine.profiles import match_device
from tunekit.records.prediction import BytesRange, Calibration, OutsideTorch
from tunekit.records.profile import Profile
from tunekit.units import MIB

_CONTEXT_BYTES = (300 * MIB, 1500 * MIB)
_CUDNN_BYTES = (0, 600 * MIB)
_CONTEXT_SOURCE = (
    "assumed: CUDA contexts with their libraries take 300 to 1500 MiB, by driver, torch build and how many "
    "multiprocessors the GPU has; `tunekit doctor --calibrate` measures it on the GPU"
)
_CUDNN_SOURCE = (
    "assumed: cuDNN takes 0 to 600 MiB, by shapes and algorithm; `tunekit doctor --calibrate` measures it "
    "on the GPU"
)

BLAS_BYTES = 8_519_680
"""cuBLAS's workspace of one thread, ":4096:2:16:8" in KiB and counts: torch's default before Hopper."""
LARGE_BLAS_BYTES = 32 * MIB
"""On Hopper, and on Blackwell in builds of torch from 2026 on."""
_LARGE_FROM = 9
"""First major compute capability with the large one."""
_THREADS = 2
"""Forward and backward: torch keeps a handle, and so a workspace, per thread."""

_MEASURED_WITHIN = 0.05
"""Another process, or a slightly other set of kernels, has a context within this share of a measured one."""


def outside_torch(
    profile: Profile, calibrations: Sequence[Calibration] = (), benchmarks_cudnn: bool = False
) -> OutsideTorch:
    """Return what the memory of a GPU holds beside torch's tensors.

    The defaults: a context of 300 to 1500 MiB and cuDNN workspaces of 0 to 600 MiB, both assumed; and per
    thread the cuBLAS workspace that torch itself asks for (parseChosenWorkspaceSize in
    aten/src/ATen/cuda/CublasHandlePool.cpp): 2 x 4096 KiB and 8 x 16 KiB, but 32 MiB on compute capability
    9.0 and, since pull requests 175344 and 189312 of pytorch/pytorch, 10 to 12. Earlier builds give
    Blackwell the small one; CUBLAS_WORKSPACE_CONFIG overrides both. A GPU of unknown capability is taken
    for one with the large one. Memory that NCCL takes for several GPUs is in none of it.

    A calibration of the same device narrows this to what was measured, within 5%; the newest counts. The
    bounds of the workspace are those of the least and the greediest convolution, widened alike.

    Args:
        profile: of the GPU; a CPU and Apple's GPUs have nothing of the kind.
        calibrations: measured on GPUs, of any device.
        benchmarks_cudnn: whether the training sets torch.backends.cudnn.benchmark, which is off by default.
    """
    why_none = _why_none(profile)
    if why_none is not None:
        nothing = BytesRange(low=0, high=0, source=why_none)
        return OutsideTorch(context=nothing, workspace=nothing, blas_workspace_bytes=0)
    measured = _newest_of(profile, calibrations)
    if measured is None:
        return OutsideTorch(
            context=_range(_CONTEXT_BYTES, _CONTEXT_SOURCE),
            workspace=_range(_CUDNN_BYTES, _CUDNN_SOURCE),
            blas_workspace_bytes=_THREADS * blas_bytes(profile.compute_capability),
        )
    source = (
        f"measured on {measured.device_name}, {measured.created_at[:10]}, driver {measured.driver or 'n/a'}, "
        f"torch {measured.torch_version}, and {_MEASURED_WITHIN:.0%} either way"
    )
    seen = measured.workspaces_bytes(benchmarks_cudnn)
    workspace = _range(seen, source, _MEASURED_WITHIN) if seen else _range(_CUDNN_BYTES, _CUDNN_SOURCE)
    return OutsideTorch(
        context=_range((measured.context_bytes, measured.context_bytes), source, _MEASURED_WITHIN),
        workspace=workspace,
        blas_workspace_bytes=measured.blas_workspace_bytes,
        blas_is_kept=measured.blas_is_kept,
    )


def blas_bytes(compute_capability: str | None) -> int:
    """Return cuBLAS's workspace of one thread, as torch asks for it by default; see `outside_torch`."""
    major = None if compute_capability is None else int(compute_capability.split(".")[0])
    return LARGE_BLAS_BYTES if major is None or major >= _LARGE_FROM else BLAS_BYTES


def _why_none(profile: Profile) -> str | None:
    if profile.is_cpu:
        return "training on the CPU takes nothing of a GPU"
    if profile.id.startswith("mps-"):
        return "an Apple GPU shares the machine's memory and has neither CUDA context, cuDNN nor cuBLAS"
    return None


def _newest_of(profile: Profile, calibrations: Sequence[Calibration]) -> Calibration | None:
    known = {profile.id: profile}
    same_device = (one for one in calibrations if match_device(one.device_name, known) is not None)
    return max(same_device, key=lambda one: one.created_at, default=None)


def _range(bounds_bytes: tuple[int, int], source: str, within: float = 0.0) -> BytesRange:
    """Return the bounds, that share wider at either end."""
    low, high = bounds_bytes
    return BytesRange(low=math.floor(low * (1 - within)), high=math.ceil(high * (1 + within)), source=source)
