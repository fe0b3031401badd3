"""A loader built with a plain BatchSampler and one worker: batch_size is not the loader's to set."""

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

EPOCHS = 300


def main():
    torch.manual_seed(0)
    rows = torch.randn(1600, 128)
    dataset = TensorDataset(rows, rows[:, :8].argmax(1))
    sampler = BatchSampler(RandomSampler(dataset), 16, False)
    loader = DataLoader(dataset, batch_sampler=sampler, num_workers=1)
    model = nn.Sequential(
        nn.Linear(128, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 8)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for epoch in range(EPOCHS):
        for inputs, labels in loader:
            loss = nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
