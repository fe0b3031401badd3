"""The search for an array's fastest layout: which one to try next, and whether it is faster. Pure."""

import logging
import math
import time
from collections.abc import Callable, Sequence

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import TrialState

from tunekit.recommend.noise import noise_floor, speedup, verdict
from tunekit.records.data_layout import ArrayAccess, Layout, LayoutSearch, LayoutTrial
from tunekit.records.options import CODECS
from tunekit.units import KIB, MIB

MAX_TRIALS = 12
ROUNDS = 8
"""Rounds in which the present layout and the best one are measured again."""
MAX_SLICE_BYTES = 256 * MIB
PRESENT = "present"
"""The array's present codec in the search space."""
MAX_FILES = 10_000
"""Largest number of files of an array, unless it has more already."""
_SMALLEST_CHUNK_BYTES = 16 * KIB
"""Smaller chunks are read no faster: zarr itself takes 0.5 ms per read."""
_LARGEST_CHUNK_BYTES = 16 * MIB
_LARGEST_SHARD_BYTES = 128 * MIB
_MAX_CHUNKS = 2_048
"""Largest number of chunks in a slice; writing more takes seconds."""
_ROWS_OF_FILES = 4
"""Smallest number of rows of the present files in a slice."""
_MAX_ASKED = 50
"""Largest number of proposals, as some repeat earlier ones."""

Measure = Callable[[Layout | None], LayoutTrial]
Again = Callable[[Layout, int], Sequence[tuple[float, float]]]
"""Measures the present layout and another one in a number of rounds."""


def slice_samples(array: ArrayAccess, most_bytes: int) -> int:
    """Return how many samples to search on.

    Args:
        array: the array.
        most_bytes: largest size of the slice, decoded.
    """
    rows = _ROWS_OF_FILES * (array.shards or array.chunks)[0]
    enough = max(rows, _MAX_CHUNKS * _smallest_chunk(array))
    return min(array.shape[0], enough, most_bytes // max(1, array.sample_bytes))


def _smallest_chunk(array: ArrayAccess) -> int:
    """Return the fewest samples of a chunk, a power of two."""
    return 1 << _floor_log2(_SMALLEST_CHUNK_BYTES // max(1, array.sample_bytes))


def search_layouts(
    array: ArrayAccess,
    samples: int,
    max_size_ratio: float,
    measure: Measure,
    again: Again,
    deadline_s: float,
    clock: Callable[[], float] = time.monotonic,
) -> LayoutSearch:
    """Search an array's fastest layout within a size limit, and confirm it in rounds with the present one.

    Chunks and shards hold a power of two of samples. A chunk has 16 KiB to 16 MiB, or is as long as at
    present. Layouts with too many files get longer shards.

    Args:
        array: the array.
        samples: length of the slice that `measure` uses.
        max_size_ratio: largest size on disk, as a multiple of the present layout's.
        measure: measures a layout; None is the present one.
        again: measures the present layout and another one in rounds.
        deadline_s: when to start the rounds, in seconds of the clock.
        clock: returns seconds from a monotonic clock.
    """
    study, distributions = _study(array, samples)
    trials, tried, longest_s = [measure(None)], dict[Layout, float | None](), 0.0
    for _ in range(_MAX_ASKED):
        if len(trials) > MAX_TRIALS or (len(trials) >= 3 and clock() + longest_s >= deadline_s):
            break
        asked = study.ask(distributions)
        layout = _layout(array, **asked.params)
        if layout not in tried:
            start_s = clock()
            trials.append(measure(layout))
            tried[layout] = _value(trials[-1], max_size_ratio)
            longest_s = max(longest_s, clock() - start_s)
        study.tell(asked, tried[layout], state=TrialState.FAIL if tried[layout] is None else None)
    best = max(
        (one for one in trials if one.rate_samples_per_s and (one.size_ratio or 1.0) <= max_size_ratio),
        key=lambda one: one.rate_samples_per_s or 0.0,
        default=trials[0],
    )
    search = LayoutSearch(
        array=array.path,
        slice_samples=samples,
        slice_bytes=samples * array.sample_bytes,
        max_size_ratio=max_size_ratio,
        trials=tuple(trials),
    )
    if best.layout is None or len(rounds := tuple(again(best.layout, ROUNDS))) < 2:
        return search
    noise = noise_floor([present for present, _ in rounds])
    gain = speedup([new for _, new in rounds], [present for present, _ in rounds])
    assert noise is not None
    assert gain is not None  # there are several rounds
    proof = {"speedup": gain, "noise": noise.relative, "verdict": verdict(gain, noise)}
    return search.changed(rounds=rounds, best=best, **proof)


def _study(array: ArrayAccess, samples: int) -> tuple[optuna.Study, dict[str, BaseDistribution]]:
    """Return a study that starts with layouts that are often fastest, and its space in powers of two."""
    logging.getLogger("optuna").setLevel(logging.ERROR)
    least, size = _floor_log2(_smallest_chunk(array)), max(1, array.sample_bytes)
    most = max(least, _floor_log2(max(array.chunks[0], min(samples, _LARGEST_CHUNK_BYTES // size))))
    codecs = [*CODECS, *([] if array.zarr_format == 2 else [PRESENT])]
    sampler = optuna.samplers.TPESampler(seed=0, n_startup_trials=MAX_TRIALS // 2)
    study = optuna.create_study(sampler=sampler, direction="maximize")
    for more, per_shard, codec in (
        (1, 0, "lz4"),
        (0, 0, codecs[-1]),
        (2, 6, "zstd-1"),
        (0, 8, "none"),
        (5, 4, "lz4-shuffle"),
    ):
        study.enqueue_trial({"chunk": min(least + more, most), "per_shard": per_shard, "codec": codec})
    return study, {
        "chunk": IntDistribution(least, most),
        "per_shard": IntDistribution(0, 10),
        "codec": CategoricalDistribution(codecs),
    }


def _layout(array: ArrayAccess, chunk: int, per_shard: int, codec: str) -> Layout:
    """Return a layout whose shards are not too large, and whose files are not too many."""
    largest = max(chunk, _floor_log2(_LARGEST_SHARD_BYTES // max(1, array.sample_bytes)))
    fewest = _floor_log2(math.ceil(array.shape[0] / max(MAX_FILES, array.files)) * 2 - 1)
    shard = max(min(chunk + per_shard, largest), fewest)
    return Layout(
        chunk_samples=1 << chunk,
        shard_samples=None if shard <= chunk else 1 << shard,
        codec=None if codec == PRESENT else codec,
    )


def _value(seen: LayoutTrial, max_size_ratio: float) -> float | None:
    """Return the objective: the log of the rate, with a penalty for exceeding the size limit."""
    if seen.rate_samples_per_s is None:
        return None
    return math.log(seen.rate_samples_per_s) - 2 * max(0.0, (seen.size_ratio or 1.0) / max_size_ratio - 1)


def _floor_log2(number: int) -> int:
    """Return the exponent of the largest power of two up to a number; 0 for numbers below 1."""
    return max(1, number).bit_length() - 1
