"""Train a transformer to classify documents by topic: `python text.py --epochs 1`.

Documents vary in length: a batch is padded to its longest one, or with `--batching bucket` has documents of
similar length. The store is made on first use and read into RAM at the start. Defaults fit the machine: a
BERT-size encoder with a GPU, a small one without one.
"""

from collections.abc import Iterator

import numpy as np
import torch
import zarr
from stores import store_folder
from text_store import MASK, PADDING, TOPICS, VOCABULARY, Contents
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.optim import AdamW
from torch.utils.data import DataLoader, Dataset, Sampler
from training import accuracy, fit, loaders, option_parser, parse, split

# name: (layers, width, heads)
MODELS = {"bert-base": (12, 768, 12), "bert-tiny": (2, 128, 2)}
DEFAULTS = {
    "cuda": {"model": "bert-base", "batch_size": 32, "workers": 2, "lr": 5e-5},
    "cpu": {"model": "bert-tiny", "batch_size": 16, "workers": 0, "lr": 5e-4},
}
MASKED_SHARE = 0.1
POOL_BATCHES = 50


class Documents(Dataset):
    """Documents in RAM as `(int64 tokens, topic)`; some tokens are masked if `augmented`."""

    def __init__(self, group: zarr.Group, indices: range, augmented: bool) -> None:
        self.tokens, self.topics, ends = (group[name][:] for name in ("tokens", "topics", "ends"))
        self.bounds = np.concatenate([[0], ends])
        self.indices, self.augmented = indices, augmented

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each document."""
        return np.diff(self.bounds)[self.indices.start : self.indices.stop]

    def __getitem__(self, item: int) -> tuple[torch.Tensor, int]:
        index = self.indices[item]
        start, stop = self.bounds[index : index + 2]
        tokens = torch.from_numpy(self.tokens[start:stop].astype(np.int64))
        if self.augmented:
            tokens[torch.rand(len(tokens)) < MASKED_SHARE] = MASK
        return tokens, int(self.topics[index])


def collate(documents: list[tuple[torch.Tensor, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return tokens (N, longest), padded, and topics (N,)."""
    tokens, topics = zip(*documents, strict=True)
    return pad_sequence(tokens, batch_first=True, padding_value=PADDING), torch.tensor(topics)


class Buckets(Sampler[list[int]]):
    """Batches of documents of similar length: sorted within pools of shuffled documents."""

    def __init__(self, lengths: np.ndarray, batch_size: int) -> None:
        self.lengths, self.batch_size = torch.from_numpy(lengths), batch_size

    def __len__(self) -> int:
        return len(self.lengths) // self.batch_size

    def __iter__(self) -> Iterator[list[int]]:
        pools = torch.randperm(len(self.lengths)).split(POOL_BATCHES * self.batch_size)
        by_length = [pool[self.lengths[pool].argsort()] for pool in pools]
        batches = [batch for pool in by_length for batch in pool.split(self.batch_size)]
        whole = [batch for batch in batches if len(batch) == self.batch_size]
        for at in torch.randperm(len(whole)):
            yield whole[at].tolist()


class Encoder(nn.Module):
    """A transformer encoder like BERT's, and a linear head on the mean of its outputs."""

    def __init__(self, layers: int, width: int, heads: int, max_length: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width, padding_idx=PADDING)
        self.positions = nn.Embedding(max_length, width)
        self.norm = nn.LayerNorm(width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.1, "gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, TOPICS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Map tokens (N, T) to logits (N, TOPICS)."""
        padded = tokens == PADDING
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        out = self.norm(self.tokens(tokens) + self.positions(positions))
        out = self.layers(out, src_key_padding_mask=padded).masked_fill(padded[..., None], 0)
        return self.head(out.sum(1) / (~padded).sum(1, keepdim=True))


def main() -> None:
    """Train as the command line says."""
    parser = option_parser(__doc__, Contents, MODELS)
    parser.add_argument(
        "--batching", choices=("longest", "bucket"), default="longest", help="how batches are made"
    )
    args = parse(parser, Contents.sizes, DEFAULTS)
    group = zarr.open_group(store_folder(Contents(args.samples, args.max_length), args.data), mode="r")
    train_set, val_set = (Documents(group, *part) for part in split(args.samples))
    train_loader, val_loader = loaders(args, train_set, val_set, collate_fn=collate)
    if args.batching == "bucket":
        buckets = Buckets(train_set.lengths, args.batch_size)
        train_loader = DataLoader(
            train_set, batch_sampler=buckets, collate_fn=collate, num_workers=args.workers
        )
    model = Encoder(*MODELS[args.model], args.max_length).to(args.device)
    optimizer = AdamW(model.parameters(), args.lr, weight_decay=args.weight_decay)
    fit(args, model, optimizer, nn.CrossEntropyLoss(), accuracy, train_loader, val_loader)


if __name__ == "__main__":
    main()
