"""Compute-bound: a small transformer on token rows that cost nothing to load.

python benchmarks/grid_targets/transformer.py
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VOCABULARY, LENGTH, WIDTH = 512, 64, 128


class Classifier(nn.Module):
    """Embedding, two encoder blocks of attention and a wide MLP, a head per token."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return logits for the next token at each place."""
        hidden = self.embedding(tokens)
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden)


class Block(nn.Module):
    """Attention and MLP, each behind a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the block's output, of the input's shape."""
        batch, length, _ = hidden.shape
        parts = self.qkv(self.first(hidden)).view(batch, length, 3, 4, WIDTH // 4).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        hidden = hidden + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return hidden + self.mlp(self.second(hidden))


def main() -> None:
    """Train."""
    tokens = torch.randint(0, VOCABULARY, (4096, LENGTH + 1), generator=torch.Generator().manual_seed(0))
    loader = DataLoader(TensorDataset(tokens), batch_size=8, shuffle=True)
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for _ in range(1000):
        for (rows,) in loader:
            logits = model(rows[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
