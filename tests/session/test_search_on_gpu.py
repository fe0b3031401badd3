"""A whole search on a simulated device, held against what configs do there without tunekit."""

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from simgpu.machine import SimulatedGpu
from tunekit.recommend.tiers import POLICIES
from tunekit.records.codec import read_json
from tunekit.records.run import Run
from tunekit.records.trial import OutcomeKind

SCRIPT = Path(__file__).parents[1] / "zoo" / "wide_layers.py"
MEMORY_BYTES = 1 << 30
DEVICE = f"a100-sxm-80:slower=96:memory_bytes={MEMORY_BYTES}:context_bytes=64MiB"
"""So slow that a busy host hardly shows, and with little of its memory taken before torch begins."""
NEAR = 0.85
"""Share of the fastest from which a config is as good as found: of two neighbouring batch sizes the smaller
has about 0.9, and a busy host may hide that; another precision has a half."""
FIXED = ("num_workers=0", "pin_memory=false", "compile=false")


@dataclass(frozen=True)
class Plain:
    """What a config did without tunekit."""

    reserved_bytes: int
    samples_per_s: float
    """By the device's own time line; 0 where memory ended."""


def run_plainly(gpu: SimulatedGpu, configs: list[tuple[int, str]]) -> dict[tuple[int, str], Plain]:
    """Train a few steps with each config of one process."""
    words = [json.dumps({"batch_size": batch, "precision": precision}) for batch, precision in configs]
    done = gpu.run([SCRIPT, *words], DEVICE)
    assert done.returncode == 0, done.stderr
    kernels = [work for work in gpu.trace() if work.engine == "compute"]
    plain = {}
    for one in map(json.loads, done.stdout.splitlines()):
        busy_ns = [
            sum(work.duration_ns for work in kernels if begin < work.end_ns <= end)
            for begin, end in pairwise(one["ends_ns"] or ())
        ]
        rate = one["batch_size"] / (min(busy_ns) / 1e9) if busy_ns else 0.0
        plain[one["batch_size"], one["precision"]] = Plain(one["reserved_bytes"], rate)
    return plain


@pytest.fixture
def searched(simulated_gpu: SimulatedGpu, tmp_path: Path) -> Run:
    """What a search finds in batch size and precision."""
    out = tmp_path / "run"
    words = ["--budget", "15m", "--trials", "7", "--window", "1", "--confirm", "1", "--out", str(out)]
    words += [word for fixed in FIXED for word in ("--fix", fixed)]
    words += ["--range", "batch_size=16..256", "--", str(simulated_gpu.python), str(SCRIPT)]
    done = simulated_gpu.run(["-m", "tunekit", "search", *words], DEVICE, timeout_s=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return read_json(out / "run.json", Run)


@pytest.mark.slow
def test_a_search_finds_the_fastest_config_that_each_share_of_the_memory_allows(
    simulated_gpu: SimulatedGpu, searched: Run
) -> None:
    batches = next(entry.values for entry in searched.space if entry.knob == "batch_size")
    precisions = next(entry.values for entry in searched.space if entry.knob == "precision")
    assert precisions == ("fp32", "tf32", "bf16")
    grid = [(int(batch), precision) for precision in ("tf32", "bf16") for batch in batches if batch]
    plain = run_plainly(simulated_gpu, grid)

    ended = {config for config, did in plain.items() if not did.samples_per_s}
    assert 0 < len(ended) < len(plain)
    for trial in searched.trials:
        assert trial.config is not None
        config = (trial.config.batch_size, trial.config.precision.value)
        if config not in plain:
            continue
        assert trial.failure is None or trial.failure.kind is OutcomeKind.DEVICE_OOM
        assert (trial.failure is not None) == (config in ended)

    tiers = {one.tier: one.config for one in searched.recommendations}
    assert len(tiers) == len(POLICIES)
    for tier, config in tiers.items():
        share_bytes = POLICIES[tier].vram_share * MEMORY_BYTES
        allowed = [did.samples_per_s for did in plain.values() if did.reserved_bytes <= share_bytes]
        found = plain[config.batch_size, config.precision.value]
        assert found.reserved_bytes <= share_bytes, tier
        assert found.samples_per_s >= NEAR * max(allowed), tier
