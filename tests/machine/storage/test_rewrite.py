"""Rewriting a store: equal bit for bit, resumed after a kill, and nothing else touched."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr
from build_zarr_stores import hostile_store, odd_store, second_format

from tunekit.errors import TunekitError, UsageError
from tunekit.machine.storage import rewrite as room
from tunekit.machine.storage.array_access import arrays_of, opened
from tunekit.machine.storage.rewrite import JOURNAL, checksum_of, described, rewrite, state_of, unfinished
from tunekit.records.data_layout import Layout, Rewrite

LAYOUT = Layout(chunk_samples=4, shard_samples=32, codec="lz4-shuffle")


def rewritten(source: Path, new: Path, **layouts: Layout) -> Rewrite:
    return rewrite(source, new, layouts, 0, lambda doing, done, blocks: None)


def checksums(store: Path) -> dict[str, str]:
    return {path: checksum_of(array[...]) for path, array in arrays_of(opened(store)).items()}


def many_arrays(folder: Path) -> Path:
    group = zarr.open_group(folder, mode="w")
    for number in range(40):
        group.create_array(f"x{number}", data=np.full((64, 8), number, "f4"))
    return folder


@pytest.mark.parametrize("make", [odd_store, second_format, hostile_store])
def test_the_new_store_is_equal_and_the_source_untouched(tmp_path: Path, make: object) -> None:
    source, new = make(tmp_path / "old.zarr"), tmp_path / "new.zarr"  # type: ignore[operator]
    before = state_of(source)
    path = {odd_store: "a/b/floats", second_format: "x", hostile_store: "signals"}[make]  # type: ignore[index]
    done = rewrite(source, new, {path: LAYOUT}, 0, lambda *_: None)
    assert checksums(new) == checksums(source)
    assert described(opened(new)) == described(opened(source))
    changed = arrays_of(opened(new))[path]
    assert (changed.chunks[0], changed.shards and changed.shards[0]) == (4, 32)
    assert (done.arrays, done.resumed_blocks) == (len(checksums(source)), 0)
    assert state_of(source) == before
    assert sorted(tmp_path.iterdir()) == [new, source]
    assert not (new / JOURNAL).exists()


def test_a_single_array_is_a_store_too(tmp_path: Path) -> None:
    data = np.arange(70.0).reshape(35, 2)
    zarr.create_array(tmp_path / "old", data=data, chunks=(9, 1), attributes={"a": 1})
    rewrite(tmp_path / "old", tmp_path / "new", {"": LAYOUT}, 0, lambda *_: None)
    assert np.array_equal(zarr.open_array(tmp_path / "new", mode="r")[...], data)


def test_blocks_cover_an_array_once_in_whole_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_BLOCK_BYTES", 200)
    array = zarr.create_array(tmp_path / "s", shape=(10, 5), chunks=(2, 2), shards=(4, 4), dtype="u1")
    seen = np.zeros(array.shape, int)
    for block in room.blocks_of(array):
        assert all(part.start % 4 == 0 for part in block)
        seen[block] += 1
    assert (seen == 1).all()


def test_a_killed_rewrite_is_resumed(tmp_path: Path) -> None:
    source, new = many_arrays(tmp_path / "old"), tmp_path / "new"
    code = (
        "import sys; from pathlib import Path; from tunekit.machine.storage.rewrite import rewrite\n"
        "rewrite(Path(sys.argv[1]), Path(sys.argv[2]), {}, 0, lambda *_: None)"
    )
    journal = unfinished(new) / JOURNAL
    with subprocess.Popen([sys.executable, "-c", code, source, new]) as process:
        while not journal.exists() or len(journal.read_bytes().splitlines()) < 3:
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert not new.exists()
    with journal.open("a") as stream:
        stream.write('["x')  # half a line
    done = rewritten(source, new)
    assert 2 <= done.resumed_blocks < done.blocks == 40
    assert done.checksum == rewritten(source, tmp_path / "at once").checksum
    assert checksums(new) == checksums(source)


def interrupted(source: Path, new: Path, **layouts: Layout) -> None:
    def stop(doing: str, done: int, blocks: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rewrite(source, new, layouts, 0, stop)


def test_what_cannot_be_resumed_is_refused(tmp_path: Path) -> None:
    source, new = many_arrays(tmp_path / "old"), tmp_path / "new"
    interrupted(source, new, x1=LAYOUT)
    before = state_of(source)
    with pytest.raises(UsageError, match="started with other layouts"):
        rewritten(source, new)
    with pytest.raises(UsageError, match=r"another store, or of .* before it changed"):
        rewritten(many_arrays(tmp_path / "other"), new)
    (source / "x2").rename(tmp_path / "elsewhere")
    (source / "x2").symlink_to("../elsewhere")
    assert state_of(source) == before
    zarr.open_array(source / "x2", mode="r+")[0] = 9.0
    with pytest.raises(UsageError, match=r"another store, or of .* before it changed"):
        rewritten(source, new)


def test_a_block_that_was_damaged_is_found(tmp_path: Path) -> None:
    source, new = many_arrays(tmp_path / "old"), tmp_path / "new"
    interrupted(source, new)
    zarr.open_array(unfinished(new) / "x0", mode="r+")[0] = 9.0
    with pytest.raises(TunekitError, match=r"x0 in .* reads back differently"):
        rewritten(source, new)


def test_a_damaged_journal_is_refused(tmp_path: Path) -> None:
    source, new = many_arrays(tmp_path / "old"), tmp_path / "new"
    interrupted(source, new)
    with (unfinished(new) / JOURNAL).open("a") as journal:
        journal.write("\0\n")
    with pytest.raises(UsageError, match=r"is damaged .*; remove its folder"):
        rewritten(source, new)


def test_a_source_that_changes_meanwhile_is_noticed(tmp_path: Path) -> None:
    source, new = many_arrays(tmp_path / "old"), tmp_path / "new"

    def change(doing: str, done: int, blocks: int) -> None:
        if (doing, done) == ("verifying", 0):
            zarr.open_array(source / "x0", mode="r+")[0] = 9.0

    with pytest.raises(TunekitError, match="changed while it was rewritten"):
        rewrite(source, new, {}, 0, change)
    assert not new.exists()


def test_new_folders_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    source, new = many_arrays(tmp_path / "old"), tmp_path / "new"
    new.mkdir()
    with pytest.raises(UsageError, match="exists already"):
        rewritten(source, new)
    with pytest.raises(UsageError, match="overlaps the source"):
        rewritten(source, source / "inner")
    unfinished(tmp_path / "mine").mkdir()
    (unfinished(tmp_path / "mine") / JOURNAL).write_text(json.dumps({"a": 1}) + "\n")
    with pytest.raises(UsageError, match="is not an unfinished rewrite"):
        rewritten(source, tmp_path / "mine")
    with pytest.raises(UsageError, match=r"takes about .* GiB, but .* free; name a folder on another disk"):
        rewrite(source, tmp_path / "large", {}, 1 << 60, lambda *_: None)
