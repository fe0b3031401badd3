"""How the words of one verb are read: as argparse does, with an answer to what it would only refuse."""

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from tunekit.errors import UsageError
from tunekit.near import did_you_mean
from tunekit.plain_text import printable

_NEGATIVE = re.compile(r"-\.?\d")
"""How a negative value begins: -5, -.5, -5%, -5m. No flag does."""


class VerbParser(argparse.ArgumentParser):
    """The parser of one verb.

    A negative value reaches its flag, which says what it takes instead. Where the first word that the verb
    does not know is a flag, the one that was probably meant is named.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._negative_number_matcher = _NEGATIVE

    def parse_known_args(  # type: ignore[override]  # of argparse's overloads only this one is called
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Return what the flags and arguments hold, and the words that are none, the first no flag.

        Raises:
            UsageError: it is one.
        """
        options, unexpected = super().parse_known_args(args, namespace)
        if unexpected and unexpected[0].startswith("-"):
            flag = flag_of(unexpected[0])
            known = [name for name in self._option_string_actions if name.startswith("--")]
            raise UsageError(f"no option {flag}; {did_you_mean(flag, known, f'see {self.prog} --help')}")
        return options, unexpected

    def error(self, message: str) -> NoReturn:
        """End with what argparse has to say of a value, which may hold anything."""
        super().error(printable(message))


def flag_of(word: str) -> str:
    """Return the flag of a word that may hold its value too, as in `--budget=60s`."""
    return word.partition("=")[0]
