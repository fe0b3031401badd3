"""An encoder and a decoder, called one after the other, under one AdamW: two roots, not one."""

import torch
from plain_loop import train
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Encoder(nn.Sequential):
    """Rows to codes."""


class Decoder(nn.Sequential):
    """Codes to rows."""


def main():
    torch.manual_seed(0)
    rows = torch.randn(1600, 32) @ torch.randn(32, 256) / 6
    loader = DataLoader(TensorDataset(rows, rows), batch_size=16, shuffle=True)
    encoder = Encoder(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 32))
    decoder = Decoder(nn.Linear(32, 512), nn.GELU(), nn.Linear(512, 256))
    optimizer = torch.optim.AdamW([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
    train(lambda rows: decoder(encoder(rows)), optimizer, loader, loss_of=nn.functional.mse_loss)


if __name__ == "__main__":
    main()
