"""A torch that only counts: tensors take from a pool, matmuls and convolutions have workspaces in it.

It stands as torch.py on the path of the process that calibrates; 32 MiB for the first matmul of each thread,
64 MiB in a convolution's forward and 96 in its backward, twice that with cudnn.benchmark.
"""

import types
from math import prod
from typing import ClassVar

MIB = 1 << 20
__version__ = "2.13.0+cu130"
version = types.SimpleNamespace(cuda="13.0", hip=None)
float32, bfloat16, float16 = "torch.float32", "torch.bfloat16", "torch.float16"
device = lambda kind, index: (kind, index)  # noqa: E731


class Pool:
    allocated = peak = 0
    threads: ClassVar = []


def take(size_bytes):
    Pool.allocated += size_bytes
    Pool.peak = max(Pool.peak, Pool.allocated)


def work_in(size_bytes):
    take(size_bytes)
    Pool.allocated -= size_bytes


def multiply(thread):
    if thread not in Pool.threads:
        Pool.threads.append(thread)
        take(32 * MIB)


class Tensor:
    grad = None

    def __init__(self, shape, dtype=float32, backward=None):
        self.shape, self.dtype, self.run_backward = shape, dtype, backward
        self.size = -(-prod(shape) * (4 if dtype == float32 else 2) // 512) * 512
        take(self.size)

    def __del__(self):
        Pool.allocated -= self.size

    def __matmul__(self, other):
        def backward():
            other.grad = Tensor(other.shape)
            multiply("autograd")

        product = Tensor((self.shape[0], other.shape[1]), backward=backward)
        multiply("main")
        return product

    def requires_grad_(self, wanted):
        self.requires_grad = wanted

    def backward(self, gradient):
        assert gradient.shape == self.shape
        self.run_backward()


def ones(*shape, device, dtype=float32, requires_grad=False):
    assert device == ("cuda", 0)
    tensor = Tensor(shape, dtype)
    tensor.requires_grad = requires_grad
    return tensor


def ones_like(tensor):
    return Tensor(tensor.shape, tensor.dtype)


def conv2d(images, weight, stride, padding):
    def backward():
        for one in (images, weight):
            one.grad = Tensor(one.shape, one.dtype) if one.requires_grad else None
        work_in(96 * MIB * factor())

    side = images.shape[2] // stride
    convolved = Tensor((images.shape[0], weight.shape[0], side, side), images.dtype, backward)
    work_in(64 * MIB * factor())
    return convolved


def factor():
    return 2 if backends.cudnn.benchmark else 1


class SGD:
    def __init__(self, parameters, lr, momentum):
        self.parameters = parameters

    def step(self):
        assert all(parameter.grad is not None for parameter in self.parameters)


class cuda:  # noqa: N801 - torch's name
    is_available = staticmethod(lambda: True)
    synchronize = staticmethod(lambda device: None)
    empty_cache = staticmethod(lambda: None)
    memory_allocated = staticmethod(lambda device: Pool.allocated)
    memory_reserved = staticmethod(lambda device: Pool.allocated + 2 * MIB)
    max_memory_allocated = staticmethod(lambda device: Pool.peak)
    properties = types.SimpleNamespace(name="NVIDIA H200", major=9, minor=0, uuid="33333333-CCCC")
    get_device_properties = staticmethod(lambda device: cuda.properties)

    @staticmethod
    def reset_peak_memory_stats(device):
        Pool.peak = Pool.allocated


backends = types.SimpleNamespace(cudnn=types.SimpleNamespace(benchmark=False, version=lambda: 91002))
nn = types.SimpleNamespace(functional=types.SimpleNamespace(conv2d=conv2d))
optim = types.SimpleNamespace(SGD=SGD)
