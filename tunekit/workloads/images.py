"""Train a bottleneck ResNet on images kept as zarr chunks: `python images.py --epochs 3`.

The images are made on first use and kept in a cache folder. Defaults fit the machine: ResNet-50 on 224-pixel
images with a GPU, a small ResNet on 64-pixel images without one.
"""

from images_data import ZarrImages
from images_model import MODELS, build
from images_store import Contents
from stores import store_folder
from torch import nn
from torch.optim import SGD
from training import accuracy, fit, loaders, option_parser, parse, split

DEFAULTS = {
    "cuda": {"model": "resnet50", "batch_size": 64, "workers": 2, "lr": 0.1},
    "cpu": {"model": "resnet11", "batch_size": 16, "workers": 0, "lr": 0.1},
}


def main() -> None:
    """Train as the command line says."""
    args = parse(option_parser(__doc__, Contents, MODELS), Contents.usual, DEFAULTS)
    folder = store_folder(Contents(args.samples, args.image_size), args.data)
    trained, validated = split(args.samples)
    train_set = ZarrImages(folder, trained, args.image_size, augmented=True)
    val_set = ZarrImages(folder, validated, args.image_size, augmented=False)
    model = build(args.model).to(args.device)
    optimizer = SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=args.weight_decay)
    fit(args, model, optimizer, nn.CrossEntropyLoss(), accuracy, *loaders(args, train_set, val_set))


if __name__ == "__main__":
    main()
