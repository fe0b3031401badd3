"""How far off is device memory that was predicted without a GPU?

    python benchmarks/vram_accuracy.py

Has a trial trace steps of four models without their arithmetic on a CPU, as `tunekit fits` does
(vram_accuracy_script.py), goes from there to batch 128, and replays that through torch's caching allocator.
Beside it stand the peaks that the public notebook WSShiro/vramexp measured on a GPU (batch 128, fp32, SGD;
torch 2.0.1, CUDA 11.8). Its models ran one after another in one process: what earlier ones had left behind
there, by its own figures, is added here, with their workspaces. Goal: within 4% of each allocated peak.

Then fifteen models of timm's public training benchmark (AMP, channels_last, SGD with momentum, 24 GB RTX
3090, torch 1.12, CUDA 11.3: benchmark-train-amp-nhwc-pt112-cu113-rtx3090.csv of
huggingface/pytorch-image-models): the batch size that it lists ran, the next of its ladder did not, as far as
one can tell. A margin on the predicted memory is fixed on every other model, so that most verdicts are right,
and tried on the rest.
"""

import shlex
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from real_trials_of import traced_fits  # noqa: E402

from tunekit.machine.gpu.outside_torch import BLAS_BYTES, outside_torch  # noqa: E402
from tunekit.machine.profiles import load_profiles  # noqa: E402
from tunekit.records.prediction import PeakShown  # noqa: E402
from tunekit.units import MIB  # noqa: E402

SCRIPT = Path(__file__).with_name("vram_accuracy_script.py")
_GOAL = 0.04
_BATCH_SIZE = 128


class Measured(NamedTuple):
    """What the notebook says of one model."""

    name: str
    left_behind_mib: float | None
    """By the models before it, workspaces included; None for the first."""
    allocated_mib: float
    reserved_mib: float


MEASURED = (
    Measured("small CNN", None, 530.9, 604),
    Measured("VGG16-BN", 24.7, 17231.9, 18752),
    Measured("ResNet-50", 1051.6, 11738.2, 12982),
    Measured("ViT-B/16", 1236.0, 17218.1, 18142),
)


class Ladder(NamedTuple):
    """What timm's benchmark says of one model."""

    name: str
    ran: int
    """Batch size that it lists."""
    failed: int | None
    """The next of its ladder; None above the largest that it tries."""


LADDERS = (
    Ladder("resnet18", 512, None),
    Ladder("resnet34", 512, None),
    Ladder("resnet26", 512, None),
    Ladder("resnet50", 512, None),
    Ladder("resnet50d", 384, 512),
    Ladder("resnet101", 256, 384),
    Ladder("resnet152", 192, 256),
    Ladder("wide_resnet50_2", 384, 512),
    Ladder("resnext50_32x4d", 384, 512),
    Ladder("vgg16", 384, 512),
    Ladder("vgg16_bn", 256, 384),
    Ladder("vgg19", 384, 512),
    Ladder("vit_tiny_patch16_224", 512, None),
    Ladder("vit_small_patch16_224", 384, 512),
    Ladder("vit_base_patch16_224", 192, 256),
)
_CAPACITY_BYTES = int((23.70 * 1024 - 500) * MIB)
"""What torch sees of an RTX 3090, less a context of 500 MiB."""
_MARGINS = tuple(percent / 100 for percent in range(16))


class Predicted:
    """What a trace of a model says, beside an RTX 3090's workspaces of cuBLAS.

    Args:
        name: of the model.
    """

    def __init__(self, name: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self._fits = traced_fits(SCRIPT, [name], Path(folder))
        self._outside = outside_torch(load_profiles()["rtx3090"])

    def peak(self, batch_size: int) -> PeakShown:
        """Return the peak of a batch size, without a margin."""
        peak = self._fits.unlimited_peak(self._fits.precisions[0], batch_size, self._outside)
        assert peak is not None
        return peak

    def fits(self, batch_size: int, capacity_bytes: int) -> bool:
        """Return whether a batch size runs with so much memory."""
        memory = self._fits._memory_of(self._fits.precisions[0], self._outside, False)
        return memory is not None and memory.fits(batch_size, capacity_bytes)


def verdicts(ladder: Ladder, prediction: Predicted, margin: float) -> list[bool]:
    """Return whether each verdict is right: that the listed batch fits, and that the next does not."""
    capacity_bytes = int(_CAPACITY_BYTES / (1 + margin))
    right = [prediction.fits(ladder.ran, capacity_bytes)]
    if ladder.failed is not None:
        right.append(not prediction.fits(ladder.failed, capacity_bytes))
    return right


def tell_ladders() -> None:
    """Predict timm's models and print."""
    print("\n| model | ran | predicted reserved | next | predicted reserved |")
    print("|---|---|---|---|---|")
    predictions = []
    for ladder in LADDERS:
        prediction = Predicted(ladder.name)
        predictions.append(prediction)
        failed = f"{prediction.peak(ladder.failed).reserved_bytes / MIB:.0f} MiB" if ladder.failed else "n/a"
        print(
            f"| {ladder.name} | {ladder.ran} | {prediction.peak(ladder.ran).reserved_bytes / MIB:.0f} MiB "
            f"| {ladder.failed or 'n/a'} | {failed} |",
            flush=True,
        )
    halves = [
        [verdicts_of(place, predictions) for place in range(start, len(LADDERS), 2)] for start in (0, 1)
    ]
    fixed_on, tried_on = ([sum(rights) for rights in zip(*half, strict=True)] for half in halves)
    best = max(fixed_on)
    margins = [margin for margin, right in zip(_MARGINS, fixed_on, strict=True) if right == best]
    chosen = margins[len(margins) // 2]
    counts = [
        sum(1 + (LADDERS[place].failed is not None) for place in range(start, len(LADDERS), 2))
        for start in (0, 1)
    ]
    at = _MARGINS.index(chosen)
    right = fixed_on[0] + tried_on[0]
    print(f"\ncapacity {_CAPACITY_BYTES / MIB:.0f} MiB; without a margin {right} of {sum(counts)} right")
    serving = f"{margins[0]:.0%} to {margins[-1]:.0%} ({best} of {counts[0]} right)"
    print(
        f"margins that serve the first half best: {serving}; with {chosen:.0%} the other half has "
        f"{tried_on[at]} of {counts[1]} right"
    )


def verdicts_of(place: int, predictions: list[Predicted]) -> list[int]:
    """Return how many verdicts on one model are right, for each margin."""
    return [sum(verdicts(LADDERS[place], predictions[place], margin)) for margin in _MARGINS]


def main() -> None:
    """Predict and print."""
    command = shlex.join(["python", "benchmarks/vram_accuracy.py", *sys.argv[1:]])
    print(f"`{command}`\n")
    print("| model | allocated, predicted | measured | off by | reserved, predicted | measured | off by |")
    print("|---|---|---|---|---|---|---|")
    worst = 0.0
    for one in MEASURED:
        peak = Predicted(one.name).peak(_BATCH_SIZE)
        more = 0.0 if one.left_behind_mib is None else one.left_behind_mib - 2 * BLAS_BYTES / MIB
        allocated, reserved = peak.allocated_bytes / MIB + more, peak.reserved_bytes / MIB + more
        off = allocated / one.allocated_mib - 1
        worst = max(worst, abs(off))
        print(
            f"| {one.name} | {allocated:.1f} MiB | {one.allocated_mib:.1f} MiB | {off:+.1%} "
            f"| {reserved:.0f} MiB | {one.reserved_mib} MiB | {reserved / one.reserved_mib - 1:+.1%} |",
            flush=True,
        )
    print(f"\ngoal, within {_GOAL:.0%} of each allocated peak: {'met' if worst <= _GOAL else 'missed'}")
    tell_ladders()


if __name__ == "__main__":
    main()
