"""Images for images.py: smooth colour fields striped by class, kept on disk as compressed zarr chunks.

Every pixel comes from integer arithmetic on seeded PCG64 words, so the arrays are the same on every machine.
"""

import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import numpy as np
import torch
import zarr
from torch.nn import functional
from torch.utils.data import Dataset
from zarr.codecs import ZstdCodec

CLASSES = 20
CHUNK_IMAGES = 16
SEED = 20_240_229
PROGRESS_EVERY_S = 2.0
ABANDONED_AFTER_S = 24 * 3600

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
LUMA = torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)


class ZarrImages(Dataset):
    """Images and labels of one folder, as `(float32 3 x size x size, label)`; augmented if `augmented`."""

    def __init__(self, folder: Path, indices: range, image_size: int, augmented: bool) -> None:
        self.folder, self.indices, self.image_size, self.augmented = folder, indices, image_size, augmented
        self.group = None

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, item: int) -> tuple[torch.Tensor, int]:
        if self.group is None:  # opened where it is read: in each worker, not before the fork
            self.group = zarr.open_group(self.folder, mode="r")
            self.images, self.labels = self.group["images"], self.group["labels"][:]
        index = self.indices[item]
        image = torch.from_numpy(self.images[index]).permute(2, 0, 1)
        image = augment(image, self.image_size) if self.augmented else centre_crop(image, self.image_size)
        return image, int(self.labels[index])


def augment(image: torch.Tensor, size: int) -> torch.Tensor:
    """Return a random crop of a uint8 image (3, H, W), resized, perhaps flipped, jittered and normalised."""
    side = image.shape[-1]
    aspect = float(torch.empty(1).uniform_(3 / 4, 4 / 3)) ** 0.5
    edge = side * float(torch.empty(1).uniform_(0.2, 1.0)) ** 0.5
    height, width = min(side, round(edge / aspect)), min(side, round(edge * aspect))
    top = int(torch.randint(side - height + 1, ()))
    left = int(torch.randint(side - width + 1, ()))
    crop = image[None, :, top : top + height, left : left + width].float() / 255
    crop = functional.interpolate(crop, (size, size), mode="bilinear", antialias=True, align_corners=False)[0]
    if torch.rand(()) < 0.5:
        crop = crop.flip(-1)
    return (jitter(crop) - MEAN) / STD


def jitter(image: torch.Tensor, strength: float = 0.4) -> torch.Tensor:
    """Return the image with random brightness, contrast and saturation; in and out are floats in 0..1."""
    brightness, contrast, saturation = (1 + strength * (2 * torch.rand(3) - 1)).tolist()
    image = (image * brightness).clamp_(0, 1)
    image = torch.lerp((image * LUMA).sum(0).mean(), image, contrast).clamp_(0, 1)
    return torch.lerp((image * LUMA).sum(0, keepdim=True), image, saturation).clamp_(0, 1)


def centre_crop(image: torch.Tensor, size: int) -> torch.Tensor:
    """Return the middle of a uint8 image (3, H, W), normalised."""
    margin = (image.shape[-1] - size) // 2
    crop = image[:, margin : margin + size, margin : margin + size].float() / 255
    return (crop - MEAN) / STD


def _cache_folder() -> Path:
    """Return the user's; a relative one is to be ignored by the XDG specification."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return named if named.is_absolute() else Path.home() / ".cache"


def image_folder(root: Path | None, image_size: int, count: int) -> Path:
    """Return the folder with `count` images for crops of `image_size`, making it on first use.

    It is made under a temporary name and renamed, so it is whole whenever it exists; of two processes that
    make it at once, the second drops its own and uses the first's.
    """
    root = root or _cache_folder() / "tunekit" / "images"
    size = stored_size(image_size)
    folder = root / f"{size}-{count}-v1"
    if folder.is_dir():
        return folder
    root.mkdir(parents=True, exist_ok=True)
    for abandoned in root.glob(f".{folder.name}.*"):
        if time.time() - abandoned.stat().st_mtime > ABANDONED_AFTER_S:
            shutil.rmtree(abandoned, ignore_errors=True)
    making = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=root))
    try:
        write_images(making, size, count)
        making.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return folder


def stored_size(image_size: int) -> int:
    """Return the side of the stored images in pixels, a little over the crop: 224 -> 256, 64 -> 72."""
    return max(image_size, image_size * 8 // 7 // 8 * 8)


def write_images(folder: Path, size: int, count: int) -> None:
    """Write the zarr arrays `images` (uint8, count x size x size x 3) and `labels` (int64, count)."""
    group = zarr.open_group(folder, mode="a")
    images = group.create_array(
        "images",
        shape=(count, size, size, 3),
        chunks=(CHUNK_IMAGES, size, size, 3),
        dtype="uint8",
        compressors=ZstdCodec(level=3),
    )
    labels = random_bytes(count, 0).astype(np.int64) % CLASSES
    group.create_array("labels", data=labels)
    painter = Painter(size)

    def write_chunk(start: int) -> int:
        stop = min(start + CHUNK_IMAGES, count)
        images[start:stop] = np.stack([painter.paint(index, labels[index]) for index in range(start, stop)])
        return stop - start

    written, next_line = 0, time.monotonic() + PROGRESS_EVERY_S
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        chunks = [pool.submit(write_chunk, start) for start in range(0, count, CHUNK_IMAGES)]
        for chunk in as_completed(chunks):
            written += chunk.result()
            if time.monotonic() > next_line:
                print(f"making images, once: {written:,} of {count:,}", file=sys.stderr, flush=True)
                next_line = time.monotonic() + PROGRESS_EVERY_S


class Painter:
    """Paints images of one size: a bilinear colour field, the stripes of a class and a little grain."""

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
        stripe = slope * 4 // (self.size * (width % 3 + 1)) % 2
        return stripe[..., None].astype(np.int16) * tint

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
    """Return `count` uint8s for a key, from raw PCG64 words: numpy may change distributions, not those."""
    words = np.random.PCG64([SEED, *key]).random_raw((count + 7) // 8)
    return words.astype("<u8").view(np.uint8)[:count]
