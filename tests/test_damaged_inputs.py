"""Damaged files are refused with one line that names them."""

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from build_calibrations import calibration
from build_fits import fits_run, steps
from build_loop_profiles import profiled
from build_reports import full_run
from build_scaling import scaled

from tunekit.cli.main import main
from tunekit.cli.settings import load_settings
from tunekit.errors import RecordError, TargetError, TunekitError, UsageError
from tunekit.export.tuned import read_tuned
from tunekit.machine.profiles import read_profile
from tunekit.records.codec import read_json, to_json
from tunekit.trial.config_files import all_keys

ROOT = Path(__file__).parents[1]
WHOLE = full_run()
RECORDS = (
    WHOLE,
    WHOLE.trials[0],
    profiled(),
    fits_run(),
    scaled(processes=(1, 2), rounds=1),
    calibration(),
    steps(4),
)
CONFIG = (ROOT / "reports" / "example-images" / "balanced.yaml").read_text()
SETTINGS = 'gpu = "a10g"\nbudget = "15m"\nfix = ["compile=false"]\n[bind]\nbatch_size = "--bs {}"\n'

Reader = tuple[str, str, Callable[[Path], object], type[TunekitError]]
READERS: list[Reader] = [
    (
        f"{type(one).__name__}.json",
        to_json(one),
        partial(read_json, kind=type(one)),
        RecordError,
    )
    for one in RECORDS
]
READERS += [
    ("balanced.yaml", CONFIG, lambda path: read_tuned(path, WHOLE), UsageError),
    ("a10g.yaml", (ROOT / "profiles" / "a10g.yaml").read_text(), read_profile, RecordError),
    ("tunekit.toml", SETTINGS, lambda path: load_settings(path.parent), UsageError),
    ("own.yaml", "base: &base {rate: 1e-3}\ntrain:\n  <<: *base\n", all_keys, TargetError),
    ("own.json", json.dumps({"a": {"b": [1, 2, "x"]}}), all_keys, TargetError),
    ("own.toml", SETTINGS, all_keys, TargetError),
]


@pytest.mark.parametrize(("name", "text", "read", "error"), READERS, ids=[one[0] for one in READERS])
def test_a_damaged_file_is_refused_by_name(
    name: str, text: str, read: Callable[[Path], object], error: type[TunekitError], tmp_path: Path
):
    path, raw = tmp_path / name, text.encode()
    path.write_bytes(raw)
    read(path)
    damages = (
        raw[: len(raw) * 2 // 3] + b'\n"{',
        b"[" * 400,
        b'{"a":' * 400,
        b"\xe4" + raw,
        bytes(range(256)) * 8,
    )
    for damaged in (*damages, text.encode("utf-16"), b"<<<<<<< HEAD\n" + raw + b"=======\n"):
        path.write_bytes(damaged)
        with pytest.raises(error, match=name) as caught:
            read(path)
        assert len(str(caught.value)) < 2000


@pytest.mark.parametrize(
    "levels", ["[" * 300 + "]" * 300, "".join(f"{' ' * n}a:\n" for n in range(300)), "a: &a\n  b: *a\n"]
)
def test_a_config_that_is_nested_too_deeply_is_refused(levels: str, tmp_path: Path):
    path = tmp_path / "deep.yaml"
    path.write_text(levels)
    with pytest.raises(UsageError, match=r"deep\.yaml is nested deeper than 64 levels"):
        read_tuned(path, WHOLE)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def large(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(2 << 30)


COMMANDS = [
    ("run.json", ["report", "."], RecordError),
    ("run.json", ["plan", "."], RecordError),
    ("own.yaml", ["profile", "--against", "own.yaml", "--", sys.executable, "-c", "pass"], UsageError),
    ("tunekit.toml", ["search", "--", sys.executable, "-c", "pass"], UsageError),
]


@pytest.mark.parametrize("make", [pipe, device, Path.mkdir, large])
@pytest.mark.parametrize(
    ("name", "command", "error"), COMMANDS, ids=[" ".join(one[1][:2]) for one in COMMANDS]
)
def test_what_is_no_file_or_too_large_is_not_read(
    make: Callable[[Path], object],
    name: str,
    command: list[str],
    error: type[TunekitError],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    make(tmp_path / name)
    assert main(command) == error.exit_code
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tunekit: ")
    assert name in line
