"""A catalogue of hostile scripts as real trials: measured all the same, or told for what they did."""

import py_compile
import sys
import zipapp
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hostile_targets import COMMANDS, HOSTILE, LOOP, Hostile
from real_trials import RealTrials, processes_with

from tunekit.records.target import Target
from tunekit.trial.watch import Limits

pytestmark = pytest.mark.real


def as_parameters(targets: Sequence[Hostile]) -> list[Any]:
    return [
        pytest.param(each, id=each.name, marks=[] if each.is_usual else [pytest.mark.slow])
        for each in targets
    ]


def lay_out(hostile: Hostile, folder: Path) -> Target:
    """Write a script, and the forms that its command may run it in, and return its target."""
    folder.mkdir()
    (folder / "loop.py").write_text(LOOP)
    script = folder / "train.py"
    script.write_text(hostile.source)
    if hostile in COMMANDS:
        py_compile.compile(str(script), str(folder / "compiled.pyc"), doraise=True)
        (folder / "link.py").symlink_to(script)
        for word in hostile.command:
            if word.startswith("mein"):
                (folder / word).write_text(hostile.source)
        packed = folder / "packed"
        packed.mkdir()
        (packed / "__main__.py").write_text(hostile.source)
        (packed / "loop.py").write_text(LOOP)
        zipapp.create_archive(packed, folder / "train.pyz")
    command = tuple(word.replace("{python}", sys.executable) for word in hostile.command)
    return Target(
        name="hostile", command=command, working_dir=str(folder), script=str(script), script_sha256=None
    )


@pytest.mark.parametrize("hostile", as_parameters(HOSTILE))
def test_a_hostile_script_is_measured_or_told_for_what_it_did(
    hostile: Hostile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in hostile.environment.items():
        monkeypatch.setenv(name, value)
    limits = Limits(hostile.trial_s, hostile.no_progress_s, ram_bytes=3 << 30)
    with TemporaryDirectory(dir="/tmp") as temporary:  # short: sockets have short paths
        monkeypatch.setenv("TMPDIR", temporary)
        monkeypatch.setattr("tempfile.tempdir", None)
        target = lay_out(hostile, tmp_path / "of the user")
        trials = RealTrials(target, tmp_path / "trials", limits, sandbox=hostile.sandbox)
        record = trials.run_baseline()
    failure = record.failure
    told = None if failure is None else (failure.kind, failure.message)
    assert (failure and failure.kind) == hostile.outcome, told
    if failure is not None:
        assert hostile.said in failure.message
        assert failure.remedy
        assert failure.message.isprintable()
        assert "http" not in failure.message
    assert processes_with(str(tmp_path)) == []


def test_the_catalogue_has_its_size() -> None:
    assert len(HOSTILE) >= 77
    assert len({each.name for each in HOSTILE}) == len(HOSTILE)
