"""A generator and a discriminator under two Adams of different rates: two optimizer steps for each batch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 300


def mlp(inputs, outputs):
    return nn.Sequential(
        nn.Linear(inputs, 384),
        nn.LeakyReLU(0.2),
        nn.Linear(384, 384),
        nn.LeakyReLU(0.2),
        nn.Linear(384, outputs),
    )


def main():
    torch.manual_seed(0)
    rows = torch.randn(1600, 64) * 0.5 + 1
    loader = DataLoader(TensorDataset(rows), batch_size=16, shuffle=True, drop_last=True)
    generator, discriminator = mlp(32, 64), mlp(64, 1)
    generator_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-4, betas=(0.5, 0.999))
    discriminator_optimizer = torch.optim.Adam(discriminator.parameters(), lr=4e-4, betas=(0.5, 0.999))
    criterion = nn.BCEWithLogitsLoss()
    for epoch in range(EPOCHS):
        for (real,) in loader:
            ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
            fake = generator(torch.randn(len(real), 32))

            discriminator_optimizer.zero_grad()
            loss_d = criterion(discriminator(real), ones) + criterion(discriminator(fake.detach()), zeros)
            loss_d.backward()
            discriminator_optimizer.step()

            generator_optimizer.zero_grad()
            loss_g = criterion(discriminator(fake), ones)
            loss_g.backward()
            generator_optimizer.step()
        print(f"epoch {epoch} loss_d {loss_d.item():.3f} loss_g {loss_g.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
