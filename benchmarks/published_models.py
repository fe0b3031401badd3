"""The models of published training rates, as an ordinary training script.

    python benchmarks/published_models.py resnet50 amp-fp16 --layout nhwc --batch 8

prediction_exam.py has tunekit trace it, without arithmetic, on a CPU. It needs timm 1.0.31, torchvision and
transformers. Sizes are from the sources in published/README.md. Attention is unfused, as it was there.
"""

import argparse
import re
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset

_TIMM = {
    "mobilenet_v2": "mobilenetv2_100",
    "mnasnet1_0": "mnasnet_100",
    "se_resnext101_32x4d": "seresnext101_32x4d",
    "efficientnet-b0": "efficientnet_b0",
    "efficientnet-widese-b0": "efficientnet_b0",
    "efficientnet-b4": "efficientnet_b4",
    "efficientnet-widese-b4": "efficientnet_b4",
}
"""Names that timm spells differently; a wide squeeze-and-excitation adds weights, but hardly any work."""
_GPT = {"gpt2_large": (1280, 36, 20), "gpt3_xl": (3072, 24, 24), "gpt3_27": (2560, 32, 32)}
"""Width, layers and heads."""
SAMPLES = 64


class Samples(Dataset):
    """Samples of zeros.

    Args:
        parts: the shape and dtype of each tensor of a sample.
    """

    def __init__(self, parts: Sequence[tuple[tuple[int, ...], torch.dtype]], count: int = SAMPLES) -> None:
        self._sample = tuple(torch.zeros(shape, dtype=dtype) for shape, dtype in parts)
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: int) -> tuple[Tensor, ...]:
        return self._sample


class Classifier(nn.Module):
    """Class scores of images."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor, targets: Tensor) -> Tensor:
        return cross_entropy(self.model(images), targets)


class Language(nn.Module):
    """A transformer of Hugging Face, with the arguments that get the tokens."""

    def __init__(self, model: nn.Module, *targets: str) -> None:
        super().__init__()
        self.model, self.targets = model, targets

    def forward(self, tokens: Tensor, answers: Tensor) -> Tensor:
        return self.model(input_ids=tokens, **dict.fromkeys(self.targets, answers)).loss


class Pretraining(nn.Module):
    """BERT with masked tokens and next sentences to guess."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, answers: Tensor) -> Tensor:
        return self.model(input_ids=tokens, labels=tokens, next_sentence_label=answers).loss


class Gnmt(nn.Module):
    """Translation by four recurrent layers on either side, and additive attention."""

    def __init__(self, width: int = 1024, words: int = 32_320) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.both_ways = nn.LSTM(width, width, bidirectional=True, batch_first=True)
        self.encoder = nn.ModuleList(
            nn.LSTM(width * (2 - bool(i)), width, batch_first=True) for i in range(3)
        )
        self.attended = nn.LSTM(width, width, batch_first=True)
        self.query, self.key = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.score = nn.Linear(width, 1, bias=False)
        self.decoder = nn.ModuleList(nn.LSTM(2 * width, width, batch_first=True) for _ in range(3))
        self.head, self.dropout = nn.Linear(width, words), nn.Dropout(0.2)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        seen = self.both_ways(self.dropout(self.embedding(source)))[0]
        for place, layer in enumerate(self.encoder):
            made = layer(self.dropout(seen))[0]
            seen = made + seen if place else made
        said = self.attended(self.dropout(self.embedding(target)))[0]
        sums = torch.tanh(self.query(said)[:, :, None] + self.key(seen)[:, None])
        context = torch.bmm(self.score(sums)[..., 0].softmax(-1), seen)
        for place, layer in enumerate(self.decoder):
            made = layer(self.dropout(torch.cat([said, context], -1)))[0]
            said = made + said if place else made
        scores = self.head(said).log_softmax(-1).flatten(0, 1)
        exact = -scores.gather(1, target.flatten()[:, None])
        return (0.9 * exact[:, 0] - 0.1 * scores.mean(-1)).sum()


class RelativeBlock(nn.Module):
    """A layer of Transformer-XL, which attends to as many tokens before its own."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.products, self.places = (
            nn.Linear(width, 3 * width, bias=False),
            nn.Linear(width, width, bias=False),
        )
        self.out, self.norm = nn.Linear(width, width, bias=False), nn.LayerNorm(width)
        self.feed = nn.Sequential(
            nn.Linear(width, 4 * width),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Linear(4 * width, width),
            nn.Dropout(0.1),
        )
        self.feed_norm, self.dropout = nn.LayerNorm(width), nn.Dropout(0.1)

    def forward(self, tokens: Tensor, memory: Tensor, distances: Tensor) -> Tensor:
        count, length, width = tokens.shape
        both = torch.cat([memory, tokens], 1)
        split = (count, -1, self.heads, width // self.heads)
        query, key, value = (one.reshape(split).transpose(1, 2) for one in self.products(both).chunk(3, -1))
        query = query[:, :, -length:]
        place = self.places(distances).reshape(1, -1, *split[2:]).transpose(1, 2).expand(count, -1, -1, -1)
        by_place = query @ place.transpose(2, 3)
        padded = nn.functional.pad(by_place, (1, 0)).view(count, self.heads, -1, length)
        shifted = padded[:, :, 1:].reshape(by_place.shape)
        shares = (query @ key.transpose(2, 3) + shifted).mul(0.125).masked_fill(self._later(shifted), -1e4)
        seen = self.dropout(shares.softmax(-1)) @ value
        tokens = self.norm(tokens + self.dropout(self.out(seen.transpose(1, 2).reshape(tokens.shape))))
        return self.feed_norm(tokens + self.feed(tokens))

    def _later(self, scores: Tensor) -> Tensor:
        length, whole = scores.shape[-2:]
        return torch.ones(length, whole, device=scores.device).triu(whole - length + 1).bool()


class TransformerXl(nn.Module):
    """Language model with a full softmax over 267,735 words."""

    def __init__(self, width: int = 512, layers: int = 16, heads: int = 8, words: int = 267_735) -> None:
        super().__init__()
        self.embedding, self.dropout = nn.Embedding(words, width), nn.Dropout(0.1)
        self.blocks = nn.ModuleList(RelativeBlock(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, words)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        seen = self.dropout(self.embedding(tokens))
        distances = torch.zeros(2 * tokens.shape[1], seen.shape[-1], device=seen.device)
        for block in self.blocks:
            seen = block(seen, seen.detach(), distances)
        return cross_entropy(self.head(seen).flatten(0, 1), targets.flatten())


class Ncf(nn.Module):
    """NeuMF on MovieLens 20M."""

    def __init__(self, users: int = 138_493, items: int = 26_744, factor: int = 64) -> None:
        super().__init__()
        self.of_user, self.of_item = nn.Embedding(users, factor), nn.Embedding(items, factor)
        self.user, self.item = nn.Embedding(users, 2 * factor), nn.Embedding(items, 2 * factor)
        sizes = (4 * factor, 4 * factor, 2 * factor, factor)
        layers = [nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Dropout(0.5)) for a, b in pairwise(sizes)]
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(2 * factor, 1)

    def forward(self, user: Tensor, item: Tensor, liked: Tensor) -> Tensor:
        deep = self.layers(torch.cat([self.user(user), self.item(item)], -1))
        score = self.head(torch.cat([self.of_user(user) * self.of_item(item), deep], -1))
        return nn.functional.binary_cross_entropy_with_logits(score[:, 0], liked)


class LstmLanguage(nn.Module):
    """PyTorch's word language model on WikiText-2."""

    def __init__(self, width: int = 200, words: int = 33_278) -> None:
        super().__init__()
        self.embedding, self.dropout = nn.Embedding(words, width), nn.Dropout(0.2)
        self.lstm = nn.LSTM(width, width, 2, dropout=0.2, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        seen = self.lstm(self.dropout(self.embedding(tokens)))[0]
        return cross_entropy(self.head(self.dropout(seen)).flatten(0, 1), targets.flatten())


class Unet(nn.Module):
    """nnU-Net with instance norm."""

    def __init__(self, dims: int) -> None:
        super().__init__()
        conv, norm = (nn.Conv2d, nn.InstanceNorm2d) if dims == 2 else (nn.Conv3d, nn.InstanceNorm3d)
        up = nn.ConvTranspose2d if dims == 2 else nn.ConvTranspose3d
        widths = [min(32 << level, 512 if dims == 2 else 320) for level in range(6)]

        def block(taken: int, made: int, stride: int) -> nn.Sequential:
            layers: list[nn.Module] = []
            for a, step in ((taken, stride), (made, 1)):
                layers += [
                    conv(a, made, 3, step, 1),
                    norm(made, affine=True),
                    nn.LeakyReLU(0.01, inplace=True),
                ]
            return nn.Sequential(*layers)

        pairs = list(pairwise(widths))
        self.first = block(4, widths[0], 1)
        self.down = nn.ModuleList(block(a, b, 2) for a, b in pairs)
        self.up = nn.ModuleList(up(b, a, 2, 2) for a, b in reversed(pairs))
        self.joined = nn.ModuleList(block(2 * a, a, 1) for a, _ in reversed(pairs))
        self.head = conv(widths[0], 4, 1)

    def forward(self, images: Tensor, targets: Tensor) -> Tensor:
        seen = [self.first(images)]
        for down in self.down:
            seen.append(down(seen[-1]))
        now = seen.pop()
        for up, joined in zip(self.up, self.joined, strict=True):
            now = joined(torch.cat([up(now), seen.pop()], 1))
        return cross_entropy(self.head(now), targets)


class Ssd(nn.Module):
    """SSD300 on ResNet-50 without its last stage."""

    def __init__(self) -> None:
        super().__init__()
        import torchvision

        whole = torchvision.models.resnet50()
        whole.layer3[0].conv2.stride = whole.layer3[0].downsample[0].stride = (1, 1)
        self.backbone = nn.Sequential(*list(whole.children())[:7])
        plan = (
            (1024, 256, 512, 2),
            (512, 256, 512, 2),
            (512, 128, 256, 2),
            (256, 128, 256, 1),
            (256, 128, 256, 1),
        )
        self.more = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(a, b, 1, bias=False),
                nn.BatchNorm2d(b),
                nn.ReLU(inplace=True),
                nn.Conv2d(b, c, 3, stride, 1 if stride == 2 else 0, bias=False),
                nn.BatchNorm2d(c),
                nn.ReLU(inplace=True),
            )
            for a, b, c, stride in plan
        )
        sizes = ((1024, 4), (512, 6), (512, 6), (256, 6), (256, 4), (256, 4))
        self.heads = nn.ModuleList(nn.Conv2d(a, boxes * 85, 3, 1, 1) for a, boxes in sizes)

    def forward(self, images: Tensor, targets: Tensor) -> Tensor:
        seen = [self.backbone(images)]
        for layer in self.more:
            seen.append(layer(seen[-1]))
        made = [head(one).reshape(len(images), 85, -1) for head, one in zip(self.heads, seen, strict=True)]
        found = torch.cat(made, 2)
        return (
            cross_entropy(found[:, 4:], targets[:, None].expand(-1, found.shape[2]))
            + found[:, :4].abs().mean()
        )


class BasicBlock(nn.Module):
    """Two convolutions of the small ResNet-18 for CIFAR."""

    def __init__(self, taken: int, made: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(taken, made, 3, stride, 1, bias=False), nn.BatchNorm2d(made))
        self.second = nn.Sequential(nn.Conv2d(made, made, 3, 1, 1, bias=False), nn.BatchNorm2d(made))
        self.shortcut = (
            nn.Identity()
            if stride == 1 and taken == made
            else nn.Sequential(nn.Conv2d(taken, made, 1, stride, bias=False), nn.BatchNorm2d(made))
        )

    def forward(self, images: Tensor) -> Tensor:
        return (self.second(self.first(images).relu()) + self.shortcut(images)).relu()


def cifar_resnet18() -> nn.Module:
    """Return kuangliu's ResNet-18 for 32 x 32 images."""
    widths = [(64, 64, 1), (64, 64, 1)]
    for taken, made in ((64, 128), (128, 256), (256, 512)):
        widths += [(taken, made, 2), (made, made, 1)]
    stem = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    return nn.Sequential(
        *stem, *(BasicBlock(*one) for one in widths), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(512, 10)
    )


def language_model(name: str, is_pretraining: bool) -> nn.Module:
    """Return a transformer of Hugging Face that takes tokens and their targets."""
    import transformers as hf

    if name in _GPT:
        width, layers, heads = _GPT[name]
        gpt = hf.GPT2Config(
            n_embd=width, n_layer=layers, n_head=heads, n_positions=2048, attn_implementation="eager"
        )
        return Language(hf.GPT2LMHeadModel(gpt), "labels")
    if name == "opt_13":
        opt = hf.OPTConfig(
            hidden_size=2048,
            num_hidden_layers=24,
            ffn_dim=8192,
            num_attention_heads=32,
            word_embed_proj_dim=2048,
            attn_implementation="eager",
        )
        return Language(hf.OPTForCausalLM(opt), "labels")
    if name == "bart_large":
        return Language(
            hf.BartForConditionalGeneration(hf.BartConfig(attn_implementation="eager")),
            "decoder_input_ids",
            "labels",
        )
    sizes = {
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
    }
    bert = hf.BertConfig(**(sizes if name == "bert_large" else {}), attn_implementation="eager")
    if is_pretraining:
        return Pretraining(hf.BertForPreTraining(bert))
    return Language(hf.BertForQuestionAnswering(bert), "start_positions", "end_positions")


def made(name: str, size: str, precision: str) -> tuple[nn.Module, Dataset]:
    """Return a model that returns its loss, and its data.

    Args:
        name: of training_rates.csv.
        size: the edge of its images in pixels, or the tokens of its sequences.
        precision: half the samples' width for "fp16".
    """
    whole, word = torch.long, torch.float16 if precision == "fp16" else torch.float32
    number = int(re.findall(r"\d+", size)[0])
    plain: dict[str, tuple[Callable[[], nn.Module], list[tuple[tuple[int, ...], torch.dtype]]]] = {
        "gnmt": (Gnmt, [((number,), whole)] * 2),
        "transformer_xl_base": (TransformerXl, [((number,), whole)] * 2),
        "ncf": (Ncf, [((), whole)] * 2 + [((), word)]),
        "lstm_lm_200x2": (LstmLanguage, [((number,), whole)] * 2),
        "nnunet_2d": (lambda: Unet(2), [((4, 192, 160), word), ((192, 160), whole)]),
        "nnunet_3d": (lambda: Unet(3), [((4, 128, 128, 128), word), ((128, 128, 128), whole)]),
        "ssd300_resnet50": (Ssd, [((3, 300, 300), word), ((), whole)]),
        "resnet18_cifar": (lambda: Classifier(cifar_resnet18()), [((3, 32, 32), word), ((), whole)]),
    }
    name = name.partition(" ")[0]
    if name in plain:
        make, parts = plain[name]
        return make(), Samples(parts, 16_384 if name == "ncf" else SAMPLES)
    if name.startswith(("bert", "bart", "gpt", "opt")):
        is_pretraining = name == "bert_large" and number != 384
        tokens = ((number,), whole)
        answers = tokens if not name.startswith("bert") else ((), whole)
        return language_model(name, is_pretraining), Samples([tokens, answers])
    if name == "shufflenet_v2_x1_0":
        import torchvision

        model = torchvision.models.shufflenet_v2_x1_0()
    else:
        import timm

        timm.layers.set_fused_attn(False)
        model = timm.create_model(_TIMM.get(name, name))
    return Classifier(model), Samples([((3, number, number), word), ((), whole)])


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("precision", choices=["fp32", "tf32", "amp-fp16", "fp16", "bf16"])
    parser.add_argument("--size", default="224")
    parser.add_argument("--layout", default="nchw")
    parser.add_argument("--optimizer", choices=["sgd", "adam"], default="sgd")
    parser.add_argument("--batch", type=int, default=4)
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model, data = made(options.model, options.size, options.precision)
    model = model.to(device)
    if options.precision == "fp16":
        model = model.half()
    layout = torch.channels_last if options.layout == "nhwc" else torch.contiguous_format
    if options.model == "nnunet_3d" and options.layout == "nhwc":
        layout = torch.channels_last_3d
    model = model.to(memory_format=layout)
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    if options.optimizer == "adam":
        optimizer = torch.optim.AdamW(model.parameters())
    lower = {"amp-fp16": torch.float16, "bf16": torch.bfloat16}.get(options.precision)
    loader = DataLoader(data, options.batch, drop_last=True)
    for _ in range(10_000):
        for batch in loader:
            parts = [part.to(device) for part in batch]
            if parts[0].dim() >= 4:
                parts[0] = parts[0].to(memory_format=layout)
            optimizer.zero_grad()
            with torch.autocast(device.type, lower or torch.bfloat16, enabled=lower is not None):
                loss = model(*parts)
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
