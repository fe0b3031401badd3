"""The reports of a run as files: `report.html`, `report.md`, a GitHub step's summary."""

import base64
import gzip
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from build_fits import fit, fits_run
from build_loop_profiles import profiled
from build_records import host
from build_reports import full_run
from build_scaling import scaled

from tunekit.cli.main import main
from tunekit.cli.report_files import drawn_run, write_reports
from tunekit.errors import RunFolderError
from tunekit.records.base import Record
from tunekit.records.codec import to_json

ANSWER = "Confirmed (high confidence): 2.00x speedup"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """The folder of a finished run that knows how long an epoch is."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text(to_json(full_run()))
    return folder


def test_both_reports_go_to_the_runs_folder(saved: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["report", str(saved), "--html", "--markdown"]) == 0
    assert capsys.readouterr().out == f"written to {saved}/report.html\nwritten to {saved}/report.md\n"
    assert ANSWER.partition(": ")[2] in (saved / "report.html").read_text()
    assert f"**{ANSWER}" in (saved / "report.md").read_text()
    assert sorted(path.name for path in saved.iterdir()) == ["report.html", "report.md", "run.json"]


def test_drawing_again_gives_the_same_files(saved: Path):
    def drawn() -> list[str]:
        assert main(["report", str(saved), "--html", "--markdown"]) == 0
        return [(saved / name).read_text() for name in ("report.html", "report.md")]

    first = drawn()
    assert "The whole training" in first[1], "the plan goes by the run's own day"
    assert drawn() == first


def test_a_pipe_is_written_into_and_not_replaced(saved: Path, tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True)
    assert main(["report", str(saved), "--markdown", str(pipe)]) == 0
    assert ANSWER in reader.communicate(timeout=30)[0]
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("name", "record", "answer"),
    [
        ("profile.json", profiled, "Data-bound, 36% data wait: 5,010 samples/s"),
        (
            "fits.json",
            lambda: fits_run((fit("t4", 14.6, (10, 12, 14)),)),
            "Your batch of 128",
        ),
        ("scale.json", lambda: scaled(rounds=3), "Speedup of 4 processes over 1: 3.42x"),
    ],
)
def test_records_of_other_verbs_have_the_same_reports(
    name: str, record: Callable[[], Record], answer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / name).write_text(to_json(record()))
    assert main(["report", str(tmp_path), "--html", "--markdown"]) == 0
    assert capsys.readouterr().out == f"written to {tmp_path}/report.html\nwritten to {tmp_path}/report.md\n"
    page = (tmp_path / "report.html").read_text()
    assert answer in page and f"Download {name}" in page
    assert f"**{answer}" in (tmp_path / "report.md").read_text()


def test_names_of_the_machine_and_home_folders_are_left_out_of_a_profiles_reports(tmp_path: Path):
    lay = profiled(host=host(hostname="secret-name"), measured_on="/home/ada/gpu")
    (tmp_path / "profile.json").write_text(to_json(lay))
    for flags, is_hidden in (([], True), (["--full-paths"], False)):
        assert main(["report", str(tmp_path), "--html", "--markdown", *flags]) == 0
        assert ("/home/ada" not in (tmp_path / "report.md").read_text()) == is_hidden
        page = (tmp_path / "report.html").read_text()
        packed = re.search(r'id="raw-packed">(.*?)<', page)
        assert packed is not None
        raw = gzip.decompress(base64.b64decode(packed[1])).decode()
        assert ("secret-name" not in raw and "/home/ada" not in raw + page) == is_hidden


def test_a_steps_summary_is_appended_to(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert main(["report", str(saved), "--github-summary"]) == 0
    assert capsys.readouterr().out == f"appended to {summary}\n"
    assert summary.read_text().startswith("before\n## tunekit: train on a10g\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "nowhere" / "summary.md"))
    assert main(["report", str(saved), "--github-summary"]) == 8
    assert "GITHUB_STEP_SUMMARY to a file that can be" in capsys.readouterr().err


def test_a_folder_that_can_not_be_written_keeps_the_run(tmp_path: Path):
    with pytest.raises(RunFolderError, match=r"the run is kept: correct that, then tunekit report"):
        write_reports(drawn_run(full_run(), tmp_path), tmp_path / "nowhere")


def test_a_link_stays_and_what_it_leads_to_is_written(saved: Path, tmp_path: Path):
    (tmp_path / "real.md").write_text("old")
    (tmp_path / "link.md").symlink_to(tmp_path / "real.md")
    assert main(["report", str(saved), "--markdown", str(tmp_path / "link.md")]) == 0
    assert (tmp_path / "link.md").is_symlink()
    assert (tmp_path / "real.md").read_text().startswith("## tunekit: ")
