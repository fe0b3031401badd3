"""What is stated of a step's time on a GPU, held against the device's own time line."""

import pytest
from gpu_attribution import LOOPS, KnownLoop, judge
from gpu_environment import SimulatedGpu

TOLERANCE = 0.03
TESTED = ("data-stalled", "computing, reads its loss", "copies")
"""The quickest; benchmarks/simulated_attribution.py has all."""


@pytest.mark.parametrize("loop", [one for one in LOOPS if one.name in TESTED], ids=lambda loop: loop.name)
def test_stated_parts_are_those_of_the_devices_time_line(
    simulated_gpu: SimulatedGpu, loop: KnownLoop
) -> None:
    judged = judge(simulated_gpu, loop)
    wrong = {one.name: (one.stated, one.true) for one in judged.compared if abs(one.difference) > TOLERANCE}
    assert not wrong
    assert judged.bound is loop.bound
