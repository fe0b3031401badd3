"""What one proposal of the search takes, after many trials on a large space.

    python benchmarks/sampler_cost.py [--trials 1000] [--proposals 10]

The space has 11 batch sizes, 17 numbers of workers, 3 of prefetch, and every mode of a GPU; the trials are
random ones of a target with plain physics. Printed: median and longest milliseconds of one proposal, after
few trials and after many, and what the first one takes on top, for the space itself.
"""

import argparse
import random
import shlex
import sys
import time
from statistics import median

from tunekit.records.attribution import StepParts
from tunekit.records.config import TrainConfig
from tunekit.records.host import Host
from tunekit.records.measurement import DeviceSeen, LoopMeasurement, Measurement, TreeMemory
from tunekit.records.run import KnobSpace, KnobValue
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.search.guided import Guided
from tunekit.search.study import Study

GIB = 1 << 30
_VALUES: dict[str, tuple[KnobValue, ...]] = {
    "batch_size": (16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024),
    "num_workers": tuple(range(17)),
    "prefetch_factor": (2, 4, 8),
    "pin_memory": (False, True),
    "persistent_workers": (True,),
    "compile": (False, True),
    "precision": ("fp32", "tf32", "bf16"),
    "channels_last": (False, True),
    "accumulate_grad_batches": (1,),
}
SPACE = tuple(
    KnobSpace(knob=knob, values=values, why_fixed=None if len(values) > 1 else "not searched")
    for knob, values in _VALUES.items()
)
HOST = Host(
    hostname="large",
    cpus=16,
    cpus_total=16,
    cpu_name=None,
    ram_limit_bytes=128 * GIB,
    ram_total_bytes=128 * GIB,
    shm_bytes=64 * GIB,
    accelerators=(),
    platform="Linux",
    python_version="3.11",
)


def trial(number: int, config: TrainConfig, chance: random.Random) -> TrialRecord:
    """Return a measured trial of a config."""
    compute_s = 0.005 + config.batch_size * {"fp32": 1e-3, "tf32": 8e-4, "bf16": 5e-4}[config.precision]
    compute_s *= 0.9 if config.compile else 1.0
    loader_s = config.batch_size * 2e-3 / max(1, config.num_workers)
    step_s = max(compute_s, loader_s) if config.num_workers else compute_s + loader_s
    step_s *= chance.gauss(1.0, 0.01)
    batches = 100
    loop = LoopMeasurement(
        device=DeviceSeen(type="cuda", name="a GPU", memory_bytes=24 * GIB),
        batch_size=config.batch_size,
        num_workers=config.num_workers,
        prefetch_factor=config.prefetch_factor,
        pin_memory=config.pin_memory,
        persistent_workers=config.persistent_workers,
        compile_graphs=int(config.compile),
        float32_matmul_precision=None,
        steady_batches=batches,
        steady_samples=batches * config.batch_size,
        steady_time_s=batches * step_s,
        rate_interval_relative=0.01,
        stop_reason="interval",
        discarded_batches=8,
        parts=StepParts(
            data_wait_s=batches * max(0.0, step_s - compute_s),
            compute_s=batches * min(step_s, compute_s),
            optimizer_s=0.0,
            other_s=0.0,
        ),
        epoch_samples=100_000,
        epoch_batches=100_000 // config.batch_size,
        boundary_s=0.1,
        boundaries_seen=1,
        startup_s=5.0,
        first_batch_s=0.1,
        first_step_s=1.0,
        batch_bytes=1000 * config.batch_size,
        peak_allocated_bytes=GIB + config.batch_size * 10_000_000,
        peak_reserved_bytes=GIB + config.batch_size * 10_000_000,
        allocation_retries=0,
        loss_first=None,
        loss_last=None,
        script_steps=120,
    )
    memory = TreeMemory(peak_pss_bytes=GIB, peak_shm_bytes=0, processes=1, samples=20)
    return TrialRecord(
        number=number,
        role=TrialRole.SEARCH if number else TrialRole.BASELINE,
        config=config,
        is_baseline_config=number == 0,
        started_at="2026-01-01T00:00:00Z",
        duration_s=15.0,
        measurement=Measurement(loop=loop, memory=memory),
    )


def main() -> None:
    """Propose and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--proposals", type=int, default=10)
    options = parser.parse_args()
    chance = random.Random(0)
    configs = list(Guided(SPACE, HOST).configs)
    print(f"`{shlex.join(['python', 'benchmarks/sampler_cost.py', *sys.argv[1:]])}`")
    print(f"\n{len(configs):,} configs\n")
    print("| trials | ms per proposal, median | longest | first |")
    print("|---|---|---|---|")
    for count in (10, 100, options.trials):
        study = Study(SPACE, HOST)
        tried = chance.sample(configs, count)
        study.tell(trial(number, config, chance) for number, config in enumerate(tried))
        took_ms = []
        for number in range(options.proposals + 1):
            began = time.perf_counter()
            proposal = study.propose()
            took_ms.append(1000 * (time.perf_counter() - began))
            if proposal is not None:
                study.tell([trial(count + number, proposal.config, chance)])
        first, later = took_ms[0], took_ms[1:]
        print(f"| {count:,} | {median(later):.0f} | {max(later):.0f} | {first:.0f} |", flush=True)


if __name__ == "__main__":
    main()
