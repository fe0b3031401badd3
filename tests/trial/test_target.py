"""From the words after `--` to a target."""

import hashlib
import sys
from pathlib import Path

import pytest
from build_records import target

from tunekit.errors import TargetError
from tunekit.trial.target import named_script, other_script, resolve_target, without_secrets

PYTHON = sys.executable


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("print('train')\n")
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "full.py").write_text("lr = 0.1\n")
    return tmp_path


def test_a_script_is_found_and_read(project: Path):
    target = resolve_target([PYTHON, "train.py", "--epochs", "3"], project)
    assert target.name == "train"
    assert target.command == (PYTHON, "train.py", "--epochs", "3")
    assert target.working_dir == str(project)
    assert target.script == str(project / "train.py")
    assert target.script_sha256 == hashlib.sha256(b"print('train')\n").hexdigest()
    assert target.builtin is None


def test_a_shells_long_text_names_no_script(project: Path):
    assert named_script(["bash", "-c", "python train" + " --flag" * 50], project) is None


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("-m", "package.train", "--lr", "0.1"), "package.train"),
        (("-c", "import train"), "import train"),
        (("-u", "-m", "torch.distributed.run", "--nproc-per-node", "2", "train.py"), "train"),
        (("-m", "torch.distributed.run", "-m", "package.train"), "package.train"),
        ((), Path(PYTHON).name),
    ],
)
def test_a_module_or_a_line_of_code_has_no_script(project: Path, words: tuple[str, ...], name: str):
    target = resolve_target([PYTHON, *words], project)
    assert (target.script, target.script_sha256, target.name) == (None, None, name)


def test_options_of_python_may_come_first(project: Path):
    target = resolve_target([PYTHON, "-u", "-W", "ignore", "-X", "dev", "train.py"], project)
    assert target.script == str(project / "train.py")


def test_a_console_script_is_a_program_like_another(project: Path, monkeypatch: pytest.MonkeyPatch):
    program = project / "bin" / "train-net"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    target = resolve_target(["train-net", "--fast"], project)
    assert (target.name, target.script) == ("train-net", None)


def test_a_relative_folder_on_path_is_below_where_the_command_runs(
    project: Path, monkeypatch: pytest.MonkeyPatch
):
    (project / "bin").mkdir()
    (project / "bin" / "launch").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", "bin")
    monkeypatch.chdir("/")
    assert resolve_target(["launch"], project).command == ("launch",)
    with pytest.raises(TargetError, match="no program 'launch' on PATH"):
        resolve_target(["launch"], project / "configs")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("python", "-I", "train.py"), "-I"),
        (("env", "A=1", "python3", "-uE", "train.py"), "-E"),
        (("nice", "-n", "5", "python", "-X", "importtime", "-S", "train.py"), "-S"),
    ],
)
def test_options_that_keep_the_agent_out_are_refused(
    tmp_path: Path, words: tuple[str, ...], option: str
) -> None:
    (tmp_path / "train.py").touch()
    with pytest.raises(TargetError, match=f"leave {option} out"):
        resolve_target(words, tmp_path)


@pytest.mark.parametrize(
    "words",
    [
        ("python", "train.py", "-I"),
        ("python", "-c", "pass", "-S"),
        ("python", "-m", "json", "-E"),
        ("python", "-WIgnore", "train.py"),
        ("python", "-W", "-S", "train.py"),
        ("python", "--check-hash-based-pycs", "default", "train.py"),
    ],
)
def test_options_of_the_script_are_its_own(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "train.py").touch()
    assert resolve_target(words, tmp_path).command == words


def test_a_target_is_stored_without_its_secrets_and_can_not_run_so(tmp_path: Path):
    (tmp_path / "train.py").write_text("")
    command = (sys.executable, "train.py", "--api-key", "Zq7Rk2Wv", "--lr", "0.1")
    target = resolve_target(command, tmp_path)
    stored = without_secrets(target)
    assert target.command == command
    assert stored.command == (sys.executable, "train.py", "--api-key", "***", "--lr", "0.1")
    with pytest.raises(
        TargetError, match="give the command after --, with the secret in place of"
    ) as refused:
        resolve_target(stored.command, tmp_path)
    assert "--api-key '***'" in str(refused.value)


@pytest.mark.parametrize(
    ("words", "folder", "found"),
    [
        ("python train.py", ".", None),
        ("torchrun --nproc_per_node 2 train.py", ".", None),
        ("python -m train", ".", None),
        ("python -m torch.distributed.run ../here/train.py", "../there", None),
        ("python train.py", "../copy", None),
        ("bash train.sh", ".", None),
        ("mytrain --fast", ".", None),
        ("python same.py", ".", None),
        ("python other.py", ".", "here/other.py"),
        ("python jobs/train.py", ".", "here/jobs/train.py"),
        ("torchrun -m jobs.train", ".", "here/jobs/train.py"),
        ("python other.py", "../copy", "copy/other.py"),
    ],
)
def test_another_script_is_told_from_another_way_to_start_the_same(
    words: str, folder: str, found: str | None, tmp_path: Path
):
    here, copy = tmp_path / "here", tmp_path / "copy"
    for place, text in ((here / "jobs", "3"), (here, "1"), (copy, "2"), (tmp_path / "there", "4")):
        place.mkdir(parents=True, exist_ok=True)
        (place / "train.py").write_text(text)
        (place / "other.py").write_text(f"other {text}")
    (here / "same.py").write_text("1")
    searched = resolve_target([PYTHON, "train.py"], here)
    now = target(command=tuple(words.split()), working_dir=str((here / folder).resolve()))
    wanted = found and (str(here / "train.py"), str(tmp_path / found))
    assert other_script(searched, now) == wanted
