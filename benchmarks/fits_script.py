"""A plain training script of a model that everybody knows, on data made up in the loader's workers.

    python benchmarks/fits_script.py resnet50 --batch 256

What fits_time.py has `tunekit fits` look at. Models are plain torch; there is nothing of tunekit in here.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from vram_models import resnet50

IMAGE = 224
WORDS, TOKENS = 50_257, 512


class Images(Dataset):
    """Random images with a label each, or with a label for each pixel."""

    def __init__(self, size=IMAGE, per_pixel=False):
        self.size, self.per_pixel = size, per_pixel

    def __len__(self):
        return 100_000

    def __getitem__(self, number):
        random = torch.Generator().manual_seed(number)
        image = torch.randint(0, 256, (3, self.size, self.size), dtype=torch.uint8, generator=random)
        label = torch.randint(0, 20, (self.size, self.size)) if self.per_pixel else number % 1000
        return image.float() / 255, label


class Texts(Dataset):
    """Random tokens, and the ones that follow them."""

    def __len__(self):
        return 100_000

    def __getitem__(self, number):
        tokens = torch.randint(0, WORDS, (TOKENS + 1,), generator=torch.Generator().manual_seed(number))
        return tokens[:-1], tokens[1:]


class Vit(nn.Module):
    """A vision transformer, ViT-S/16 by default."""

    def __init__(self, width=384, depth=12, heads=6):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.places = nn.Parameter(torch.zeros(1, 197, width))
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, depth, nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, 1000)

    def forward(self, images):
        """Return logits."""
        tokens = self.patches(images).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.first.expand(len(tokens), -1, -1), tokens], 1) + self.places
        return self.head(self.layers(tokens)[:, 0])


class Bert(nn.Module):
    """BERT-base with a head over the vocabulary."""

    def __init__(self, width=768, depth=12, heads=12):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(TOKENS, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.1, "gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, WORDS)

    def forward(self, tokens):
        """Return logits, classes first."""
        hidden = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.layers(hidden)).transpose(1, 2)


class Gpt2(nn.Module):
    """GPT-2 small, with causal attention and tied words."""

    def __init__(self, width=768, depth=12, heads=12):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(TOKENS, width)
        self.blocks = nn.ModuleList(GptBlock(width, heads) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, WORDS, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens):
        """Return logits, classes first."""
        hidden = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(self.norm(hidden)).transpose(1, 2)


class GptBlock(nn.Module):
    """Attention and MLP, each behind a norm."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, hidden):
        """Return what the next block takes."""
        batch, places, width = hidden.shape
        parts = self.qkv(self.norm1(hidden)).view(batch, places, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.out(mixed.transpose(1, 2).reshape(batch, places, width))
        return hidden + self.mlp(self.norm2(hidden))


class LstmModel(nn.Module):
    """A language model of two LSTM layers."""

    def __init__(self, width=1024):
        super().__init__()
        self.words, self.layers = nn.Embedding(WORDS, width), nn.LSTM(width, width, 2, batch_first=True)
        self.head = nn.Linear(width, WORDS)

    def forward(self, tokens):
        """Return logits, classes first."""
        return self.head(self.layers(self.words(tokens))[0]).transpose(1, 2)


class UNet(nn.Module):
    """Four steps down and up again, with everything of the way down kept for the way up."""

    def __init__(self, width=64, classes=20):
        super().__init__()
        widths = [width * 2**level for level in range(5)]
        self.down = nn.ModuleList(two_convolutions(a, b) for a, b in zip([3, *widths], widths, strict=False))
        self.grow = nn.ModuleList(nn.ConvTranspose2d(2 * one, one, 2, 2) for one in reversed(widths[:-1]))
        self.up = nn.ModuleList(two_convolutions(2 * one, one) for one in reversed(widths[:-1]))
        self.pool, self.head = nn.MaxPool2d(2), nn.Conv2d(width, classes, 1)

    def forward(self, images):
        """Return logits of each pixel."""
        kept = [self.down[0](images)]
        for layer in self.down[1:]:
            kept.append(layer(self.pool(kept[-1])))
        hidden = kept.pop()
        for grow, layer in zip(self.grow, self.up, strict=True):
            hidden = layer(torch.cat([kept.pop(), grow(hidden)], 1))
        return self.head(hidden)


def two_convolutions(before, after):
    """Return two convolutions with norms."""
    return nn.Sequential(
        *(nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(inplace=True)),
        *(nn.Conv2d(after, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(inplace=True)),
    )


MODELS = {
    "resnet50": (lambda: resnet50(1000), Images),
    "vit_s": (Vit, Images),
    "bert_base": (Bert, Texts),
    "gpt2": (Gpt2, Texts),
    "lstm": (LstmModel, Texts),
    "unet": (UNet, lambda: Images(256, per_pixel=True)),
}


def main():
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--batch", type=int, default=64)
    options = parser.parse_args()
    make_model, make_data = MODELS[options.model]
    model = make_model()
    if options.model in ("resnet50", "unet"):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    loader = DataLoader(make_data(), options.batch, shuffle=True, num_workers=2, drop_last=True)
    for number, (inputs, targets) in enumerate(loader):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        if number % 10 == 0:
            print(f"batch {number}: loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
