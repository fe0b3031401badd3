"""Real trainings on another number of gloo processes, with DistributedDataParallel set from outside."""

from pathlib import Path
from typing import Any

import pytest
from real_trials import Plan, Ran, RealTrials, looking_at, loop_of, zoo_target

from tunekit.errors import TargetError
from tunekit.records.data_parallel import DataParallelKind, DdpSettings
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
GRADIENT_BYTES = {GLOO: 4 * 332808, HF: 4 * 52866, LIGHTNING: 4 * 332808, ACCELERATE: 4 * 140296}
SUMMED: dict[str, Any] = {"sync_gradients": True, "bucket_cap_mb": 0.25, "gradient_as_bucket_view": True}
APART: dict[str, Any] = {"sync_gradients": False, "static_graph": True}


def on(words: tuple[str, ...], processes: int = 2, ddp: dict[str, Any] | None = None, **more: Any) -> Plan:
    asked = {"processes": processes} | ({"ddp": DdpSettings(**ddp)} if ddp else {})
    return Plan(words, asked=asked, window_s=WINDOW_S, **more)


def trained(ran: Ran) -> None:
    """Check that each of its processes told its rate."""
    loop, processes = loop_of(ran.baseline), ran.plan.asked["processes"]
    assert (ran.baseline.processes, loop.world_size) == (processes, processes)
    assert [one.rank for one in loop.ranks] == (list(range(processes)) if processes > 1 else [])


@looking_at(
    on(GLOO, ddp=SUMMED),
    on(GLOO, ddp=APART, is_slow=True),
    on(LIGHTNING, ddp=APART),
    on(HF, ddp=SUMMED, is_slow=True),
    on(ACCELERATE, ddp=APART, is_slow=True),
)
def test_two_processes_train_with_the_settings_of_data_parallel(ran: Ran) -> None:
    trained(ran)
    seen, asked = loop_of(ran.baseline).data_parallel, ran.plan.asked["ddp"].asked()
    assert seen is not None and seen.settings is not None
    assert (seen.kind, seen.backend) == (DataParallelKind.DDP, "gloo")
    assert seen.gradient_bytes == GRADIENT_BYTES[ran.plan.words]
    assert seen.settings.asked() | asked == seen.settings.asked()


ALONE = on(GLOO, 1, tuned={"processes": 2, "batch_size": 8})


@looking_at(ALONE)
def test_one_process_is_started_and_told_like_several(ran: Ran) -> None:
    trained(ran)
    loop = loop_of(ran.baseline)
    assert loop.threads is not None and loop.threads.variables["OMP_NUM_THREADS"] == "1"
    assert loop.data_parallel is not None
    assert (loop.data_parallel.kind, loop.data_parallel.gradient_bytes) == (DataParallelKind.DDP, 4 * 332808)


@looking_at(
    ALONE,
    on(HF, tuned={"processes": 2, "batch_size": 4}),  # frameworks build another loader for several processes
    on(LIGHTNING, tuned={"processes": 2, "batch_size": 8}, is_slow=True),
)
def test_what_was_learnt_of_processes_sets_their_batch(ran: Ran) -> None:
    halved, size = loop_of(ran.tuned), ran.plan.tuned["batch_size"]
    assert loop_of(ran.baseline).batch_size == 2 * size
    assert (halved.world_size, halved.batch_size) == (2, size)
    assert size / 2 < halved.steady_samples / halved.steady_batches <= size


@looking_at(on(("python", "fsdp_gloo.py"), is_slow=True))
def test_a_model_whose_parameters_are_sharded_is_told_with_all_their_gradients(ran: Ran) -> None:
    trained(ran)
    seen = loop_of(ran.baseline).data_parallel
    assert seen is not None
    assert (seen.kind, seen.settings, seen.gradient_bytes) == (DataParallelKind.FSDP2, None, 4 * 332808)


@looking_at(on(SPAWN, 3, is_slow=True))
def test_a_script_that_starts_its_processes_is_told_their_number(ran: Ran) -> None:
    trained(ran)


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
    ),
    on(("python", "ddp_gloo.py"), outcome=OutcomeKind.SCRIPT_ERROR, said="--output"),  # not of its launcher
)
def test_ranks_that_do_not_train_together_are_no_measurement(ran: Ran) -> None:
    failure = ran.baseline.failure
    assert failure is not None
    assert (failure.kind, ran.plan.said in failure.message) == (ran.plan.outcome, True)
