"""Every way to write that the catalogue has, in real trials: what becomes of the user's files, with each net."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from ways_trials import GUARD_ALONE, Outcome, Planted, planted, read_table

from tunekit.records.host import SandboxKind
from tunekit.records.trial import OutcomeKind
from tunekit.trial import sandbox

pytestmark = pytest.mark.real

UNSEEN = {
    # Frameworks don't checkpoint in a trial.
    "transformers_trainer_rotates",
    "transformers_save_model",
    "accelerate_save_state",
    "accelerate_save_model",
    "lightning_checkpoint",
    "lightning_save_checkpoint",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planted]:
    """Files to write over, once for each net and once for none at all."""
    with planted(tmp_path_factory.mktemp("ways"), ["overlay", "landlock", "none", "plain"]) as held:
        yield held


def run(files: Planted, kind: SandboxKind) -> list[Outcome]:
    """Write in every way in a trial under a net; it must have been a trial like any other."""
    outcomes, record = files.in_trial(kind, kind)
    assert record.sandbox == kind
    assert record.failure is not None
    assert record.failure.kind is OutcomeKind.TOO_SHORT, record.failure
    return outcomes


def harmed(outcomes: list[Outcome]) -> list[tuple[object, ...]]:
    """Return the ways that changed old files or left new ones, and which."""
    return [(one.name, one.changed, one.left) for one in outcomes if one.changed or one.left]


def test_each_way_writes_where_nothing_holds_it_back(files: Planted) -> None:
    outcomes = files.without_tunekit()
    assert len(outcomes) > 300
    assert [one for one in outcomes if one.told not in ("worked", "at exit")] == []
    assert [one.name for one in outcomes if not one.changed and not one.left] == []


def test_the_file_guard_alone_lets_through_what_is_known(files: Planted) -> None:
    assert sorted(one.row for one in run(files, "none")) == sorted(read_table(GUARD_ALONE))


def test_under_an_overlay_nothing_changes_and_nothing_stays(files: Planted, tmp_path: Path) -> None:
    if sandbox.probe(str(tmp_path), ["overlay"])[0] == "none":
        pytest.skip("the kernel allows no overlay here")
    outcomes = run(files, "overlay")
    assert harmed(outcomes) == []


def test_under_landlock_nothing_changes_and_nothing_stays(files: Planted, tmp_path: Path) -> None:
    if sandbox.probe(str(tmp_path), ["landlock"])[0] == "none":
        pytest.skip("the kernel has no Landlock")
    outcomes = run(files, "landlock")
    assert harmed(outcomes) == []
