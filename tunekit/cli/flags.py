"""Command-line flags: their kinds, and those shared by several verbs."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from tunekit.cli.numbers import duration_s, long_duration_s, positive, positive_number
from tunekit.records.options import GPU, IGNORE, TARGET, Kind, Option
from tunekit.workloads import DEFAULT_WORKLOAD, WORKLOADS

STANDARD_OUTPUT = "-"
"""The value that stands for standard output in place of a file."""

Flags = argparse._ArgumentGroup | argparse.ArgumentParser


@dataclass(frozen=True)
class Value:
    """What follows a flag: how help names it, and how it is read."""

    metavar: str
    read: Callable[[str], Any] = str


LONG_TIME, COUNT = Value("TIME", long_duration_s), Value("N", positive)
FOLDER = Value("FOLDER", Path)


def option(
    to: Flags,
    flag: str,
    value: Value,
    meaning: str,
    default: object = None,
    repeatable: bool = False,
    **more: Any,
) -> None:
    """Add a flag that takes a value; help ends with its default, where there is one."""
    if repeatable:
        more |= {"action": "append"}
    ending = f" (default: {default})" if default is not None else " (repeatable)" if repeatable else ""
    to.add_argument(
        flag,
        type=value.read,
        metavar=value.metavar,
        default=[] if repeatable else default,
        help=meaning + ending,
        **more,
    )


def argument(to: Flags, metavar: str, read: Callable[[str], Any], meaning: str, **more: Any) -> None:
    """Add a positional argument; the parsed options have it under its metavar in lower case."""
    to.add_argument(metavar.lower(), metavar=metavar, type=read, help=meaning, **more)


def choice(to: Flags, flag: str, choices: Sequence[str], meaning: str, **more: Any) -> None:
    """Add a flag that takes one of a few words."""
    to.add_argument(flag, choices=choices, help=meaning, **more)


def switch(to: Flags, flag: str, meaning: str) -> None:
    """Add a flag that takes no value, or one with a short form, such as "-q --quiet"."""
    to.add_argument(*flag.split(), action="store_true", help=meaning)


# --- flags that several verbs have ---------------------------------------------------------


def add(to: Flags, *options: Option) -> None:
    """Add options that are declared in `tunekit.records.options`."""
    for one in options:
        if one.kind is Kind.SWITCH:
            to.add_argument(one.flag, dest=one.name, action="store_true", help=one.help)
            continue
        ending = "" if one.default is None else f" (default: {one.typed(one.default)})"
        to.add_argument(
            one.flag,
            dest=one.name,
            type=READERS[one.kind],
            metavar=one.metavar or (None if one.choices else one.kind),
            choices=one.choices or None,
            action="append" if one.is_list else "store",
            default=[] if one.is_list else None,
            help=one.help + (" (repeatable)" if one.is_list else ending),
        )


def target(parser: argparse.ArgumentParser, with_gpu: bool = True) -> argparse._ArgumentGroup:
    """Add the flags of a verb that runs the training command, and return their group."""
    group = parser.add_argument_group("the training command")
    add(group, *((GPU,) if with_gpu else ()), *TARGET)
    return group


def workload(to: Flags) -> None:
    """Add the flag that names a built-in workload."""
    meaning = f"built-in workload to run (default: {DEFAULT_WORKLOAD}); its options follow --"
    choice(to, "--workload", tuple(WORKLOADS), meaning)


def fix(to: Flags) -> None:
    """Add the short forms of `--fix`."""
    for flag, start in (("--batch-size", "batch_size="), ("--workers", "num_workers=")):
        more: dict[str, Any] = {"action": "append", "dest": "fix", "default": []}
        to.add_argument(flag, type=start.__add__, metavar="N", help=f"the same as --fix {start}N", **more)


def findings(to: Flags) -> None:
    """Add the flags of every verb that shows findings."""
    add(to, IGNORE)
    to.add_argument("--codes", action=_ListCodes, help="list all finding codes and exit")


def _code(text: str) -> str:
    code: str = import_module("tunekit.cli.codes").known_code(text)
    return code


READERS: dict[Kind, Callable[[str], Any]] = {
    Kind.NAME: str,
    Kind.NAMES: str,
    Kind.COUNT: positive,
    Kind.NUMBER: positive_number(),
    Kind.TIME: duration_s,
    Kind.CODES: _code,
}
"""Reads a value of each kind, from the command line and the settings file."""


class _ListCodes(argparse.Action):
    """Lists the codes and exits, as `--help` does."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print them."""
        import_module("tunekit.cli.codes").show_codes()
        parser.exit()


def folder(parser: argparse.ArgumentParser, kind: str, what: str) -> None:
    """Add the flags of a verb that writes a folder."""
    group = parser.add_argument_group("output")
    option(group, "--out", FOLDER, f"folder (default: reports/TARGET-{kind}-DATE)")
    loudness(group)
    switch(group, "--json", f"print the {what} as JSON; progress goes to stderr")
    findings(group)


def output(to: Flags, json_meaning: str) -> None:
    """Add the flags of a verb that shows a report and keeps no folder."""
    switch(to, "--json", json_meaning)
    findings(to)
    option(to, "--html", Value("FILE"), "write a self-contained HTML file (- prints it)")
    meaning = "print Markdown for a pull request instead, or write it to FILE"
    option(to, "--markdown", Value("FILE"), meaning, nargs="?", const=STANDARD_OUTPUT)
    full_paths(to)


def github_summary(to: Flags) -> None:
    """Add the flag that shows the report in the summary of a GitHub Actions step."""
    switch(to, "--github-summary", "append the report as Markdown to the GitHub Actions step summary")


def full_paths(to: Flags) -> None:
    """Add the flag that keeps full paths in HTML and Markdown."""
    meaning = "keep full paths and the host name in HTML and Markdown (default: relative or ~, no host name)"
    switch(to, "--full-paths", meaning)


def loudness(to: Flags) -> None:
    """Add the flags of a verb that runs trials: less output, or more."""
    switch(to, "-q --quiet", "show only the answer, not the trials")
    full(to)


def full(to: Flags) -> None:
    """Add the flag that shows all on the terminal."""
    switch(to, "-v --full", "show everything, not just one screen")
