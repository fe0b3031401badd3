"""An encoder and a decoder, called one after the other, under one AdamW: two roots, not one."""

from itertools import pairwise

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 300


def mlp(*sizes):
    layers = [layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.GELU())]
    return nn.Sequential(*layers[:-1])


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = mlp(256, 512, 512, 32)

    def forward(self, rows):
        return self.layers(rows)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = mlp(32, 512, 512, 256)

    def forward(self, codes):
        return self.layers(codes)


def main():
    torch.manual_seed(0)
    rows = torch.randn(1600, 32) @ torch.randn(32, 256) / 6
    loader = DataLoader(TensorDataset(rows), batch_size=16, shuffle=True)
    encoder, decoder = Encoder(), Decoder()
    optimizer = torch.optim.AdamW([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
    for epoch in range(EPOCHS):
        for (batch,) in loader:
            loss = nn.functional.mse_loss(decoder(encoder(batch)), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
