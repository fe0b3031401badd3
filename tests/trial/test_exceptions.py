"""Messages of memory that ended, as users of several versions of torch have filed them."""

import pytest

from tunekit.records.agent_messages import ErrorSeen
from tunekit.records.trial import OutcomeKind
from tunekit.trial.outcome import cause_of

RUNTIME = ("builtins.RuntimeError", "builtins.Exception", "builtins.BaseException", "builtins.object")
CALL = "    loss = model(batch).sum()"


def error(message: str, *types: str, line: str = CALL, free_share: float | None = None) -> ErrorSeen:
    said = (
        "Traceback (most recent call last):",
        '  File "train.py", line 9, in step',
        line,
        "    ^^^^",
        message,
    )
    return ErrorSeen(types=(*types, *RUNTIME), message=message, traceback=said, device_free_share=free_share)


@pytest.mark.parametrize(
    "message",
    [
        "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
        "CUDA driver error: out of memory",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        "cuFFT error: CUFFT_ALLOC_FAILED",
        "Triton Error [CUDA]: out of memory",
        "backend='inductor' raised:\nOutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 'out of memory'",
        "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nFailed to CUDA calloc 608 bytes",
        "No executable batch size found, reached zero.",
        "MPS backend out of memory (MPS allocated: 7.96 GB, other allocations: 9.94 GB)",
    ],
)
def test_what_is_of_the_device_however_full_it_is(message: str) -> None:
    assert cause_of(error(message))[0] is OutcomeKind.DEVICE_OOM
    assert cause_of(error(message, "torch.AcceleratorError", free_share=0.9))[0] is OutcomeKind.DEVICE_OOM


@pytest.mark.parametrize(
    "message",
    [
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when calling `cublasLtMatmul( ltHandle, ...)`",
        "cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
        "cuDNN error: CUDNN_STATUS_SUCCESS",
        "GET was unable to find an engine to execute this computation",
        "Unable to find a valid cuDNN algorithm to run convolution",
    ],
)
@pytest.mark.parametrize(
    ("free_share", "kind"),
    [(0.03, OutcomeKind.DEVICE_OOM), (0.5, OutcomeKind.SCRIPT_ERROR), (None, OutcomeKind.SCRIPT_ERROR)],
    ids=str,
)
def test_what_a_broken_library_says_too_counts_on_a_full_device(
    message: str, free_share: float | None, kind: OutcomeKind
) -> None:
    assert cause_of(error(message, free_share=free_share))[0] is kind


@pytest.mark.parametrize(
    "message",
    [
        "CUDA error: an illegal memory access was encountered",
        "CUDA error: unspecified launch failure",
        "CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasGemmEx( handle, opa, ...)`",
        "mat1 and mat2 shapes cannot be multiplied (2x3 and 5x6)",
        "the tokenizer ran out of memory slots",
    ],
)
def test_no_other_failure_is_taken_for_it_even_on_a_full_device(message: str) -> None:
    assert cause_of(error(message, free_share=0.0))[0] is OutcomeKind.SCRIPT_ERROR
