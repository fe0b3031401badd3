"""Checks whether the layout of arrays suits a loader that reads samples in random order."""

from dataclasses import dataclass
from typing import ClassVar

from tunekit.diagnose.machine import DataSet
from tunekit.diagnose.policy import (
    DECODED_CHUNK_BYTES,
    READ_AMPLIFICATION,
    SLOW_DECODE_MB_PER_S,
    SMALL_ARRAY_BYTES,
    SMALL_FILE_BYTES,
    SPREAD_CHUNKS,
)
from tunekit.diagnose.registry import WARNING, Hit, Hits, check, findings_of, worst_first
from tunekit.records.checkup import Storage
from tunekit.records.data_layout import ArrayAccess, DataAccess
from tunekit.records.finding import Finding
from tunekit.units import bytes_text, count_text, rate_text

_REWRITE = "tunekit data STORE --rewrite NEW"


@dataclass(frozen=True)
class StoredArray:
    """One array of a zarr store."""

    called: ClassVar = "the array"
    array: ArrayAccess

    @property
    def name(self) -> str:
        """Its path within the store."""
        return self.array.name


def data_findings(storage: Storage, access: DataAccess, ram_bytes: int) -> tuple[Finding, ...]:
    """Return the findings about a data set and its storage, the worst first.

    Args:
        storage: where it is.
        access: what reading it costs.
        ram_bytes: usable RAM.
    """
    return worst_first(findings_of(*map(StoredArray, access.arrays), DataSet(storage, ram_bytes)))


@check("read-amplification", WARNING, "reading one sample of {} decodes many others")
def _read_amplification(seen: StoredArray) -> Hits:
    array = seen.array
    factor = array.read_amplification or 0.0
    if factor >= READ_AMPLIFICATION and array.decoded_bytes > SMALL_ARRAY_BYTES:
        decoded = bytes_text(array.decoded_bytes_per_sample)
        evidence = f"{decoded} decoded per sample of {bytes_text(array.sample_bytes)}"
        remedy = f"store fewer samples per chunk ({_REWRITE}), or shuffle whole chunks instead of samples"
        yield Hit(evidence, remedy, factor)


@check("slow-codec", WARNING, "the codec of {} decodes slowly")
def _slow_codec(seen: StoredArray) -> Hits:
    array, rate = seen.array, seen.array.rates.decode_mb_per_s
    chunk_bytes = array.decoded_bytes_per_sample / max(1, array.chunks_per_sample)
    is_large = array.decoded_bytes > SMALL_ARRAY_BYTES and chunk_bytes >= DECODED_CHUNK_BYTES
    if rate and rate < SLOW_DECODE_MB_PER_S and array.codecs and is_large:
        evidence = f"{rate_text(rate)} MB/s decoded by {', '.join(array.codecs)}"
        yield Hit(evidence, f"use a faster codec, such as lz4 ({_REWRITE})", rate)


@check("many-small-chunks", WARNING, "a sample of {} is spread over many small chunks")
def _many_small_chunks(seen: StoredArray) -> Hits:
    array, chunks = seen.array, seen.array.chunks_per_sample
    if chunks >= SPREAD_CHUNKS and array.read_bytes_per_sample / chunks < SMALL_FILE_BYTES:
        mean = bytes_text(array.read_bytes_per_sample / chunks)
        evidence = f"{count_text(chunks, 'chunk')} of {mean} on disk per sample"
        yield Hit(evidence, f"let a chunk hold whole samples ({_REWRITE})", chunks)
