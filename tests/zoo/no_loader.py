"""A loop without a DataLoader, as small language-model scripts have it: batches are cut from one array."""

import torch
from torch import nn

BATCH, BLOCK, STEPS = 12, 32, 100_000


class Model(nn.Module):
    """A token embedding, one hidden layer, a head."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(64, 128)
        self.hidden = nn.Linear(128, 512)
        self.head = nn.Linear(512, 64)

    def forward(self, tokens):
        return self.head(torch.relu(self.hidden(self.embed(tokens))))


def main():
    torch.manual_seed(0)
    data = torch.randint(0, 64, (100_000,))
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step in range(STEPS):
        starts = torch.randint(0, len(data) - BLOCK - 1, (BATCH,))
        tokens = torch.stack([data[i : i + BLOCK] for i in starts])
        targets = torch.stack([data[i + 1 : i + BLOCK + 1] for i in starts])
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 200 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
