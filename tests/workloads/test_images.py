"""The built-in `images` workload: the size of its model, the sameness of its data, an epoch of the script."""

import hashlib
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
import zarr

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
    import images_model

    with torch.device("meta"):
        model = images_model.build("resnet50")
    assert sum(parameter.numel() for parameter in model.parameters()) == 25_557_032


@pytest.mark.parametrize(("image_size", "stored"), [(64, 72), (224, 256), (32, 32), (7, 8)])
def test_stored_images_leave_room_to_crop(image_size: int, stored: int) -> None:
    import images_store

    assert images_store.stored_size(image_size) == stored


def test_images_are_the_same_in_every_folder_and_on_every_machine(tmp_path: Path) -> None:
    import images_store

    folders = [images_store.image_folder(tmp_path / name, 28, 40) for name in ("one", "two")]
    groups = [zarr.open_group(folder, mode="r") for folder in folders]
    images, labels = groups[0]["images"][:], groups[0]["labels"][:]
    np.testing.assert_array_equal(images, groups[1]["images"][:])
    np.testing.assert_array_equal(labels, groups[1]["labels"][:])
    assert images.shape == (40, 32, 32, 3)
    digest = hashlib.sha256(images.tobytes() + labels.astype("<i8").tobytes()).hexdigest()
    assert digest == "d09c8fdac8ae353b5a47431590253f7b55450442aa959cefc2e94f29c6817ba6"


def test_two_processes_that_make_the_images_at_once_both_succeed(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(WORKLOADS)!r}); sys.stdin.read();"
        "import pathlib, images_store;"
        f"print(images_store.image_folder(pathlib.Path({str(tmp_path)!r}), 64, 300))"
    )
    start = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    makers = [subprocess.Popen([sys.executable, "-c", code], **start) for _ in range(2)]
    for maker in makers:
        maker.stdin.close()
        maker.stdin = None
    outputs = [maker.communicate(timeout=120) for maker in makers]
    assert [maker.returncode for maker in makers] == [0, 0], outputs
    assert {out.strip() for out, _ in outputs} == {str(tmp_path / "72-300-v1")}
    assert {path.name for path in tmp_path.iterdir()} == {".72-300-v1.lock", "72-300-v1"}


def test_a_failure_while_making_images_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import images_store

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(images_store, "write_images", full)
    with pytest.raises(OSError, match="No space left"):
        images_store.image_folder(tmp_path, 28, 40)
    assert [path.name for path in tmp_path.iterdir()] == [".32-40-v1.lock"]


class EndedError(BaseException):
    """What ends a process here and there."""


def test_images_that_were_written_before_an_end_are_not_made_again(tmp_path: Path) -> None:
    import images_store

    class Painter(images_store.Painter):
        painted: ClassVar[list[int]] = []

        def paint(self, index: int, label: int) -> np.ndarray:
            if index == ends_at:
                raise EndedError
            self.painted.append(index)
            return super().paint(index, label)

    whole = images_store.image_folder(tmp_path / "whole", 28, 200)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(images_store, "Painter", Painter)
        patched.setattr(os, "sched_getaffinity", lambda pid: {0})  # one chunk after the other
        ends_at = 170
        with pytest.raises(EndedError):
            images_store.image_folder(tmp_path / "resumed", 28, 200)
        (making,) = (path for path in (tmp_path / "resumed").iterdir() if path.is_dir())
        with (making / "written").open("a") as told:
            told.write("19")  # of a line that an end cut off
        lines = (making / "written").read_text().splitlines()[:-1]
        before = {index for line in lines for index in range(int(line), int(line) + 16)}
        Painter.painted.clear()
        ends_at = -1
        resumed = images_store.image_folder(tmp_path / "resumed", 28, 200)
    assert before == set(range(160))
    assert set(Painter.painted) == set(range(200)) - before
    assert {path.name for path in resumed.parent.iterdir()} == {f".{resumed.name}.lock", resumed.name}
    one, other = (zarr.open_group(folder, mode="r")["images"][:] for folder in (whole, resumed))
    np.testing.assert_array_equal(one, other)


def test_it_is_told_how_far_the_images_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import images_store

    told: list[tuple[int, int]] = []
    monkeypatch.setattr(images_store, "PROGRESS_EVERY_S", -1.0)
    images_store.image_folder(tmp_path, 28, 40, lambda made, count: told.append((made, count)))
    assert told == [(16, 40), (32, 40), (40, 40)]


def test_an_item_is_a_normalised_image_and_its_label(tmp_path: Path) -> None:
    import images_data
    import images_store

    folder = images_store.image_folder(tmp_path, 28, 40)
    labels = zarr.open_group(folder, mode="r")["labels"][:]
    for augmented in (True, False):
        dataset = images_data.ZarrImages(folder, range(10, 40), 28, augmented)
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
