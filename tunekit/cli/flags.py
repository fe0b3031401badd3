"""Flags of the command line: their kinds, and those that several verbs have."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from tunekit.cli.numbers import duration_s, long_duration_s, positive, positive_number

STANDARD_OUTPUT = "-"
"""What a flag takes for it in place of a file."""

Flags = argparse._ArgumentGroup | argparse.ArgumentParser


@dataclass(frozen=True)
class Value:
    """What follows a flag: how help names it, and how it is read."""

    metavar: str
    read: Callable[[str], Any] = str


TIME, LONG_TIME = Value("TIME", duration_s), Value("TIME", long_duration_s)
COUNT, SECONDS = Value("N", positive), Value("S", positive_number())
NAME, RUN, FOLDER = Value("NAME"), Value("RUN", Path), Value("FOLDER", Path)


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


def choice(to: Flags, flag: str, choices: Sequence[str], meaning: str, default: str | None = None) -> None:
    """Add a flag that takes one of a few words."""
    to.add_argument(flag, choices=choices, default=default, help=meaning)


def switch(to: Flags, flag: str, meaning: str) -> None:
    """Add a flag that takes no value, or one with a short form, such as "-q --quiet"."""
    to.add_argument(*flag.split(), action="store_true", help=meaning)


# --- flags that several verbs have ---------------------------------------------------------


def target(parser: argparse.ArgumentParser, with_gpu: bool = True) -> argparse._ArgumentGroup:
    """Add the flags of a verb that runs the training command, and return their group."""
    group = parser.add_argument_group("the training command")
    if with_gpu:
        option(group, "--gpu", NAME, "GPU to tune for; auto is this machine's own", default="auto")
    bind(group)
    option(
        group,
        "--samples-per-step",
        COUNT,
        "samples per forward and backward pass of one process, for a script without a DataLoader "
        "(default: the bound batch_size)",
    )
    option(
        group,
        "--trial-limit",
        TIME,
        "time limit of a trial; start-up and compiling get as much again",
        default="5m",
    )
    option(
        group,
        "--no-progress-limit",
        TIME,
        "end a trial after this long without a batch, a step or other work",
        default="90s",
    )
    return group


def bind(to: Flags) -> None:
    """Add the flag that says how a knob reaches the script."""
    option(
        to,
        "--bind",
        Value("KNOB=HOW"),
        "how a knob, or lr, reaches the script: 'batch_size=--bs {}', "
        "'batch_size=config.yaml:data.batch_size', batch_size=env:BS, batch_size=fixed or =inject",
        repeatable=True,
    )


def fix(to: Flags, meaning: str) -> None:
    """Add the flags that give a knob one value."""
    option(to, "--fix", Value("KNOB=VALUE"), meaning, repeatable=True)
    for flag, start in (("--batch-size", "batch_size="), ("--workers", "num_workers=")):
        value = Value("N", start.__add__)
        option(to, flag, value, f"the same as --fix {start}N", repeatable=True, dest="fix")


def wait_quiet(to: Flags) -> None:
    """Add the flag that waits for a quiet machine."""
    meaning = (
        "while other programs use the CPUs, wait before each trial, up to this long in all and beside the "
        "budget, such as 5m (default: don't wait)"
    )
    option(to, "--wait-quiet", TIME, meaning)


def window(
    to: Flags, meaning: str = "steady-state seconds measured per trial (default: 5, fewer below --budget 5m)"
) -> None:
    """Add the flag that says how long a trial measures."""
    option(to, "--window", SECONDS, meaning)


def findings(to: Flags) -> None:
    """Add what every verb has that shows findings."""
    option(to, "--ignore", Value("CODE", _code), "silence a finding", repeatable=True)
    to.add_argument("--codes", action=_ListCodes, help="list all finding codes and exit")


def _code(text: str) -> str:
    code: str = import_module("tunekit.cli.codes").known_code(text)
    return code


class _ListCodes(argparse.Action):
    """Lists the codes and ends the program, as `--help` does."""

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


def report_files(to: Flags) -> None:
    """Add the flags of a verb that keeps no folder."""
    option(to, "--html", Value("FILE"), "write a self-contained HTML file (- prints it)")
    meaning = "print Markdown for a pull request instead, or write it to FILE"
    option(to, "--markdown", Value("FILE"), meaning, nargs="?", const=STANDARD_OUTPUT)
    full_paths(to)


def full_paths(to: Flags) -> None:
    """Add the flag that keeps what HTML and Markdown leave out."""
    meaning = "keep whole paths and the host name in HTML and Markdown (default: relative or ~, no host name)"
    switch(to, "--full-paths", meaning)


def loudness(to: Flags) -> None:
    """Add the flags of a verb that runs trials: show less than usual, or more."""
    switch(to, "-q --quiet", "show the answer alone, not the trials")
    full(to)


def full(to: Flags) -> None:
    """Add the flag that shows all on the terminal."""
    switch(to, "-v --full", "show everything on the terminal, not just one screen of it")
