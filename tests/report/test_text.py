"""Commands that a report prints: typed again they ask for the same."""

import argparse
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from build_records import run

from tunekit.cli.parser import build_parser
from tunekit.cli.search import search_options
from tunekit.cli.trials import target_or_builtin
from tunekit.records.run import Run
from tunekit.report.text import search_again

PRESENTATION = {
    *("--help", "-h", "--codes", "--ignore", "--json", "--github-summary", "--full-paths"),
    *("--out", "--resume", "--share", "--dry-run", "-q", "--quiet", "-v", "--full"),
}
"""Flags of a search that leave what is searched alone: how it is shown, where it is kept, by how many."""

GIVEN = {
    "--gpu": ("a10g",),
    "--bind": ("batch_size=--bs {}",),
    "--samples-per-step": ("8",),
    "--trial-limit": ("7m",),
    "--no-progress-limit": ("45.5s",),
    "--global-batch": ("512",),
    "--fix": ("compile=false",),
    "--range": ("num_workers=1..4",),
    "--max-batch": ("64",),
    "--lr": ("0.0003",),
    "--base-batch": ("256",),
    "--objective": ("finish-time", "--planned-steps", "1000"),
    "--epochs": ("10",),
    "--planned-steps": ("50000",),
    "--budget": ("1h30m",),
    "--trials": ("9",),
    "--confirm": ("7",),
    "--ablate": (),
    "--skip-data-check": (),
    "--wait-quiet": ("5m",),
    "--window": ("2.5",),
}
"""What follows each of the others."""


def parser_of_search() -> argparse.ArgumentParser:
    (verbs,) = (one for one in build_parser()._actions if isinstance(one, argparse._SubParsersAction))
    parser: argparse.ArgumentParser = verbs.choices["search"]
    return parser


@pytest.fixture
def searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """Returns the record of a search that begins with these flags."""
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("")

    def of(*flags: str, is_builtin: bool = False) -> Run:
        asked = parser_of_search().parse_args(flags)
        target = target_or_builtin(asked, () if is_builtin else (sys.executable, "train.py"))
        return run(options=search_options(asked, builtin=is_builtin), target=target)

    return of


def test_every_flag_of_a_search_is_known_to_change_it_or_not():
    flags = {flag for action in parser_of_search()._actions for flag in action.option_strings}
    same_as_fix = {"--batch-size", "--workers"}
    assert flags == PRESENTATION | GIVEN.keys() | same_as_fix


@pytest.mark.parametrize("flag", GIVEN)
def test_the_same_search_again_has_every_flag_that_changes_what_is_searched(
    searched: Callable[..., Run], flag: str
):
    first = searched(flag, *GIVEN[flag])
    verb, *words = shlex.split(search_again(first).partition(" -- ")[0])[1:]
    assert verb == "search" and flag in words
    again = searched(*words)
    assert (again.options, again.target) == (first.options, first.target)
    assert first.options != searched().options or first.target != searched().target


def test_what_nobody_gave_is_not_typed(searched: Callable[..., Run]):
    assert search_again(searched()) == f"tunekit search -- {shlex.quote(sys.executable)} train.py"
    assert search_again(searched(is_builtin=True)) == "tunekit search"
