"""`tunekit search --share` as it is typed: real trials on two processes that meet in a real database."""

import subprocess
import sys
from pathlib import Path

import pytest
from real_postgres import PASSWORD, PostgresServer
from real_trials import ZOO

from tunekit.records.run import Run, RunStatus
from tunekit.session.folder import load_run

TRAIN = [sys.executable, str(ZOO / "trains_for_real.py"), "--epochs", "1000"]
QUICK = ["--trials", "2", "--confirm", "1", "--window", "0.3"]
QUICK += ["--fix", "compile=false", "--fix", "precision=fp32"]


def start(place: str, folder: Path, *flags: str, train: list[str] = TRAIN) -> subprocess.Popen[str]:
    words = ["search", "--share", place, *QUICK, *flags, "--", *train]
    return subprocess.Popen(
        [sys.executable, "-m", "tunekit", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture(scope="module")
def together(
    tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer
) -> tuple[str, Path, list[str]]:
    """Two hosts have searched: the place where they met, their folder, and what they said."""
    place, folder = postgres.new_database(), tmp_path_factory.mktemp("together")
    hosts = [start(place, folder) for _ in range(2)]
    said = [host.communicate(timeout=500)[0] for host in hosts]
    assert [host.returncode for host in hosts] == [0, 0], said
    return place, folder, said


def runs_in(folder: Path) -> list[Run]:
    return [load_run(path.parent) for path in sorted(folder.glob("reports/*/run.json"))]


@pytest.mark.real
@pytest.mark.slow
def test_two_hosts_make_one_run_and_one_report(together: tuple[str, Path, list[str]]):
    _, folder, said = together
    (report,) = folder.glob("reports/*/report.html")
    whole = load_run(report.parent)
    assert whole.status is RunStatus.FINISHED
    kept = sorted(int(path.parent.name) for path in report.parent.glob("trials/*/trial.json"))
    assert kept == [record.number for record in whole.trials]
    assert sum(record.role.is_candidate for record in whole.trials) == 2
    assert sum(str(report.parent.relative_to(folder)) in text for text in said) == 2


@pytest.mark.real
@pytest.mark.slow
def test_the_password_is_neither_said_nor_kept(together: tuple[str, Path, list[str]]):
    _, folder, said = together
    assert all("postgresql://***@/share" in text for text in said)
    assert not any(PASSWORD in text for text in said)
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert any(path.name == "run.json" for path in files)
    assert [path for path in files if PASSWORD.encode() in path.read_bytes()] == []


@pytest.mark.real
@pytest.mark.slow
def test_the_same_command_later_shows_the_answer_and_leaves_no_folder(
    together: tuple[str, Path, list[str]], tmp_path: Path
):
    place, folder, _ = together
    late = start(place, tmp_path)
    said, _ = late.communicate(timeout=200)
    assert late.returncode == 0, said
    (whole,) = (path.parent for path in folder.glob("reports/*/report.html"))
    assert "0 trials measured here" in said
    assert f"finishes the search; its report: {whole}" in said
    assert f"tunekit report {whole} --full" in said
    assert runs_in(tmp_path) == []


@pytest.mark.real
@pytest.mark.slow
def test_the_same_command_later_writes_the_report_where_a_folder_is_asked_for(
    together: tuple[str, Path, list[str]], tmp_path: Path
):
    place, folder, _ = together
    late = start(place, tmp_path, "--out", "reports/late")
    said, _ = late.communicate(timeout=200)
    assert late.returncode == 0, said
    whole = next(run for run in runs_in(folder) if run.status is RunStatus.FINISHED)
    assert runs_in(tmp_path) == [whole]
    assert len(list(tmp_path.glob("reports/*/report.html"))) == 1
