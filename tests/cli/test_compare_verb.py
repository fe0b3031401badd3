"""`tunekit compare`: its exit codes, and what it writes where."""

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from build_comparisons import compared, searched, slower
from build_records import target
from json_schemas import valid

from tunekit import __version__
from tunekit.cli.main import main
from tunekit.records.codec import from_json
from tunekit.records.comparison import RunComparison
from tunekit.records.run import Run
from tunekit.session.folder import RunFolder


def saved(folder: Path, of: Run) -> str:
    with RunFolder(folder) as opened:
        opened.save(of)
    return str(folder)


@pytest.fixture
def fast(tmp_path: Path) -> str:
    return saved(tmp_path / "fast", searched())


@pytest.fixture
def slow(tmp_path: Path) -> str:
    return saved(tmp_path / "slow", slower(0.25))


# --- exit codes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tolerance", "code"), [(None, 1), ("5%", 1), ("0.19", 1), ("21%", 0), ("0.5", 0), ("0", 1)]
)
def test_a_regression_beyond_the_tolerance_ends_with_one(
    tolerance: str | None, code: int, fast: str, slow: str, capsys: pytest.CaptureFixture[str]
):
    words = [] if tolerance is None else ["--tolerance", tolerance]
    assert main(["compare", fast, slow, *words]) == code
    assert "B vs A: 20% slower" in capsys.readouterr().out


def test_too_few_processes_end_with_zero_and_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folders = [
        saved(tmp_path / name, searched(rates=[rate], own_rates=[500.0]))
        for name, rate in (("a", 980.0), ("b", 600.0))
    ]
    assert main(["compare", *folders]) == 0
    told = capsys.readouterr().out
    assert "warning: B: too few fresh processes" in told
    assert "--confirm 3" in told


# --- tiers ---------------------------------------------------------------------------------


def test_the_users_own_configs_are_compared_where_asked(
    fast: str, slow: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["compare", fast, slow, "--tier", "baseline"]) == 0
    told = capsys.readouterr().out
    assert "B vs A: no difference, 1.00x" in told
    assert "reference, baseline, 3 processes" in told


def test_a_search_that_keeps_its_baseline_is_no_regression(
    fast: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    kept = saved(tmp_path / "kept", searched(rates=(400.0, 405.0, 395.0)))
    for folders in ((fast, kept), (kept, fast)):
        assert main(["compare", *folders]) == 0
        told = capsys.readouterr()
        assert "B vs A: no difference, 1.00x" in told.out
        assert "recommends no other config than the baseline's, so the baselines are compared" in told.err


# --- what is written -----------------------------------------------------------------------


def test_json_is_the_whole_comparison_and_alone(fast: str, slow: str, capsys: pytest.CaptureFixture[str]):
    assert main(["compare", fast, slow, "--json"]) == 1
    printed = json.loads(valid("compare", capsys.readouterr().out))
    assert (printed["schema_version"], printed["has_regression"]) == (1, True)
    expected = compared(searched(), slower(0.25))
    folders = tuple(
        one.model_copy(update={"folder": folder})
        for one, folder in zip(expected.runs, (fast, slow), strict=True)
    )
    expected = expected.model_copy(update={"runs": folders, "tunekit_version": __version__})
    assert from_json(json.dumps(printed), RunComparison) == expected


def test_markdown_is_written_to_a_file_beside_what_is_shown(
    fast: str, slow: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "comment.md"
    assert main(["compare", fast, slow, "--markdown", str(file)]) == 1
    assert "Runs (measured)" in capsys.readouterr().out
    assert main(["compare", fast, slow, "--markdown"]) == 1
    assert file.read_text() == capsys.readouterr().out


@pytest.mark.parametrize(("others", "code"), [("slow", 1), ("same", 0)])
def test_a_reader_that_leaves_changes_no_verdict(
    others: str, code: int, request: pytest.FixtureRequest, fast: str
):
    other = request.getfixturevalue(others) if others != "same" else fast_again(Path(fast))
    words = [sys.executable, "-m", "tunekit", "compare", fast, other]
    piped = f"set -o pipefail; {shlex.join(words)} | true"
    assert subprocess.run(["bash", "-c", piped], capture_output=True).returncode == code


def test_a_full_disk_is_no_regression(fast: str):
    words = shlex.join([sys.executable, "-m", "tunekit", "compare", fast, fast_again(Path(fast))])
    done = subprocess.run(["bash", "-c", f"{words} > /dev/full"], capture_output=True, text=True)
    assert (done.returncode, "can't be printed" in done.stderr) == (8, True)


def fast_again(folder: Path) -> str:
    """Return the folder of the same run under another name."""
    again = folder.with_name(f"{folder.name}-again")
    if not again.exists():
        shutil.copytree(folder, again)
    return str(again)


def test_the_steps_summary_is_appended_to(
    fast: str, slow: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert main(["compare", fast, slow, "--github-summary"]) == 1
    lines = summary.read_text().splitlines()
    assert lines[:2] == ["before", "## tunekit compare: regression"]


# --- what can't be compared ----------------------------------------------------------------


@pytest.fixture
def other_training(tmp_path: Path) -> str:
    other = target(command=("python", "other.py"), script="other.py", script_sha256="b" * 64)
    return saved(tmp_path / "other", slower(0.5, target=other))


@pytest.fixture
def known(tmp_path: Path) -> str:
    return saved(tmp_path / "known", searched(target=target(script_sha256="a" * 64)))


def test_what_can_not_be_compared_ends_with_two_after_it_is_shown(
    known: str, other_training: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["compare", known, other_training, "--json"]) == 2
    shown = capsys.readouterr()
    assert from_json(shown.out, RunComparison).against[0].compared_by is None
    assert "can be compared with the reference (B: they train different scripts" in shown.err


def test_a_regression_is_one_whatever_else_can_not_be_compared(
    known: str, other_training: str, tmp_path: Path
):
    worse = saved(tmp_path / "worse", slower(0.25, target=target(script_sha256="a" * 64)))
    assert main(["compare", known, other_training, worse]) == 1
