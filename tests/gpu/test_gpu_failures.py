"""What can go wrong on a GPU, met by a trial: its outcome, and what is told of it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from gpu_commands import SLOWED, Ended, measured, script, tunekit

from simgpu.machine import SimulatedGpu
from tunekit.records.measurement import Measurement
from tunekit.records.trial import Failure, OutcomeKind, TrialRecord

pytestmark = pytest.mark.slow

SHORT = ["--window", "1"]
GIB = 1 << 30
TARGET_FAILED = 4


def _failure(ended: Ended) -> Failure:
    assert ended.process.returncode == TARGET_FAILED, ended.process.stderr
    (trial,) = ended.profile.trials
    assert trial.failure is not None
    return trial.failure


def _trial(ended: Ended) -> tuple[TrialRecord, Measurement]:
    assert ended.process.returncode == 0, ended.process.stderr
    trial = measured(ended.profile.trials[0])
    assert trial.measurement is not None
    return trial, trial.measurement


@contextmanager
def _once(is_time: Callable[[], bool], act: Callable[[], object]) -> Iterator[None]:
    """Act once it is time, while the block runs."""
    stops = threading.Event()

    def look() -> None:
        while not stops.wait(0.5):
            if is_time():
                act()
                return

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        stops.set()
        thread.join()


def test_a_gpu_that_falls_off_the_bus_ends_the_trial_and_tunekit_goes_on(simulated_gpu: SimulatedGpu) -> None:
    def trains() -> bool:
        return any(work.name.startswith("conv ") for work in simulated_gpu.trace())

    with _once(trains, lambda: simulated_gpu.set(0, "xid", 79)):
        ended = tunekit(simulated_gpu, "profile", ["--window", "60"], script("plain.py"))
    failure = _failure(ended)
    assert failure.kind in (OutcomeKind.SCRIPT_ERROR, OutcomeKind.KILLED)
    if failure.kind is OutcomeKind.SCRIPT_ERROR:
        assert "dmesg | grep Xid" in (failure.remedy or ""), failure.message


WAITS = """
import os, runpy, sys, time
print("waits", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.1)
del sys.argv[:2]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Begins to train once a file is there."""


def test_a_process_that_comes_to_the_gpu_in_mid_trial_is_named(simulated_gpu: SimulatedGpu) -> None:
    there, plain = simulated_gpu.state / "there", script("plain.py")[1]
    output = simulated_gpu.own / "profile" / "trials" / "0000" / "output.log"
    with ExitStack() as held:

        def come() -> None:
            held.enter_context(simulated_gpu.hold(0, 2 * GIB, SLOWED))
            there.touch()

        with _once(lambda: output.exists() and "waits" in output.read_text(), come):
            ended = tunekit(simulated_gpu, "profile", SHORT, ["python", "-c", WAITS, str(there), plain])
    (neighbour,) = _trial(ended)[0].neighbours
    assert neighbour.used_bytes is not None and neighbour.used_bytes > 2 * GIB
    (found,) = (one for one in ended.profile.findings if one.code == "gpu-neighbours")
    assert f"{neighbour.name} {neighbour.pid}" in (found.evidence or "")


@pytest.mark.parametrize(
    "settings",
    [
        {"fail": "nvmlDeviceGetUtilizationRates:slow=2"},
        {"fail": "nvmlDeviceGetUtilizationRates:999,nvmlDeviceGetPowerUsage:3", "hide_pids": 1},
    ],
    ids=["slow", "failing"],
)
def test_a_driver_that_tells_little_costs_no_measurement(
    simulated_gpu: SimulatedGpu, settings: dict[str, object]
) -> None:
    ended = tunekit(simulated_gpu, "profile", SHORT, script("plain.py"), **settings)
    assert _trial(ended)[1].loop.device.name == "NVIDIA A10G"
    assert ended.profile.measured_on == "a10g"


def test_a_mig_instance_is_the_device(simulated_gpu: SimulatedGpu) -> None:
    ended = tunekit(simulated_gpu, "profile", SHORT, script("plain.py"), "a100-sxm-40:slower=16:mig=1g.5gb")
    device = _trial(ended)[1].loop.device
    (here,) = ended.profile.host.accelerators
    assert "MIG 1g.5gb" in device.name and here.is_partition
    assert device.memory_bytes is not None and device.memory_bytes < 6 * GIB and here.memory_bytes < 6 * GIB


def test_what_another_process_holds_is_not_the_trials_memory(simulated_gpu: SimulatedGpu) -> None:
    with simulated_gpu.hold(0, 20 * GIB, SLOWED):
        ended = tunekit(simulated_gpu, "profile", SHORT, script("plain.py"))
    trial, measurement = _trial(ended)
    assert trial.telemetry is not None
    (gpu,) = trial.telemetry.gpus
    assert gpu.peak_used_bytes is not None and gpu.peak_tree_bytes is not None
    assert gpu.peak_used_bytes > 20 * GIB > gpu.peak_tree_bytes
    planned_bytes = ended.profile.profile.memory_bytes or 0
    assert 1 * GIB < (measurement.loop.device.usable_bytes or 0) < planned_bytes < 2 * GIB


def test_a_torch_that_keeps_no_figures_of_memory_is_measured(simulated_gpu: SimulatedGpu) -> None:
    command = ["env", "PYTORCH_NO_CUDA_MEMORY_CACHING=1", *script("plain.py")]
    ended = tunekit(simulated_gpu, "profile", SHORT, command)
    loop = _trial(ended)[1].loop
    assert (loop.peak_reserved_bytes, loop.device.free_bytes) == (None, None)
