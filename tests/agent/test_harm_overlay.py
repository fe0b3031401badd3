"""What the script sees in place of what it had: decisions about paths, without replaced functions."""

import os
from pathlib import Path
from typing import Any

import pytest
from _tunekit_agent.file_guard import overlay as overlays
from _tunekit_agent.file_guard.overlay import Answer, HarmDenied, Listing, Overlay
from _tunekit_agent.file_guard.paths import Locator, real_path


class Told(list[tuple[str, str]]):
    def __call__(self, action: str, path: str) -> None:
        self.append((action, path))


@pytest.fixture
def user(tmp_path: Path) -> Path:
    folder = tmp_path / "user"
    (folder / "ck").mkdir(parents=True)
    for name in ("old.txt", "ck/old.txt"):
        (folder / name).write_text("old")
    (tmp_path / "trial").mkdir()
    return folder


def make(tmp_path: Path, trial: str = "trial", **more: Any) -> tuple[Overlay, Told]:
    reported = Told()
    return Overlay(str(tmp_path / trial), reported, quiet=(), **more), reported


def test_a_write_over_an_old_file_goes_to_a_copy_that_reads_then_see(user: Path, tmp_path: Path) -> None:
    overlay, reported = make(tmp_path)
    path = str(user / "old.txt")
    assert overlay.read_path(path) is None
    assert not overlay.active
    copy, newborn = overlay.write_path(path)
    assert newborn is None
    assert copy == f"{tmp_path}/trial/diverted{path}"
    assert Path(copy).read_text() == "old"
    assert overlay.read_path(os.fsencode(path)) == copy
    assert reported == [("diverted", path)]


def test_a_write_that_starts_empty_copies_the_mode_alone(user: Path, tmp_path: Path) -> None:
    (user / "old.txt").chmod(0o750)
    copy, _ = make(tmp_path)[0].write_path(user / "old.txt", keep=False, create=False)
    assert Path(copy).read_text() == ""
    assert Path(copy).stat().st_mode & 0o777 == 0o750


def made(overlay: Overlay, path: Path) -> None:
    """Make a file or, without a suffix, a folder as the trial does."""
    path.write_text("made") if path.suffix else path.mkdir()
    overlay.born(str(path))


def test_what_this_trial_made_is_written_in_place(user: Path, tmp_path: Path) -> None:
    overlay, reported = make(tmp_path)
    made(overlay, user / "new.txt")
    assert overlay.write_path(user / "new.txt") == (None, None)
    assert reported == [("created", str(user / "new.txt"))]


def test_what_somebody_else_touches_while_the_trial_runs_stays_old(user: Path, tmp_path: Path) -> None:
    overlay, _ = make(tmp_path)
    os.utime(user / "old.txt")
    (user / "ck" / "old.txt").write_text("touched")
    (user / "theirs.txt").write_text("somebody else's")
    for name in ("old.txt", "ck/old.txt", "theirs.txt", "ck"):
        assert overlay.existed(str(user / name))
    copy, _ = overlay.write_path(user / "theirs.txt")
    assert Path(copy).read_text() == "somebody else's"


def test_what_somebody_else_put_in_place_of_a_made_file_is_old(user: Path, tmp_path: Path) -> None:
    overlay, _ = make(tmp_path)
    made(overlay, user / "new.txt")
    (user / "theirs.txt").write_text("somebody else's")
    (user / "theirs.txt").replace(user / "new.txt")
    assert overlay.existed(str(user / "new.txt"))
    assert overlay.write_path(user / "new.txt")[0] is not None


def test_what_lies_in_a_folder_that_the_trial_made_is_the_trials(user: Path, tmp_path: Path) -> None:
    overlay, _ = make(tmp_path)
    made(overlay, user / "run")
    (user / "run" / "deep").mkdir()
    (user / "run" / "deep" / "by-another-program.txt").write_text("")
    assert not overlay.existed(str(user / "run" / "deep" / "by-another-program.txt"))
    (user / "run").rename(user / "gone")
    (user / "ck").rename(user / "run")
    assert overlay.existed(str(user / "run" / "old.txt"))


def test_all_processes_of_a_trial_know_what_one_of_them_did(user: Path, tmp_path: Path) -> None:
    one, _ = make(tmp_path)
    other, _ = make(tmp_path)
    made(one, user / "new.txt")
    assert not other.existed(str(user / "new.txt"))
    copy, _ = one.write_path(user / "old.txt")
    assert other.read_path(user / "old.txt") == copy
    other.hide(str(user / "ck" / "old.txt"))
    with pytest.raises(Answer):
        one.read_path(user / "ck" / "old.txt")


def test_a_file_that_a_call_is_about_to_make_is_the_trials_once_it_is_there(
    user: Path, tmp_path: Path
) -> None:
    overlay, reported = make(tmp_path)
    overlay.born(str(user / "later.db"))
    (user / "later.db").write_text("")
    assert overlay.write_path(user / "later.db") == (None, None)
    assert reported == [("created", str(user / "later.db"))]


def test_a_new_file_is_made_in_place_and_listed_once_it_is_there(user: Path, tmp_path: Path) -> None:
    overlay, reported = make(tmp_path)
    target, newborn = overlay.write_path(user / "new.txt")
    assert target is None
    assert newborn == str(user / "new.txt")
    assert reported == []
    (user / "new.txt").write_text("")
    overlay.born(newborn)
    assert reported == [("created", newborn)]


def test_new_files_in_temporary_folders_and_in_the_trials_are_not_listed(tmp_path: Path) -> None:
    reported = Told()
    (tmp_path / "trial").mkdir()
    overlay = Overlay(str(tmp_path / "trial"), reported)
    for path in ("/tmp/x", "/dev/shm/x", "/dev/null", f"{tmp_path}/trial/x"):
        overlay.born(path)
    assert reported == []


def test_a_saved_checkpoint_is_always_diverted_if_its_folder_is_there(user: Path, tmp_path: Path) -> None:
    overlay, _ = make(tmp_path)
    assert overlay.write_path(user / "model.pt", keep=False, always=True)[0].startswith(overlay.folder)
    assert overlay.write_path(user / "nowhere" / "model.pt", keep=False, always=True)[0] is None


def test_what_the_script_removed_is_not_there_and_can_be_written_anew(user: Path, tmp_path: Path) -> None:
    overlay, _ = make(tmp_path)
    path = str(user / "old.txt")
    overlay.hide(path)
    with pytest.raises(Answer) as reported:
        overlay.read_path(path)
    assert isinstance(reported.value.error, FileNotFoundError)
    assert not overlay.is_visible(path)
    assert overlay.names_in(str(user), ["old.txt", "ck"]) == ["ck"]
    copy, _ = overlay.write_path(path, keep=True)
    assert not Path(copy).exists()
    assert overlay.names_in(str(user), ["old.txt", "ck"]) == ["old.txt", "ck"]


def test_a_link_to_an_old_file_is_that_file(user: Path, tmp_path: Path) -> None:
    (user / "link").symlink_to("old.txt")
    overlay, reported = make(tmp_path)
    copy, _ = overlay.write_path(user / "link")
    assert overlay.read_path(user / "old.txt") == copy
    assert reported == [("diverted", str(user / "old.txt"))]


def test_a_link_in_the_trials_folder_frees_nothing_outside(user: Path, tmp_path: Path) -> None:
    (tmp_path / "trial" / "link").symlink_to(user / "old.txt")
    copy, _ = make(tmp_path)[0].write_path(tmp_path / "trial" / "link")
    assert copy is not None


def test_a_later_process_takes_over_what_was_diverted(user: Path, tmp_path: Path) -> None:
    copy, _ = make(tmp_path)[0].write_path(user / "old.txt")
    Path(copy).write_text("changed")
    later, reported = make(tmp_path)
    assert later.read_path(user / "old.txt") == copy
    assert later.write_path(user / "old.txt") == (copy, None)
    assert reported == []


def test_an_old_folder_stays_old_when_something_new_comes_into_it(user: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    overlay, _ = make(tmp_path)
    made(overlay, tmp_path / "empty" / "new.txt")
    assert overlay.existed(str(tmp_path / "empty"))


def test_a_file_too_large_to_copy_is_refused_with_a_remedy(
    user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlays, "LARGEST_COPY_BYTES", 2)
    overlay, reported = make(tmp_path)
    with pytest.raises(Answer) as refused:
        overlay.write_path(user / "old.txt")
    assert isinstance(refused.value.error, HarmDenied)
    assert str(user / "old.txt") in str(refused.value.error)
    assert "open it for reading only" in str(refused.value.error)
    assert reported == [("denied", str(user / "old.txt"))]
    assert (user / "old.txt").read_text() == "old"


def test_reads_see_a_rewritten_copy_and_writes_start_from_it(user: Path, tmp_path: Path) -> None:
    (tmp_path / "rewritten").write_text("rewritten")
    redirected = {str(user / "old.txt"): str(tmp_path / "rewritten")}
    overlay = Overlay(str(tmp_path / "trial"), Told(), redirected)
    assert overlay.read_path(user / "old.txt") == str(tmp_path / "rewritten")
    copy, _ = overlay.write_path(user / "old.txt")
    assert Path(copy).read_text() == "rewritten"
    assert overlay.read_path(user / "old.txt") == copy


def test_each_path_is_listed_once_and_not_without_end() -> None:
    class Log(list[str]):
        def emit(self, event: str, path: str, action: str) -> None:
            self.append(path)

    log = Log()
    listing = Listing(log)
    for path in [f"/{number}" for number in range(600)] * 2:
        listing("created", path)
    listing("denied", "/a")
    listing("denied", "/src/__pycache__/a.pyc")
    assert log == [*(f"/{number}" for number in range(500)), "/a"]


@pytest.mark.parametrize(
    "name", ["a", "./a", "ck/../a", "link/old.txt", "loop/x", "ck//old.txt", "ck/.", "..", "/"]
)
def test_paths_lead_where_the_operating_system_says(
    name: str, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (user / "link").symlink_to("ck")
    (user / "loop").symlink_to("loop")
    monkeypatch.chdir(user)
    assert real_path(name) == os.path.realpath(name)


def test_an_entry_keeps_its_last_name(user: Path) -> None:
    (user / "link").symlink_to("ck")
    (user / "link2").symlink_to("ck/old.txt")
    locator = Locator()
    assert locator.entry(user / "link" / "old.txt") == str(user / "ck" / "old.txt")
    assert locator.entry(f"{user}/link2/") == str(user / "link2")
    descriptor = os.open(user, os.O_RDONLY)
    assert locator.entry("link2", descriptor) == str(user / "link2")
    assert locator.entry(descriptor) == str(user)
    os.close(descriptor)
    assert locator.entry("") is None
    assert locator.entry(None) is None
    assert locator.entry("a\0b") is None
