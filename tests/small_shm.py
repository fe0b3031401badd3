"""Run by a test where /dev/shm is small: what fits is measured, what does not is refused or named."""

import json
import sys
from pathlib import Path

from real_trials import RealTrials, zoo_target

from tunekit.machine.detect import detect_host
from tunekit.predict.ram import loader_ram
from tunekit.recommend.memory import base_ram_bytes

FEATURES = "131072"
"""8 MiB a batch: three of them fit into 64 MiB, nine don't."""


def main() -> None:
    folder = Path(sys.argv[1])
    fits = RealTrials(zoo_target("known_times.py", "--workers", "1", "--features", FEATURES), folder / "fits")
    baseline = fits.run_baseline()
    assert baseline.config is not None and baseline.measurement is not None
    more = baseline.config.model_copy(update={"num_workers": 4, "prefetch_factor": 2})
    measured = baseline.measurement
    refusal = loader_ram(
        more, measured.loop.bytes_per_sample, base_ram_bytes(measured), detect_host()
    ).why_oom
    target = zoo_target("known_times.py", "--workers", "4", "--features", FEATURES, "--stacked")
    too_big = RealTrials(target, folder / "too-big").run_baseline().failure
    told = None if too_big is None else (too_big.kind, too_big.message, too_big.remedy)
    sys.stdout.write(json.dumps({"refusal": refusal, "failure": told}))


if __name__ == "__main__":
    main()
