"""Files that disks, editors and hostile hands left: read well, or refused by an error of tunekit."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pytest
from build_calibrations import calibration
from build_fits import fits_run, steps
from build_loop_profiles import profiled
from build_reports import full_run
from build_scaling import scaled
from damaged import cut, deep, encoded, flipped, lines_mixed, mistyped

from tunekit.cli.main import main
from tunekit.cli.settings import load_settings
from tunekit.errors import DamagedRecordError, RecordError, TargetError, UsageError
from tunekit.export.tuned import read_tuned
from tunekit.machine.profiles import read_profile
from tunekit.records.codec import read_json, to_json
from tunekit.records.prediction import Calibration, StepTrace
from tunekit.records.run import FitsRun, LoopProfile, Run
from tunekit.records.scaling_run import ScalingRun
from tunekit.records.trial import TrialRecord
from tunekit.trial.config_files import all_keys

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "reports" / "example-images"
WHOLE = full_run()
OWN_CONFIG = """
defaults: &base
  batch_size: 32
  name: "run one"
train:
  <<: *base
  workers: [1, 2, 3]
  rate: 1e-3
"""
SETTINGS = '[tool.tunekit]\ngpu = "a10g"\nbudget = "15m"\nepochs = 3\nfix = ["compile=false"]\n'
SETTINGS += '[tool.tunekit.bind]\nbatch_size = "--bs {}"\n'

Damages = list[tuple[str, bytes]]
MOST = 40


def damages(text: str, seed: int = 7) -> Damages:
    """Return a text as it is damaged by every rule that is for any text."""
    chance = random.Random(seed)
    return list(
        chain(
            encoded(text),
            cut(text, chance, 12),
            flipped(text, chance, 24),
            lines_mixed(text, chance, 6),
            *(deep(*signs) for signs in (("[", "]"), ('{"a":', "}"), ("- ", ""), ("a: {", "}"))),
        )
    )


def of_record(record: object) -> Damages:
    text = to_json(record)  # type: ignore[arg-type]
    return damages(text) + list(mistyped(text, random.Random(11), MOST))


READERS: dict[str, tuple[str, Callable[[Path], object], tuple[type[Exception], ...], Damages]] = {
    "run": ("run.json", lambda path: read_json(path, Run), (RecordError,), of_record(WHOLE)),
    "trial": (
        "trial.json",
        lambda path: read_json(path, TrialRecord),
        (RecordError,),
        of_record(WHOLE.trials[0]),
    ),
    "loop profile": (
        "profile.json",
        lambda path: read_json(path, LoopProfile),
        (RecordError,),
        of_record(profiled()),
    ),
    "fits": ("fits.json", lambda path: read_json(path, FitsRun), (RecordError,), of_record(fits_run())),
    "scaling": (
        "scale.json",
        lambda path: read_json(path, ScalingRun),
        (RecordError,),
        of_record(scaled(processes=(1, 2), rounds=1)),
    ),
    "calibration": (
        "gpu.json",
        lambda path: read_json(path, Calibration),
        (RecordError,),
        of_record(calibration()),
    ),
    "steps": ("steps.json", lambda path: read_json(path, StepTrace), (RecordError,), of_record(steps(4))),
    "tuned config": (
        "balanced.yaml",
        lambda path: read_tuned(path, WHOLE),
        (UsageError,),
        damages((EXAMPLE / "balanced.yaml").read_text()),
    ),
    "GPU profile": (
        "a10g.yaml",
        lambda path: read_profile(path, is_yours=True),
        (DamagedRecordError,),
        damages((ROOT / "profiles" / "a10g.yaml").read_text()),
    ),
    "settings": (
        "tunekit.toml",
        lambda path: load_settings(path.parent),
        (UsageError,),
        damages(SETTINGS.replace("tool.tunekit.", "").replace("[tool.tunekit]", "")),
    ),
    "project settings": (
        "pyproject.toml",
        lambda path: load_settings(path.parent),
        (UsageError,),
        damages(SETTINGS),
    ),
    "own YAML": ("own.yaml", all_keys, (TargetError,), damages(OWN_CONFIG)),
    "own JSON": ("own.json", all_keys, (TargetError,), damages(json.dumps({"a": {"b": [1, 2, "x"]}}))),
    "own TOML": ("own.toml", all_keys, (TargetError,), damages(SETTINGS)),
}
"""By what is read: its name, its reader, the errors of a bad one, and the bad ones."""


def test_the_corpus_is_large():
    assert sum(len(found) for _, _, _, found in READERS.values()) > 1000


@pytest.mark.parametrize("what", READERS)
def test_a_damaged_file_is_read_well_or_refused_by_name(what: str, tmp_path: Path):
    name, read, errors, corpus = READERS[what]
    path = tmp_path / name
    refused = 0
    for damage, content in corpus:
        path.write_bytes(content)
        try:
            read(path)
        except errors as error:
            refused += 1
            assert name in str(error), damage
            assert len(str(error)) < 2000, damage
        except Exception as error:
            raise AssertionError(f"{damage}: {type(error).__name__}: {error}") from error
    assert refused > len(corpus) / 4


def test_a_damaged_run_is_shown_or_refused_with_exit_code_10(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "run.json"
    codes = set()
    for damage, content in of_record(WHOLE):
        path.write_bytes(content)
        code = main(["report", str(tmp_path)])
        told = capsys.readouterr()
        assert code in (0, 10), (damage, code, told.err)
        assert (code == 0) == (told.err == ""), damage
        codes.add(code)
    assert codes == {0, 10}


# --- bombs ---------------------------------------------------------------------------------

MIB = 1 << 20
LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)
TEXTS = {
    "alias laughs": LAUGHS,
    "mapping laughs": "a0: &a0 {x: 1}\n"
    + "".join(f"a{n}: &a{n} {{p: *a{n - 1}, q: *a{n - 1}, r: *a{n - 1}}}\n" for n in range(1, 30)),
    "self reference": "batch_size: &a\n  b: *a\n",
    "self in a list": "&a [*a, *a]\n",
    "levels": "[" * 5000,
    "mapping levels": '{"a":' * 5000 + "1" + "}" * 5000,
    "block levels": "".join(f"{' ' * n}a:\n" for n in range(1400)),
    "large scalar": '{"batch_size": "' + "x" * (50 * MIB) + '"}',
    "scalar below the limit": "batch_size: " + "x" * (MIB - 100),
    "huge number": "batch_size: " + "9" * 100_000,
    "sexagesimal": "batch_size: 1" + ":1" * 100_000,
    "many values": "[" + "1," * 300_000 + "1]",
    "many keys": "{" + ",".join(f'"{n}":1' for n in range(60_000)) + "}",
    "dotted key": "[" + "a." * 100_000 + "a]\n# tunekit\n",
    "many records": '{"trials": [' + "{}," * 740_000 + "{}]}",
    "many wrong keys": '{"host": {' + ",".join(f'"{n}":1.5' for n in range(740_000)) + "}}",
    "wide letters": '{"trials": "' + "\U0001f600" + "x" * (31 * MIB) + '"}',
}


def bomb(path: Path, kind: str) -> None:
    """Put a file there that must not be read for long."""
    path.unlink(missing_ok=True)
    if kind in TEXTS:
        path.write_text(TEXTS[kind])
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "endless device":
        path.symlink_to("/dev/zero")
    elif kind == "pipe behind a link":
        os.mkfifo(path.with_name("pipe"))
        path.symlink_to("pipe")
    elif kind == "folder":
        path.mkdir()
    else:
        with path.open("wb") as stream:
            stream.truncate(2 << 30)


KINDS = (*TEXTS, "pipe", "endless device", "pipe behind a link", "folder", "2 GiB, sparse")


@pytest.fixture
def example(tmp_path: Path) -> Callable[[str], Path]:
    """Make a copy of the example run."""

    def copied(name: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        for file in ("run.json", "balanced.yaml"):
            shutil.copy(EXAMPLE / file, folder)
        return folder

    return copied


@dataclass(frozen=True)
class Read:
    """How a command line that reads a bomb ended."""

    line: list[str]
    code: int
    told: str
    more_bytes: int
    """At its peak, more than a harmless line took."""

    def is_refused(self, code: int) -> bool:
        """Return whether it ended with this error of tunekit's, said shortly and with little memory."""
        is_error = self.code == code and self.told.startswith("tunekit: ")
        return is_error and len(self.told) < 2000 and self.more_bytes < 200 * MIB


def read_bombs(lines: list[list[str]], cwd: Path) -> list[Read]:
    """Run command lines after a harmless one."""
    words = json.dumps([["report", str(EXAMPLE)], *lines])
    child = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("read_bombs.py")), words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    ends = [json.loads(line) for line in child.stdout.splitlines()]
    assert len(ends) == len(lines) + 1, child.stderr[-2000:]
    (harmless_code, harmless_bytes, _), *read = ends
    assert harmless_code == 0
    return [
        Read(line, code, told, peak_bytes - harmless_bytes)
        for line, (code, peak_bytes, told) in zip(lines, read, strict=True)
    ]


@pytest.mark.parametrize("verb", [["report"], ["plan"], ["compare", str(EXAMPLE)]], ids=lambda verb: verb[0])
def test_a_run_that_is_a_bomb_is_refused_within_200_mb(
    verb: list[str], example: Callable[[str], Path], tmp_path: Path
):
    lines = []
    for number, kind in enumerate(KINDS if verb == ["report"] else KINDS[-5:]):
        folder = example(str(number))
        (folder / "run.json").unlink()
        bomb(folder / "run.json", kind)
        lines.append([*verb, str(folder)])
    read = read_bombs(lines, tmp_path)
    assert [one for one in read if not one.is_refused(RecordError.exit_code)] == []


def test_a_config_that_is_a_bomb_is_refused_within_200_mb(example: Callable[[str], Path], tmp_path: Path):
    lines = []
    for number, kind in enumerate(KINDS):
        config = example(str(number)) / "balanced.yaml"
        config.unlink()
        bomb(config, kind)
        lines.append(["run", "--dry-run", "--force", str(config), "--", "true"])
        if kind != "scalar below the limit":  # what a value means is known after the first trial
            lines.append(["profile", "--against", str(config), "--", sys.executable, "-c", "pass"])
    read = read_bombs(lines, tmp_path)
    assert [one for one in read if not one.is_refused(UsageError.exit_code)] == []


@pytest.mark.parametrize("name", ["tunekit.toml", "pyproject.toml"])
def test_settings_that_are_a_bomb_are_refused_within_200_mb(name: str, tmp_path: Path):
    kinds = ("levels", "large scalar", "many values", "dotted key", *KINDS[-5:])
    for kind in kinds if name == "tunekit.toml" else ("dotted key", *KINDS[-5:]):
        folder = tmp_path / kind.replace(" ", "-").replace(",", "")
        folder.mkdir()
        bomb(folder / name, kind)
        (read,) = read_bombs([["search", "--", sys.executable, "-c", "pass"]], folder)
        assert read.is_refused(UsageError.exit_code), read
