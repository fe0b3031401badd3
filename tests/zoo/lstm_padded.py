"""An LSTM over sequences of different lengths: a collate function pads, pack_padded_sequence packs.

The padded batch is (time, batch, features), so that its first dimension is a length.
"""

import argparse
from pathlib import Path

import torch
from plain_loop import train
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


def padded(samples):
    rows, labels = zip(*samples, strict=True)
    return (pad_sequence(rows), torch.tensor([len(row) for row in rows])), torch.tensor(labels)


class Tagger(nn.Module):
    """An LSTM and a head on its last hidden state."""

    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(16, 64), nn.Linear(64, 2)

    def forward(self, padded, lengths):
        packed = pack_padded_sequence(padded, lengths, enforce_sorted=False)
        return self.head(self.lstm(packed)[1][0][-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--longest", type=int, default=30)
    parser.add_argument("--output", default=None)
    args = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(Sequences(1600, args.longest), batch_size=16, shuffle=True, collate_fn=padded)
    model = Tagger()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.001)
    for _ in range(EPOCHS):
        train(lambda inputs: model(*inputs), optimizer, loader, epochs=1)
        if args.output:
            torch.save(model.state_dict(), Path(args.output) / "model.pt")


if __name__ == "__main__":
    main()
