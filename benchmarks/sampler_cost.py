"""What one proposal of the search takes, after many trials on a large space.

    python benchmarks/sampler_cost.py [--trials 1000] [--proposals 10]

The space has 11 batch sizes, 17 numbers of workers, 3 of prefetch, and every mode of a GPU; the trials are
random ones of a random world. Printed: median and longest milliseconds of one proposal, after
few trials and after many, and what the first one takes on top, for the space itself.
"""

import argparse
import random
import shlex
import sys
import time
from statistics import median

from random_world import RandomWorld

from tunekit.records.config import KnobValue
from tunekit.records.run import KnobSpace
from tunekit.tune.acquisition import Acquisition
from tunekit.tune.study import Study

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
WORLD = RandomWorld(1)
"""16 CPUs and a GPU."""


def main() -> None:
    """Propose and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--proposals", type=int, default=10)
    options = parser.parse_args()
    chance = random.Random(0)
    configs = list(Acquisition(SPACE, WORLD.host).configs)
    print(f"`{shlex.join(['python', 'benchmarks/sampler_cost.py', *sys.argv[1:]])}`")
    print(f"\n{len(configs):,} configs\n")
    print("| trials | ms per proposal, median | longest | first |")
    print("|---|---|---|---|")
    for count in (10, 100, options.trials):
        study = Study(SPACE, WORLD.host)
        tried = chance.sample(configs, count)
        study.tell([WORLD.baseline])
        study.tell(WORLD.draw(config, chance, number) for number, config in enumerate(tried, 1))
        took_ms = []
        for number in range(options.proposals + 1):
            began = time.perf_counter()
            proposal = study.propose()
            took_ms.append(1000 * (time.perf_counter() - began))
            if proposal is not None:
                study.tell([WORLD.draw(proposal.config, chance, count + 1 + number)])
        first, later = took_ms[0], took_ms[1:]
        print(f"| {count:,} | {median(later):.0f} | {max(later):.0f} | {first:.0f} |", flush=True)


if __name__ == "__main__":
    main()
