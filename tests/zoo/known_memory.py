"""Trains a CNN or a small GPT."""

import argparse
import importlib

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

IMAGE, TOKENS, WORDS = 32, 64, 512


class Block(nn.Module):
    """Attention and MLP, each behind a norm."""

    def __init__(self, width=128, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(0.1)

    def forward(self, words):
        batch, places, width = words.shape
        parts = self.qkv(self.norm1(words)).view(batch, places, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        mixed = self.out(mixed.transpose(1, 2).reshape(batch, places, width))
        words = words + self.dropout(mixed)
        return words + self.mlp(self.norm2(words))


class Gpt(nn.Module):
    """A small GPT with tied words."""

    def __init__(self, width=128):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(TOKENS, width)
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, WORDS, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        mixed = self.blocks(self.words(tokens) + self.places(places))
        return self.head(self.norm(mixed)).flatten(0, 1)


def cnn():
    """Return a plain CNN."""
    layers = [nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(4)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Dropout(0.1), nn.Linear(1024, 10))


def make_model(name):
    """Return the model of a name: "cnn", "gpt", or "module:function"."""
    module, _, function = name.rpartition(":")
    return (
        getattr(importlib.import_module(module), function)() if module else {"cnn": cnn, "gpt": Gpt}[name]()
    )


def make_optimizer(parameters):
    """Return AdamW."""
    return torch.optim.AdamW(parameters, lr=1e-4)


def loss_of(outputs, targets):
    """Return the loss."""
    return nn.functional.cross_entropy(outputs, targets.flatten())


def sample(name, image=IMAGE):
    """Return inputs and targets of one sample."""
    if name == "gpt":
        return torch.randint(WORDS, (TOKENS,)), torch.randint(WORDS, (TOKENS,))
    return torch.randn(3, image, image), torch.randint(10, ())


class Samples(Dataset):
    """Random samples without end."""

    def __init__(self, name, image):
        self.name, self.image = name, image

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        return sample(self.name, self.image)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--image", type=int, default=IMAGE)
    args = parser.parse_args()
    model = make_model(args.model)
    optimizer = make_optimizer(model.parameters())
    loader = DataLoader(Samples(args.model, args.image), batch_size=4)
    for _ in range(1000):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = loss_of(model(inputs), targets)
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
