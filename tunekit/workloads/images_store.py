"""Images for images.py: smooth colour fields striped by class, kept on disk as compressed zarr chunks.

Every pixel comes from integer arithmetic on seeded PCG64 words, so the arrays are the same on every machine.
"""

import fcntl
import os
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import numpy as np
import zarr
from zarr.codecs import ZstdCodec

USUAL = {"cuda": (224, 12_800), "cpu": (64, 2_000)}
"""Image size in pixels after cropping, and number of images, by the type of device."""
CLASSES = 20
CHUNK_IMAGES = 16
SEED = 20_240_229
PROGRESS_EVERY_S = 2.0
WRITTEN_CHUNKS = "written"
"""File that lists the first image of each complete chunk, while the images are made."""


def print_progress(written: int, count: int) -> None:
    """Print how many images are written."""
    print(f"making images, once: {written:,} of {count:,}", file=sys.stderr, flush=True)


def image_folder(
    root: Path | None, image_size: int, count: int, on_progress: Callable[[int, int], object] = print_progress
) -> Path:
    """Return the folder with `count` images for crops of `image_size`, making it on first use.

    It is made under another name and then renamed, so it is complete whenever it exists. If a process is
    killed while making it, the next one continues; if two start at once, the second waits for the first. A
    small lock file stays next to it.

    Args:
        root: where to keep the folder; None for the user's cache.
        image_size: width and height in pixels after cropping.
        count: number of images.
        on_progress: called every two seconds with the number of written images and `count`.

    Raises:
        OSError: the folder can't be written.
    """
    root = root or _cache_folder() / "tunekit" / "images"
    size = stored_size(image_size)
    folder = root / f"{size}-{count}-v1"
    if folder.is_dir():
        return folder
    root.mkdir(parents=True, exist_ok=True)
    with (root / f".{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            making = root / f".{folder.name}"
            try:
                write_images(making, size, count, on_progress)
                (making / WRITTEN_CHUNKS).unlink()
                making.rename(folder)
            except OSError:  # such as a full disk, where the space is needed again
                shutil.rmtree(making, ignore_errors=True)
                raise
    return folder


def _cache_folder() -> Path:
    """Return the user's cache folder; the XDG specification says to ignore a relative path."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return named if named.is_absolute() else Path.home() / ".cache"


def stored_size(image_size: int) -> int:
    """Return the size of the stored images in pixels, a little larger than the crop: 224 -> 256, 64 -> 72."""
    return max(image_size, image_size * 8 // 7 // 8 * 8)


def write_images(folder: Path, size: int, count: int, on_progress: Callable[[int, int], object]) -> None:
    """Write the zarr arrays `images` (uint8, count x size x size x 3) and `labels` (int64, count).

    Chunks that an earlier call has written are kept.
    """
    labels = random_bytes(count, 0).astype(np.int64) % CLASSES
    done_file = folder / WRITTEN_CHUNKS
    if not done_file.exists():
        shutil.rmtree(folder, ignore_errors=True)
        make_arrays(folder, size, labels)
        done_file.touch()
    lines = [line for line in done_file.read_text().splitlines(keepends=True) if line.endswith("\n")]
    done_file.write_text("".join(lines))  # drops an incomplete last line
    done = {int(line) for line in lines}
    images, painter = zarr.open_array(folder / "images", mode="r+"), Painter(size)

    def write_chunk(start: int) -> int:
        stop = min(start + CHUNK_IMAGES, count)
        images[start:stop] = np.stack([painter.paint(index, labels[index]) for index in range(start, stop)])
        return start

    starts = range(0, count, CHUNK_IMAGES)
    written = min(count, len(done) * CHUNK_IMAGES)
    next_at = time.monotonic() + PROGRESS_EVERY_S
    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
    try:
        with done_file.open("a") as list_of_done:
            chunks = [pool.submit(write_chunk, start) for start in starts if start not in done]
            for chunk in as_completed(chunks):
                print(chunk.result(), file=list_of_done, flush=True)
                written = min(count, written + CHUNK_IMAGES)
                if time.monotonic() > next_at:
                    on_progress(written, count)
                    next_at = time.monotonic() + PROGRESS_EVERY_S
    finally:
        pool.shutdown(cancel_futures=True)


def make_arrays(folder: Path, size: int, labels: np.ndarray) -> None:
    """Create the group with its labels and an empty array of images."""
    group = zarr.open_group(folder, mode="w")
    group.create_array(
        "images",
        shape=(len(labels), size, size, 3),
        chunks=(CHUNK_IMAGES, size, size, 3),
        dtype="uint8",
        compressors=ZstdCodec(level=3),
    )
    group.create_array("labels", data=labels)


class Painter:
    """Paints images of one size: a bilinear colour field, the class's stripes and a little grain."""

    cells = 4  # the colour field is bilinear over a grid of 4 x 4 cells
    level = 8  # colours are multiples of this, which leaves flat patches for the compressor to find
    grain = 24  # of 256 pixels, this many are one level brighter

    def __init__(self, size: int) -> None:
        self.size = size
        at = np.arange(size) * self.cells * 64 // size
        self.weights = np.zeros((size, self.cells + 1), np.float32)
        self.weights[np.arange(size), at // 64] = 64 - at % 64
        self.weights[np.arange(size), at // 64 + 1] = at % 64
        self.stripes = [self._stripes(label) for label in range(CLASSES)]

    def _stripes(self, label: int) -> np.ndarray:
        """Return the stripes of a class, int16, larger than an image so that each can start elsewhere."""
        across, down, width, *colour = random_bytes(6, 1, label).tolist()
        tint = np.array([channel % 96 - 32 for channel in colour], np.int16)
        y, x = np.mgrid[0 : self.size * 3 // 2, 0 : self.size * 3 // 2]
        slope = (across % 7 - 3) * x + (down % 5 + 1) * y
        stripe: np.ndarray = slope * 4 // (self.size * (width % 3 + 1)) % 2
        return np.multiply(stripe[..., None].astype(np.int16), tint)

    def paint(self, index: int, label: int) -> np.ndarray:
        """Return one image, uint8 (size, size, 3)."""
        corners, size = 3 * (self.cells + 1) ** 2, self.size
        random = random_bytes(corners + 2 + size * size, 2, index)
        grid = random[:corners].reshape(3, self.cells + 1, self.cells + 1).astype(np.float32)
        # 8-bit colours times two 6-bit weights stay below 2**24: the float32 products are exact in any order.
        field = (self.weights @ grid @ self.weights.T).astype(np.int32) >> 12
        top, left = (random[corners : corners + 2].astype(int) * (size // 2) // 256).tolist()
        image = field.astype(np.int16).transpose(1, 2, 0) * 3 // 4
        image += self.stripes[label][top : top + size, left : left + size]
        image = image // self.level * self.level
        image += (random[corners + 2 :].reshape(size, size, 1) < self.grain) * np.int16(self.level)
        return np.clip(image, 0, 255).astype(np.uint8)


def random_bytes(count: int, *key: int) -> np.ndarray:
    """Return `count` uint8s for a key, from raw PCG64 words, which new versions of numpy don't change."""
    return np.random.PCG64([SEED, *key]).random_raw((count + 7) // 8).astype("<u8").view(np.uint8)[:count]
