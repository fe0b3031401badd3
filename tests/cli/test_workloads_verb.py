"""`tunekit workloads`, and the data that is made before a workload's first trial."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from build_checkups import gpu, seen_device, torch_of
from build_records import host, run, target

from tunekit.cli import workloads
from tunekit.cli.main import main
from tunekit.cli.screen import TrialScreen
from tunekit.machine.profiles import load_profiles
from tunekit.records.host import TorchBuild
from tunekit.workloads import WORKLOADS, images_store


@pytest.mark.parametrize(
    ("gpus", "profile_id", "build", "side"),
    [
        ((gpu(),), "a10g", torch_of(devices=(seen_device(),)), 40),
        ((gpu(),), "a10g", torch_of(devices=()), 32),
        ((gpu(),), "cpu", torch_of(), 32),
        ((), "a10g", torch_of(), 32),
    ],
    ids=["a GPU that torch uses", "torch without CUDA", "--gpu cpu", "no GPU here"],
)
def test_the_data_is_that_of_the_device_that_trains_on_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    gpus: tuple,
    profile_id: str,
    build: TorchBuild,
    side: int,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    sizes = {"cuda": {"samples": 2, "image_size": 35}, "cpu": {"samples": 2, "image_size": 28}}
    monkeypatch.setattr(images_store.Contents, "sizes", sizes)
    monkeypatch.setattr(workloads, "ask_torch", lambda command: build)
    searched = run(
        host=host(accelerators=gpus),
        profile=load_profiles()[profile_id],
        target=target(builtin="images"),
    )
    workloads.make_data(searched, TrialScreen())
    assert [path.name for path in (tmp_path / "tunekit/images").glob("[!.]*")] == [f"{side}-2-v1"]


@pytest.fixture
def on_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(workloads, "host_here", host)


@pytest.mark.usefixtures("on_cpu")
def test_the_list_is_drawn_at_both_widths(
    golden: Callable[[str], object], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for columns in ("80", "120"):
        monkeypatch.setenv("COLUMNS", columns)
        assert main(["workloads"]) == 0
    assert capsys.readouterr().out == golden("workloads.txt")
    assert main(["workloads", "--json"]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)["workloads"]] == list(WORKLOADS)


@pytest.mark.usefixtures("on_cpu")
def test_a_workload_is_made_where_asked_and_as_large(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["workloads", "records", "--samples", "5k", "--data", str(tmp_path / "here")]) == 0
    assert (tmp_path / "here" / "5000-v1" / "visits").is_dir()
    assert f"--workload records -- --samples 5000 --data {tmp_path / 'here'}" in capsys.readouterr().out


@pytest.mark.usefixtures("on_cpu")
def test_an_option_that_is_no_number_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", "--workload", "ppg", "--", "--samples", "many"]) == 2
    assert "ppg" in capsys.readouterr().err
