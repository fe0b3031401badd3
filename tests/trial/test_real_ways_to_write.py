"""Every way to write, in real trials: what becomes of the user's files under each sandbox."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ways_trials import Outcome, Planted, planted

from tunekit.records.host import SandboxKind
from tunekit.records.trial import OutcomeKind
from tunekit.trial import sandbox

pytestmark = [pytest.mark.real, pytest.mark.slow]

PAST_PYTHON = {"commands", "shells", "ctypes", "other Pythons", "tables", "stores", "weights"}
"""Groups with ways in which programs or libraries write by themselves: Landlock refuses these."""
REFUSED = {
    *("os_rmdir", "os_rename_folder", "shutil_rmtree", "os_link_and_write_through", "os_fchmod"),
    *("io_file_io", "posix_open", "posix_unlink", "os_open_unnamed_and_link"),
    *("sqlite_attach", "sqlite_vacuum_into", "readline_history", "torch_execution_trace", "torch_file_store"),
    *("bytecode_of_an_import", "py_compile_module"),
}
"""What the guard does not redirect."""
NEEDS_REDIRECT_DIR = {"os_rename_folder"}
"""What an overlay in a user namespace can't do."""
STAYS_UNDER_AN_OVERLAY = {"dev_shm_new_file"}
"""Shared memory must be memory: the one place where what is new stays."""
CHANGES_UNDER_LANDLOCK = {
    *("c_setxattr", "chmod", "touch"),  # no version of Landlock knows of attributes
    "dev_shm_by_a_program",
}
STAYS_UNDER_LANDLOCK = {"dev_shm_by_a_program"}


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


def skip_where_it_does_not_hold(kind: SandboxKind, folder: Path) -> None:
    """Skip the test unless the kernel gives the sandbox, or must."""
    found, reasons = sandbox.probe(str(folder), [kind])
    if found != kind and "TUNEKIT_NEEDS_SANDBOX" not in os.environ:
        pytest.skip(f"{kind} does not hold here: {reasons[kind]}")


def failing(outcomes: list[Outcome]) -> dict[str, str]:
    """Return the ways that did not work for the script, and how they failed."""
    return {
        one.name: f"{one.seen}: {one.message}" for one in outcomes if one.seen not in ("worked", "at exit")
    }


def changing(outcomes: list[Outcome]) -> set[str]:
    """Return the ways that changed what was there."""
    return {one.name for one in outcomes if one.changed}


def leaving(outcomes: list[Outcome]) -> set[str]:
    """Return the ways whose new files are still there."""
    return {one.name for one in outcomes if one.left}


def test_each_way_writes_where_nothing_holds_it_back(files: Planted) -> None:
    outcomes = files.without_tunekit()
    assert failing(outcomes) == {}
    assert {one.name for one in outcomes} == changing(outcomes) | leaving(outcomes)


def test_under_an_overlay_every_way_works_no_old_file_changes_and_no_new_one_stays(
    files: Planted, tmp_path: Path
) -> None:
    skip_where_it_does_not_hold("overlay", tmp_path)
    outcomes = run(files, "overlay")
    assert changing(outcomes) == set()
    assert leaving(outcomes) == STAYS_UNDER_AN_OVERLAY
    assert set(failing(outcomes)) <= NEEDS_REDIRECT_DIR


def test_under_landlock_no_content_changes(files: Planted, tmp_path: Path) -> None:
    skip_where_it_does_not_hold("landlock", tmp_path)
    outcomes = run(files, "landlock")
    assert changing(outcomes) == CHANGES_UNDER_LANDLOCK
    assert leaving(outcomes) == STAYS_UNDER_LANDLOCK
    of_python = {one.name for one in outcomes if one.group not in PAST_PYTHON}
    assert {name for name in failing(outcomes) if name in of_python} == REFUSED


def test_without_a_sandbox_the_guard_lets_through_what_is_known(
    files: Planted, golden: Callable[[str], object]
) -> None:
    assert "".join(sorted(one.row for one in run(files, "none"))) == golden("ways-without-a-sandbox.txt")
