"""Makes data in the form that public training scripts read: `python synthetic_data.py KIND FOLDER`.

Each kind has the sizes of the real data set or a small part of it, and the same bytes at each call. It needs
numpy, Pillow and h5py.
"""

import gzip
import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
from PIL import Image

RNG = np.random.default_rng(0)
KINDS: dict[str, Callable[[Path], None]] = {}


def kind(make: Callable[[Path], None]) -> Callable[[Path], None]:
    """Register a function that fills a folder."""
    return KINDS.setdefault(make.__name__, make)


def _picture(height: int, width: int, label: int = 0) -> np.ndarray:
    """Return uint8 pixels (height, width, 3): waves that tell the label, and noise."""
    y, x = np.mgrid[0:height, 0:width] / 40
    waves = np.stack([np.sin(y * (1 + label % 3) + x + channel) for channel in range(3)], axis=-1)
    return (128 + 80 * waves + RNG.integers(-20, 20, waves.shape, np.int8)).clip(0, 255).astype(np.uint8)


def _save_pictures(folder: Path, count: int, size: tuple[int, int], label: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        Image.fromarray(_picture(*size, label)).save(folder / f"{number:04}.jpg", quality=90)


def _letters(count: int) -> bytes:
    """Return text of words of different lengths, the frequent ones often, in lines and sentences."""
    words = ["".join(RNG.choice(list("etaoinshrdlu"), RNG.integers(1, 10))) for _ in range(5000)]
    drawn = RNG.zipf(1.3, count // 3) % len(words)
    ends = RNG.choice([" ", " ", " ", " ", " ", ", ", ".\n"], len(drawn))
    return "".join(words[word] + end for word, end in zip(drawn, ends, strict=True)).encode()[:count]


@kind
def mnist(folder: Path) -> None:
    """As torchvision keeps MNIST."""
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True)
    patterns = RNG.integers(0, 256, (10, 28, 28))
    for name, count in (("train", 60_000), ("t10k", 10_000)):
        labels = RNG.integers(0, 10, count)
        pixels = np.concatenate(
            [
                (0.5 * patterns[part] + RNG.integers(0, 128, (len(part), 28, 28))).astype(np.uint8)
                for part in np.array_split(labels, 10)
            ]
        )
        sizes = np.array([count, 28, 28], ">i4").tobytes()
        (raw / f"{name}-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03" + sizes + pixels.tobytes())
        (raw / f"{name}-labels-idx1-ubyte").write_bytes(
            b"\0\0\x08\x01" + sizes[:4] + labels.astype(np.uint8).tobytes()
        )


@kind
def images(folder: Path) -> None:
    """An ImageFolder of JPEGs of ImageNet's usual size, ten classes, in train and val."""
    for part, count in (("train", 128), ("val", 13)):
        for label in range(10):
            _save_pictures(folder / part / f"n{label:08}", count, (375, 500), label)


@kind
def bsds300(folder: Path) -> None:
    """As the Berkeley segmentation data set comes out of its archive."""
    _save_pictures(folder / "BSDS300" / "images" / "train", 200, (321, 481))
    _save_pictures(folder / "BSDS300" / "images" / "test", 100, (321, 481))


@kind
def carvana(folder: Path) -> None:
    """Photographs and their masks, at a fifth of Carvana's size."""
    _save_pictures(folder / "imgs", 320, (256, 384))
    (folder / "masks").mkdir(exist_ok=True)
    for picture in (folder / "imgs").glob("*.jpg"):
        is_car = np.asarray(Image.open(picture))[..., 0] > 128
        Image.fromarray(255 * is_car.astype(np.uint8)).save(folder / "masks" / f"{picture.stem}_mask.gif")


@kind
def patches(folder: Path) -> None:
    """Pairs of blurred and sharp patches in HDF5, as SRCNN's prepare.py writes them."""
    folder.mkdir(parents=True, exist_ok=True)
    with h5py.File(folder / "train.h5", "w") as file:
        for name in ("lr", "hr"):
            file[name] = RNG.integers(0, 256, (21_884, 33, 33)).astype(np.float32)
    with h5py.File(folder / "eval.h5", "w") as file:
        for name in ("lr", "hr"):
            for number in range(5):
                file[f"{name}/{number}"] = RNG.integers(0, 256, (255, 255)).astype(np.float32)


@kind
def text(folder: Path) -> None:
    """One file of a megabyte, as tiny Shakespeare; minGPT's prompt needs its capitals and punctuation."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "input.txt").write_bytes(b"O God, O God!\n" + _letters(1_115_380))


@kind
def wikitext(folder: Path) -> None:
    """Text in three parts, at the size of WikiText-2."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, count in (("train", 10_797_148), ("valid", 1_121_681), ("test", 1_256_449)):
        (folder / f"{part}.txt").write_bytes(_letters(count))


@kind
def enwik8(folder: Path) -> None:
    """95 MB of text, packed."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "enwik8.gz").write_bytes(gzip.compress(_letters(5_000_000) * 19, 1))


@kind
def tokens(folder: Path) -> None:
    """Characters as nanoGPT's prepare.py of Shakespeare writes them."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, count in (("train", 1_003_854), ("val", 111_540)):
        RNG.integers(0, 65, count).astype(np.uint16).tofile(folder / f"{part}.bin")
    (folder / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": 65, "itos": {}, "stoi": {}}))


@kind
def sentences(folder: Path) -> None:
    """Pairs of sentences in lines, parted by a tab, as BERT-pytorch reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    words = _letters(2_000_000).decode().replace("\n", " ").split(" ")
    halves = [" ".join(words[at : at + 8]) for at in range(0, 160_000, 8)]
    lines = (f"{one}\t{two}\n" for one, two in zip(halves[::2], halves[1::2], strict=True))
    (folder / "corpus.txt").write_text("".join(lines))


@kind
def cora(folder: Path) -> None:
    """Papers with their words and subject, and who cites whom, as the Cora data set."""
    folder.mkdir(parents=True, exist_ok=True)
    words, subjects = RNG.random((2708, 1433)) < 0.013, RNG.integers(0, 7, 2708)
    names = np.array([f"subject{number}" for number in subjects])
    content = np.column_stack([np.arange(2708), words.astype(int), names])
    np.savetxt(folder / "cora.content", content, "%s")
    np.savetxt(folder / "cora.cites", RNG.integers(0, 2708, (5429, 2)), "%d")


if __name__ == "__main__":
    KINDS[sys.argv[1]](Path(sys.argv[2]))
