"""Every command line that is refused: its exit code and its message, as a transcript.

The cases are the `$ ` lines of golden/refusals.txt. To add one, write its line there and run
`pytest -n 0 tests/cli/test_refusals.py --update-golden`.
"""

import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from build_comparisons import searched, slower
from build_fits import fit, fits_run
from build_loop_profiles import profiled
from build_records import baseline_record, config, run
from scripted_search import learnt, search_in

from tunekit.cli.main import main
from tunekit.export.files import write_exports
from tunekit.machine.detect import detect_host
from tunekit.records.run import Run, RunStatus
from tunekit.session.folder import RunFolder, load_run
from tunekit.trial.target import resolve_target

TRANSCRIPT = Path(__file__).parent / "golden" / "refusals.txt"
FILES = {
    "train.py": "raise SystemExit('a test must not train')\n",
    "evaluate.py": "",
    "lr.yaml": "lr: 0.1\n",
    "list.yaml": "- 1\n",
    "not.yaml": "import torch\n\nx = {1: [2}\n",
    "worker.yaml": "num_worker: 2\n",
    "colour.yaml": "colour: 2\n",
    "twice.yaml": "compile: true\ncompile_model: true\n",
    **dict.fromkeys(("bin/docker", "bin/python", "bin/python3"), "#!/bin/sh\nexit 99\n"),
    "damaged/run.json": "{",
    "damaged/trials/0/record.json": "{}",
    "broken/profile.json": "{",
    "empty/note.txt": "",
}


def save(folder: str, of: Run) -> None:
    with RunFolder(Path(folder)) as owned:
        owned.save(of)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a script, runs of every verb, damaged ones and files that are no configs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("GITHUB_STEP_SUMMARY", "TUNEKIT_PROFILES"):
        monkeypatch.delenv(name, raising=False)
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for program in (tmp_path / "bin").iterdir():
        program.chmod(0o755)
    known = learnt(config(), device_type="cpu")
    search_in(
        tmp_path / "run",
        run().options.changed(max_trials=3),
        target=resolve_target([sys.executable, "train.py"], tmp_path),
        measured_on="cpu",
        host=detect_host(),
        executor_options={"learns": lambda spec: known},
    )
    write_exports(load_run(tmp_path / "run"), tmp_path / "run")
    save("fast", searched())
    save("slow", slower(0.25))
    (balanced,) = [one for one in searched().recommendations if one.tier == "balanced"]
    save("balanced", searched().changed(recommendations=(balanced,)))
    save("open", run(status=RunStatus.INTERRUPTED))
    save("unmeasured", run(trials=(baseline_record(rate=None),)))
    shared = run(status=RunStatus.INTERRUPTED, shared_at="/mnt/shared", target=load_run(Path("run")).target)
    save("shared", shared)
    for name, of in (("looked", profiled()), ("fitted", fits_run((fit("a10g", 22.1, (219, 250, 294)),)))):
        with RunFolder(tmp_path / name) as owned:
            owned.save(of)
    (tmp_path / "link").symlink_to("fast")
    shutil.copytree("run/trials", "orphans/trials")
    return tmp_path


def files_in(folder: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"
    }


def answered(line: str, place: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the exit code and what was said on standard error."""
    code = main([word.replace("PYTHON", sys.executable) for word in shlex.split(line)[1:]])
    captured = capsys.readouterr()
    assert captured.out == "", line
    text = captured.err.replace(sys.executable, "PYTHON").replace(str(place), "PLACE")
    text = re.sub(r"\S+/profiles to", "PROFILES to", text)
    return f"$ {line}\n{text}exit {code}\n"


def test_refusals(place: Path, golden: Callable[[str], object], capsys: pytest.CaptureFixture[str]):
    before = files_in(place)
    lines = [line[2:] for line in TRANSCRIPT.read_text().splitlines() if line.startswith("$ ")]
    assert len(lines) > 100
    answers = [answered(line, place, capsys) for line in lines]
    assert not [answer for answer in answers if answer.endswith("exit 0\n")]
    assert files_in(place) == before, "a refused command writes nothing"
    assert "\n".join(answers) == golden("refusals.txt")
