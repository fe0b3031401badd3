"""The simulated CUDA and NVML, called as programs without torch call them."""

import json
import time
from typing import Any

import pytest

from simgpu.machine import SimulatedGpu
from simgpu.trace import Work

GIB = 2**30
ASK = """
import ctypes, json, os, time
import pynvml
cuda, core = ctypes.CDLL("libcudart.so.13"), ctypes.CDLL("libsimgpu.so")
at, number = ctypes.c_void_p(), ctypes.c_int()
core.sim_clock_share.restype = ctypes.c_double
core.sim_now.restype = ctypes.c_int64
pynvml.nvmlInit()
device = pynvml.nvmlDeviceGetHandleByIndex(0)
def memory(size):
    return cuda.cudaMalloc(ctypes.byref(at), ctypes.c_size_t(size))
def attribute(which):
    assert cuda.cudaDeviceGetAttribute(ctypes.byref(number), which, 0) == 0
    return number.value
"""
A100_CUT = "a100-sxm-40:mig=1g.5gb+3g.20gb"


def ask(gpu: SimulatedGpu, code: str, devices: str = "a10g", **settings: object) -> Any:
    """What a process on these devices finds: the JSON that the code prints."""
    done = gpu.run(["-c", ASK + code], devices, **settings)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(gpu: SimulatedGpu, devices: str, **settings: object) -> str:
    """What a process that finds no machine to run on says before it ends."""
    done = gpu.run(["-c", ASK + "memory(1)"], devices, **settings)
    assert done.returncode == 1, done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("devices", "multiprocessors"),
    [
        ("a100-sxm-40:mig=1g.5gb", 14),
        ("a100-sxm-40:mig=3g.20gb", 42),
        ("a100-sxm-40:mig=7g.40gb", 98),
        ("h100-sxm:mig=1g.10gb", 16),
        ("h100-sxm:mig=3g.40gb", 60),
        ("h100-sxm:mig=7g.80gb", 132),
    ],
)
def test_an_instance_has_its_profiles_multiprocessors(
    simulated_gpu: SimulatedGpu, devices: str, multiprocessors: int
) -> None:
    assert ask(simulated_gpu, "print(attribute(16))", devices) == multiprocessors


def test_what_befalls_a_gpu_befalls_its_instances(simulated_gpu: SimulatedGpu) -> None:
    clocks = "print(json.dumps([core.sim_clock_share(i, ctypes.c_int64(core.sim_now())) for i in range(3)]))"
    simulated_gpu.set(0, "clock_share", 0.5, A100_CUT)
    assert ask(simulated_gpu, clocks, A100_CUT) == [0.5, 0.5, 0.5]
    code = "before = memory(1); core.sim_control_set(0, b'xid', ctypes.c_double(79))\n"
    unknown, of_a_broken_context = 999, 999
    answers = ask(simulated_gpu, f"{code}print(json.dumps([before, memory(1), memory(1)]))", A100_CUT)
    assert answers == [0, unknown, of_a_broken_context]


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        ("t4:queue_depth=0", "'queue_depth' above 0"),
        ("t4:bytes_per_s=0", "'bytes_per_s' above 0"),
        ("t4:context_bytes=-1", "'context_bytes' below 0"),
        ("t4:memory_bytes=nan", "must be a number"),
        ("t4:slower=0", "can't be slower by 0"),
        ("t4:mig=1g.5gb", "can't be cut"),
        ("a100-sxm-40:mig=4g.20gb+4g.20gb", "no room for the MIG instance '4g.20gb'"),
        ("a100-sxm-40:mig=1g.20gb+1g.20gb+1g.5gb", "no room for the MIG instance '1g.5gb'"),
    ],
)
def test_a_device_that_cannot_be_is_refused(simulated_gpu: SimulatedGpu, devices: str, said: str) -> None:
    assert said in refused(simulated_gpu, devices)


def test_a_device_file_that_lacks_a_key_is_refused(simulated_gpu: SimulatedGpu) -> None:
    path = simulated_gpu.own / "mine.conf"
    path.write_text("name = Mine\nmajor = 8\n")
    assert "the device 'mine' needs 'multiprocessors' above 0" in refused(simulated_gpu, str(path))


@pytest.mark.parametrize(
    "fault",
    ["cudaMalloc", ":2", "cudaMalloc:oom", "cudaMalloc:0", "cudaMalloc:2@", "cudaMalloc:2@0", "a:slow=x"],
)
def test_a_fault_that_says_nothing_is_refused(simulated_gpu: SimulatedGpu, fault: str) -> None:
    assert f"got '{fault}'" in refused(simulated_gpu, "a10g", fail=fault)


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


def test_memory_that_others_take_is_never_more_than_there_is(simulated_gpu: SimulatedGpu) -> None:
    simulated_gpu.set(0, "outside_bytes", 100 * GIB)
    code = "info = pynvml.nvmlDeviceGetMemoryInfo(device); print([info.free, info.used - info.total])"
    assert ask(simulated_gpu, code) == [0, 0]


def test_a_process_of_another_container_has_a_pid_that_is_nobodys_here(simulated_gpu: SimulatedGpu) -> None:
    code = """
(one,) = pynvml.nvmlDeviceGetComputeRunningProcesses(device)
print(json.dumps([one.pid, one.usedGpuMemory, os.path.exists(f"/proc/{one.pid}")]))
"""
    with simulated_gpu.hold(0, 2 * GIB, outside=1) as pid:
        seen, used, is_here = ask(simulated_gpu, code)
    assert seen != pid
    assert used > 2 * GIB
    assert not is_here


def test_nvml_counts_its_moments_from_1970(simulated_gpu: SimulatedGpu) -> None:
    code = """
(field,) = pynvml.nvmlDeviceGetFieldValues(device, [pynvml.NVML_FI_DEV_POWER_INSTANT])
print(field.timestamp)
"""
    before = time.time_ns() // 1000
    assert before <= ask(simulated_gpu, code) <= time.time_ns() // 1000


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


CALLBACK = """
called = []
function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: called.append(core.sim_now()))
assert memory(1 << 20) == 0
assert cuda.cudaMemsetAsync(at, 0, ctypes.c_size_t(1 << 20), None) == 0
assert cuda.cudaLaunchHostFunc(None, function, None) == 0
stream = ctypes.c_void_p()
assert cuda.cudaStreamCreateWithFlags(ctypes.byref(stream), 1) == 0
assert cuda.cudaStreamBeginCapture(stream, 2) == 0
answers = [cuda.cudaLaunchHostFunc(stream, function, None) for _ in range(2)]
print(json.dumps({"called": called, "captured": answers}))
"""


def test_a_host_function_is_called_when_its_stream_comes_to_it(simulated_gpu: SimulatedGpu) -> None:
    done = simulated_gpu.run(["-c", ASK + CALLBACK], "a10g:slower=1000")
    seen = json.loads(done.stdout)
    (work,) = simulated_gpu.trace()
    (called_ns,) = seen["called"]
    assert called_ns >= work.end_ns
    assert seen["captured"] == [801, 801]
    assert done.stderr.count("cudaLaunchHostFunc in a capture is not simulated") == 1


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
        ("waits(0, 1); waits(0, 2)", 0),
        ("waits(0, 2); works(1); waits(0, 1)", 0),
        ("", 904),
        ("waits(0, 1)", 904),
        ("waits(0, 2); works(1)", 904),
    ],
)
def test_a_capture_ends_when_all_its_streams_have_joined(
    simulated_gpu: SimulatedGpu, joins: str, answer: int
) -> None:
    end = "print(cuda.cudaStreamEndCapture(streams[0], ctypes.byref(graph)))"
    assert ask(simulated_gpu, f"{CAPTURE}\n{joins}\n{end}") == answer


def test_modules_share_pages(simulated_gpu: SimulatedGpu) -> None:
    code = """
driver, modules, used = ctypes.CDLL("libcuda.so.1"), [], []
assert memory(1) == 0
for loads in (1, 31, 1):
    for _ in range(loads):
        modules.append(ctypes.c_void_p())
        assert driver.cuModuleLoadData(ctypes.byref(modules[-1]), b"no cubin") == 0
    used.append(core.sim_used_bytes(0))
for module in modules:
    assert driver.cuModuleUnload(module) == 0
used.append(core.sim_used_bytes(0))
print(json.dumps([one - used[-1] for one in used]))
"""
    code = f"core.sim_used_bytes.restype = ctypes.c_int64\n{code}"
    page = 2 << 20  # 32 modules of 64 KiB
    assert ask(simulated_gpu, code) == [page, page, 2 * page, 0]


def test_a_name_without_a_version_is_its_newest(simulated_gpu: SimulatedGpu) -> None:
    code = """
driver, base, size = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64(), ctypes.c_size_t()
assert memory(1) == 0
found = driver.cuMemGetAddressRange(ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(at.value + 5))
print(json.dumps([found, base.value == at.value, size.value]))
"""
    assert ask(simulated_gpu, code) == [0, True, 2 << 20]


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
