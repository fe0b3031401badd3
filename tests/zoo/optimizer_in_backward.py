"""One optimizer per parameter, stepped in the backward as soon as its gradient is there."""

import torch
from plain_loop import labelled_rows
from torch import nn
from torch.utils.data import DataLoader

EPOCHS, LAYERS = 300, 24


def main():
    loader = DataLoader(labelled_rows(), batch_size=16, shuffle=True)
    layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(128, 128), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(128, 8))
    optimizers = {parameter: torch.optim.Adam([parameter], lr=0.0005) for parameter in model.parameters()}

    def step_now(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step_now)
    for epoch in range(EPOCHS):
        for inputs, labels in loader:
            loss = nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
        print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
