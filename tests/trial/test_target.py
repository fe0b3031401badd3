"""From the words after `--` to a target."""

import hashlib
import sys
from pathlib import Path

import pytest

from tunekit.errors import TargetError
from tunekit.trial.target import resolve_target

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


def test_a_built_in_workload_goes_by_its_own_name(project: Path):
    target = resolve_target([PYTHON, "train.py"], project, builtin="images")
    assert (target.name, target.builtin) == ("images", "images")


def test_an_absolute_script_is_found_from_anywhere(project: Path):
    target = resolve_target([PYTHON, str(project / "train.py")], project / "configs")
    assert target.script == str(project / "train.py")


def test_a_changed_script_has_another_digest(project: Path):
    before = resolve_target([PYTHON, "train.py"], project)
    (project / "train.py").write_text("print('train') \n")
    after = resolve_target([PYTHON, "train.py"], project)
    assert before.script_sha256 != after.script_sha256
    assert before.model_copy(update={"script_sha256": None}) == after.model_copy(
        update={"script_sha256": None}
    )


def test_no_command_is_refused_with_an_example(project: Path):
    with pytest.raises(TargetError, match=r"give it after --, as in: tunekit search -- python train\.py"):
        resolve_target([], project)


def test_a_missing_script_names_what_is_near(project: Path):
    with pytest.raises(TargetError, match=r"no script 'trian\.py' in .*; did you mean train\.py\?"):
        resolve_target([PYTHON, "trian.py"], project)


def test_a_missing_script_with_nothing_near_says_where_it_looked(project: Path):
    with pytest.raises(TargetError, match=r"no script 'xyzzy\.py' in .*; check the path"):
        resolve_target([PYTHON, "xyzzy.py"], project)


def test_a_missing_folder_is_no_other_error(project: Path):
    with pytest.raises(TargetError, match=r"no script 'nowhere/train\.py' in .*nowhere; check the path"):
        resolve_target([PYTHON, "nowhere/train.py"], project)


def test_a_folder_is_no_script(project: Path):
    (project / "folder.py").mkdir()
    with pytest.raises(TargetError, match=r"no script 'folder\.py'"):
        resolve_target([PYTHON, "folder.py"], project)


@pytest.mark.parametrize("program", ["no-such-program", "/usr/bin/no-such-program", "./train.sh", ""])
def test_a_missing_program_is_named(project: Path, program: str):
    with pytest.raises(TargetError, match="on PATH; give the command as you would type it") as caught:
        resolve_target([program, "train.py"], project)
    assert repr(program) in str(caught.value)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("-m", "package.train", "--lr", "0.1"), "package.train"),
        (("-c", "import train"), "import train"),
        (("-u", "-m", "torch.distributed.run", "train.py"), "torch.distributed.run"),
        ((), Path(PYTHON).name),
    ],
)
def test_a_module_or_a_line_of_code_has_no_script(project: Path, words: tuple[str, ...], name: str):
    target = resolve_target([PYTHON, *words], project)
    assert (target.script, target.script_sha256, target.name) == (None, None, name)


def test_options_of_python_may_come_first(project: Path):
    target = resolve_target([PYTHON, "-u", "-W", "ignore", "-X", "dev", "train.py"], project)
    assert target.script == str(project / "train.py")


def test_an_argument_of_the_script_is_not_the_script(project: Path):
    (project / "launch").write_text("print('launch')\n")
    target = resolve_target([PYTHON, "launch", "configs/full.py"], project)
    assert target.script != str(project / "configs" / "full.py")
    assert target.name == "launch"


def test_an_argument_that_is_missing_is_the_scripts_own_matter(project: Path):
    target = resolve_target([PYTHON, "train.py", "configs/later.py"], project)
    assert target.script == str(project / "train.py")


def test_a_console_script_is_a_program_like_another(project: Path, monkeypatch: pytest.MonkeyPatch):
    program = project / "bin" / "train-net"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    target = resolve_target(["train-net", "--fast"], project)
    assert (target.name, target.script) == ("train-net", None)


@pytest.mark.parametrize(
    "words",
    [("-c", "x" * 5000), ("-c", ""), ("-c", "a/b\nc"), ("-m", "a" * 300)],
)
def test_any_command_gets_a_short_name(project: Path, words: tuple[str, ...]):
    target = resolve_target([PYTHON, *words], project)
    assert 1 <= len(target.name) <= 100
    assert "/" not in target.name


def test_a_script_with_an_endless_name_gets_a_short_one(project: Path):
    long = "t" * 240 + ".py"
    (project / long).write_text("")
    assert 1 <= len(resolve_target([PYTHON, long], project).name) <= 100


def test_a_command_that_is_no_text_is_refused(project: Path):
    with pytest.raises(TargetError, match="not readable as text"):
        resolve_target([PYTHON, "train.py", "--name", "caf\udce9"], project)


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
