"""Data sets for the tests of `tunekit data`: signals in chunks hostile to random access."""

from typing import Any

from build_checkups import storage_of
from build_records import MIB, interval

from tunekit.records.data_layout import (
    ArrayAccess,
    DataAccess,
    DataReport,
    Layout,
    LayoutSearch,
    LayoutTrial,
    Place,
    PlaceKind,
    Rates,
)

RATES = Rates(
    random_cold=200,
    random_warm=300,
    chunks_cold=6e5,
    chunks_warm=8e5,
    in_ram=1e6,
    decode_mb_per_s=340,
    is_cold=True,
)
FAST = Layout(chunk_samples=64, shard_samples=4096, codec="lz4")


def array_access(**overrides: Any) -> ArrayAccess:
    """1,048,576 signals of 100 floats, 4,096 a chunk."""
    values: dict[str, Any] = {
        "path": "signals",
        "shape": (1 << 20, 100),
        "dtype": "float32",
        "zarr_format": 3,
        "chunks": (4096, 100),
        "shards": None,
        "codecs": ("zstd(level=3)",),
        "files": 256,
        "stored_bytes": 380 * MIB,
        "decoded_bytes": 400 * MIB,
        "compression_ratio": 400 / 380,
        "sample_bytes": 400,
        "chunks_per_sample": 1,
        "read_bytes_per_sample": 380 * MIB / 256,
        "decoded_bytes_per_sample": 4096 * 400,
        "read_amplification": 4096,
        "rates": RATES,
    }
    return ArrayAccess(**(values | overrides))


def layout_search(**overrides: Any) -> LayoutSearch:
    """Three layouts, of which the best was faster in every round."""
    best = LayoutTrial(
        layout=FAST, rate_samples_per_s=900, is_cold=True, size_ratio=1.05, read_amplification=64
    )
    values: dict[str, Any] = {
        "array": "signals",
        "slice_samples": 65_536,
        "slice_bytes": 25 * MIB,
        "max_size_ratio": 1.5,
        "trials": (
            LayoutTrial(
                layout=None, rate_samples_per_s=200, is_cold=True, size_ratio=1, read_amplification=4096
            ),
            best,
            LayoutTrial(
                layout=Layout(chunk_samples=64, shard_samples=None, codec=None),
                rate_samples_per_s=None,
                problem="disk full",
            ),
        ),
        "rounds": ((200.0, 900.0), (210.0, 880.0)),
        "best": best,
        "speedup": interval(4.3),
        "noise": 0.05,
        "verdict": "faster",
    }
    return LayoutSearch(**(values | overrides))


def data_report(**overrides: Any) -> DataReport:
    """A searched store on an NVMe disk."""
    values: dict[str, Any] = {
        "tunekit_version": "1",
        "created_at": "2026-01-31T12:00:00+00:00",
        "storage": storage_of(),
        "access": DataAccess(arrays=(array_access(),)),
        "search": layout_search(),
        "places": (
            Place(
                kind=PlaceKind.RAM, verdict="yes", needs_bytes=400 * MIB, free_bytes=800 * MIB, speedup=5000
            ),
            Place(kind=PlaceKind.VRAM, verdict="does not fit", needs_bytes=400 * MIB, free_bytes=100 * MIB),
        ),
    }
    return DataReport(**(values | overrides))
