"""Small zarr stores with every kind of array, for the tests of `tunekit data`."""

import warnings
from pathlib import Path

import numpy as np
import zarr
from zarr.codecs import ZstdCodec

HOSTILE_CHUNK = 4096


def hostile_store(folder: Path, samples: int = 16_384, size: int = 200) -> Path:
    """A store whose chunks hold 4,096 samples each: noisy signals, and labels."""
    rng = np.random.default_rng(0)
    group = zarr.open_group(folder, mode="w")
    signals = group.create_array(
        "signals",
        shape=(samples, size),
        dtype="float32",
        chunks=(HOSTILE_CHUNK, size),
        compressors=ZstdCodec(level=3),
    )
    signals[:] = np.cumsum(rng.normal(size=(samples, size)), axis=1)
    group.create_array("labels", data=np.arange(samples) % 5)
    return folder


def odd_store(folder: Path) -> Path:
    """A store with nested groups, and arrays of every kind of type and shape."""
    root = zarr.open_group(folder, mode="w", attributes={"title": "odd", "scale": float("nan")})
    inner = root.create_group("a/b", attributes={"depth": 2})
    root.create_group("empty")
    floats = np.random.default_rng(0).normal(size=(101, 7)).astype("f4")
    floats[3] = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45]
    arrays = {
        "floats": floats,
        "half": np.array([np.nan, 1], "f2"),
        "flags": np.arange(50) % 3 == 0,
        "complex": np.array([1 + 2j, np.nan * 1j]),
        "days": np.array(["2020-01-01", "NaT"], "M8[D]"),
        "fixed bytes": np.array([b"ab", b"c"]),
        "fixed text": np.array(["ab", "é"]),
        "rows": np.array([(1, 2.5), (3, np.nan)], dtype=[("a", "i4"), ("b", "f8")]),
        "text": np.array(["a", "", "a longer one", "é"], dtype=np.dtypes.StringDType()),
        "scalar": np.array(3.5),
        "nothing": np.zeros((0, 3)),
        "big endian": np.arange(5, dtype=">i4"),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, data in arrays.items():
            inner.create_array(name, data=data, attributes={"name": name})
    partial = root.create_array(
        "partial",
        shape=(10, 5),
        chunks=(4, 2),
        shards=(8, 4),
        dtype="f8",
        fill_value=np.nan,
        dimension_names=("time", None),
    )
    partial[:6] = np.arange(30).reshape(6, 5)
    return folder


def second_format(folder: Path) -> Path:
    """A store of format 2, with consolidated metadata."""
    root = zarr.open_group(folder, mode="w", zarr_format=2, attributes={"old": True})
    floats = root.create_array("x", shape=(10, 3), dtype="f4", chunks=(4, 3), fill_value=np.nan)
    floats[:8] = np.arange(24).reshape(8, 3)
    root.create_array("null", shape=(6,), dtype=">f4", chunks=(2,), fill_value=None)[:3] = 1
    columns = root.create_array("f", shape=(4, 5), dtype="i4", order="F", chunks=(2, 2), attributes={"u": 1})
    columns[:] = np.arange(20).reshape(4, 5)
    root.create_array("s", shape=(3,), dtype=str, chunks=(2,))[:] = np.array(["a", "bb", ""], dtype=object)
    zarr.consolidate_metadata(folder)
    return folder
