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
from tunekit.records.options import IGNORE, SEARCH, Kind
from tunekit.records.run import Run
from tunekit.report.text import search_again

TYPED = {Kind.COUNT: "64", Kind.NUMBER: "2.5", Kind.TIME: "45.5s"}
GIVEN = {one.flag: (TYPED[one.kind],) if one.kind in TYPED else () for one in SEARCH if one is not IGNORE} | {
    "--gpu": ("a10g",),
    "--bind": ("batch_size=--bs {}",),
    "--fix": ("compile=false",),
    "--range": ("num_workers=1..4",),
    "--objective": ("finish-time", "--planned-steps", "1000"),
    "--epochs": ("10",),
}
"""What follows each flag that changes what is searched."""


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


def test_the_same_search_again_leaves_out_defaults(searched: Callable[..., Run]):
    assert search_again(searched()) == f"tunekit search -- {shlex.quote(sys.executable)} train.py"
    assert search_again(searched(is_builtin=True)) == "tunekit search"
    assert "--window" not in search_again(searched("--budget", "5m"))
