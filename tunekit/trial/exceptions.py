"""What an uncaught exception of the script amounts to: outcome, words and remedy. Pure.

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
_PINNED_REMEDY = (
    "the driver could lock no more of the host's memory: leave pinned memory off (--fix pin_memory=false), "
    "use a smaller batch, or raise the container's limit on memory and `ulimit -l`"
)

_TRACEBACK = "Traceback (most recent call last)"
_NO_GUARD = "before the current process has finished its bootstrapping phase"
_NO_GUARD_REMEDY = (
    'put what the script runs under `if __name__ == "__main__":`: processes that are started by spawn or '
    "forkserver import the script again; or keep it from starting any, with --fix num_workers=0"
)
_GPU_FAILED = re.compile(
    r"CUDA error: (?:unknown error|uncorrectable |unspecified launch failure|the launch timed out)"
    r"|CUDA error: (?:CUDA-capable device\(s\) is/are busy|no CUDA-capable device|hardware stack)"
    r"|\bCU(?:DNN|BLAS)_STATUS_EXECUTION_FAILED\b"
)
_GPU_FAILED_REMEDY = (
    "the GPU or its driver failed, or a kernel broke it: `nvidia-smi` and `dmesg | grep Xid` say which; a "
    "GPU that is lost needs a reset or another machine"
)
_CUDA_HINTS = (
    "Search for `cuda",
    "CUDA kernel errors might be",
    "For debugging consider",
    "Compile with `TORCH",
)
_RERAISED = "torch._utils.reraise"
_IN_WORKER = re.compile(r"Caught \w+ in DataLoader worker process \d+\.")
NO_ROOM_IN_SHM = "unable to allocate shared memory(shm) for file </torch_"
_OUT_OF_SHM = ("insufficient shared memory (shm)", "unable to write to file </torch_", NO_ROOM_IN_SHM)


def kind_of_error(error: ErrorSeen) -> OutcomeKind:
    """Return the outcome for an uncaught exception, by its type and, for torch's own, its message."""
    if any(name.rpartition(".")[2] == "HarmDenied" for name in error.types):
        return OutcomeKind.HARM_DENIED
    ended = memory_that_ended(error)
    if ended is not None:
        return ended
    if "builtins.RuntimeError" in error.types or "builtins.OSError" in error.types:
        message = error.message
        is_of_loader = message.startswith("DataLoader worker (pid")
        if any(said in message for said in _OUT_OF_SHM) or (is_of_loader and "Bus error" in message):
            return OutcomeKind.SHM_EXHAUSTED
        if is_of_loader:
            return OutcomeKind.WORKER_CRASH
    return OutcomeKind.WORKER_CRASH if is_of_a_worker(error) else OutcomeKind.SCRIPT_ERROR


def is_of_a_worker(error: ErrorSeen) -> bool:
    """Return whether torch re-raised in the main process what one of its loader's workers had raised."""
    return error.raised_in == _RERAISED and _IN_WORKER.match(error.message) is not None


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


def remedy_of(error: ErrorSeen) -> str | None:
    """Return what to do about an exception that the outcome's usual remedy does not fit."""
    if is_of_pinning(error):
        return _PINNED_REMEDY
    if _GPU_FAILED.search(error.message):
        return _GPU_FAILED_REMEDY
    return _NO_GUARD_REMEDY if _NO_GUARD in " ".join(error.message.split()) else None


def error_text(error: ErrorSeen) -> str:
    """Return an exception in a line: its first paragraph, unless another process's traceback stands in it.

    What follows is hints and addresses.
    """
    lines = [line.strip() for line in error.traceback if line.strip()]
    is_anothers = _TRACEBACK in error.message or is_of_a_worker(error)
    if not is_anothers and len(error.message.strip().splitlines()) > 1:
        first = re.split(r"\n\s*\n", error.message.strip())[0].splitlines()
        text = " ".join(" ".join(line for line in first if not line.startswith(_CUDA_HINTS)).split())
        return f"{error.types[0].rpartition('.')[2]}: {text}"[:500]
    return (lines[-1] if lines else error.types[0])[:500]
