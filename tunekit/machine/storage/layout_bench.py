"""Stores a slice of an array in other layouts in a temporary folder, and measures each in a child process."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from tunekit.errors import TunekitError
from tunekit.machine.storage.array_access import arrays_of, facts_of, opened, random_rates
from tunekit.machine.storage.data_probe import answer_of
from tunekit.machine.storage.layouts import create_like
from tunekit.records.data_layout import ArrayAccess, Layout, LayoutTrial

_PREFIX = ".tunekit-data-"
_FREE_SHARE = 0.05
"""Share of the free space that a slice may take; every layout of it is kept until the end."""
_LIMIT_S = 300.0
"""Longest time to store a slice in one layout and to read it."""
_COUNT_S = 30.0
"""Longest time to count the files of one layout."""


@contextmanager
def work_folder(near: Path) -> Iterator[Path]:
    """Make a temporary folder beside a path, or in the system's if that is read-only; remove it at the end.

    Folders that killed processes left there are removed first.
    """
    parent = near.resolve().parent
    place = parent if os.access(parent, os.W_OK) else Path(tempfile.gettempdir())
    for left in place.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError), _locked(left):
            shutil.rmtree(left, ignore_errors=True)
    made = tempfile.TemporaryDirectory(prefix=_PREFIX, dir=place, ignore_cleanup_errors=True)
    with made as folder, _locked(Path(folder)):
        yield Path(folder)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder while this process uses it; raise OSError if another process does."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def slice_limit(folder: Path) -> int:
    """Return the largest size in bytes of a slice in a folder."""
    return int(shutil.disk_usage(folder).free * _FREE_SHARE)


@dataclass
class LayoutBench:
    """Measures layouts of a contiguous slice from the middle of an array.

    The slice is copied when the bench is built.
    """

    source: Path
    """The store; it is only read."""
    array: ArrayAccess
    samples: int
    """Length of the slice."""
    folder: Path
    """An empty folder, for the slice and its layouts."""
    window_s: float
    """Seconds of timed reads of each layout."""
    say: Callable[[str], None]
    """Called with a line of progress."""

    def __post_init__(self) -> None:
        self.say(f"copying {self.samples:,} samples of {self.array.name}")
        self._copied = os.fspath(self.folder / "slice.npy")
        self._stores: dict[Layout | None, str] = {}
        self._present_bytes = 0
        per_file = (self.array.shards or self.array.chunks)[0]
        start = (self.array.shape[0] - self.samples) // 2 // per_file * per_file
        stop = start + self.samples
        answer_of(cut, self.source, _LIMIT_S, array=self.array.path, start=start, stop=stop, to=self._copied)

    def measure(self, layout: Layout | None) -> LayoutTrial:
        """Store the slice in a layout and measure it; None is the present layout, which comes first.

        Raises:
            TunekitError: the present layout can't be measured.
        """
        self.say(f"layout {len(self._stores) + 1}: {layout.text if layout else 'present'}")
        store = self._stores[layout] = os.fspath(self.folder / f"{len(self._stores)}.zarr")
        try:
            answer = answer_of(
                try_layout,
                self.source,
                _LIMIT_S,
                array=self.array.path,
                samples=self._copied,
                to=store,
                layout=layout and layout.model_dump(mode="json"),
                window_s=self.window_s,
            )
        except TunekitError as error:
            if layout is None:
                raise
            return LayoutTrial(layout=layout, rate_samples_per_s=None, problem=str(error))
        seen = ArrayAccess.model_validate(answer)
        self._present_bytes = self._present_bytes or seen.stored_bytes
        return LayoutTrial(
            layout=layout,
            rate_samples_per_s=seen.rates.random_cold,
            is_cold=seen.rates.is_cold,
            size_ratio=seen.stored_bytes / self._present_bytes if self._present_bytes else None,
            read_amplification=seen.read_amplification,
        )

    def again(self, layout: Layout, count: int) -> tuple[tuple[float, float], ...]:
        """Return samples/s of the present layout and of a measured one, in rounds."""
        self.say(f"{layout.text} and the present layout, in {count} rounds")
        stores = [self._stores[None], self._stores[layout]]
        found = answer_of(rounds, self.folder, _LIMIT_S, stores=stores, count=count, window_s=self.window_s)
        return tuple((present, new) for present, new in found if present and new)


# --- in the child process --------------------------------------------------------------------


def cut(source: Path, array: str, start: int, stop: int, to: str) -> None:
    """Copy samples of an array to an .npy file."""
    np.save(to, np.asarray(arrays_of(opened(source))[array][start:stop]))


def try_layout(
    source: Path, array: str, samples: str, to: str, layout: dict[str, Any] | None, window_s: float
) -> ArrayAccess:
    """Store a slice in a layout, and return what reading it at random costs.

    Args:
        source: the user's store, whose metadata is copied.
        array: the array's path within it.
        samples: the .npy file with the slice.
        to: the new store.
        layout: the layout's JSON; None for the present one.
        window_s: seconds for timed reads.
    """
    like, data, store = arrays_of(opened(source))[array], np.load(samples, mmap_mode="r"), Path(to)
    chosen = None if layout is None else Layout.model_validate(layout)
    zarr_format = like.metadata.zarr_format if chosen is None else 3
    new = create_like(like, store, "", chosen, zarr_format, len(data))
    new[...] = data
    os.sync()  # the page cache drops only pages that are on disk
    facts = facts_of(new, store, "", monotonic() + _COUNT_S)
    return facts.changed(rates=random_rates(new, facts, store, window_s, seed=0))


def rounds(folder: Path, stores: list[str], count: int, window_s: float) -> list[list[float | None]]:
    """Return samples/s in random order of the stores in a folder, one array each, measured in turns."""
    arrays = [(arrays_of(opened(folder / store))[""], folder / store) for store in stores]
    known = [(one, facts_of(one, store, "", monotonic() + _COUNT_S), store) for one, store in arrays]
    return [
        [random_rates(*each, window_s, seed=number + 1).random_cold for each in known]
        for number in range(count)
    ]
