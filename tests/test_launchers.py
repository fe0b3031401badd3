"""The launchers in the docs: each starts the same search on several hosts, in its own system's words."""

import ast
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml

from tunekit import errors
from tunekit.cli.parser import build_parser
from tunekit.units import parse_duration_s

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "many-hosts.md"
LAUNCHERS = ROOT / "docs" / "launchers"
SBATCH, SUBMITIT = LAUNCHERS / "search.sbatch", LAUNCHERS / "search_submitit.py"
KUBERNETES, SKYPILOT = LAUNCHERS / "kubernetes-job.yaml", LAUNCHERS / "skypilot.yaml"

DATABASE = "postgresql://me@db.example.com/search"
SAYS_ITS_WORDS = "#!/bin/bash\nprintf '%s\\n' tunekit \"$@\"\n"


def sbatch_directives() -> dict[str, str]:
    found = re.findall(r"^#SBATCH --([a-z-]+)(?:=(\S+))?$", SBATCH.read_text(), re.MULTILINE)
    return dict(found)


def job() -> dict[str, Any]:
    loaded = yaml.safe_load(KUBERNETES.read_text())
    assert isinstance(loaded, dict)
    return loaded


def sky_task() -> dict[str, Any]:
    loaded = yaml.safe_load(SKYPILOT.read_text())
    assert isinstance(loaded, dict)
    return loaded


def minutes_of(clock: str) -> int:
    hours, minutes, seconds = map(int, clock.split(":"))
    return 60 * hours + minutes + seconds // 60


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose environment has a tunekit that says its words, one a line."""
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "activate").write_text(f"PATH={shlex.quote(str(programs))}:$PATH\n")
    (programs / "tunekit").write_text(SAYS_ITS_WORDS)
    (programs / "tunekit").chmod(0o755)
    return tmp_path


def words_of(project: Path, script: list[str], **variables: str) -> list[str]:
    """Return the command that a script starts as its own process."""
    done = subprocess.run(
        ["bash", *script], cwd=project, env={"PATH": os.environ["PATH"], **variables},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()


def sbatch_words(project: Path, task: int, *arguments: str) -> list[str]:
    slurm = {"SLURM_ARRAY_JOB_ID": "4711", "SLURM_ARRAY_TASK_ID": str(task), "SLURM_JOB_ID": str(4711 + task)}
    return words_of(project, [str(SBATCH), *arguments], **slurm)


class Executor:
    """What submitit's would be told."""

    def __init__(self) -> None:
        self.parameters: dict[str, Any] = {}
        self.batches: list[list[list[str]]] = []

    def update_parameters(self, **parameters: Any) -> None:
        self.parameters |= parameters

    def batch(self) -> "Executor":
        return self

    def __enter__(self) -> None:
        self.batches.append([])

    def __exit__(self, *exc: object) -> None:
        pass

    def submit(self, command: list[str]) -> SimpleNamespace:
        self.batches[-1].append(command)
        return SimpleNamespace(job_id=f"1_{len(self.batches[-1])}")


def submitted(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Executor:
    """Run the script of submitit's with a stand-in for it."""
    executor = Executor()
    stand_in = ModuleType("submitit")
    stand_in.AutoExecutor = lambda folder: executor
    stand_in.helpers = SimpleNamespace(CommandFunction=lambda command: command)
    monkeypatch.setitem(sys.modules, "submitit", stand_in)
    monkeypatch.setattr(sys, "argv", [str(SUBMITIT), *arguments])
    runpy.run_path(str(SUBMITIT), run_name="__main__")
    return executor


def test_every_launcher_starts_the_same_command(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = [
        *(sbatch_words(project, task) for task in (1, 2, 3, 4)),
        *submitted(monkeypatch).batches[0],
        job()["spec"]["template"]["spec"]["containers"][0]["command"],
        words_of(project, ["-c", sky_task()["run"]], SHARE=DATABASE),
    ]
    places = []
    for words in started:
        own = words[1 : words.index("--")]
        options = build_parser().parse_args(own)
        places.append(options.share)
        assert options.share == words[3]
    assert {tuple(words[:3]) for words in started} == {("tunekit", "search", "--share")}
    assert len({tuple(words[4:]) for words in started}) == 1
    assert places == [*["runs/4711"] * 4, *["runs/search"] * 4, "/share/search", DATABASE]


def test_an_array_goes_on_with_the_folder_that_it_is_given(project: Path) -> None:
    assert sbatch_words(project, 1, "/shared/my searches/one")[3] == "/shared/my searches/one"


def test_the_budget_ends_before_the_job_does(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = sbatch_words(project, 1)
    budget_s = parse_duration_s(words[words.index("--budget") + 1])
    parameters = submitted(monkeypatch).parameters
    limits = (minutes_of(sbatch_directives()["time"]), parameters["timeout_min"])
    assert all(budget_s < 60 * minutes for minutes in limits)


def test_a_preempted_pod_comes_back_and_one_that_tunekit_refuses_does_not() -> None:
    spec = job()["spec"]
    ignored, failed = spec["podFailurePolicy"]["rules"]
    assert ignored["action"] == "Ignore"
    assert ignored["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]
    assert spec["template"]["spec"]["restartPolicy"] == "Never", "what a failure policy asks for"
    assert failed["action"] == "FailJob"
    assert failed["onExitCodes"]["containerName"] == spec["template"]["spec"]["containers"][0]["name"]
    refusals = (
        errors.UsageError, errors.UnknownGpuError, errors.TargetError, errors.NoTrainingLoopError,
        errors.EmptySpaceError, errors.BudgetTooSmallError, errors.TargetChangedError,
    )  # fmt: skip
    assert failed["onExitCodes"]["values"] == [refusal.exit_code for refusal in refusals]


@pytest.mark.parametrize("part", ["setup", "run"])
def test_skypilots_parts_are_bash(part: str) -> None:
    assert subprocess.run(["bash", "-n", "-c", sky_task()[part]]).returncode == 0


@pytest.mark.parametrize("launcher", sorted(LAUNCHERS.iterdir()), ids=lambda path: path.name)
def test_each_launcher_says_how_it_is_started_and_is_in_the_page(launcher: Path) -> None:
    text = launcher.read_text()
    assert f"docs/launchers/{launcher.name}" in text
    assert f"](launchers/{launcher.name})" in PAGE.read_text()
    if launcher.suffix == ".py":
        ast.parse(text)
