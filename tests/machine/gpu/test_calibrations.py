import pwd
from pathlib import Path

import pytest
from build_calibrations import calibration

from tunekit.errors import UsageError
from tunekit.machine.gpu.calibrate import folder_to_save_in, load_calibrations, save_calibration


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("TUNEKIT_CALIBRATIONS", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_what_is_saved_is_loaded_the_newest_first(home: Path) -> None:
    assert load_calibrations() == ()
    old = calibration(created_at="2026-01-01T00:00:00+00:00", torch_version="2.1.0")
    path = save_calibration(calibration())
    save_calibration(old)
    assert path == home / ".cache/tunekit/calibration/nvidia-h200-torch-2.13.0-cu130.json"
    assert load_calibrations() == (calibration(), old)


def test_a_new_calibration_takes_the_place_of_the_same_device_and_torch() -> None:
    save_calibration(calibration(context_bytes=1))
    save_calibration(calibration(context_bytes=2))
    assert [one.context_bytes for one in load_calibrations()] == [2]


def test_the_variable_names_other_folders_and_the_first_is_written_to(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_calibration(calibration(context_bytes=1))
    for name in ("one", "two"):
        (home / name).mkdir()
    monkeypatch.setenv("TUNEKIT_CALIBRATIONS", f"{home / 'two'}")
    save_calibration(calibration(context_bytes=2))
    monkeypatch.setenv("TUNEKIT_CALIBRATIONS", f"{home / 'one'}:{home / 'two'}")
    path = save_calibration(calibration(context_bytes=3, device_name="NVIDIA L4"))
    assert path.parent == home / "one"
    assert {one.context_bytes for one in load_calibrations()} == {2, 3}


def test_a_variable_that_names_no_folder_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNEKIT_CALIBRATIONS", str(home / "nowhere"))
    with pytest.raises(UsageError, match=r"nowhere.*is not a folder; create it or unset TUNE"):
        load_calibrations()


def test_a_user_without_a_home_is_told_to_name_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_such_user(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", no_such_user)
    assert load_calibrations() == ()
    for save in (folder_to_save_in, lambda: save_calibration(calibration())):
        with pytest.raises(UsageError, match=r"has no home folder.*name a folder in TUNEKIT_CALIBRATIONS"):
            save()


def test_a_folder_that_can_not_be_written_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNEKIT_CALIBRATIONS", "/proc")
    for save in (folder_to_save_in, lambda: save_calibration(calibration())):
        with pytest.raises(UsageError, match=r"can't be saved in '/proc' \(.+\); make it writable, or name"):
            save()


def test_a_file_that_is_none_is_passed_over(home: Path) -> None:
    folder = save_calibration(calibration()).parent
    (folder / "half.json").write_text('{"device_name": "NVIDIA')
    (folder / "newer.json").write_text('{"schema_version": 99}')
    (folder / "notes.txt").write_text("not ours")
    (folder / "folder.json").mkdir()
    assert load_calibrations() == (calibration(),)
