"""Real trainings on another number of gloo processes, with and without summing gradients."""

from pathlib import Path
from typing import Any

import pytest
from real_trials import RealTrials, zoo_target
from zoo_trials import command_target, loop_of

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


def trials_of(words: tuple[str, ...], folder: Path) -> RealTrials:
    return RealTrials(command_target(words, folder / "output"), folder / "trials", window_s=WINDOW_S)


def name_of(words: Any) -> str | None:
    return str(words[1]) if isinstance(words, tuple) else None


def data_parallel(words: tuple[str, ...], folder: Path, no_sync: bool) -> DataParallelSeen:
    """Return what trained two processes of a script together, of which each must have reported its rate."""
    record = trials_of(words, folder).run_baseline(processes=2, no_sync=no_sync)
    loop = loop_of(record)
    assert (record.processes, record.no_sync, loop.world_size) == (2, no_sync, 2)
    assert [one.rank for one in loop.ranks] == [0, 1]
    assert loop.threads is not None and loop.threads.variables["OMP_NUM_THREADS"] == "1"
    assert loop.data_parallel is not None
    return loop.data_parallel


@pytest.mark.parametrize("words", [GLOO, HF, LIGHTNING, ACCELERATE, SPAWN], ids=name_of)
def test_two_processes_of_each_launcher_train_without_summing_gradients(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    assert data_parallel(words, tmp_path, no_sync=True) == DataParallelSeen(
        kind=DataParallelKind.DDP,
        backend="gloo",
        gradient_bytes=GRADIENT_BYTES[words],
        syncs_gradients=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("words", [GLOO, HF, LIGHTNING, ACCELERATE], ids=name_of)
def test_what_was_learned_of_processes_sets_their_batch(words: tuple[str, ...], tmp_path: Path) -> None:
    """Frameworks build another loader for several processes."""
    trials = trials_of(words, tmp_path)
    loop = loop_of(trials.run_baseline(processes=2))
    assert loop.data_parallel is not None and loop.data_parallel.syncs_gradients
    batch_size = loop.batch_size
    assert batch_size is not None
    halved = loop_of(trials.run(processes=2, batch_size=batch_size // 2))
    assert (halved.world_size, halved.batch_size) == (2, batch_size // 2)
    assert batch_size / 4 < halved.steady_samples / halved.steady_batches <= batch_size / 2


@pytest.mark.slow
def test_a_model_whose_parameters_are_sharded_is_reported_with_all_its_gradients(tmp_path: Path) -> None:
    seen = data_parallel(("python", "fsdp_gloo.py"), tmp_path, no_sync=False)
    assert (seen.kind, seen.syncs_gradients, seen.gradient_bytes) == (
        DataParallelKind.FSDP2,
        None,
        4 * 332808,
    )


def test_a_script_that_starts_its_processes_is_refused_without_a_place_for_their_number(
    tmp_path: Path,
) -> None:
    trials = RealTrials(zoo_target("mp_spawn.py", "--output", str(tmp_path)), tmp_path / "trials")
    with pytest.raises(TargetError, match=r"--world-size \{processes\}"):
        trials.run_baseline(processes=2)


def test_why_a_rank_failed_is_told_and_not_that_its_launcher_noticed(tmp_path: Path) -> None:
    failure = trials_of(("python", "ddp_gloo.py"), tmp_path).run_baseline(processes=2).failure
    assert failure is not None
    assert failure.kind is OutcomeKind.SCRIPT_ERROR
    assert "the following arguments are required: --output" in failure.message
