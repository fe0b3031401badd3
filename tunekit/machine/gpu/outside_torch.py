"""Bounds on the GPU memory outside torch's tensors: wide by default, narrow once measured."""

import math
from collections.abc import Sequence

from tunekit.machine.profiles import match_device
from tunekit.records.prediction import BytesRange, Calibration, OutsideTorch
from tunekit.records.profile import Profile
from tunekit.units import MIB

_CONTEXT_BYTES = (100 * MIB, 1100 * MIB)
"""For GPUs whose number of multiprocessors is unknown."""
_BYTES_PER_MULTIPROCESSOR = (2 * MIB, 4 * MIB)
_KERNEL_BYTES = 300 * MIB
"""Kernels of torch, cuBLAS and cuDNN that a training loads, at most."""
_CONTEXT_SOURCE = (
    "assumed: a CUDA context takes 2 to 4 MiB per multiprocessor, and up to 300 MiB for kernels, or 100 to "
    "1,100 MiB in all where the multiprocessors are unknown; `tunekit doctor --calibrate` measures it"
)

BLAS_BYTES = 8_519_680
"""cuBLAS workspace per thread, ":4096:2:16:8" in KiB and counts: torch's default before Hopper."""
LARGE_BLAS_BYTES = 32 * MIB
"""cuBLAS workspace per thread on Hopper, and on Blackwell in torch builds from 2026 on."""
_LARGE_FROM = 9
"""The first major compute capability with the large workspace."""
_THREADS = 2
"""The forward and the backward thread: torch keeps one handle, and so one workspace, per thread."""

_MEASURED_WITHIN = 0.05
"""The context of another process, or with slightly different kernels, is within this share of the measured
one."""


def outside_torch(profile: Profile, calibrations: Sequence[Calibration] = ()) -> OutsideTorch:
    """Return bounds on the GPU memory used in addition to torch's tensors.

    By default, the context is assumed. Before any training, contexts of torch 1.13 and later, which load
    kernels when they are first used, were reported as 274 MiB (pytorch/pytorch#86509) and, on 142
    multiprocessors, 426 MiB (unslothai/unsloth-zoo#1053). CUDA_MODULE_LOADING=EAGER loads all kernels and
    takes up to 1 GiB more.

    For each thread, the cuBLAS workspace is the one that torch requests (parseChosenWorkspaceSize in
    aten/src/ATen/cuda/CublasHandlePool.cpp): 2 x 4096 KiB and 8 x 16 KiB, but 32 MiB on compute capability
    9.0 and, since pull requests 175344 and 189312 of pytorch/pytorch, on 10 to 12. Earlier builds use the
    small one on Blackwell; CUBLAS_WORKSPACE_CONFIG overrides both. A GPU of unknown capability is assumed
    to use the large one. NCCL's memory for several GPUs is not included.

    The newest calibration of the same device narrows this to what was measured, within 5%. cuDNN's workspaces
    do not count: where one does not fit, cuDNN uses an algorithm that needs less.

    Args:
        profile: the GPU's profile; for a CPU and for Apple's GPUs all bounds are 0.
        calibrations: the calibrations of any devices.
    """
    why_none = _why_none(profile)
    if why_none is not None:
        nothing = BytesRange(low=0, high=0, source=why_none)
        return OutsideTorch(context=nothing, blas_workspace_bytes=0)
    measured = newest_of(profile, calibrations)
    if measured is None:
        return OutsideTorch(
            context=_range(_context_bytes(profile.multiprocessors), _CONTEXT_SOURCE),
            blas_workspace_bytes=_THREADS * blas_bytes(profile.compute_capability),
        )
    source = (
        f"measured on {measured.device_name}, {measured.created_at[:10]}, driver {measured.driver or 'n/a'}, "
        f"torch {measured.torch_version}, and {_MEASURED_WITHIN:.0%} either way"
    )
    return OutsideTorch(
        context=_range((measured.context_bytes, measured.context_bytes), source, _MEASURED_WITHIN),
        blas_workspace_bytes=measured.blas_workspace_bytes,
        blas_is_kept=measured.blas_is_kept,
    )


def blas_bytes(compute_capability: str | None) -> int:
    """Return the cuBLAS workspace that torch requests per thread by default; see `outside_torch`."""
    major = None if compute_capability is None else int(compute_capability.split(".")[0])
    return LARGE_BLAS_BYTES if major is None or major >= _LARGE_FROM else BLAS_BYTES


def _context_bytes(multiprocessors: int | None) -> tuple[int, int]:
    if multiprocessors is None:
        return _CONTEXT_BYTES
    low, high = (each * multiprocessors for each in _BYTES_PER_MULTIPROCESSOR)
    return max(low, _CONTEXT_BYTES[0]), high + _KERNEL_BYTES


def _why_none(profile: Profile) -> str | None:
    if profile.is_cpu:
        return "training on the CPU uses no GPU memory"
    if profile.id.startswith("mps-"):
        return "an Apple GPU shares the machine's memory and has neither CUDA context, cuDNN nor cuBLAS"
    return None


def newest_of(profile: Profile, calibrations: Sequence[Calibration]) -> Calibration | None:
    """Return the newest calibration of a GPU; None without one."""
    known = {profile.id: profile}
    same_device = (one for one in calibrations if match_device(one.device_name, known) is not None)
    return max(same_device, key=lambda one: one.created_at, default=None)


def _range(bounds_bytes: tuple[int, int], source: str, within: float = 0.0) -> BytesRange:
    """Return the bounds, widened by the share `within` at either end."""
    low, high = bounds_bytes
    return BytesRange(low=math.floor(low * (1 - within)), high=math.ceil(high * (1 + within)), source=source)
