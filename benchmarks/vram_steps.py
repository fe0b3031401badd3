"""What steps on fake cuda tensors say of themselves: tables that vram_accuracy.py prints.

Whether a trace between two batch sizes is that of its own size; whether operations are those that are known
of ResNet-50 and GPT-2; what a compiled step would keep.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import nn
from vram_models import Gpt, LstmLanguageModel, resnet50

from tunekit.memory.vram.fake.step import FakeTraining, traced, traced_at
from tunekit.memory.vram.predict import MemoryPrediction, replayed
from tunekit.memory.vram.trace import AllocationTrace, in_order
from tunekit.records.step_trace import StepTrace
from tunekit.units import MIB

_SIZES = (2, 3, 7, 16, 33, 64, 100, 256, 384, 512)
_RESNET_GMAC, _RESNET_RATIO = 4.089, 2.97
"""Of an image of 224 x 224 with 1,000 classes, its stride in the 3 x 3 convolutions."""
_GPT_GFLOP, _GPT_RATIO, _GPT_LENGTH = 0.285, 3.07, 1024
"""Of a token of GPT-2 small: 2 x 123.6 M weights, and 4 x 1,024 x 768 in each of 12 blocks for attention."""
_GOAL_OFF = 0.005

Batches = Callable[[int], tuple[torch.Tensor, torch.Tensor]]


def images(batch_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images and their classes."""
    return torch.empty(batch_size, 3, 224, 224), torch.zeros(batch_size, dtype=torch.long)


def tokens_of(length: int) -> Batches:
    """Return what makes batches of tokens, and of the tokens that follow."""

    def batch(batch_size: int) -> tuple[torch.Tensor, torch.Tensor]:
        tokens = torch.zeros(batch_size, length, dtype=torch.long)
        return tokens, torch.zeros(batch_size * length, dtype=torch.long)

    return batch


def trainings() -> dict[str, FakeTraining]:
    """Return a CNN, a small GPT and an LSTM, in fp32."""
    sgd = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
    small_gpt = partial(Gpt, vocabulary=8192, width=384, blocks=6, heads=6, length=256)
    cross_entropy = nn.functional.cross_entropy
    return {
        "ResNet-50": FakeTraining(partial(resnet50, 1000), sgd, images, cross_entropy),
        "small GPT": FakeTraining(small_gpt, torch.optim.AdamW, tokens_of(256), cross_entropy),
        "LSTM": FakeTraining(LstmLanguageModel, sgd, tokens_of(35), cross_entropy),
    }


def in_precisions() -> dict[str, FakeTraining]:
    """Return each in fp32 and in bf16 AMP."""
    given = trainings()
    half = {
        f"{name}, bf16": replace(training, autocast_dtype=torch.bfloat16) for name, training in given.items()
    }
    return {
        name: training for pair in zip(given.items(), half.items(), strict=True) for name, training in pair
    }


def is_exact(training: FakeTraining, prediction: MemoryPrediction, batch_size: int) -> bool:
    """Return whether a predicted trace is the size's own: blocks, sizes, and so both peaks."""
    own, between = in_order(AllocationTrace.of(traced(training, batch_size))), prediction.trace(batch_size)
    if own.blocks.tolist() != between.blocks.tolist():
        return False
    allocator, peak = replayed(own), prediction.peak(batch_size)
    return (
        own.sizes_bytes.tolist() == between.sizes_bytes.tolist()
        and allocator.peak_allocated_bytes == peak.allocated_bytes
        and allocator.peak_reserved_bytes == peak.reserved_bytes
    )


def tell_exactness() -> None:
    """Trace ten batch sizes of each training, compare and print."""
    print(f"\nBatch sizes {', '.join(str(size) for size in _SIZES)} by traces at 8 and 24:\n")
    print("| model | events | exact | reserved at 512, predicted | s for two traces |")
    print("|---|---|---|---|---|")
    for name, training in in_precisions().items():
        began = time.monotonic()
        first, second = traced_at(training, (8, 24))
        took_s = time.monotonic() - began
        prediction = MemoryPrediction.of(first, second)
        exact = sum(is_exact(training, prediction, size) for size in _SIZES)
        reserved = prediction.peak(512).reserved_bytes / MIB
        print(
            f"| {name} | {len(first.sizes):,} | {exact} of {len(_SIZES)} | {reserved:,.0f} MiB "
            f"| {took_s:.1f} |",
            flush=True,
        )


def operations(steps: StepTrace) -> tuple[float, float]:
    """Return the operations of a step's forward pass and of the whole step."""
    backward = next(place for place, op in enumerate(steps.ops) if "_backward" in op.name)
    return sum(op.flops for op in steps.ops[:backward]), sum(op.flops for op in steps.ops)


def tell_operations() -> None:
    """Count operations, and print them beside what is known."""
    given = trainings()
    gpt = replace(given["small GPT"], make_model=Gpt, make_batch=tokens_of(_GPT_LENGTH))
    forward, step = operations(traced(given["ResNet-50"], 8))
    words_forward, words_step = operations(traced(gpt, 2))
    gmac, gflop = forward / 8 / 2e9, words_forward / (2 * _GPT_LENGTH) / 1e9
    print("\n| model | forward, counted | known | off by | training step, times forward | known |")
    print("|---|---|---|---|---|---|")
    print(
        f"| ResNet-50 | {gmac:.3f} GMAC/image | {_RESNET_GMAC} | {gmac / _RESNET_GMAC - 1:+.2%} "
        f"| {step / forward:.2f} | {_RESNET_RATIO} |"
    )
    print(
        f"| GPT-2 small | {gflop:.3f} GFLOP/token | {_GPT_GFLOP} | {gflop / _GPT_GFLOP - 1:+.2%} "
        f"| {words_step / words_forward:.2f} | {_GPT_RATIO} |"
    )
    is_met = max(abs(gmac / _RESNET_GMAC - 1), abs(gflop / _GPT_GFLOP - 1)) <= _GOAL_OFF
    print(f"\ngoal, within {_GOAL_OFF:.1%} of both: {'met' if is_met else 'missed'}")


def tell_compiled() -> None:
    """Bound compiled steps and print."""
    print("\n| model | batch | allocated, eager, predicted | compiled, a bound | by | s |")
    print("|---|---|---|---|---|---|")
    given = in_precisions()
    for name, batch_size in (
        ("ResNet-50", 64),
        ("ResNet-50, bf16", 64),
        ("small GPT", 32),
        ("small GPT, bf16", 32),
    ):
        eager = MemoryPrediction.of(*traced_at(given[name], (8, 24))).peak(batch_size)
        began = time.monotonic()
        compiled = replace(given[name], is_compiled=True)
        bound = MemoryPrediction.of(*traced_at(compiled, (8, 24))).peak(batch_size)
        by = bound.allocated_bytes / eager.allocated_bytes - 1
        print(
            f"| {name} | {batch_size} | {eager.allocated_bytes / MIB:,.0f} MiB "
            f"| {bound.allocated_bytes / MIB:,.0f} MiB | {by:+.1%} "
            f"| {time.monotonic() - began:.1f} |",
            flush=True,
        )
