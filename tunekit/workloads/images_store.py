"""Images for images.py: smooth colour fields striped by class, kept on disk as compressed zarr chunks.

Every pixel comes from integer arithmetic on seeded PCG64 words, so the arrays are the same on every machine.
"""

import numpy as np
import zarr
from zarr.codecs import ZstdCodec

CLASSES = 20
SEED = 20_240_229


class Contents:
    """`count` images for crops of `image_size` pixels, and their labels."""

    workload, part_rows = "images", 16
    options = {
        "samples": "images in all; a tenth of them validate",
        "image_size": "pixels a side after cropping",
    }
    sizes = {"cuda": {"samples": 12_800, "image_size": 224}, "cpu": {"samples": 2_000, "image_size": 64}}

    def __init__(self, samples: int, image_size: int) -> None:
        self.rows, self.samples, self.size = samples, samples, stored_size(image_size)
        self.name = f"{self.size}-{samples}-v1"
        self.row_bytes = 3 * self.size**2
        self.labels = random_bytes(samples, 0).astype(np.int64) % CLASSES
        self.painter = Painter(self.size)

    def create(self, group: zarr.Group) -> None:
        """Create the arrays `images` (uint8, rows x size x size x 3) and `labels` (int64, rows)."""
        group.create_array(
            "images",
            shape=(self.rows, self.size, self.size, 3),
            chunks=(self.part_rows, self.size, self.size, 3),
            dtype="uint8",
            compressors=ZstdCodec(level=3),
        )
        group.create_array("labels", data=self.labels)

    def write(self, group: zarr.Group, start: int, stop: int) -> None:
        """Paint images."""
        images = [self.painter.paint(index, self.labels[index]) for index in range(start, stop)]
        group["images"][start:stop] = np.stack(images)


def stored_size(image_size: int) -> int:
    """Return the size of the stored images in pixels, a little larger than the crop: 224 -> 256, 64 -> 72."""
    return max(image_size, image_size * 8 // 7 // 8 * 8)


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
