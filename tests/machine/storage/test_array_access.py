"""What a read of a zarr array or a file costs: exact figures of known layouts, and rates of real reads."""

from pathlib import Path

import numpy as np
import pytest
import zarr
from build_zarr_stores import HOSTILE_CHUNK, hostile_store, odd_store, second_format
from PIL import Image

from tunekit.errors import UsageError
from tunekit.machine.storage.data_access import access_apart
from tunekit.records.data_layout import ArrayAccess


def access_of(store: Path) -> dict[str, ArrayAccess]:
    return {one.path: one for one in access_apart(store, 0.2).arrays}


@pytest.mark.parametrize(
    ("shape", "chunks", "shards", "expected"),
    [
        ((64, 10), (16, 10), None, (1, 16, 40, 640)),
        ((64, 10), (1, 10), (32, 10), (1, 1, 40, 40)),
        ((64, 10), (4, 3), None, (4, 4.8, 40, 192)),  # the last chunk of a row is padded
        ((10, 6, 6), (16, 2, 6), None, (3, 16, 144, 2304)),  # a chunk longer than the array
        ((64,), (8,), None, (1, 8, 4, 32)),
    ],
)
def test_amplification_is_exact(
    tmp_path: Path, shape: tuple[int, ...], chunks: tuple[int, ...], shards: tuple[int, ...], expected: object
) -> None:
    array = zarr.create_array(
        tmp_path / "s", shape=shape, chunks=chunks, shards=shards, dtype="f4", compressors=None
    )
    array[...] = 1.0
    (seen,) = access_of(tmp_path / "s").values()
    figures = (
        seen.chunks_per_sample,
        seen.read_amplification,
        seen.sample_bytes,
        seen.decoded_bytes_per_sample,
    )
    assert figures == expected
    index_bytes = 4 + 16 * 32 if shards else 0
    assert seen.read_bytes_per_sample == seen.decoded_bytes_per_sample + index_bytes


def test_a_hostile_store_is_measured(tmp_path: Path) -> None:
    store = hostile_store(tmp_path / "s.zarr")
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*")}
    seen = access_of(store)
    signals = seen["signals"]
    assert (signals.read_amplification, signals.files, signals.codecs) == (
        HOSTILE_CHUNK,
        4,
        ("zstd(level=3)",),
    )
    stored = sum(path.stat().st_size for path in (store / "signals/c").rglob("*") if path.is_file())
    assert signals.stored_bytes == stored
    assert signals.compression_ratio == pytest.approx(signals.decoded_bytes / stored)
    rates = signals.rates
    assert None not in (rates.random_cold, rates.random_warm, rates.chunks_cold, rates.chunks_warm)
    assert rates.decode_mb_per_s
    assert {path: path.stat().st_mtime_ns for path in store.rglob("*")} == before


def test_every_kind_of_array_is_read(tmp_path: Path) -> None:
    odd = access_of(odd_store(tmp_path / "odd"))
    assert len(odd) == 13
    assert {odd[f"a/b/{name}"].why_not_measured for name in ("scalar", "nothing")} == {"it has no samples"}
    assert odd["partial"].read_amplification == 3 * 8 / 5
    old = access_of(second_format(tmp_path / "old"))
    assert {one.zarr_format for one in old.values()} == {2}
    assert old["f"].read_amplification == 3 * 4 / 5


def test_files_are_decoded_by_extension(tmp_path: Path) -> None:
    pixels = np.zeros((32, 48, 3), np.uint8)
    for number in range(4):
        Image.fromarray(pixels).save(tmp_path / f"{number}.PNG")
        np.save(tmp_path / f"{number}.npy", pixels)
    np.savez(tmp_path / "both.npz", a=pixels, b=pixels)
    (tmp_path / "broken.jpg").write_bytes(b"no image")
    Image.fromarray(pixels).save(tmp_path / "whole.jpg")
    (tmp_path / "notes.txt").write_text("x")
    access = access_apart(tmp_path, 0.2)
    kinds = {one.extension: one for one in access.kinds}
    decoded = {name: one.decoded_bytes for name, one in kinds.items()}
    size = pixels.nbytes
    assert decoded == {".png": size, ".npy": size, ".npz": 2 * size, ".jpg": None, ".txt": None}
    assert all(kinds[name].warm_files_per_s for name in (".png", ".npy", ".npz"))
    broken = tmp_path / "broken.jpg"
    assert (kinds[".jpg"].problem or "").startswith(f"{broken}: cannot identify image file")
    assert (kinds[".npy"].share, kinds[".txt"].problem) == (4 / 12, None)
    assert access.sizes is not None
    assert access.sizes.largest == (tmp_path / "both.npz").stat().st_size


def test_what_zarr_cannot_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "zarr.json").write_text("{")
    with pytest.raises(UsageError, match=r"zarr can't open .*; give a folder that zarr reads"):
        access_apart(tmp_path, 0.1)
