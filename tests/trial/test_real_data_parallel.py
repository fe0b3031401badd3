"""Real trainings on another number of gloo processes, with DistributedDataParallel set from outside."""

from pathlib import Path
from typing import Any

import pytest
from real_trials import RealTrials, zoo_target
from zoo_trials import command_target, loop_of

from tunekit.errors import TargetError
from tunekit.records.data_parallel import DataParallelKind, DdpSettings
from tunekit.records.trial import OutcomeKind, TrialRecord

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


def trials_of(words: tuple[str, ...], folder: Path) -> RealTrials:
    return RealTrials(command_target(words, folder / "output"), folder / "trials", window_s=WINDOW_S)


def name_of(words: Any) -> str | None:
    return str(words[1]) if isinstance(words, tuple) else None


def trained(words: tuple[str, ...], folder: Path, processes: int, **ddp: Any) -> TrialRecord:
    """Return the trial of a script on so many processes, of which each must have told its rate."""
    record = trials_of(words, folder).run_baseline(processes=processes, ddp=DdpSettings(**ddp))
    loop = loop_of(record)
    assert (record.processes, loop.world_size) == (processes, processes)
    assert [one.rank for one in loop.ranks] == (list(range(processes)) if processes > 1 else [])
    return record


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (GLOO, SUMMED),
        (GLOO, APART),
        (HF, SUMMED),
        pytest.param(HF, APART, marks=pytest.mark.slow),
        pytest.param(LIGHTNING, SUMMED, marks=pytest.mark.slow),
        (LIGHTNING, APART),
        pytest.param(ACCELERATE, SUMMED, marks=pytest.mark.slow),
        (ACCELERATE, APART),
    ],
    ids=lambda one: name_of(one) or ("summed" if one["sync_gradients"] else "apart"),
)
def test_two_processes_train_with_the_settings_of_data_parallel(
    words: tuple[str, ...], asked: dict[str, Any], tmp_path: Path
) -> None:
    seen = loop_of(trained(words, tmp_path, 2, **asked)).data_parallel
    assert seen is not None and seen.settings is not None
    assert (seen.kind, seen.backend) == (DataParallelKind.DDP, "gloo")
    assert seen.gradient_bytes == GRADIENT_BYTES[words]
    assert seen.settings.asked() | asked == seen.settings.asked()


def test_one_process_is_started_and_told_like_several(tmp_path: Path) -> None:
    loop = loop_of(trained(GLOO, tmp_path, 1))
    assert loop.threads is not None and loop.threads.variables["OMP_NUM_THREADS"] == "1"
    seen = loop.data_parallel
    assert seen is not None
    assert (seen.kind, seen.gradient_bytes) == (DataParallelKind.DDP, GRADIENT_BYTES[GLOO])


@pytest.mark.parametrize(
    ("words", "processes"),
    [
        (GLOO, 1),
        (HF, 2),  # frameworks build another loader for several processes
        pytest.param(LIGHTNING, 2, marks=pytest.mark.slow),
        pytest.param(ACCELERATE, 2, marks=pytest.mark.slow),
    ],
    ids=name_of,
)
def test_what_was_learnt_of_processes_sets_their_batch(
    words: tuple[str, ...], processes: int, tmp_path: Path
) -> None:
    trials = trials_of(words, tmp_path)
    batch_size = loop_of(trials.run_baseline(processes=processes)).batch_size
    assert batch_size is not None
    halved = loop_of(trials.run(processes=2, batch_size=batch_size // 2))
    assert (halved.world_size, halved.batch_size) == (2, batch_size // 2)
    assert batch_size / 4 < halved.steady_samples / halved.steady_batches <= batch_size / 2


@pytest.mark.slow
def test_a_model_whose_parameters_are_sharded_is_told_with_all_their_gradients(tmp_path: Path) -> None:
    seen = loop_of(trained(("python", "fsdp_gloo.py"), tmp_path, 2)).data_parallel
    assert seen is not None
    assert (seen.kind, seen.settings, seen.gradient_bytes) == (DataParallelKind.FSDP2, None, 4 * 332808)


@pytest.mark.slow
def test_a_script_that_starts_its_processes_is_told_their_number(tmp_path: Path) -> None:
    assert loop_of(trained(SPAWN, tmp_path, 3)).world_size == 3


def test_a_script_that_starts_its_processes_is_refused_without_a_place_for_their_number(
    tmp_path: Path,
) -> None:
    trials = RealTrials(zoo_target("mp_spawn.py", "--output", str(tmp_path)), tmp_path / "trials")
    with pytest.raises(TargetError, match=r"--world-size \{processes\}"):
        trials.run_baseline(processes=2)


def test_processes_that_train_each_on_its_own_are_no_measurement(tmp_path: Path) -> None:
    failure = trials_of(("python", "plain_with_validation.py"), tmp_path).run_baseline(processes=2).failure
    assert failure is not None
    assert failure.kind is OutcomeKind.KNOB_NOT_APPLIED
    assert "join no process group" in failure.message


def test_why_a_rank_failed_is_told_and_not_that_its_launcher_noticed(tmp_path: Path) -> None:
    failure = trials_of(("python", "ddp_gloo.py"), tmp_path).run_baseline(processes=2).failure
    assert failure is not None
    assert failure.kind is OutcomeKind.SCRIPT_ERROR
    assert "the following arguments are required: --output" in failure.message
