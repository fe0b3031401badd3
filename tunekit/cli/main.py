"""`tunekit`: picks the verb, maps errors to exit codes."""

import os
import shlex
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType, ModuleType, TracebackType

from tunekit.cli.parser import VERSION_FLAGS, build_parser, flag_of
from tunekit.cli.pipes import ignore_broken_pipe, say
from tunekit.cli.verbs import VERBS
from tunekit.errors import TunekitError, UsageError
from tunekit.secret_words import secrets_of
from tunekit.typos import did_you_mean

_HELP_FLAGS = ("-h", "--help")
_OWN_FLAGS = (*_HELP_FLAGS, *VERSION_FLAGS)
"""Flags that come before a verb."""
_HELP = "help"
"""`tunekit help VERB` is `tunekit VERB --help`."""

_RESUME = "--resume"
"""The flag with which a search keeps its own flags and ignores the project's."""
_WORKLOAD = "--workload"
"""The flag that names a built-in workload, for whose script the words after `--` are."""

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it, and after what is treated like it."""

_LIKE_CTRL_C = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""The trial ends, and what is finished is saved."""


def run() -> None:
    """Entry point of the console script."""
    sys.excepthook = _show_fault
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    with ignore_broken_pipe():
        return _exit_code(arguments)


def _exit_code(arguments: Sequence[str]) -> int:
    own, command = _split(arguments)
    if own[:1] == [_HELP]:
        own = [*own[1:2], "--help", *own[2:]]
    _treat_like_ctrl_c()
    try:
        _check_folder()
        parser = build_parser(_project_defaults(own, command))
        if not own:
            parser.print_help(sys.stderr)
            return UsageError.exit_code
        _check_verb(own)
        options, unexpected = parser.parse_known_args(own)
        _refuse(unexpected, command, options.verb)
        if getattr(options, "workload", None):
            command = _module("trials").workload_command(options.workload, command)
        code = int(_module(options.verb).run_verb(options, command))
        sys.stdout.flush()
        return code
    except TunekitError as error:
        _complain(error, arguments)
        return error.exit_code
    except OSError as error:
        _complain(error, arguments)
        return TunekitError.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED


def _module(name: str) -> ModuleType:
    """Return a module of this folder, imported now: what help and a mistyped flag don't wait for."""
    return import_module(f"tunekit.cli.{name}")


def _complain(error: Exception, arguments: Sequence[str]) -> None:
    """Print an error without terminal escapes and secrets that it may quote.

    Only the error itself breaks lines, so that quoted text can't look like a line of tunekit's.
    """
    secrets = secrets_of(arguments, os.environ)
    lines = error.lines if isinstance(error, TunekitError) else (str(error),)
    first, *others = map(secrets.masked, lines)
    say(f"tunekit: {first}", *others)


def _show_fault(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of a bug in tunekit, without secrets and terminal escapes."""
    text = "".join(traceback.format_exception(kind, error, trace))
    say(*secrets_of(sys.argv[1:], os.environ).masked(text).split("\n"))


def _project_defaults(tunekit_args: Sequence[str], command: Sequence[str]) -> Mapping[str, object]:
    """Return the flags that the project's settings file gives to a verb that runs its own command.

    A resumed run goes on with its own flags, and the built-in workload is not the project's.
    """
    verb = tunekit_args[0] if tunekit_args else ""
    flags = {flag_of(word) for word in tunekit_args}
    if verb not in VERBS or not VERBS[verb].takes_command or flags & {_RESUME, _WORKLOAD, *_HELP_FLAGS}:
        return {}
    if verb != "run" and not command:
        return {}
    defaults: Mapping[str, object] = _module("settings").load_settings(Path.cwd(), command)
    return defaults


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return tunekit's own arguments and the training command after the first `--`."""
    words = list(arguments)
    if "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


def _treat_like_ctrl_c() -> None:
    """Treat signals that end a process as Ctrl-C; SIGHUP stays ignored under nohup."""
    for number in _LIKE_CTRL_C:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGHUP:
        # Shell and kernel both send it: the second one would end the saving.
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _check_folder() -> None:
    """Refuse to run in a folder that was removed."""
    try:
        Path.cwd()
    except FileNotFoundError:
        raise UsageError("the folder that this runs in was removed; change to one that is there") from None


def _check_verb(words: Sequence[str]) -> None:
    """Refuse a first word that is not a verb."""
    first = words[0]
    if first in VERBS or flag_of(first) in _OWN_FLAGS:
        return
    if first.startswith("-"):
        hint = did_you_mean(flag_of(first), _OWN_FLAGS, "put it after the verb")
        raise UsageError(f"no option {flag_of(first)} before the verb; {hint}")
    hint = did_you_mean(first, (*VERBS, _HELP), f"there are: {', '.join(VERBS)}")
    raise UsageError(f"no verb {first!r}; {hint}")


def _refuse(unexpected: Sequence[str], command: Sequence[str], verb: str) -> None:
    """Refuse words that the verb does not take; usually a training command without its `--`."""
    takes_command = VERBS[verb].takes_command
    if unexpected:
        remedy = f"see tunekit {verb} --help"
        if takes_command:
            remedy = f"put -- before the training command, as in: tunekit {verb} ... -- python train.py"
        raise UsageError(f"unexpected words: {shlex.join(unexpected)}; {remedy}")
    if command and not takes_command:
        raise UsageError(
            f"{verb} takes no training command, got {' '.join(command)!r}; see tunekit {verb} --help"
        )
