"""A run in each tracker, read back by the tracker's own library."""

import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from build_reports import FAST, full_run

from tunekit.cli.main import main
from tunekit.errors import UsageError
from tunekit.export.files import write_exports
from tunekit.export.trackers import check_tracker
from tunekit.records.codec import write_json
from tunekit.records.run import Run

TRACKERS = ("wandb", "mlflow", "tensorboard")
SPEEDUP = 2.0
TRIALS = {
    0: 500.0,
    1: 1000.0,
    2: 800.0,
    5: 700.0,
    6: 500.0,
    7: 505.0,
    8: 495.0,
    9: 1000.0,
    10: 1010.0,
    11: 990.0,
}
"""The rate of each trial that was measured."""


class Tracked(NamedTuple):
    """A run that was logged to every tracker twice."""

    run: Run
    folder: Path
    said: tuple[list[str], list[str]]


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> Tracked:
    place = tmp_path_factory.mktemp("tracked")
    run, folder = full_run(), place / "run"
    folder.mkdir()
    write_json(folder / "run.json", run)
    write_exports(run, folder)
    of_user = {
        name: value for name, value in os.environ.items() if not name.startswith(("WANDB_", "MLFLOW_"))
    }
    environment = of_user | {"HOME": str(place), "NETRC": str(place / "none"), "XDG_DATA_HOME": str(place)}
    flags = [word for name in TRACKERS for word in ("--track", name)]
    command = [sys.executable, "-m", "tunekit", "report", "run", "--markdown", *flags]
    said = [
        subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert "INFO" not in said[0].stderr, "the libraries' own notes are not shown"
    return Tracked(run, folder, tuple(one.stdout.splitlines() for one in said))


def test_a_second_call_says_what_it_adds(tracked: Tracked):
    first, second = tracked.said
    assert first[1].startswith(f"logged to W&B (offline) as {tracked.run.id} in run/wandb/offline-run-")
    assert ", beside 1 earlier log of it; upload it with: wandb sync run/wandb/offline-run-" in second[1]
    assert [line.split(" ")[0] for line in (*first[2:], *second[2:])] == [
        "logged",
        "logged",
        "updated",
        "replaced",
    ]


def records_of(path: Path) -> Iterator[Any]:
    """Yield W&B's messages from its file: after 7 bytes, LevelDB's log of blocks of 32 KiB."""
    from wandb.proto import wandb_internal_pb2

    content, at, parts = path.read_bytes(), 7, b""
    while at < len(content):
        if 32_768 - at % 32_768 < 7:
            at += 32_768 - at % 32_768
            continue
        _, size, kind = struct.unpack("<IHB", content[at : at + 7])
        parts += content[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last part
            yield wandb_internal_pb2.Record.FromString(parts)
            parts = b""


def values(items: Any) -> dict[str, str]:
    return {"".join(item.nested_key) or item.key: item.value_json for item in items}


def test_wandb_reads_it(tracked: Tracked):
    first, second = sorted(tracked.folder.glob("wandb/offline-run-*/run-*.wandb"))
    for path in (first, second):
        records = list(records_of(path))
        run = next(one.run for one in records if one.WhichOneof("record_type") == "run")
        assert (run.run_id, run.project, run.display_name) == (tracked.run.id, "tunekit", "train on a10g")
        assert list(run.tags) == ["Confirmed", "a10g"]
        config = values(run.config.update)
        assert config["recommended.batch_size"] == '"256"' and config["tunekit_version"] == '"1.0.0"'
        rows = [one.history for one in records if one.WhichOneof("record_type") == "history"]
        by_step = {row.step.num: values(row.item).get("trial/samples_per_s") for row in rows}
        assert {step: float(rate) for step, rate in by_step.items() if rate} == pytest.approx(TRIALS)
        summary = values(item for one in records for item in one.summary.update)
        assert float(summary["speedup"]) == SPEEDUP
        (files,) = [one.artifact for one in records if one.WhichOneof("record_type") == "artifact"] or [
            one.request.log_artifact.artifact
            for one in records
            if one.request.WhichOneof("request_type") == "log_artifact"
        ]
        names = {one.path for one in files.manifest.contents}
        assert names == {"report.md", "balanced.yaml", "conservative.yaml", "scaling.csv"}


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")
def test_mlflow_reads_it(tracked: Tracked, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{tracked.folder.parent}/mlflow.db")
    experiment = client.get_experiment_by_name("tunekit")
    (read,) = client.search_runs([experiment.experiment_id])
    data = read.data
    assert {
        name: data.params[f"recommended.{name}"] for name in ("batch_size", "num_workers", "precision", "lr")
    } == {
        "batch_size": str(FAST.batch_size),
        "num_workers": "4",
        "precision": "bf16",
        "lr": "0.2",
    }
    assert data.params["baseline.batch_size"] == "128"
    assert (data.metrics["speedup"], data.metrics["speedup_low"]) == (SPEEDUP, 1.94)
    assert data.metrics["baseline_samples_per_s"] == pytest.approx(500.0, rel=1e-3)
    assert data.metrics["planned_hours"] == pytest.approx(500 / 3600)
    assert data.metrics["planned_usd"] > 0
    assert (data.tags["outcome"], data.tags["gpu"], read.info.status) == ("Confirmed", "a10g", "FINISHED")
    history = client.get_metric_history(read.info.run_id, "trial/samples_per_s")
    assert [one.step for one in history] == list(TRIALS), "each once, although logged twice"
    assert [one.value for one in history] == pytest.approx(list(TRIALS.values()))
    assert "balanced.yaml" in [one.path for one in client.list_artifacts(read.info.run_id)]


def test_tensorboard_reads_it(tracked: Tracked):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(tracked.folder / "tensorboard"))
    read.Reload()
    assert {one.step: one.value for one in read.Scalars("trial/samples_per_s")} == TRIALS
    assert [one.value for one in read.Scalars("speedup")] == [SPEEDUP]
    (report,) = read.Tensors("report")
    assert b"2.00x speedup" in report.tensor_proto.string_val[0]
    assert "_hparams_/session_start_info" in read.Tags()["tensors"]


def test_a_tracker_that_is_not_installed_is_named_with_its_command(
    tracked: Tracked, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    assert main(["report", str(tracked.folder), "--track", "mlflow"]) == 2
    assert capsys.readouterr().err.endswith("not installed; pip install mlflow\n")


def test_a_tracker_that_refuses_the_run_is_named(tracked: Tracked, capsys: pytest.CaptureFixture[str]):
    assert main(["report", str(tracked.folder), "--track", "tensorboard:/dev/null/there"]) == 1
    assert "tensorboard refused the run: " in capsys.readouterr().err


def test_a_tracker_that_would_log_nothing_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    with pytest.raises(UsageError, match="disabled logs nothing"):
        check_tracker("wandb")
