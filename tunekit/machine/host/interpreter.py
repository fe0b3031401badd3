"""Finds the Python interpreter that a training command runs, without running it."""

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

_PYTHON = re.compile(r"python(\d+(\.\d+)*)?t?d?(-dbg)?")

_ASSIGNMENT = re.compile(r"[^=/]+=")
_ENV_REWRITES = re.compile(r"-S|--split-string|-C|--chdir")
"""Options of env that change the remaining words or the folder."""

_SHEBANG_BYTES = 4096

CHOOSES_ITS_OWN = re.compile(r"uvx?|poetry|(micro)?mamba|conda|pipenv|pdm|hatch|rye|pixi|tox|nox")
"""Programs that choose the environment; some are Python scripts, whose shebang does not reveal the choice."""

_WRAPPERS = {
    "env": ("-u", "--unset"),
    "exec": (),
    "nohup": (),
    "setsid": (),
    "time": ("-f", "-o"),
    "nice": ("-n", "--adjustment"),
    "ionice": ("-c", "--class", "-n", "--classdata"),
    "stdbuf": ("-i", "-o", "-e"),
    "taskset": (),
    "timeout": ("-k", "--kill-after", "-s", "--signal"),
    "numactl": ("-N", "--cpunodebind", "-m", "--membind", "-C", "--physcpubind", "-i", "--interleave", "-p"),
}
"""Programs that run the command after their own options; the options listed take the next word as a value."""
_TAKE_A_WORD = ("taskset", "timeout")
"""Wrappers with one more word before the command: the CPUs or a duration."""


def is_python(word: str) -> bool:
    """Return whether a program's name is that of a Python interpreter, such as "/env/bin/python3.11"."""
    return _PYTHON.fullmatch(Path(word).name) is not None


def interpreter_of(
    command: Sequence[str], working_dir: Path | None = None, search_path: str | None = None
) -> str | None:
    """Return the Python interpreter that a training command runs; None if only running it would show.

    A console script (torchrun, accelerate) names its interpreter in its first line. The interpreter is
    unknown for programs that choose an environment (uv, poetry, conda), for shell scripts and binaries.

    Args:
        command: program and arguments.
        working_dir: where it runs; the current folder by default.
        search_path: the folders to search for programs, in the form of PATH; PATH by default.
    """
    folder = Path.cwd() if working_dir is None else working_dir
    searched = _search_path() if search_path is None else search_path
    words, searched = _unwrapped(command, searched)
    if not words:
        return None
    program = program_of(words[0], folder, searched)
    if program is None:
        return None
    return program if is_python(program) else _of_script(program, folder, searched)


def unwrapped(command: Sequence[str]) -> list[str]:
    """Return a command without the programs that only prepare it, such as env and nice."""
    return _unwrapped(command, "")[0]


def _unwrapped(command: Sequence[str], searched: str) -> tuple[list[str], str]:
    """Return a command without the programs that only prepare it, and the PATH that they leave."""
    words = list(command)
    while words and (name := Path(words[0]).name) in _WRAPPERS:
        del words[0]
        while words and (words[0].startswith("-") or (name == "env" and _ASSIGNMENT.match(words[0]))):
            word = words.pop(0)
            if name == "env" and _ENV_REWRITES.match(word):
                return [], searched
            if word.startswith("PATH="):
                searched = word.removeprefix("PATH=")
            if word in _WRAPPERS[name]:
                del words[:1]
        del words[: name in _TAKE_A_WORD]
    return words, searched


def program_of(word: str, folder: Path, searched: str | None = None) -> str | None:
    """Return the path of a program that is started in a folder; None if it is not found.

    Symbolic links are not resolved, as a virtual environment's Python is one.

    Args:
        word: the program as typed in the command.
        folder: where it is started; relative paths, also those in PATH, are relative to it.
        searched: the folders to search, in the form of PATH; PATH by default.
    """
    if "/" in word:
        path = os.path.normpath(folder / word)
        return path if os.access(path, os.X_OK) and Path(path).is_file() else None
    entries = (_search_path() if searched is None else searched).split(os.pathsep)
    return shutil.which(word, path=os.pathsep.join(str(folder / entry) for entry in entries))


def _search_path() -> str:
    return os.environ.get("PATH", os.defpath)


def _of_script(program: str, folder: Path, searched: str) -> str | None:
    if CHOOSES_ITS_OWN.fullmatch(Path(program).name) or not Path(program).is_file():
        return None
    try:
        with Path(program).open("rb") as script:
            lines = os.fsdecode(script.read(_SHEBANG_BYTES)).split("\n")
    except OSError:
        return None
    words = lines[0].removeprefix("#!").split()
    if not (lines[0].startswith("#!") and words):
        return None
    # If the path is too long for the kernel, pip writes it into a second line, which a shell runs.
    long = re.match(r"'''exec' (?:\"([^\"]+)\"|(\S+)) ", lines[1]) if len(lines) > 1 else None
    if words[0] == "/bin/sh" and long:
        words = [long[1] or long[2]]
    elif Path(words[0]).name == "env":
        inner = [word for word in words if word not in ("-S", "--split-string")]
        words, searched = _unwrapped(inner, searched)
    if not (words and is_python(words[0])):
        return None
    return program_of(words[0], folder, searched)
