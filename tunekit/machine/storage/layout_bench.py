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
from typing import Any

from tunekit.errors import TunekitError
from tunekit.machine.storage.data_probe import answer_of
from tunekit.records.data_layout import ArrayAccess, Layout, LayoutTrial, Rates

_PREFIX = ".tunekit-data-"
_FREE_SHARE = 0.05
"""Share of the free space that a slice may take; a few layouts of it are kept at a time."""
_LIMIT_S = 300.0


@contextmanager
def work_folder(near: Path) -> Iterator[Path]:
    """Make a temporary folder on the disk of a path, or else in the system's, and remove it at the end.

    Folders that killed processes left there are removed first.
    """
    parent = near.resolve().parent
    place = parent if os.access(parent, os.W_OK) else Path(tempfile.gettempdir())
    for left in place.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError), _locked(left):
            shutil.rmtree(left, ignore_errors=True)  # its process was killed
    made = tempfile.TemporaryDirectory(prefix=_PREFIX, dir=place, ignore_cleanup_errors=True)
    with made as folder, _locked(Path(folder)):
        yield Path(folder)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder for as long as this process uses it; OSError if another process does."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def slice_limit(folder: Path) -> int:
    """Return the most bytes that a slice may take in a folder."""
    return int(shutil.disk_usage(folder).free * _FREE_SHARE)


@dataclass
class LayoutBench:
    """Measures layouts of a contiguous slice from the middle of an array.

    The slice is copied when it is built.
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
    """Called with what it does."""

    def __post_init__(self) -> None:
        self.say(f"copying {self.samples:,} samples of {self.array.name}")
        known = {"path": os.fspath(self.source), "array": self.array.path}
        self._question = known | {"samples": str(self.folder / "slice.npy")}
        self._stores: dict[Layout | None, Path] = {}
        self._present_bytes = 0
        per_file = (self.array.shards or self.array.chunks)[0]
        start = (self.array.shape[0] - self.samples) // 2 // per_file * per_file
        place = {"start": start, "stop": start + self.samples, "to": self._question["samples"]}
        answer_of("cut", _LIMIT_S, **known, **place)

    def measure(self, layout: Layout | None) -> LayoutTrial:
        """Store the slice in a layout and measure it; None is the present layout, which comes first.

        Raises:
            TunekitError: the present layout can't be measured.
        """
        self.say(f"layout {len(self._stores) + 1}: {layout.text if layout else 'present'}")
        store = self._stores[layout] = self.folder / f"{len(self._stores)}.zarr"
        known = None if layout is None else layout.model_dump(mode="json")
        try:
            seen: dict[str, Any] = answer_of(
                "try", _LIMIT_S, **self._question, to=str(store), layout=known, window_s=self.window_s
            )
        except TunekitError as error:
            if layout is None:
                raise
            return LayoutTrial(layout=layout, rate_samples_per_s=None, problem=str(error))
        rates = Rates.model_validate(seen["rates"])
        self._present_bytes = self._present_bytes or seen["stored_bytes"]
        return LayoutTrial(
            layout=layout,
            rate_samples_per_s=rates.random_cold,
            is_cold=rates.is_cold,
            size_ratio=seen["stored_bytes"] / self._present_bytes if self._present_bytes else None,
            read_amplification=seen["read_amplification"],
        )

    def again(self, layout: Layout, count: int) -> tuple[tuple[float, float], ...]:
        """Return samples/s of the present layout and of a measured one, in rounds."""
        self.say(f"{layout.text} and the present layout, in {count} rounds")
        stores = [str(self._stores[None]), str(self._stores[layout])]
        found = answer_of("rounds", _LIMIT_S, stores=stores, count=count, window_s=self.window_s)
        pairs = [[Rates.model_validate(one).random_cold or 0.0 for one in pair] for pair in found]
        return tuple((present, new) for present, new in pairs if present and new)
