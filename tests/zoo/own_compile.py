"""torch.compile of the script's own: of the model, or with --function of the function that makes the loss."""

import argparse

import torch
from plain_loop import labelled_rows, train
from torch import nn
from torch.utils.data import DataLoader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--function", action="store_true")
    parser.add_argument("--in-place", action="store_true")
    args = parser.parse_args()
    loader = DataLoader(labelled_rows(), batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Linear(128, 1024), nn.ReLU(), nn.Linear(1024, 8))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)

    def loss_of(inputs, labels):
        return nn.functional.cross_entropy(model(inputs), labels)

    if args.function:
        train(lambda inputs: inputs, optimizer, loader, loss_of=torch.compile(loss_of))
    elif args.in_place:
        model.compile()
    else:
        model = torch.compile(model)
    train(model, optimizer, loader)


if __name__ == "__main__":
    main()
