"""Runs a verb in a child process, for `tunekit.search` and `tunekit.profile`."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tunekit.errors import TunekitError
from tunekit.session.folder import new_folder
from tunekit.trial.target import resolve_target

_ENDS_WITH_ITS_PARENT = (
    "import ctypes, signal; ctypes.CDLL(None).prctl(1, signal.SIGTERM)\n"  # PR_SET_PDEATHSIG
    "from tunekit.cli.main import run; run()"
)
_PRETENDS_A_TERMINAL = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
"""Variables, some set by notebook kernels, that make rich write cursor movements to a pipe."""
_ERROR = "tunekit: "
"""Prefix of an error's message, the last output of a verb."""
_INTERRUPTED = 130


def run_verb(verb: str, command: str | Sequence[str | os.PathLike[str]], options: Mapping[str, Any]) -> Path:
    """Run a verb, show its progress, and return the folder that it wrote.

    Raises:
        TunekitError: the error that the command line reports, of the class with its exit code.
        KeyboardInterrupt: finished trials are kept; the message names the call that resumes.
    """
    words = shlex.split(command) if isinstance(command, str) else [os.fspath(word) for word in command]
    given = {name: value for name, value in options.items() if value is not None}
    folder = Path(given["resume"]) if "resume" in given else _new_folder(verb, words, given)
    where = {} if "resume" in given else {"out": folder}
    flags = [flag for name, value in (given | where).items() for flag in _flags(name, value)]
    own = [verb, *flags, "--json", *(["--", *words] if words else [])]
    show, said = _screen(), list[str]()
    with subprocess.Popen(
        [sys.executable, "-c", _ENDS_WITH_ITS_PARENT, *own],
        env={name: value for name, value in os.environ.items() if name not in _PRETENDS_A_TERMINAL},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        process_group=0,  # a terminal's Ctrl-C reaches it once: from here
    ) as child:
        assert child.stderr is not None
        try:
            _read(child.stderr, said, show)
        except BaseException as error:
            child.send_signal(signal.SIGINT)
            if not isinstance(error, KeyboardInterrupt):
                raise
            _read(child.stderr, said, show)
    if child.returncode == _INTERRUPTED:
        then = f"search(resume={str(folder)!r})" if verb == "search" else f"load({str(folder)!r})"
        raise KeyboardInterrupt(f"finished trials are kept; continue with tunekit.{then}")
    if child.returncode:
        raise _error(child.returncode, said)
    return folder


def _new_folder(verb: str, words: Sequence[str], given: Mapping[str, Any]) -> Path:
    """Return the folder in the options, else a new one named after the command."""
    name = resolve_target(words, Path.cwd()).name if words else str(given.get("workload", "images"))
    kind, resume = ("", "a run") if verb == "search" else (f"-{verb}", "")
    return new_folder(Path(given["out"]) if "out" in given else None, f"{name}{kind}", resume)


def _flags(name: str, value: Any) -> Iterator[str]:
    """Yield an option as flags of the command line; False gives none."""
    flag = f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        yield from [flag] * value
    elif isinstance(value, Mapping):
        yield from (f"{flag}={knob}={_typed(one)}" for knob, one in value.items())
    elif isinstance(value, list | tuple):
        yield from (f"{flag}={one}" for one in value)
    else:
        yield f"{flag}={value}"


def _typed(value: Any) -> str:
    """Return a knob's value, or the two ends of its range."""
    if isinstance(value, list | tuple):
        return "..".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(stream: Iterable[str], said: list[str], show: Callable[[Sequence[str]], None]) -> None:
    """Read the child's output to its end and show it after each line, without an error's message."""
    for line in stream:
        said.append(line.rstrip("\n"))
        if not any(one.startswith(_ERROR) for one in said):
            show(said)


def _screen() -> Callable[[Sequence[str]], None]:
    """Return a function that shows progress: one growing output in a notebook, lines elsewhere."""
    ipython = sys.modules.get("IPython")
    if ipython is None or not hasattr(ipython.get_ipython(), "kernel"):
        return _show_line
    output = ipython.display.display({"text/plain": ""}, raw=True, display_id=True)
    return lambda lines: output.update({"text/plain": "\n".join(lines)}, raw=True)


def _show_line(lines: Sequence[str]) -> None:
    sys.stdout.write(f"{lines[-1]}\n")
    sys.stdout.flush()


def _error(code: int, said: Sequence[str]) -> TunekitError:
    """Return the error of the class with this exit code, with the child's last message."""
    starts = [place for place, line in enumerate(said) if line.startswith(_ERROR)]
    message = said[starts[0] :] if starts else [f"it ended with status {code}: {' '.join(said[-3:])}"]
    kinds: list[type[TunekitError]] = [TunekitError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    named = next((kind for kind in kinds if kind.exit_code == code), TunekitError)
    return named("\n".join(message).removeprefix(_ERROR))
