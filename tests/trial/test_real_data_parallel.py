"""Real trainings on another number of gloo processes, with and without summing gradients."""

from pathlib import Path
from typing import Any

import pytest
from real_trials import Plan, Ran, RealTrials, looking_at, loop_of, zoo_target

from tunekit.errors import TargetError
from tunekit.records.data_parallel import DataParallelKind, DataParallelSeen
from tunekit.records.trial import OutcomeKind

pytestmark = pytest.mark.real

WINDOW_S = 3.0
"""Long enough for each rank to tell of it more than once."""
OUT = ("--output", "{output}")
GLOO = ("python", "ddp_gloo.py", *OUT)
HF = ("python", "hf_trainer.py", *OUT, "--save-steps", "500")
LIGHTNING = ("python", "lightning_fit.py", *OUT, "--devices", "{processes}")
ACCELERATE = ("python", "accelerate_loop.py", *OUT)
SPAWN = ("python", "mp_spawn.py", *OUT, "--world-size", "{processes}")
GRADIENT_BYTES = {
    GLOO: 4 * 332808,
    HF: 4 * 52866,
    LIGHTNING: 4 * 332808,
    ACCELERATE: 4 * 140296,
    SPAWN: 4 * 332808,
}


def on(words: tuple[str, ...], processes: int = 2, no_sync: bool = False, **more: Any) -> Plan:
    return Plan(words, asked={"processes": processes, "no_sync": no_sync}, window_s=WINDOW_S, **more)


def trained(ran: Ran) -> DataParallelSeen:
    """Return what trained the processes together, of which each must have reported its rate."""
    loop, processes = loop_of(ran.baseline), ran.plan.asked["processes"]
    assert (ran.baseline.processes, loop.world_size) == (processes, processes)
    assert [one.rank for one in loop.ranks] == (list(range(processes)) if processes > 1 else [])
    assert loop.threads is not None and loop.threads.variables["OMP_NUM_THREADS"] == "1"
    assert loop.data_parallel is not None
    return loop.data_parallel


@looking_at(*(on(words, no_sync=True, is_slow=words != GLOO) for words in GRADIENT_BYTES))
def test_two_processes_of_each_launcher_train_without_summing_gradients(ran: Ran) -> None:
    assert ran.baseline.no_sync
    assert trained(ran) == DataParallelSeen(
        kind=DataParallelKind.DDP,
        backend="gloo",
        gradient_bytes=GRADIENT_BYTES[ran.plan.words],
        syncs_gradients=False,
    )


ALONE = on(GLOO, 1, tuned={"processes": 2, "batch_size": 8}, is_slow=True)


@looking_at(ALONE)
def test_one_process_is_started_and_reported_like_several(ran: Ran) -> None:
    seen = trained(ran)
    assert (seen.kind, seen.gradient_bytes) == (DataParallelKind.DDP, 4 * 332808)


@looking_at(
    ALONE,
    on(HF, tuned={"processes": 2, "batch_size": 4}, is_slow=True),  # frameworks build another loader then
    on(LIGHTNING, tuned={"processes": 2, "batch_size": 8}, is_slow=True),
)
def test_the_batch_of_processes_is_set_as_the_baseline_showed(ran: Ran) -> None:
    halved, size = loop_of(ran.tuned), ran.plan.tuned["batch_size"]
    assert loop_of(ran.baseline).batch_size == 2 * size
    assert (halved.world_size, halved.batch_size) == (2, size)
    assert size / 2 < halved.steady_samples / halved.steady_batches <= size


@looking_at(on(("python", "fsdp_gloo.py"), is_slow=True))
def test_a_model_whose_parameters_are_sharded_is_reported_with_all_its_gradients(ran: Ran) -> None:
    seen = trained(ran)
    expected = (DataParallelKind.FSDP2, None, 4 * 332808)
    assert (seen.kind, seen.syncs_gradients, seen.gradient_bytes) == expected


def test_a_script_that_starts_its_processes_is_refused_without_a_place_for_their_number(
    tmp_path: Path,
) -> None:
    trials = RealTrials(zoo_target("mp_spawn.py", "--output", str(tmp_path)), tmp_path / "trials")
    with pytest.raises(TargetError, match=r"--world-size \{processes\}"):
        trials.run_baseline(processes=2)


@looking_at(
    on(
        ("python", "plain_with_validation.py"),
        outcome=OutcomeKind.KNOB_NOT_APPLIED,
        said="no process group",  # each trains on its own
        is_slow=True,
    ),
    on(  # not of its launcher
        ("python", "ddp_gloo.py"), outcome=OutcomeKind.SCRIPT_ERROR, said="--output", is_slow=True
    ),
)
def test_ranks_that_do_not_train_together_are_no_measurement(ran: Ran) -> None:
    failure = ran.baseline.failure
    assert failure is not None
    assert (failure.kind, ran.plan.said in failure.message) == (ran.plan.outcome, True)
