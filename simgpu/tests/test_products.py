"""What the simulated cuBLAS and cuDNN take: memory, time, and in which type, as torch sees it."""

import json
import re

import pytest
from gpu_environment import ON_THIS_THREAD, on_both_torches

from simgpu.machine import SimulatedGpu
from simgpu.trace import Work

LINEAR = """
import torch
from torch.nn.functional import linear
weight = torch.ones(4096, 1024, device="cuda", dtype=torch.bfloat16)
for batch in (16, 128, 4096):
    linear(torch.ones(batch, 1024, device="cuda", dtype=torch.bfloat16), weight)
single = torch.ones(512, 512, device="cuda")
single @ single
torch.set_float32_matmul_precision("high")
single @ single
torch.cuda.synchronize()
"""
CONVOLUTION = """
import json, sys, torch
layout, dtype = getattr(torch, sys.argv[1]), getattr(torch, sys.argv[2])
torch.backends.cudnn.benchmark = sys.argv[3] == "searched"
torch.backends.cudnn.allow_tf32 = sys.argv[4] == "tf32"
layer = torch.nn.Conv2d(64, 128, 3, padding=1).cuda().to(memory_format=layout)
images = torch.ones(64, 64, 56, 56, device="cuda").to(memory_format=layout).requires_grad_()
for _ in range(2):
    with torch.autocast("cuda", dtype=dtype, enabled=dtype != torch.float32):
        layer(images).sum().backward()
torch.cuda.synchronize()
print(json.dumps(torch.cuda.max_memory_allocated()))
"""


def named(gpu: SimulatedGpu, pattern: str) -> list[Work]:
    """The kernels of this name."""
    return [work for work in gpu.trace() if re.search(pattern, work.name)]


def peak(gpu: SimulatedGpu, *how: str, devices: str = "a10g") -> int:
    """The most that torch had allocated while it trained a convolution."""
    done = gpu.run(["-c", ON_THIS_THREAD + CONVOLUTION, *how], devices)
    assert done.returncode == 0, done.stderr
    return int(json.loads(done.stdout))


@on_both_torches
def test_small_products_take_a_wave_and_large_ones_their_operations(simulated_gpu: SimulatedGpu) -> None:
    assert simulated_gpu.run(["-c", LINEAR]).returncode == 0
    took_ns = {work.name: work.duration_ns for work in named(simulated_gpu, "gemm bf16")}
    full_ns = 2 * 4096 * 4096 * 1024 / 66.5e12 * 1e9
    assert took_ns["gemm bf16 4096x4096x1024"] == pytest.approx(full_ns, rel=0.05)
    assert took_ns["gemm bf16 4096x128x1024"] > 1.1 * full_ns / 32
    assert took_ns["gemm bf16 4096x16x1024"] > 4 * full_ns / 256
    assert [work.name for work in named(simulated_gpu, "512x512x512")] == [
        "gemm fp32 512x512x512",
        "gemm tf32 512x512x512",
    ]


def test_half_precision_wants_channels_last(simulated_gpu: SimulatedGpu) -> None:
    peak(simulated_gpu, "contiguous_format", "float16", "", "tf32")
    copies = named(simulated_gpu, "nchw to nhwc|nhwc to nchw")
    convolutions = named(simulated_gpu, "conv .* fp16 nchw")
    assert len(convolutions) == 6
    assert len(copies) == 12
    # Each convolution's input and output are read and written once more.
    elements = 64 * 56 * 56 * (64 + 128)
    assert sum(work.duration_ns for work in copies) == pytest.approx(6 * 4 * elements / 510e9 * 1e9, rel=0.01)


@on_both_torches
def test_a_search_finds_the_engine_with_a_workspace(simulated_gpu: SimulatedGpu) -> None:
    guessed = peak(simulated_gpu, "contiguous_format", "float32", "", "tf32")
    assert named(simulated_gpu, "winograd") == []
    searched = peak(simulated_gpu, "contiguous_format", "float32", "searched", "tf32")
    assert searched - guessed == pytest.approx(4 * 64 * 56 * 56 * (64 + 128), rel=0.01)
    assert all(re.search("tf32 .*winograd", work.name) for work in named(simulated_gpu, "conv ")[-3:])
