"""What torch says when memory ends in one of many places, told apart as the trial's outcome."""

import json
from pathlib import Path

from gpu_environment import on_both_torches

from simgpu.machine import SimulatedGpu
from tunekit.records.agent_messages import ErrorSeen
from tunekit.records.trial import OutcomeKind
from tunekit.trial.outcome import cause_of

CASES = Path(__file__).with_name("run_out_of_memory.py")
NOT_OF_THE_DEVICE = {
    **dict.fromkeys(
        ("cublas_without_a_reason", "no_engine", "a_device_that_is_gone", "a_mistake"),
        OutcomeKind.SCRIPT_ERROR,
    ),
    "pinning_a_tensor": OutcomeKind.HOST_OOM,
    "pinning_in_a_loader": OutcomeKind.HOST_OOM,
}
MIN_CASES = 14


@on_both_torches
def test_memory_that_ends_anywhere_is_told_from_every_other_failure(simulated_gpu: SimulatedGpu) -> None:
    ran = simulated_gpu.run([CASES], timeout_s=240)
    told = {one["case"]: one["error"] for one in map(json.loads, ran.stdout.splitlines())}
    assert len(told) >= MIN_CASES, ran.stderr[-2000:]
    assert [name for name, error in told.items() if error is None] == []
    errors = {name: ErrorSeen.model_validate(error) for name, error in told.items()}
    kinds = {name: cause_of(error)[0] for name, error in errors.items()}
    assert kinds == {name: NOT_OF_THE_DEVICE.get(name, OutcomeKind.DEVICE_OOM) for name in errors}
