"""A dataset that yields whole batches, loaded with batch_size=None: the loader does no batching."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = 300


class Batches(Dataset):
    """Item i is the i-th batch of 16 rows."""

    def __init__(self, batches):
        self.rows = torch.randn(batches, 16, 128)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index], self.rows[index, :, :8].argmax(1)


def main():
    torch.manual_seed(0)
    loader = DataLoader(Batches(100), batch_size=None, shuffle=True)
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
