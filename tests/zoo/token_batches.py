"""Batches by a budget of tokens: few long sequences or many short ones, so that batch sizes vary."""

import random

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

EPOCHS = 1200


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


class TokenBatches:
    """Fills a batch, longest first, until padding would take it over the budget."""

    def __init__(self, lengths, max_tokens):
        self.batches, batch = [], []
        for index in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
            longest = lengths[batch[0]] if batch else lengths[index]
            if longest * (len(batch) + 1) > max_tokens:
                self.batches.append(batch)
                batch = []
            batch.append(index)
        self.batches.append(batch)
        self.shuffler = random.Random(0)

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        self.shuffler.shuffle(self.batches)
        return iter(self.batches)


def collate(samples):
    tokens, labels = zip(*samples, strict=True)
    return {"tokens": pad_sequence(tokens, batch_first=True), "labels": torch.tensor(labels)}


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
    dataset = Sequences(400)  # several epochs in any window
    batches = TokenBatches(dataset.lengths, 500)
    loader = DataLoader(dataset, batch_sampler=batches, collate_fn=collate)
    model = Bag()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    for epoch in range(EPOCHS):
        for batch in loader:
            loss = nn.functional.cross_entropy(model(batch["tokens"]), batch["labels"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} batches {len(batches)} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
