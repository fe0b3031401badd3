"""The simulated CUDA and NVML, called as programs without torch call them."""

import json
from typing import Any

import pytest

from simgpu.machine import SimulatedGpu
from simgpu.trace import Work

ASK = """
import ctypes, json, os, time
import pynvml
cuda, core = ctypes.CDLL("libcudart.so.13"), ctypes.CDLL("libsimgpu.so")
at = ctypes.c_void_p()
core.sim_now.restype = ctypes.c_int64
pynvml.nvmlInit()
device = pynvml.nvmlDeviceGetHandleByIndex(0)
def memory(size):
    return cuda.cudaMalloc(ctypes.byref(at), ctypes.c_size_t(size))
"""


def ask(gpu: SimulatedGpu, code: str, devices: str = "a10g", **settings: object) -> Any:
    """What a process on these devices finds: the JSON that the code prints."""
    done = gpu.run(["-c", ASK + code], devices, **settings)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("devices", "fault", "message"),
    [
        ("t4:queue_depth=0", "", "'queue_depth' above 0"),
        ("t4:memory_bytes=nan", "", "must be a number"),
        ("a100-sxm-40:mig=4g.20gb+4g.20gb", "", "no room for the MIG instance '4g.20gb'"),
        ("a10g", "cudaMalloc:oom", "got 'cudaMalloc:oom'"),
        ("a10g", "cudaMalloc:2@0", "got 'cudaMalloc:2@0'"),
    ],
)
def test_an_impossible_device_or_fault_is_refused(
    simulated_gpu: SimulatedGpu, devices: str, fault: str, message: str
) -> None:
    done = simulated_gpu.run(["-c", ASK + "memory(1)"], devices, fail=fault)
    assert (done.returncode, message in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize(
    ("fault", "answers"),
    [
        ("cudaMalloc:2", [2, 2, 2]),
        ("cudaMalloc:2@2", [0, 2, 0]),
        ("cudaMalloc:2@2+", [0, 2, 2]),
        ("cudaMalloc:slow=0.01,cudaMalloc:1@3", [0, 0, 1]),
    ],
)
def test_a_fault_hits_the_calls_that_it_names(
    simulated_gpu: SimulatedGpu, fault: str, answers: list[int]
) -> None:
    assert ask(simulated_gpu, "print([memory(1) for _ in range(3)])", fail=fault) == answers


def test_work_far_ahead_leaves_the_load_of_now_alone(simulated_gpu: SimulatedGpu) -> None:
    code = """
size = ctypes.c_size_t(1 << 30)
assert memory(1 << 30) == 0
for _ in range(4):
    assert cuda.cudaMemsetAsync(at, 0, size, None) == 0
until, load = time.monotonic() + 20, 0
while load < 100 and time.monotonic() < until:
    time.sleep(0.05)
    load = pynvml.nvmlDeviceGetUtilizationRates(device).gpu
print(load)
"""
    assert ask(simulated_gpu, code, "a10g:slower=10000") == 100  # each takes some 20 s


STREAMS = """
size, own, passing, host = ctypes.c_size_t(1 << 20), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
assert memory(1 << 20) == cuda.cudaMallocHost(ctypes.byref(host), size) == 0
assert cuda.cudaStreamCreateWithFlags(ctypes.byref(own), 0) == 0
assert cuda.cudaStreamCreateWithFlags(ctypes.byref(passing), 1) == 0  # cudaStreamNonBlocking
assert cuda.cudaMemsetAsync(at, 0, size, own) == 0
assert cuda.cudaMemcpyAsync(at, host, size, 1, None) == 0
assert cuda.cudaMemsetAsync(at, 0, size, own) == 0
assert cuda.cudaMemcpyAsync(host, at, size, 2, passing) == 0
print(cuda.cudaStreamSynchronize(None))
"""


def test_the_default_stream_and_those_that_block_wait_for_each_other(simulated_gpu: SimulatedGpu) -> None:
    assert ask(simulated_gpu, STREAMS, "a10g:slower=10000") == 0  # the copy takes longer than any pause here
    by_stream: dict[int, list[Work]] = {}
    for one in simulated_gpu.trace():
        by_stream.setdefault(one.stream, []).append(one)
    ((default,), (before, after), (passing,)) = (by_stream[stream] for stream in (0, 1, 2))
    assert before.end_ns <= default.begin_ns
    assert default.end_ns <= after.begin_ns
    assert passing.begin_ns < default.end_ns


CAPTURE = """
streams, events = [[ctypes.c_void_p() for _ in range(3)] for _ in range(2)]
graph, size = ctypes.c_void_p(), ctypes.c_size_t(1 << 20)
assert memory(1 << 20) == 0
for stream, event in zip(streams, events):
    assert cuda.cudaStreamCreateWithFlags(ctypes.byref(stream), 1) == 0
    assert cuda.cudaEventCreateWithFlags(ctypes.byref(event), 2) == 0
def works(stream):
    assert cuda.cudaMemsetAsync(at, 0, size, streams[stream]) == 0
def waits(stream, other):
    assert cuda.cudaEventRecord(events[other], streams[other]) == 0
    assert cuda.cudaStreamWaitEvent(streams[stream], events[other], 0) == 0
assert cuda.cudaStreamBeginCapture(streams[0], 0) == 0
works(0)
waits(1, 0)
works(1)
waits(2, 1)
works(2)
"""


@pytest.mark.parametrize(
    ("joins", "answer"),
    [
        ("waits(0, 2)", 0),  # the second by way of the third
        ("waits(0, 2); works(1); waits(0, 1)", 0),
        ("waits(0, 1)", 904),
        ("waits(0, 2); works(1)", 904),
    ],
)
def test_a_capture_ends_when_all_its_streams_have_joined(
    simulated_gpu: SimulatedGpu, joins: str, answer: int
) -> None:
    end = "print(cuda.cudaStreamEndCapture(streams[0], ctypes.byref(graph)))"
    assert ask(simulated_gpu, f"{CAPTURE}\n{joins}\n{end}") == answer


def test_a_long_copy_to_the_host_says_once_that_it_moves_no_data(simulated_gpu: SimulatedGpu) -> None:
    code = """
host = ctypes.create_string_buffer(b"x" * 8192)
assert memory(8192) == 0
for size in (4096, 8192, 8192):
    assert cuda.cudaMemcpy(host, at, ctypes.c_size_t(size), 2) == 0
print(json.dumps([host.raw[:4096].count(0), host.raw[4096:8192].count(b"x")]))
"""
    done = simulated_gpu.run(["-c", ASK + code], copy_limit="4KiB")
    assert json.loads(done.stdout) == [4096, 4096]
    assert done.stderr.count("a copy of 8192 bytes to the host moves no data") == 1
