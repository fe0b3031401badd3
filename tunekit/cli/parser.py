"""The command-line parser: every verb with its flags, and hints for typos.

Nothing here imports what a verb needs to run, so that help and a mistyped flag answer at once.
"""

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from tunekit import __version__
from tunekit.cli.verbs import VERBS
from tunekit.errors import UsageError
from tunekit.typos import did_you_mean

VERSION_FLAGS = ("-V", "-v", "--version")


class VerbParser(argparse.ArgumentParser):
    """The parser of one verb. For an unknown flag it suggests the one that was probably meant."""

    def parse_known_args(  # type: ignore[override]  # of argparse's overloads only this one is called
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Return what the flags and arguments hold, and the words that are none, the first no flag.

        Raises:
            UsageError: it is one, a value can't be read, or a flag that takes one value is given twice.
        """
        for flag, times in Counter(flag_of(word) for word in args or () if word.startswith("--")).items():
            if times > 1 and isinstance(self._option_string_actions.get(flag), argparse._StoreAction):
                raise UsageError(f"{flag} is given {times} times; give it once")
        options, unexpected = super().parse_known_args(args, namespace)
        if unexpected and unexpected[0].startswith("-"):
            flag = flag_of(unexpected[0])
            known = [name for name in self._option_string_actions if name.startswith("--")]
            raise UsageError(f"no option {flag}; {did_you_mean(flag, known, f'see {self.prog} --help')}")
        return options, unexpected

    def error(self, message: str) -> NoReturn:
        """Raise argparse's errors as usage errors."""
        said = message.removeprefix("argument ")
        more = f"; see {self.prog} --help" if said == message or said.endswith("argument") else ""
        raise UsageError(said + more)


class _KeepsIndentedLines(argparse.HelpFormatter):
    """Wraps each line of a text separately; indented lines stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(
            line if line.startswith(" ") else super(_KeepsIndentedLines, self)._fill_text(line, width, indent)
            for line in text.splitlines()
        )


def flag_of(word: str) -> str:
    """Return the flag of a word that may hold its value too, as in `--budget=60s`."""
    return word.partition("=")[0]


def build_parser(project_defaults: Mapping[str, object] | None = None) -> argparse.ArgumentParser:
    """Return the parser of every verb.

    Args:
        project_defaults: what the project's settings file says, for the verbs that run the target.
    """
    parser = argparse.ArgumentParser(
        prog="tunekit",
        allow_abbrev=False,
        description="Measure and tune the PyTorch training command you already have, without changing it.",
        epilog=(
            "examples:\n"
            "  tunekit search -- python train.py --config configs/full.yaml\n"
            "  tunekit help search\n"
            "Ctrl-C, SIGTERM, SIGQUIT and SIGHUP (a lost connection) stop the running trial, keep the "
            "finished ones, print how to resume, and exit with 130."
        ),
        formatter_class=_KeepsIndentedLines,
    )
    meaning = "show the version"
    parser.add_argument(*VERSION_FLAGS, action="version", version=f"tunekit {__version__}", help=meaning)
    verbs: argparse._SubParsersAction[argparse.ArgumentParser] = parser.add_subparsers(
        title="verbs", metavar="VERB", dest="verb", required=True, parser_class=VerbParser
    )
    for name, verb in VERBS.items():
        one = verbs.add_parser(
            name,
            help=verb.help,
            usage=f"tunekit {name} {verb.usage}",
            description=verb.description,
            epilog=verb.epilog,
            allow_abbrev=False,
            formatter_class=_KeepsIndentedLines,
        )
        verb.flags(one)
        if verb.takes_command:
            # A flag may have to know what comes from the file: the command line wins.
            one.set_defaults(**(project_defaults or {}), project=project_defaults or {})
    return parser
