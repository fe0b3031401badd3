"""What reading a data set costs, which layouts were tried, and where to keep it."""

from enum import StrEnum
from typing import Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from tunekit.records.base import SCHEMA_VERSION, Record
from tunekit.records.checkup import Storage
from tunekit.records.finding import Finding
from tunekit.records.interval import Interval
from tunekit.records.recommendation import Verdict


class Rates(Record):
    """Samples/s of one process; None if not measured."""

    random_cold: PositiveFloat | None = None
    """In random order, one sample per read, evicted from the page cache before; see `is_cold`."""
    random_warm: PositiveFloat | None = None
    """The same reads again, from the page cache."""
    chunks_cold: PositiveFloat | None = None
    """In order, one row of chunks per read."""
    chunks_warm: PositiveFloat | None = None
    in_ram: PositiveFloat | None = None
    """Copies of samples from decoded chunks in RAM."""
    decode_mb_per_s: PositiveFloat | None = None
    """Decoded bytes per second of `chunks_warm`; 1 MB is 10**6 bytes."""
    is_cold: bool | None = None
    """Whether cold reads came from storage; None if the kernel doesn't count it (FUSE)."""


class ArrayAccess(Record):
    """One array of a zarr store. A sample is one index of its first axis."""

    path: str
    """Its path within the store; empty if the store is one array."""
    shape: tuple[NonNegativeInt, ...]
    dtype: str
    zarr_format: Literal[2, 3]
    chunks: tuple[PositiveInt, ...]
    shards: tuple[PositiveInt, ...] | None
    codecs: tuple[str, ...]
    """Filters and compressors, such as "zstd(level=3)"."""
    files: NonNegativeInt
    """Files of an array without missing chunks: one per shard, else one per chunk."""
    stored_bytes: NonNegativeInt
    decoded_bytes: NonNegativeInt
    """Variable-length text counts only by its references."""
    compression_ratio: PositiveFloat | None
    sample_bytes: NonNegativeInt
    chunks_per_sample: NonNegativeInt
    read_bytes_per_sample: NonNegativeFloat
    """Mean size on disk of a sample's chunks and of the indexes of their shards."""
    decoded_bytes_per_sample: NonNegativeInt
    read_amplification: PositiveFloat | None
    """Decoded bytes per byte of a sample; None for arrays without samples."""
    rates: Rates = Rates()
    why_not_measured: str | None = None

    @property
    def name(self) -> str:
        """Its name in reports and messages."""
        return self.path or "the array"


class FilesOfKind(Record):
    """Files with one extension, and how fast a sample of them is decoded."""

    extension: str
    """In lower case, such as ".jpg"; empty for none."""
    share: NonNegativeFloat
    """Of the files."""
    mean_bytes: NonNegativeFloat
    cold_files_per_s: PositiveFloat | None = None
    """Files read and decoded per second by one process; None if nothing here decodes them."""
    warm_files_per_s: PositiveFloat | None = None
    warm_mb_per_s: PositiveFloat | None = None
    """Bytes of files decoded per second from the page cache; 1 MB is 10**6 bytes."""
    decoded_bytes: NonNegativeFloat | None = None
    """Mean size after decoding."""
    problem: str | None = None


class FileSizes(Record):
    """Sizes of a uniform sample of files."""

    smallest: NonNegativeInt
    median: NonNegativeInt
    p95: NonNegativeInt
    largest: NonNegativeInt


class DataAccess(Record):
    """A zarr store, or a folder of files."""

    arrays: tuple[ArrayAccess, ...] = ()
    """Of a zarr store, the largest first."""
    arrays_left_out: NonNegativeInt = 0
    kinds: tuple[FilesOfKind, ...] = ()
    """Of a folder of files, the most frequent first."""
    sizes: FileSizes | None = None


class Layout(Record):
    """How to store an array whose chunks hold whole samples."""

    chunk_samples: PositiveInt
    shard_samples: PositiveInt | None
    """None for one file per chunk."""
    codec: str | None
    """A name of `CODECS` in `tunekit.records.options`; None for the array's present one."""

    @property
    def text(self) -> str:
        """The layout in a line, such as "chunks of 64, shards of 4,096, lz4"."""
        shard = f", shards of {self.shard_samples:,}" if self.shard_samples else ""
        return f"chunks of {self.chunk_samples:,}{shard}, {self.codec or 'present codec'}"


class LayoutTrial(Record):
    """One layout of a slice of the array, measured."""

    layout: Layout | None
    """None for the present layout."""
    rate_samples_per_s: PositiveFloat | None
    """In random order; None if it failed."""
    is_cold: bool | None = None
    size_ratio: PositiveFloat | None = None
    """Bytes on disk as a multiple of the present layout's."""
    read_amplification: PositiveFloat | None = None
    problem: str | None = None


class LayoutSearch(Record):
    """The search for an array's fastest layout, on a slice of its data."""

    array: str
    slice_samples: PositiveInt
    slice_bytes: PositiveInt
    """Decoded."""
    max_size_ratio: PositiveFloat
    trials: tuple[LayoutTrial, ...]
    """The first is the present layout."""
    rounds: tuple[tuple[PositiveFloat, PositiveFloat], ...] = ()
    """Samples/s of the present layout and of the best one."""
    best: LayoutTrial | None = None
    """None if no layout within the size limit was faster than the present one."""
    speedup: Interval | None = None
    """Of the best layout over the present one, with its 95% range."""
    noise: NonNegativeFloat | None = None
    """Spread of the present layout's rounds, as a relative difference."""
    verdict: Verdict = "no gain"

    @property
    def recommended(self) -> Layout | None:
        """The best layout if it is faster beyond noise, else None: keep the present one."""
        return self.best.layout if self.best and self.verdict == "faster" else None


class PlaceKind(StrEnum):
    """Where a data set can be kept."""

    LOCAL_DISK = "local disk"
    RAM = "RAM"
    VRAM = "VRAM"


class Place(Record):
    """Whether to keep the data set in another place."""

    kind: PlaceKind
    verdict: Literal["yes", "no gain", "does not fit", "unknown"]
    needs_bytes: NonNegativeInt | None
    free_bytes: NonNegativeInt | None
    """Space that the data set may use there."""
    speedup: PositiveFloat | None = None
    """Of one loader process's samples/s, from measured rates: an upper bound for training."""
    source_mb_per_s: PositiveFloat | None = None
    """Random reads where the data is now; only for a local disk."""
    place_mb_per_s: PositiveFloat | None = None


class RewritePlan(Record):
    """The source and the layouts of a rewrite."""

    source: str
    source_state: str
    """Digest of the names, sizes and times of its files."""
    layouts: dict[str, Layout]
    """New layouts by the path of their array."""


class Rewrite(Record):
    """A verified copy of a store in another layout."""

    path: str
    layouts: dict[str, Layout]
    """Of the arrays that changed, by path."""
    arrays: NonNegativeInt
    blocks: NonNegativeInt
    resumed_blocks: NonNegativeInt
    """Blocks that an interrupted rewrite had written."""
    stored_bytes: NonNegativeInt
    checksum: str
    """BLAKE2 of the checksums of all decoded blocks."""


class DataReport(Record):
    """What `tunekit data` found."""

    schema_version: Literal[1] = SCHEMA_VERSION
    tunekit_version: str
    created_at: str
    """ISO 8601, UTC."""
    storage: Storage
    access: DataAccess
    search: LayoutSearch | None = None
    why_not_searched: str | None = None
    places: tuple[Place, ...] = ()
    rewrite: Rewrite | None = None
    rewritten: ArrayAccess | None = None
    """The array whose layout the rewrite changed, measured in the new store."""
    findings: tuple[Finding, ...] = ()
