"""What is stated of a step's time on a GPU, held against the device's own time line."""

import pytest
from gpu_commands import measured, tunekit
from judged_loops import LOOP, LOOPS, KnownLoop, judge

from simgpu.machine import SimulatedGpu
from tunekit.diagnose.attribution import bound
from tunekit.records.recommendation import Bound

TOLERANCE = 0.03
MORE_ROOM = {"host wait": 0.05, "GPU utilisation, %": 0.1}
"""What a busy machine puts between two clocks of one moment; what samples of half a second leave out."""
TESTED = ("data-stalled", "computing, reads its loss", "copies")
"""The quickest; benchmarks/simulated_attribution.py has all."""


@pytest.mark.slow
@pytest.mark.parametrize("loop", [pytest.param(one, id=one.name) for one in LOOPS if one.name in TESTED])
def test_stated_parts_are_those_of_the_devices_time_line(
    simulated_gpu: SimulatedGpu, loop: KnownLoop
) -> None:
    judged = judge(simulated_gpu, loop)
    wrong = [one for one in judged.compared if abs(one.difference) > MORE_ROOM.get(one.name, TOLERANCE)]
    assert not wrong
    assert judged.bound is loop.bound


@pytest.mark.slow
def test_what_epochs_add_is_no_part_of_steps_where_nothing_can_be_traced(simulated_gpu: SimulatedGpu) -> None:
    """Each epoch makes a CUDA stream; after each the device rests for longer than a verdict would bear."""
    flags = ("--layers", "24", "--columns", "16384", "--batches", "20", "--item", "--between-ms", "400")
    words = ("--pinned", "--ahead", "--stamps", str(simulated_gpu.state / "stamps"))
    command = ["python", str(LOOP), *flags, *words]
    ended = tunekit(simulated_gpu, "profile", ["--trace-kernels"], command, fail="cuptiActivityEnable:15")
    assert ended.process.returncode == 0, ended.process.stderr
    trial = measured(ended.profile.trials[0])
    assert trial.measurement is not None and trial.measurement.details is not None
    assert any("no kernels" in fault for fault in trial.measurement.details.faults)
    assert bound(trial.measurement, trial.telemetry) is Bound.COMPUTE
    assert "memory-grows" in {finding.code for finding in ended.profile.findings}
