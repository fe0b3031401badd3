"""Which uncaught exceptions mean that memory ended, the device's or the host's. Pure.

Only torch's OutOfMemoryError has a type of its own: where CUDA, its libraries or Triton find no room, that is
a RuntimeError, known by its message. The messages are those of torch 2.8 and 2.15 on simulated devices, see
tests/gpu/test_training_out_of_memory.py, and of issues that users of older versions have filed.
"""

import re

from tunekit.records.agent_messages import ErrorSeen
from tunekit.records.trial import OutcomeKind

_DEVICE = re.compile(
    r"CUDA (?:driver )?error: (?:out of memory|CUDA_ERROR_OUT_OF_MEMORY)"
    r"|Triton Error \[\w+\]: out of memory"
    r"|\w+ out of memory\. Tried to allocate"  # torch's own, told again by a compiler
    r"|MPS backend out of memory"
    r"|\bCU[A-Z]+_(?:STATUS_)?(?:INTERNAL_ERROR_DEVICE_ALLOCATION|ALLOC)_FAILED\b"
    r"|Cuda failure (?:2 )?'out of memory'|Failed to CUDA (?:calloc|malloc)\b"  # NCCL's
)
_DEVICE_IF_FULL = re.compile(
    r"\bCU[A-Z]+_STATUS_(?:NOT_INITIALIZED|INTERNAL_ERROR)\b"
    r"|cuDNN error: CUDNN_STATUS_SUCCESS\b"  # no handle: torch tells the status of its next question
    r"|unable to find an engine to execute this computation"
    r"|Unable to find a valid cuDNN algorithm"
)
"""What these libraries say without memory, and where they are broken or can't do what they are asked."""
_FULL_SHARE = 0.05
"""Of the device's memory: with less of it free, a library that fails has found none."""
_PINNING = re.compile(r"in pin memory thread for device|\.pin_memory\(|\bpin_memory=True|cudaHostRegister")
_PINNING_PLACE = "torch.utils.data._utils.pin_memory."
_HOST = re.compile(r"DefaultCPUAllocator: can't allocate memory|CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION")

PINNED_REMEDY = (
    "the driver could lock no more of the host's memory: leave pinned memory off (--fix pin_memory=false), "
    "use a smaller batch, or raise the container's limit on memory and `ulimit -l`"
)


def memory_that_ended(error: ErrorSeen) -> OutcomeKind | None:
    """Return DEVICE_OOM or HOST_OOM for an exception that says that memory ended, None for any other."""
    if any(name.endswith("OutOfMemoryError") for name in error.types):
        return OutcomeKind.DEVICE_OOM
    if "builtins.MemoryError" in error.types or _HOST.search(error.message):
        return OutcomeKind.HOST_OOM
    if "builtins.RuntimeError" not in error.types:
        return None
    if _DEVICE.search(error.message):
        return OutcomeKind.HOST_OOM if is_of_pinning(error) else OutcomeKind.DEVICE_OOM
    share = error.device_free_share
    is_full = share is not None and share <= _FULL_SHARE
    return OutcomeKind.DEVICE_OOM if is_full and _DEVICE_IF_FULL.search(error.message) else None


def is_of_pinning(error: ErrorSeen) -> bool:
    """Return whether the host's memory could not be pinned: CUDA says the same as of its own."""
    if not _DEVICE.search(error.message):
        return False
    lines = (line for line in reversed(error.traceback) if line.startswith("    ") and line.strip(" ^~"))
    said = (error.message, next(lines, ""))  # the innermost line of the script or of torch's own Python
    return error.raised_in.startswith(_PINNING_PLACE) or any(_PINNING.search(text) for text in said)
