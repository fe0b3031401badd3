"""What is stated of a step's time on a GPU, held against the device's own time line."""

import pytest
from judged_loops import LOOPS, KnownLoop, judge

from simgpu.machine import SimulatedGpu

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
