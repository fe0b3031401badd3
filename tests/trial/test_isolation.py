"""How trials are isolated: a command keeps the agent whatever becomes of its environment."""

import re
import sys
from pathlib import Path

import pytest
from real_trials import LIMITS

from tunekit.errors import UsageError
from tunekit.records.host import SandboxKind
from tunekit.records.target import Target
from tunekit.records.trial import OutcomeKind, TrialRecord, TrialRole
from tunekit.trial import sandbox
from tunekit.trial.executor import ProcessExecutor, TrialSpec
from tunekit.trial.launch import SANDBOX_VARIABLE, best_sandbox

TRAIN = """
import subprocess, torch
from torch.utils.data import DataLoader, TensorDataset
subprocess.run(["sh", "-c", "echo changed > victim.txt; rm -f gone.txt; mkdir -p out; touch out/new"])
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    for samples, in DataLoader(TensorDataset(torch.randn(512, 4)), batch_size=16):
        optimizer.zero_grad()
        model(samples).sum().backward()
        optimizer.step()
"""


TRAPS = """P=$PWD; cd ${TUNEKIT_REQUEST%/*}; rm -rf output.log
mkfifo output.log; mkdir trial.json; ln -s $P layer; cd agent; rm -rf layer; ln -s $P layer
ln -s $P/victim.txt agent-error-1.txt; mkfifo events-1.jsonl; ln -s /dev/zero pulse-1
perl -e 'for (1..3000) { mkdir q(d); chdir q(d) or die }'"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder of the user's with a script that lets other programs change files."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    (folder / "victim.txt").write_text("old")
    (folder / "gone.txt").write_text("old")
    return folder


def run(project: Path, command: tuple[str, ...], kind: SandboxKind | None = None) -> TrialRecord:
    """Run the project's script once, as it is."""
    target = Target(name="x", command=command, working_dir=str(project), script=None, script_sha256=None)
    executor = ProcessExecutor(target, project.parent / "trials", LIMITS, window_s=0.2, sandbox=kind)
    return executor.run(TrialSpec(0, TrialRole.BASELINE, None), None, lambda progress: None)


@pytest.fixture
def needs_overlay(tmp_path: Path) -> None:
    if best_sandbox(tmp_path).kind != sandbox.OVERLAY:
        pytest.skip(f"no overlay here: {best_sandbox(tmp_path).reasons}")


@pytest.mark.real
@pytest.mark.usefixtures("needs_overlay")
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(
            ("bash", "-c", "PYTHONPATH=src {python} train.py"), id="replaced", marks=pytest.mark.slow
        ),
        pytest.param(("env", "-i", "{python}", "train.py"), id="empty"),
        pytest.param(("bash", "-c", "exec {python} -I train.py"), id="isolated", marks=pytest.mark.slow),
    ],
)
def test_a_replaced_environment_keeps_neither_the_agent_out_nor_the_files_from_the_net(
    project: Path, words: tuple[str, ...]
) -> None:
    before = sorted(project.iterdir())
    record = run(project, tuple(word.replace("{python}", sys.executable) for word in words))
    assert record.failure is None, record.failure
    assert record.sandbox == "overlay"
    assert sorted(project.iterdir()) == before
    assert (project / "victim.txt").read_text() == (project / "gone.txt").read_text() == "old"
    told = {Path(one.path).name: one.action for one in record.written}
    assert told == {"victim.txt": "diverted", "gone.txt": "denied", "new": "created"}
    assert not list((project.parent / "trials" / "0000").glob("layer*"))


@pytest.mark.real
@pytest.mark.parametrize("kind", ["overlay", pytest.param("landlock", marks=pytest.mark.slow), "none"])
def test_traps_in_a_trials_folder_are_removed_and_lead_nowhere(project: Path, kind: SandboxKind) -> None:
    if kind == "overlay" and best_sandbox(project.parent).kind != kind:
        pytest.skip("no overlay here")
    source = re.sub(r'"echo .*new"', f'"""{TRAPS}"""', TRAIN)
    (project / "train.py").write_text(source)
    before = {path: path.read_text() for path in project.iterdir()}
    record = run(project, (sys.executable, "train.py"), kind)
    assert record.failure is None, record.failure
    assert {path: path.read_text() for path in project.iterdir()} == before
    left = (project.parent / "trials" / "0000").iterdir()
    assert {path.name.partition("-")[0] for path in left if path.is_file()} <= {
        "events",
        "output.log",
        "request.json",
    }


@pytest.mark.real
def test_without_a_net_a_python_on_path_keeps_the_agent(project: Path) -> None:
    python = Path(sys.executable)
    words = ("bash", "-c", f"PYTHONPATH=src {python.name} train.py")
    record = run(project, ("env", f"PATH={python.parent}:/usr/bin:/bin", *words), "none")
    assert record.failure is not None, "env replaces PATH too: nothing is ahead of it"
    assert record.failure.kind is OutcomeKind.AGENT_ABSENT
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{python.parent}:/usr/bin:/bin")
        record = run(project, words, "none")
    assert record.failure is None, record.failure
    assert record.sandbox == "none"


@pytest.mark.real
def test_torch_without_an_agent_ends_the_trial_with_the_command_and_a_remedy(project: Path) -> None:
    record = run(project, ("bash", "-c", f"env -i {sys.executable} train.py"), "none")
    assert record.failure is not None
    assert record.failure.kind is OutcomeKind.AGENT_ABSENT
    assert f"{sys.executable} train.py" in record.failure.message
    assert record.failure.remedy is not None
    assert "PYTHONPATH" in record.failure.remedy


def test_a_kind_can_be_asked_for_by_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SANDBOX_VARIABLE, "none")
    assert best_sandbox(tmp_path / "a").kind == "none"
    monkeypatch.setenv(SANDBOX_VARIABLE, "docker")
    with pytest.raises(UsageError, match="one of overlay, landlock, none, got 'docker'"):
        best_sandbox(tmp_path / "b")
