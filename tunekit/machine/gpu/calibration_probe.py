"""Measures the GPU memory that a process uses in addition to torch's tensors, and the speed of typical ops.

A standalone script for the training environment: Python 3.9 or newer, torch 2.1 or newer, no tunekit. It
prints one JSON object, then waits while its parent asks the driver how much memory this process uses; it
exits when the parent closes its standard input.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from functools import partial

BENCHMARKED = "--benchmarked"
"""Flag of the child process that measures with torch.backends.cudnn.benchmark on."""
BATCH_SIZE = 32
SHAPES = (
    (3, 64, 7, 2, 224),
    (64, 64, 3, 1, 56),
    (256, 64, 1, 1, 56),
    (128, 128, 3, 1, 28),
    (256, 256, 3, 1, 14),
    (512, 512, 3, 1, 7),
    (1024, 2048, 1, 2, 14),
)
"""Convolutions of ResNet-50: input channels, output channels, kernel size, stride, image height and width."""
_SIDE = 256
"""Rows and columns of each matrix; its 256 KiB are a size that torch's allocator does not round up."""


class Pool:
    """Reads the counters of torch's caching allocator on one device, in bytes.

    Args:
        torch: the torch module.
        device: the GPU as a torch.device.
    """

    def __init__(self, torch, device):
        self._cuda, self._device = torch.cuda, device

    def allocated(self):
        """Return the bytes that tensors and workspaces use now."""
        self._cuda.synchronize(self._device)
        return int(self._cuda.memory_allocated(self._device))

    def reserved(self):
        """Return the bytes that the allocator holds after releasing its unused blocks."""
        self.allocated()
        self._cuda.empty_cache()
        return int(self._cuda.memory_reserved(self._device))

    def peak_during(self, act):
        """Call `act`; return its result and the peak number of bytes allocated meanwhile."""
        self.allocated()
        self._cuda.reset_peak_memory_stats(self._device)
        result = act()
        self.allocated()
        return result, int(self._cuda.max_memory_allocated(self._device))


def blas_of(before_bytes, peak_bytes, after_bytes, result_bytes):
    """Return the size of the workspace of a thread's first matmul, and whether it stays allocated.

    Args:
        before_bytes: allocated before the matmul.
        peak_bytes: the most allocated during it.
        after_bytes: allocated after it.
        result_bytes: size of its result, which stays allocated.
    """
    taken = max(peak_bytes, after_bytes) - before_bytes - result_bytes
    return max(0, taken), after_bytes - before_bytes > result_bytes


def measured_blas(torch, device, pool):
    """Measure the workspaces of the forward and the backward thread at the first matmul of each."""
    rows = torch.ones(_SIDE, _SIDE, device=device)
    weight = torch.ones(_SIDE, _SIDE, device=device, requires_grad=True)
    gradient = torch.ones(_SIDE, _SIDE, device=device)
    result_bytes = 4 * _SIDE * _SIDE
    before = pool.allocated()
    product, peak = pool.peak_during(lambda: rows @ weight)
    forward_bytes, is_kept = blas_of(before, peak, pool.allocated(), result_bytes)
    before = pool.allocated()
    _, peak = pool.peak_during(lambda: product.backward(gradient))
    backward_bytes, _ = blas_of(before, peak, pool.allocated(), result_bytes)
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
    optimizer.step()  # loads the optimizer's kernels too
    return {
        "blas_forward_bytes": forward_bytes,
        "blas_backward_bytes": backward_bytes,
        "blas_is_kept": is_kept,
    }


def measured_convolution(torch, device, pool, shape, dtype, batch_size=BATCH_SIZE):
    """Measure the memory that one convolution needs beyond its own tensors, forward and backward."""
    channels, filters, kernel, stride, side = shape
    images = torch.ones(batch_size, channels, side, side, device=device, dtype=dtype)
    images.requires_grad_(channels > 3)  # images need no gradients
    weight = torch.ones(filters, channels, kernel, kernel, device=device, dtype=dtype, requires_grad=True)
    convolved, peak = pool.peak_during(
        lambda: torch.nn.functional.conv2d(images, weight, stride=stride, padding=kernel // 2)
    )
    forward_bytes = max(0, peak - pool.allocated())  # what stays is counted with the allocator's rounding
    gradient = torch.ones_like(convolved)
    _, peak = pool.peak_during(lambda: convolved.backward(gradient))
    return {
        "shape": "%dx%dx%dx%d, kernel %dx%d, to %d"
        % (batch_size, channels, side, side, kernel, kernel, filters),
        "dtype": str(dtype).replace("torch.", ""),
        "benchmark": bool(torch.backends.cudnn.benchmark),
        "forward_bytes": forward_bytes,
        "backward_bytes": max(0, peak - pool.allocated()),
    }


def measured(torch, device, pool, dtypes, shapes=SHAPES, batch_size=BATCH_SIZE):
    """Measure everything that torch's allocator counts; matmuls come first, before any workspace exists."""
    found = measured_blas(torch, device, pool)
    convolutions = measured_convolutions(torch, device, pool, dtypes, shapes, batch_size)
    return {**found, "convolutions": convolutions}


def speeds(torch, device, dtypes):
    """Measure the speed of ops and of the host; empty if it fails, as in too little memory."""
    try:
        return {"op_times": op_times(torch, device, dtypes), "host_op_s": host_op_s(torch, device)}
    except Exception:
        return {}


def op_times(torch, device, dtypes):
    """Measure ops of several sizes, each [[name, dtype, flops, bytes], seconds], named as in a trace."""
    functional, found = torch.nn.functional, []

    def filled(dtype, *shape):
        return torch.ones(shape, device=device, dtype=dtype)

    def add(name, flops, tensors, act, *args, **options):
        size = sum(one.numel() * one.element_size() for one in tensors)
        dtype = str(tensors[0].dtype).replace("torch.", "")
        found.append([[name, dtype, flops, size], seconds_of(torch, device, partial(act, *args, **options))])

    for dtype in dtypes:
        for side in (1024, 4096):
            rows = filled(dtype, side, side)
            add("mm", 2 * side**3, (rows, rows, rows), torch.mm, rows, rows)
        for channels, side in ((64, 56), (256, 14)):
            for suffix, layout in (("", torch.contiguous_format), (".nhwc", torch.channels_last)):
                images = filled(dtype, 64, channels, side, side).contiguous(memory_format=layout)
                weight = filled(dtype, channels, channels, 3, 3).contiguous(memory_format=layout)
                flops = 2 * 64 * side**2 * weight.numel()
                tensors = (images, weight, images)
                add("convolution" + suffix, flops, tensors, functional.conv2d, images, weight, padding=1)
        images, ones = filled(dtype, 64, 64, 56, 56), filled(torch.float32, 64)
        norm = (images, ones, ones.clone(), ones, ones, True)
        add("native_batch_norm", 0, (images, images), functional.batch_norm, *norm)
        add("add", 0, (images, images, images), torch.add, images, images)
        heads = filled(dtype, 16, 12, 512, 64)
        attend = functional.scaled_dot_product_attention
        flops = 4 * heads.numel() * heads.shape[2]
        add("_scaled_dot_product_flash_attention", flops, (heads,) * 4, attend, heads, heads, heads)
    return found


def seconds_of(torch, device, run, repeats=20):
    """Return the mean time of one call on the GPU."""
    for _ in range(3):
        run()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize(device)
    begin.record()
    for _ in range(repeats):
        run()
    end.record()
    torch.cuda.synchronize(device)
    return max(begin.elapsed_time(end) / 1000 / repeats, 1e-9)


def host_op_s(torch, device, layers=50, ops_per_layer=5):
    """Return the host's time per op of a training step that is too small to keep the GPU busy."""
    modules = [part for _ in range(layers) for part in (torch.nn.Linear(8, 8), torch.nn.ReLU())]
    network, rows = torch.nn.Sequential(*modules).to(device), torch.ones(8, 8, device=device)
    best = None
    for _ in range(10):
        torch.cuda.synchronize(device)
        began = time.perf_counter()
        network(rows).sum().backward()
        taken = time.perf_counter() - began
        best = taken if best is None else min(best, taken)
    return best / (layers * ops_per_layer)


def measured_convolutions(torch, device, pool, dtypes, shapes=SHAPES, batch_size=BATCH_SIZE):
    """Measure each convolution under the current setting of torch.backends.cudnn.benchmark."""
    return [
        measured_convolution(torch, device, pool, shape, dtype, batch_size)
        for dtype in dtypes
        for shape in shapes
    ]


def benchmarked_convolutions():
    """Measure, in a separate process, the convolutions with cuDNN benchmarking for the fastest kernel.

    Torch caches the kernel chosen for a shape, so a shape that ran without benchmarking is never benchmarked
    in the same process. The result is empty if that process fails.
    """
    command = [sys.executable, os.path.abspath(__file__), BENCHMARKED]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    lines = [line for line in done.stdout.decode("utf-8", "replace").splitlines() if line.startswith("[")]
    return json.loads(lines[-1]) if lines else []


def why_not(torch):
    """Return why nothing can be measured, or None if there is a GPU."""
    if torch.version.cuda is None and getattr(torch.version, "hip", None) is None:
        return "torch %s is a build without CUDA" % torch.__version__
    if not torch.cuda.is_available():
        return "torch %s sees no CUDA GPU" % torch.__version__
    return None


def gpu_figures(torch):
    """Return the first GPU's name and figures, or the reason why there are none."""
    problem = why_not(torch)
    if problem is not None:
        return {"problem": problem}
    benchmarked = benchmarked_convolutions()  # before this process allocates anything on the GPU
    device, dtypes = torch.device("cuda", 0), dtypes_of(torch)
    properties = torch.cuda.get_device_properties(device)
    pool = Pool(torch, device)
    found = measured(torch, device, pool, dtypes)
    found["convolutions"] += benchmarked
    found.update(speeds(torch, device, dtypes), reserved_bytes=pool.reserved())
    is_rocm = getattr(torch.version, "hip", None) is not None
    cudnn = torch.backends.cudnn.version()
    uuid = getattr(properties, "uuid", None)  # not in torch 2.1
    return {
        "device_name": str(properties.name),
        "compute_capability": None if is_rocm else "%d.%d" % (properties.major, properties.minor),
        "uuid": None if uuid is None else str(uuid),
        "torch_version": str(torch.__version__),
        "cuda_version": torch.version.cuda,
        "cudnn_version": None if cudnn is None else str(cudnn),
        **found,
    }


def dtypes_of(torch):
    """Return float32 and the half precision that suits the first GPU."""
    major = torch.cuda.get_device_properties(0).major
    return torch.float32, torch.bfloat16 if major >= 8 else torch.float16


def benchmarked_figures(torch):
    """Measure the convolutions with cuDNN's benchmark mode on."""
    torch.backends.cudnn.benchmark = True
    device = torch.device("cuda", 0)
    return measured_convolutions(torch, device, Pool(torch, device), dtypes_of(torch))


def main():
    """Print the figures, and stay alive until standard input closes."""
    here = os.path.dirname(os.path.abspath(__file__))
    # The modules next to this script are tunekit's and must not shadow other modules.
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
    try:
        import torch

        if BENCHMARKED in sys.argv[1:]:
            sys.stdout.write("\n" + json.dumps(benchmarked_figures(torch)) + "\n")
            return
        reply = gpu_figures(torch)
    except Exception as error:
        reply = {"broken": "%s: %s" % (type(error).__name__, " ".join(str(error).split()))}
    sys.stdout.write("\n" + json.dumps(reply) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
