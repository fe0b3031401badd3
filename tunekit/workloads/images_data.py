"""The data set of images.py: images from a zarr store, cropped, augmented and normalised."""

from pathlib import Path

import torch
import zarr
from torch.nn import functional
from torch.utils.data import Dataset

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
        if self.group is None:  # opened in each worker, not before the fork
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
