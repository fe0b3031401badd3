"""`tunekit`: picks the verb, maps errors to exit codes."""

import argparse
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType

from tunekit import __version__
from tunekit.cli import compare, doctor, fits, gpus, init, plan, profile, report, search
from tunekit.cli import run as run_training
from tunekit.cli.parser import VerbParser, flag_of
from tunekit.cli.pipes import reader_has_left, say_error, until_the_reader_leaves
from tunekit.cli.settings import load_settings
from tunekit.errors import TunekitError, UsageError
from tunekit.near import did_you_mean
from tunekit.plain_text import printable
from tunekit.secret_words import secrets_of

_VERBS = ("search", "profile", "fits", "init", "run", "plan", "report", "compare", "gpus", "doctor")
_OWN_FLAGS = ("-h", "--help", "--version")
"""Those that stand before a verb."""
_BEFORE_COMMAND = {
    "search": "search",
    "profile": "profile",
    "fits": "fits",
    "init": "init",
    "run": "run CONFIG.yaml",
    "doctor": "doctor",
}
"""The verbs that take a training command, with what stands before its `--`."""

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it, and after what is treated like it."""

_LIKE_CTRL_C = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""A polite kill, a lost connection or closed terminal, Ctrl-\\: the trial ends, what is finished is saved."""


def run() -> None:
    """Entry point of the console script."""
    sys.excepthook = _show_fault
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    return until_the_reader_leaves(lambda: _exit_code(arguments))


def _exit_code(arguments: Sequence[str]) -> int:
    own, command = _split(arguments)
    _treat_like_ctrl_c()
    try:
        parser = build_parser(_project_defaults(own, command))
        if not own:
            parser.print_help(sys.stderr)
            return UsageError.exit_code
        _check_verb(own)
        options, unexpected = parser.parse_known_args(own)
        _refuse(unexpected, own[0])
        code: int = options.verb(options, command)
    except TunekitError as error:
        _complain(error, arguments)
        return error.exit_code
    except OSError as error:
        if reader_has_left(error):
            raise
        _complain(error, arguments)
        return TunekitError.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _complain(error: Exception, arguments: Sequence[str]) -> None:
    """Print what went wrong: what a file or a flag held may steer a terminal, or be a secret.

    Only the error itself breaks lines: no text that it quotes can look like a line of tunekit's.
    """
    secrets = secrets_of(arguments, os.environ)
    lines = error.lines if isinstance(error, TunekitError) else (str(error),)
    told = "\n".join(printable(secrets.masked(line)) for line in lines)
    say_error(f"tunekit: {told}")


def _show_fault(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of a fault of tunekit's own, without secrets and orders to a terminal."""
    text = "".join(traceback.format_exception(kind, error, trace))
    for line in secrets_of(sys.argv[1:], os.environ).masked(text).split("\n"):
        print(printable(line), file=sys.stderr)  # noqa: T201


def build_parser(project_defaults: Mapping[str, object] | None = None) -> argparse.ArgumentParser:
    """Return the parser of every verb.

    Args:
        project_defaults: what the project's settings file says, for the verbs that run the target.
    """
    parser = argparse.ArgumentParser(
        prog="tunekit",
        description="Measure and tune the PyTorch training command you already have, without changing it.",
        epilog=(
            "example: tunekit search --gpu a10g -- python train.py --config configs/full.yaml. "
            "Ctrl-C, and also SIGTERM, SIGQUIT and SIGHUP (a lost connection), end the trial at work, keep "
            "what is finished, say how to go on, and exit with 130."
        ),
    )
    parser.add_argument("--version", action="version", version=f"tunekit {__version__}")
    verbs: argparse._SubParsersAction[argparse.ArgumentParser] = parser.add_subparsers(
        title="verbs", metavar="VERB", required=True, parser_class=VerbParser
    )
    own = (search.add_verb(verbs), profile.add_verb(verbs), fits.add_verb(verbs), init.add_verb(verbs))
    for verb in own:
        verb.set_defaults(**(project_defaults or {}))
    run_training.add_verb(verbs)
    plan.add_verb(verbs)
    report.add_verb(verbs)
    compare.add_verb(verbs)
    gpus.add_verb(verbs)
    doctor.add_verb(verbs)
    return parser


def _project_defaults(own: Sequence[str], command: Sequence[str]) -> Mapping[str, object]:
    """Return the flags that the project's settings file gives to a verb that runs its own command.

    A resumed run goes on with its own flags, and the built-in workload is not the project's.

    Raises:
        UsageError: the settings can't be read.
    """
    runs_target = own[:1] in (["search"], ["profile"], ["fits"], ["init"]) and bool(command)
    if not runs_target or _resumes(own):
        return {}
    settings = load_settings(Path.cwd())
    return settings.defaults() if settings is not None else {}


def _resumes(own: Sequence[str]) -> bool:
    """Return whether a search goes on with an earlier one; `--resume` may be cut short as far as `--re`."""
    return own[0] == "search" and any(
        word.startswith("--re") and "--resume".startswith(flag_of(word)) for word in own
    )


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return tunekit's own arguments and the training command after the first `--`."""
    words = list(arguments)
    if "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


def _treat_like_ctrl_c() -> None:
    """Let signals that ask for the end be Ctrl-C; who started tunekit under nohup has SIGHUP ignored."""
    for number in _LIKE_CTRL_C:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGHUP:
        # Shell and kernel both send it: the second one would end the saving.
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _check_verb(words: Sequence[str]) -> None:
    """Refuse a first word that is no verb.

    Raises:
        UsageError: it is none, or a flag that belongs after one.
    """
    first = words[0]
    if first in _VERBS or any(flag.startswith(flag_of(first)) for flag in _OWN_FLAGS):
        return
    if first.startswith("-"):
        flag, verb = flag_of(first), next((word for word in words if word in _VERBS), "VERB")
        raise UsageError(f"{flag} stands before the verb; put it after: tunekit {verb} {flag}")
    hint = did_you_mean(first, _VERBS, f"there are: {', '.join(_VERBS)}")
    raise UsageError(f"no verb {first!r}; {hint}")


def _refuse(unexpected: Sequence[str], verb: str) -> None:
    """Refuse words that the verb does not know; they are mostly a training command without its `--`.

    Raises:
        UsageError: there are some.
    """
    if not unexpected:
        return
    text = shlex.join(unexpected)
    if verb not in _BEFORE_COMMAND:
        raise UsageError(f"unexpected words: {text}; see tunekit {verb} --help")
    raise UsageError(
        f"unexpected words: {text}; put -- before the training command, "
        f"as in: tunekit {_BEFORE_COMMAND[verb]} -- python train.py"
    )
