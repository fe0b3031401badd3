"""Creates empty zarr arrays in a layout."""

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import zarr
from zarr.codecs import BloscCodec, ZstdCodec

from tunekit.machine.storage.array_access import ZarrArray
from tunekit.records.data_layout import Layout

_LARGE_SAMPLE_BYTES = 64 << 20
"""Larger samples keep their present chunks along their own axes."""


def _codecs_of(name: str) -> Any:
    """Return zarr's compressors for a name in `CODECS`."""
    kind, *settings = name.split("-")
    level = next((int(word) for word in settings if word.isdigit()), 5)
    shuffle = "shuffle" if "shuffle" in settings else "noshuffle"
    if kind == "zstd" and shuffle == "noshuffle":
        return ZstdCodec(level=level)
    return None if kind == "none" else BloscCodec(cname=kind, clevel=level, shuffle=shuffle)  # type: ignore[arg-type]


def create_like(
    like: ZarrArray,
    store: Path,
    path: str,
    layout: Layout | None,
    zarr_format: int = 3,
    samples: int | None = None,
) -> ZarrArray:
    """Create an empty array with the metadata of another.

    Args:
        like: the other array.
        store: folder of the store to create it in.
        path: its path there.
        layout: how to store it; None for the other's chunks, shards and codecs. Codecs of format 2 don't
            exist in format 3, which gets zarr's default.
        zarr_format: of the new array.
        samples: length of its first axis; the other's by default.
    """
    described: dict[str, Any] = {"chunks": like.chunks, "shards": like.shards}
    if zarr_format == like.metadata.zarr_format:
        described |= {"filters": like.filters, "compressors": like.compressors}
        described |= {"serializer": like.serializer} if zarr_format == 3 else {"order": like.order}
    if layout is not None:
        described |= {"chunks": _shape_of(like, layout.chunk_samples)}
        described |= {"shards": layout.shard_samples and _shape_of(like, layout.shard_samples)}
        described |= {} if layout.codec is None else {"compressors": _codecs_of(layout.codec)}
    if zarr_format == 3:
        described["dimension_names"] = getattr(like.metadata, "dimension_names", None)
    with warnings.catch_warnings(action="ignore"):  # about types that format 3 does not specify yet
        return zarr.create_array(
            store,
            name=path or None,
            shape=like.shape if samples is None else (samples, *like.shape[1:]),
            dtype=like.metadata.dtype,
            fill_value=like.fill_value,
            attributes=like.attrs.asdict(),
            zarr_format=zarr_format,  # type: ignore[arg-type]
            **described,
        )


def _shape_of(array: ZarrArray, samples: int) -> Sequence[int]:
    """Return the shape of a chunk or shard of whole samples; large samples keep their chunks."""
    is_large = math.prod(array.shape[1:]) * array.dtype.itemsize > _LARGE_SAMPLE_BYTES
    inner = array.chunks[1:] if is_large else array.shape[1:]
    return (samples, *(max(1, size) for size in inner))
