"""The built-in `images` workload: the size of its model, the sameness of its data, an epoch of the script."""

import hashlib
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import zarr

from tunekit.workloads.stores import store_folder

WORKLOADS = Path(__file__).parents[2] / "tunekit" / "workloads"
SCRIPT = WORKLOADS / "images.py"


@pytest.fixture(autouse=True)
def beside_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the script's siblings importable by the names that it uses."""
    monkeypatch.syspath_prepend(str(WORKLOADS))


def train(data: Path, *options: str) -> str:
    command = [sys.executable, str(SCRIPT), "--data", str(data), "--device", "cpu", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_resnet50_has_the_published_parameter_count() -> None:
    import images

    with torch.device("meta"):
        model = images.ResNet(*images.MODELS["resnet50"])
    assert sum(parameter.numel() for parameter in model.parameters()) == 25_557_032


@pytest.mark.parametrize(("image_size", "stored"), [(64, 72), (224, 256), (32, 32), (7, 8)])
def test_stored_images_leave_room_to_crop(image_size: int, stored: int) -> None:
    import images_store

    assert images_store.stored_size(image_size) == stored


def test_images_are_the_same_on_every_machine(tmp_path: Path) -> None:
    import images_store

    group = zarr.open_group(store_folder(images_store.Contents(40, 28), tmp_path), mode="r")
    images, labels = group["images"][:], group["labels"][:]
    assert images.shape == (40, 32, 32, 3)
    digest = hashlib.sha256(images.tobytes() + labels.astype("<i8").tobytes()).hexdigest()
    assert digest == "d09c8fdac8ae353b5a47431590253f7b55450442aa959cefc2e94f29c6817ba6"


def test_an_item_is_a_normalised_image_and_its_label(tmp_path: Path) -> None:
    import images
    import images_store

    folder = store_folder(images_store.Contents(40, 28), tmp_path)
    labels = zarr.open_group(folder, mode="r")["labels"][:]
    for augmented in (True, False):
        dataset = images.ZarrImages(folder, 28, range(10, 40), augmented)
        image, label = dataset[3]
        assert (image.shape, image.dtype) == ((3, 28, 28), torch.float32)
        assert image.abs().max() < 3
        assert (len(dataset), label) == (30, labels[13])


@pytest.mark.real
@pytest.mark.slow  # .ci/run searches the same workload
def test_a_short_epoch_trains_validates_and_saves(tmp_path: Path) -> None:
    saved = tmp_path / "model.pt"
    options = ("--samples", "64", "--epochs", "1", "--workers", "1", "--print-freq", "1")
    output = train(tmp_path / "data", *options, "--output", str(saved))
    losses = [float(loss) for loss in re.findall(r"^epoch 0 \[\d/3\]  loss (\S+)", output, re.MULTILINE)]
    assert len(losses) == 3
    assert all(math.isfinite(loss) for loss in losses)
    assert re.search(r"^epoch 0 validation  loss \d+\.\d+  accuracy", output, re.MULTILINE)
    assert "stem.0.weight" in torch.load(saved)["model"]
