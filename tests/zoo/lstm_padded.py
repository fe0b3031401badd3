"""An LSTM over sequences of different lengths: a collate function pads, pack_padded_sequence packs.

Without --batch-first the padded batch is (time, batch, features), so that its first dimension is a length.
"""

import argparse
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

EPOCHS = 300


class Sequences(Dataset):
    """Five rows of 16 features or more; the label is the sign of their sum."""

    def __init__(self, count, longest):
        generator = torch.Generator().manual_seed(0)
        lengths = torch.randint(5, longest + 1, (count,), generator=generator).tolist()
        self.rows = [torch.randn(length, 16, generator=generator) for length in lengths]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index], int(self.rows[index].sum() > 0)


class PadTo:
    """Collate function."""

    def __init__(self, batch_first):
        self.batch_first = batch_first

    def __call__(self, samples):
        rows, labels = zip(*samples, strict=True)
        lengths = torch.tensor([len(row) for row in rows])
        return pad_sequence(rows, batch_first=self.batch_first), lengths, torch.tensor(labels)


class Tagger(nn.Module):
    """An LSTM and a head on its last hidden state."""

    def __init__(self, batch_first):
        super().__init__()
        self.batch_first = batch_first
        self.lstm = nn.LSTM(16, 64, batch_first=batch_first)
        self.head = nn.Linear(64, 2)

    def forward(self, padded, lengths):
        packed = pack_padded_sequence(padded, lengths, batch_first=self.batch_first, enforce_sorted=False)
        _, (hidden, _) = self.lstm(packed)
        return self.head(hidden[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-first", action="store_true")
    parser.add_argument("--longest", type=int, default=30)
    parser.add_argument("--output", default=None)
    args = parser.parse_args()
    torch.manual_seed(0)
    dataset = Sequences(1600, args.longest)
    loader = DataLoader(dataset, batch_size=16, shuffle=True, collate_fn=PadTo(args.batch_first))
    model = Tagger(args.batch_first)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.001)
    for epoch in range(EPOCHS):
        for padded, lengths, labels in loader:
            loss = nn.functional.cross_entropy(model(padded, lengths), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)
        if args.output:
            torch.save(model.state_dict(), Path(args.output) / "model.pt")


if __name__ == "__main__":
    main()
