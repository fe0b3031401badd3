"""Prints what steps of a known model take on fake tensors of a GPU, as JSON: a process of its own.

    python vram_loop_fake.py MODEL IMAGE SIZE...

Each size has the peak of its own precision and of bf16, in which the model's forward runs under autocast and
its outputs are float32, as tunekit sets it.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "zoo"), str(ROOT / "benchmarks")]

import known_memory as known  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402

from tunekit.memory.vram.fake.step import FakeTraining, traced  # noqa: E402
from tunekit.memory.vram.predict import MemoryPrediction  # noqa: E402

_SIZES = (8, 24)


class InBf16(nn.Module):
    """A model under autocast whose outputs are float32."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the model's output."""
        with torch.autocast("cuda", torch.bfloat16):
            outputs = self.model(inputs)
        return outputs.float()


def main() -> None:
    """Trace, predict, print."""
    name, image, sizes = sys.argv[1], int(sys.argv[2]), [int(word) for word in sys.argv[3:]]

    def batch_of(size: int) -> tuple[torch.Tensor, torch.Tensor]:
        inputs, target = known.sample(name, image)
        return inputs.new_zeros(size, *inputs.shape), target.new_zeros(size, *target.shape)

    def in_bf16() -> nn.Module:
        return InBf16(known.make_model(name))

    told = {}
    for precision, make in (("own", lambda: known.make_model(name)), ("bf16", in_bf16)):
        training = FakeTraining(make, known.make_optimizer, batch_of, known.loss_of)
        traces = [traced(training, size) for size in _SIZES]
        prediction = MemoryPrediction.of(*traces)
        flops = sum(op.flops for op in traces[0].ops) / traces[0].batch_size
        peaks = {size: prediction.peak(size).allocated_bytes for size in sizes}
        told[precision] = {"peaks": peaks, "flops": flops}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
