"""Measures layouts of a slice of an array, each in a separate child process."""

import os
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from tunekit.machine.storage.array_access import ZarrArray, arrays_of, facts_of, opened, random_rates
from tunekit.machine.storage.layouts import create_like
from tunekit.records.data_layout import Layout

_COUNT_S = 30.0


def cut(path: str, array: str, start: int, stop: int, to: str) -> None:
    """Copy samples of an array to an .npy file."""
    np.save(to, np.asarray(arrays_of(opened(Path(path)))[array][start:stop]))


def try_layout(
    path: str, array: str, samples: str, to: str, layout: dict[str, Any] | None, window_s: float
) -> dict[str, Any]:
    """Store a slice in a layout, and return its size, its read amplification and its random rates.

    Args:
        path: the user's store, whose metadata is copied.
        array: the array's path within it.
        samples: the .npy file with the slice.
        to: the new store.
        layout: the layout's JSON; None for the present one.
        window_s: seconds for timed reads.
    """
    like, data = arrays_of(opened(Path(path)))[array], np.load(samples, mmap_mode="r")
    chosen = None if layout is None else Layout.model_validate(layout)
    zarr_format = like.metadata.zarr_format if chosen is None else 3
    new = create_like(like, Path(to), "", chosen, zarr_format, len(data))
    new[...] = data
    os.sync()  # the page cache drops only pages that are on disk
    facts = facts_of(new, Path(to), "", monotonic() + _COUNT_S)
    rates = random_rates(new, facts, Path(to), window_s, seed=0)
    return {
        "stored_bytes": facts.stored_bytes,
        "read_amplification": facts.read_amplification,
        "rates": rates.model_dump(mode="json"),
    }


def rounds(stores: list[str], count: int, window_s: float) -> list[list[dict[str, Any]]]:
    """Return the random rates of stores that are one array each, measured in turns."""
    arrays: list[ZarrArray] = [arrays_of(opened(Path(store)))[""] for store in stores]
    facts = [
        facts_of(array, Path(store), "", monotonic() + _COUNT_S)
        for array, store in zip(arrays, stores, strict=True)
    ]
    return [
        [
            random_rates(array, one, Path(store), window_s, seed=number + 1).model_dump(mode="json")
            for array, one, store in zip(arrays, facts, stores, strict=True)
        ]
        for number in range(count)
    ]
