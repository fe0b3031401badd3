"""Train an LSTM on patients' visits, a different number for each: `python records.py --epochs 1`.

It predicts which patients return within a month. The store is made on first use and read into RAM at the
start; visits are decoded and collated one by one in Python. Defaults fit the machine: two layers of 512 units
with a GPU, one of 32 without one.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
import zarr
from records_store import CODES, CODES_PER_VISIT, LABS, Contents
from stores import store_folder
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.optim import AdamW
from torch.utils.data import Dataset
from training import accuracy, fit, loaders, option_parser, parse, split

# name: (layers, units)
MODELS = {"lstm-large": (2, 512), "lstm-small": (1, 32)}
DEFAULTS = {
    "cuda": {"model": "lstm-large", "batch_size": 128, "workers": 2, "lr": 1e-3},
    "cpu": {"model": "lstm-small", "batch_size": 64, "workers": 0, "lr": 1e-3},
}
DROPPED_SHARE = 0.1


class Visit(NamedTuple):
    """One visit of a patient."""

    days: int
    """Since the visit before."""
    codes: list[int]
    labs: list[float]


class Patients(Dataset):
    """Patients in RAM as `(visits, returned)`; random visits are left out if `augmented`."""

    def __init__(self, group: zarr.Group, indices: range, augmented: bool) -> None:
        self.visits, self.returned, ends = (group[name][:] for name in ("visits", "returned", "ends"))
        self.bounds = np.concatenate([[0], ends])
        self.indices, self.augmented = indices, augmented

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, item: int) -> tuple[list[Visit], float]:
        index = self.indices[item]
        start, stop = self.bounds[index : index + 2]
        rows = self.visits[start:stop].tolist()
        if self.augmented:
            kept = (torch.rand(len(rows)) >= DROPPED_SHARE).tolist()
            rows = [row for row, is_kept in zip(rows, kept, strict=True) if is_kept] or rows
        visits = [
            Visit(row[0], [code for code in row[1:-LABS] if code], [value / 1_000 for value in row[-LABS:]])
            for row in rows
        ]
        return visits, float(self.returned[index])


def collate(
    patients: list[tuple[list[Visit], float]],
) -> tuple[torch.Tensor, torch.Tensor, list[int], torch.Tensor]:
    """Return codes (N, longest, 16) and numbers (N, longest, 1 + LABS), padded, lengths, and targets (N,)."""
    longest = max(len(visits) for visits, _ in patients)
    codes, numbers = [], []
    for visits, _ in patients:
        codes.append([])
        numbers.append([])
        for visit in visits:
            codes[-1].append(visit.codes + [0] * (CODES_PER_VISIT - len(visit.codes)))
            numbers[-1].append([math.log1p(visit.days), *visit.labs])
        missing = longest - len(visits)
        codes[-1] += [[0] * CODES_PER_VISIT] * missing
        numbers[-1] += [[0.0] * (1 + LABS)] * missing
    lengths = [len(visits) for visits, _ in patients]
    return (
        torch.tensor(codes),
        torch.tensor(numbers),
        lengths,
        torch.tensor([target for _, target in patients]),
    )


class Lstm(nn.Module):
    """The mean embedding of a visit's codes and its numbers, an LSTM over visits, a linear head."""

    def __init__(self, layers: int, units: int) -> None:
        super().__init__()
        self.codes = nn.Embedding(CODES, units, padding_idx=0)
        self.lstm = nn.LSTM(units + 1 + LABS, units, layers, batch_first=True)
        self.head = nn.Linear(units, 1)

    def forward(self, codes: torch.Tensor, numbers: torch.Tensor, lengths: list[int]) -> torch.Tensor:
        """Map codes and numbers (N, T, ...) to logits (N,)."""
        visits = torch.cat([self.codes(codes).mean(2), numbers], dim=2)
        packed = pack_padded_sequence(visits, lengths, batch_first=True, enforce_sorted=False)
        _, (hidden, _) = self.lstm(packed)
        return self.head(hidden[-1])[:, 0]


def main() -> None:
    """Train as the command line says."""
    args = parse(option_parser(__doc__, Contents, MODELS), Contents.sizes, DEFAULTS)
    group = zarr.open_group(store_folder(Contents(args.samples), args.data), mode="r")
    data = loaders(args, *(Patients(group, *part) for part in split(args.samples)), collate_fn=collate)
    model = Lstm(*MODELS[args.model]).to(args.device)
    optimizer = AdamW(model.parameters(), args.lr, weight_decay=args.weight_decay)
    fit(args, model, optimizer, nn.BCEWithLogitsLoss(), accuracy, *data)


if __name__ == "__main__":
    main()
