"""Three optimizers: the head steps each batch, the body every second one, the embedding every fourth."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 300


class Net(nn.Module):
    """Embedding, body and head."""

    def __init__(self):
        super().__init__()
        self.embed = nn.EmbeddingBag(200, 128)
        self.body = nn.Linear(128, 1024)
        self.head = nn.Linear(1024, 8)

    def forward(self, tokens):
        return self.head(torch.relu(self.body(self.embed(tokens))))


def main():
    torch.manual_seed(0)
    tokens = torch.randint(0, 200, (1600, 20))
    loader = DataLoader(TensorDataset(tokens, tokens[:, 0] % 8), batch_size=16, shuffle=True)
    model = Net()
    every = [
        (4, torch.optim.Adagrad(model.embed.parameters(), lr=0.05)),
        (2, torch.optim.SGD(model.body.parameters(), lr=0.02, momentum=0.9)),
        (1, torch.optim.AdamW(model.head.parameters(), lr=0.001)),
    ]
    for epoch in range(EPOCHS):
        for step, (inputs, labels) in enumerate(loader, start=1):
            loss = nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            for interval, optimizer in every:
                if step % interval == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
