import os
from pathlib import Path

import pytest

from tunekit.machine.host.interpreter import interpreter_of, is_python


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Two environments: /base is on PATH, /env is not."""
    for folder in ("base", "env"):
        program(tmp_path / folder / "python")
        program(tmp_path / folder / "python3.11")
    for name in ("uv", "env", "nohup"):
        program(tmp_path / "base" / name)
    return tmp_path


def program(path: Path, text: str = "\x7fELF") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def asked(machine: Path, command: str) -> str | None:
    """Return the interpreter's path below the machine; `/` stands for the machine's root."""
    words = [f"{machine}{word}" if word.startswith("/") else word for word in command.split()]
    words = [word.replace("=/", f"={machine}/") for word in words]
    found = interpreter_of(words, machine, str(machine / "base"))
    return None if found is None else found.removeprefix(str(machine))


@pytest.mark.parametrize(
    ("command", "interpreter"),
    [
        ("python train.py --lr 0.1", "/base/python"),
        ("python3.11 -m package.train", "/base/python3.11"),
        ("/env/python3.11 train.py", "/env/python3.11"),
        ("/nowhere/python train.py", None),
        ("env python train.py", "/base/python"),
        ("env A=1 B=x=y python train.py", "/base/python"),
        ("env -i -u HOME --unset PATH A=1 python train.py", "/base/python"),
        ("env PATH=/env python train.py", "/env/python"),
        ("env -C /env python train.py", None),
        ("nohup nice -n 10 python train.py", "/base/python"),
        ("taskset -c 0-3 python train.py", "/base/python"),
        ("numactl --cpunodebind=0 --localalloc python train.py", "/base/python"),
        ("timeout -k 5 60 python train.py", "/base/python"),
        ("stdbuf -oL python train.py", "/base/python"),
        ("uv run python train.py", None),
        ("nothing --at all", None),
        ("", None),
    ],
)
def test_a_command_tells_its_interpreter(machine: Path, command: str, interpreter: str | None) -> None:
    assert asked(machine, command) == interpreter


@pytest.mark.parametrize(
    ("text", "interpreter"),
    [
        ("#!{root}/env/python3.11\nimport sys\n", "/env/python3.11"),
        ("#!/usr/bin/env python\n", "/base/python"),
        ("#!/usr/bin/env -S python -u\n", "/base/python"),
        ("#!/bin/sh\n'''exec' \"{root}/env/python\" \"$0\" \"$@\"\n' '''\nimport sys\n", "/env/python"),
        ("#!/bin/sh\n'''exec' {root}/env/python \"$0\" \"$@\"\n' '''\nimport sys\n", "/env/python"),
        ("#!/bin/sh\nexec python train.py\n", None),
        ("#!{root}/gone/python\n", None),
        ("import sys\n", None),
        ("", None),
        ("\x7fELF", None),
    ],
)
def test_a_console_script_tells_its_interpreter_in_its_first_line(
    machine: Path, text: str, interpreter: str | None
) -> None:
    program(machine / "base" / "torchrun", text.replace("{root}", str(machine)))
    assert asked(machine, "torchrun --nproc_per_node 2 train.py") == interpreter
    assert asked(machine, "/base/torchrun launch") == interpreter


def test_the_link_of_a_virtual_environment_is_kept(machine: Path) -> None:
    (machine / "venv").mkdir()
    (machine / "venv/python").symlink_to(machine / "base/python")
    assert asked(machine, "/venv/python train.py") == "/venv/python"


def test_by_default_the_own_path_and_folder_are_searched(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(machine / "env"))
    monkeypatch.chdir(machine)
    assert interpreter_of(["python", "x"]) == str(machine / "env/python")
    assert interpreter_of(["base/python", "x"]) == os.path.normpath(machine / "base/python")


@pytest.mark.parametrize("name", ["python", "/usr/bin/python3", "python3.13t", "python3.11-dbg"])
def test_interpreters_are_known_by_name(name: str) -> None:
    assert is_python(name)


@pytest.mark.parametrize(
    "name", ["python.sh", "ipython", "python-config", "pythonic", "", "python3-config", "py"]
)
def test_other_programs_are_no_interpreters(name: str) -> None:
    assert not is_python(name)
