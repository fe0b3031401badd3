"""Runs out of memory in every way there is, each in a process of its own; prints what the agent tells.

One line of JSON per case: its name, and the facts of the exception as the agent tells them.
"""

import json
import os
import sys

import torch
import torch._dynamo  # once for all cases; Inductor starts CUDA, which no fork survives
from torch import nn
from torch.utils.data import DataLoader

from tunekit.agent import SITE_FOLDER

sys.path.insert(0, str(SITE_FOLDER))
from _tunekit_agent.measure import errors

EXPANDABLE = dict.fromkeys(("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"), "expandable_segments:True")
CASES = {}


def case(**variables):
    """Remember a function, and the variables of the process that is to run it."""

    def remember(function):
        CASES[function.__name__] = (function, variables)
        return function

    return remember


def fail(*calls):
    return {"SIMGPU_FAIL": ",".join(calls)}


def leave_free(size):
    """Return a tensor that takes all memory but so many bytes."""
    return torch.empty(torch.cuda.mem_get_info()[0] - size, dtype=torch.uint8, device="cuda")


def multiply():
    ones = torch.ones(8, 8, device="cuda")
    return ones @ ones


def convolve():
    return nn.functional.conv2d(torch.ones(1, 3, 8, 8, device="cuda"), torch.ones(4, 3, 3, 3, device="cuda"))


def compiled():
    return torch.compile(lambda values: (values.sin() + 1).cos())(torch.ones(4096, device="cuda"))


@case()
def a_batch():
    torch.empty(1 << 40, dtype=torch.uint8, device="cuda")


@case(SIMGPU="a10g:memory_bytes=100MiB")
def the_context():
    torch.ones(1, device="cuda")


@case(**fail("cublasCreate_v2:3"))
def the_handle_of_cublas():
    multiply()


@case(**fail("cublasCreate_v2:1"))
def cublas_without_a_reason():
    multiply()


@case(**fail("cublasCreate_v2:1"))
def cublas_without_a_reason_on_a_full_device():
    kept = leave_free(64 << 20)
    multiply()
    del kept


@case(**fail("cublasGemmEx:3", "cublasSgemm_v2:3", "cublasLtMatmul:3"))
def a_product():
    multiply()


@case(**fail("cudnnBackendExecute:4000"))
def no_engine():
    convolve()


@case(**fail("cudnnBackendExecute:4000"))
def no_engine_on_a_full_device():
    kept = leave_free(64 << 20)
    convolve()
    del kept


@case(**fail("cuLaunchKernel:2", "cuLaunchKernelEx:2"))
def a_launch_of_triton():
    compiled()


@case(**EXPANDABLE, **fail("cuMemCreate:2"))
def a_page_of_expandable_segments():
    torch.empty(1 << 20, dtype=torch.uint8, device="cuda")


@case(SIMGPU_PINNED_LIMIT="1MiB")
def pinning_a_tensor():
    torch.empty(1 << 22).pin_memory()


@case(SIMGPU_PINNED_LIMIT="1MiB")
def pinning_in_a_loader():
    next(iter(DataLoader(torch.empty(64, 1 << 18), batch_size=32, pin_memory=True)))


@case(**fail("cudaStreamSynchronize:999"))
def a_device_that_is_gone():
    torch.ones(8, device="cuda").sum().item()


@case()
def a_mistake():
    torch.ones(2, 3, device="cuda") @ torch.ones(5, 6, device="cuda")


def run(name):
    function, variables = CASES[name]
    os.environ.update(variables, TORCHINDUCTOR_COMPILE_THREADS="1")
    told = None
    try:
        function()
    except BaseException as error:
        told = errors.error_facts(error)
    sys.stdout.write(json.dumps({"case": name, "error": told}) + "\n")
    sys.stdout.flush()


def main():
    for name in sys.argv[1:] or CASES:
        child = os.fork()
        if not child:
            run(name)
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
