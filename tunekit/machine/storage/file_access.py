"""Measures how fast the files of a folder are decoded, by their extension."""

import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import PurePath
from typing import Any

import numpy as np

from tunekit.machine.storage.data_files import DataFile
from tunekit.machine.storage.read_probe import evict
from tunekit.records.data_layout import FileSizes, FilesOfKind

_MAX_KINDS = 6
_MAX_ROUND = 24
"""Files that are decoded cold before they are decoded again."""

Decoder = Callable[[str], int]
"""Decodes a file and returns the size of its content in bytes."""


def _image(path: str) -> int:
    from PIL import Image  # noqa: PLC0415 - optional

    with Image.open(path) as image:
        return len(image.convert("RGB").tobytes())


def _npy(path: str) -> int:
    return int(np.load(path, allow_pickle=False).nbytes)


def _npz(path: str) -> int:
    with np.load(path, allow_pickle=False) as arrays:
        return sum(int(arrays[name].nbytes) for name in arrays)


def _torch(path: str) -> int:
    """Load tensors without running pickled code; torch is imported here, in the child process."""
    return _tensor_bytes(import_module("torch").load(path, map_location="cpu", weights_only=True))


def _tensor_bytes(loaded: Any) -> int:
    if isinstance(loaded, dict | list | tuple):
        return sum(map(_tensor_bytes, loaded.values() if isinstance(loaded, dict) else loaded))
    return int(getattr(loaded, "nbytes", 0))


_IMAGES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif")
_DECODERS: dict[str, Decoder] = {".npy": _npy, ".npz": _npz, ".pt": _torch, ".pth": _torch}
_DECODERS |= dict.fromkeys(_IMAGES, _image)


def sizes_of(sample: Sequence[DataFile]) -> FileSizes | None:
    """Return the distribution of file sizes; None without files."""
    sizes = sorted(file.size_bytes for file in sample)
    if not sizes:
        return None
    return FileSizes(
        smallest=sizes[0],
        median=sizes[len(sizes) // 2],
        p95=sizes[len(sizes) * 95 // 100],
        largest=sizes[-1],
    )


def kinds_of(sample: Sequence[DataFile], window_s: float) -> tuple[FilesOfKind, ...]:
    """Return the most frequent kinds of files, and how fast those with a known decoder are decoded.

    Args:
        sample: a uniform sample of files.
        window_s: seconds for all of them.
    """
    by_kind: dict[str, list[DataFile]] = defaultdict(list)
    for file in random.Random(0).sample(sample, len(sample)):
        by_kind[PurePath(os.fsdecode(file.path)).suffix.lower()].append(file)
    kinds = Counter({kind: len(files) for kind, files in by_kind.items()}).most_common(_MAX_KINDS)
    decoded = sum(kind in _DECODERS for kind, _ in kinds)
    return tuple(_kind(kind, by_kind[kind], len(sample), window_s / max(1, decoded)) for kind, _ in kinds)


def _kind(extension: str, files: Sequence[DataFile], total: int, window_s: float) -> FilesOfKind:
    seen = FilesOfKind(
        extension=extension,
        share=len(files) / total,
        mean_bytes=sum(file.size_bytes for file in files) / len(files),
    )
    decode = _DECODERS.get(extension)
    if decode is None:
        return seen
    try:
        _decoded(decode, files[0])  # imports the library, which is not timed
        return seen.changed(**_decoding(decode, files, window_s))
    except ValueError as error:
        return seen.changed(problem=str(error))


def _decoded(decode: Decoder, file: DataFile) -> int:
    """Decode a file; raise ValueError with its name and the first line of the decoder's error."""
    path = os.fsdecode(file.path)
    try:
        return decode(path)
    except Exception as error:
        why = str(error).partition("\n")[0] or type(error).__name__
        raise ValueError(f"{path}: {why}") from error


def _decoding(decode: Decoder, files: Sequence[DataFile], window_s: float) -> dict[str, float]:
    spent_s, count, size, stored = [0.0, 0.0], 0, 0, 0
    end_s = time.monotonic() + window_s
    while not count or time.monotonic() < end_s:
        chosen = [files[place % len(files)] for place in range(count, count + min(len(files), _MAX_ROUND))]
        for file in chosen:
            evict(file.path)
        for is_warm in (False, True):
            for file in chosen:
                start_s = time.perf_counter()
                decoded = _decoded(decode, file)
                spent_s[is_warm] += time.perf_counter() - start_s
                size += decoded * is_warm
        count += len(chosen)
        stored += sum(file.size_bytes for file in chosen)
    return {
        "cold_files_per_s": count / spent_s[0],
        "warm_files_per_s": count / spent_s[1],
        "warm_mb_per_s": stored / spent_s[1] / 1e6,
        "decoded_bytes": size / count,
    }
