"""`tunekit data`, on real stores: from a hostile layout to a rewritten one, and what it refuses."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from build_zarr_stores import HOSTILE_CHUNK, hostile_store

from tunekit.cli.main import main
from tunekit.machine.storage.array_access import arrays_of, opened
from tunekit.machine.storage.layout_bench import work_folder
from tunekit.machine.storage.rewrite import rewrite, state_of
from tunekit.records.data_layout import Layout

Captured = pytest.CaptureFixture[str]


def answered(capsys: Captured, *words: str) -> dict[str, Any]:
    assert main(["data", *words, "--json"]) == 0
    return dict(json.loads(capsys.readouterr().out))


def test_a_hostile_store_is_searched(tmp_path: Path, capsys: Captured) -> None:
    store = hostile_store(tmp_path / "s.zarr")
    before = state_of(store)
    seen = answered(capsys, str(store), "--budget", "4s", "--gpu", "a10g")
    search = seen["search"]
    assert (search["array"], search["trials"][0]["read_amplification"]) == ("signals", HOSTILE_CHUNK)
    assert search["best"]["read_amplification"] < HOSTILE_CHUNK
    assert "many-small-files" not in {one["code"] for one in seen["findings"]}
    assert [(one["kind"], one["verdict"]) for one in seen["places"][-2:]] == [("RAM", "yes"), ("VRAM", "yes")]
    assert state_of(store) == before
    assert list(tmp_path.iterdir()) == [store]


def test_a_typed_layout_is_written(tmp_path: Path, capsys: Captured) -> None:
    store, new = hostile_store(tmp_path / "s.zarr"), tmp_path / "new.zarr"
    layout = ["--chunks", "16", "--shards", "1024", "--codec", "lz4"]
    seen = answered(capsys, str(store), "--budget", "2s", "--rewrite", str(new), *layout)
    assert seen["rewritten"]["read_amplification"] == 16
    assert (seen["search"], seen["why_not_searched"]) == (None, "--chunks gave one")
    assert arrays_of(opened(new))["signals"].shards == (1024, 200)


@pytest.mark.parametrize("flags", [[], ["--chunks", "16"]])
def test_an_unfinished_rewrite_goes_on_with_its_layout(
    tmp_path: Path, capsys: Captured, flags: list[str]
) -> None:
    store, new = hostile_store(tmp_path / "s.zarr"), tmp_path / "new.zarr"

    def stop(doing: str, done: int, blocks: int) -> None:
        if done == 1:
            raise KeyboardInterrupt

    layout = Layout(chunk_samples=16, shard_samples=None, codec=None)
    with pytest.raises(KeyboardInterrupt):
        rewrite(store, new, {"labels": layout}, 0, stop)
    seen = answered(capsys, str(store), "--budget", "1s", "--rewrite", str(new), *flags)
    assert (seen["rewrite"]["resumed_blocks"], seen["rewrite"]["blocks"]) == (1, 2)
    assert arrays_of(opened(new))["labels"].chunks == (16,)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--rewrite s.zarr --chunks 4", "overlaps the source"),
        ("--array labls", "no array 'labls'; there are: labels, signals"),
    ],
)
def test_what_cannot_be_done_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, words: str, problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    hostile_store(tmp_path / "s.zarr", 4096, 2)
    assert main(["data", "s.zarr", "--budget", "1s", *words.split()]) == 2
    assert problem in capsys.readouterr().err


def test_a_folder_of_files_has_no_layout(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "a.txt").write_text("x" * 1000)
    seen = answered(capsys, str(tmp_path), "--budget", "1s")
    assert (seen["why_not_searched"], seen["access"]["kinds"][0]["extension"]) == (
        "not a zarr store",
        ".txt",
    )
    assert main(["data", str(tmp_path), "--budget", "1s", "--rewrite", str(tmp_path / "n")]) == 2


def test_the_folder_of_a_killed_process_is_removed_and_that_of_a_running_one_kept(tmp_path: Path) -> None:
    near = tmp_path / "s.zarr"
    code = (
        "import sys, pathlib; from tunekit.machine.storage.layout_bench import work_folder\n"
        "with work_folder(pathlib.Path(sys.argv[1])) as folder: print(folder, flush=True); sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code, str(near)], text=True, **pipes) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        with work_folder(near) as own:
            assert sorted(tmp_path.iterdir()) == sorted([left, own])
        process.kill()
    with work_folder(near) as own:
        assert list(tmp_path.iterdir()) == [own]
