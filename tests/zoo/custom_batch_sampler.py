"""A batch sampler of one's own: sequences of like length come together."""

import math

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler

EPOCHS = 300


class Sequences(Dataset):
    """Between 5 and 60 token ids."""

    def __init__(self, count):
        generator = torch.Generator().manual_seed(0)
        self.lengths = torch.randint(5, 61, (count,), generator=generator).tolist()
        self.tokens = [torch.randint(1, 100, (length,), generator=generator) for length in self.lengths]

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return self.tokens[index], int(self.tokens[index][0] % 4)


class BucketSampler(Sampler):
    """Batches of neighbours in length, in random order."""

    def __init__(self, lengths, batch_size):
        self.order = sorted(range(len(lengths)), key=lengths.__getitem__)
        self.batch_size = batch_size

    def __len__(self):
        return math.ceil(len(self.order) / self.batch_size)

    def __iter__(self):
        for number in torch.randperm(len(self)).tolist():
            yield self.order[number * self.batch_size : (number + 1) * self.batch_size]


def collate(samples):
    tokens, labels = zip(*samples, strict=True)
    return pad_sequence(tokens, batch_first=True), torch.tensor(labels)


class Bag(nn.Module):
    """Mean of embeddings, two layers."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 256, padding_idx=0)
        self.net = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 4))

    def forward(self, tokens):
        return self.net(self.embed(tokens).mean(1))


def main():
    torch.manual_seed(0)
    dataset = Sequences(1600)
    sampler = BucketSampler(dataset.lengths, batch_size=16)
    loader = DataLoader(dataset, batch_sampler=sampler, collate_fn=collate)
    model = Bag()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    for epoch in range(EPOCHS):
        for tokens, labels in loader:
            loss = nn.functional.cross_entropy(model(tokens), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
