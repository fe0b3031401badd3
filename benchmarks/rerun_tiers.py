"""Runs the baseline and the tiers of a finished run again, interleaved, in fresh processes.

python benchmarks/rerun_tiers.py reports/NAME [--rounds 5]

What a search claims should hold when it is measured again: prints each tier's speed-up beside the
A/A noise floor of this very run.
"""

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tunekit.recommend.noise import noise_floor, speedup, verdict  # noqa: E402
from tunekit.records.config import TrainConfig  # noqa: E402
from tunekit.records.trial import TrialRole  # noqa: E402
from tunekit.records.trials import Trials  # noqa: E402
from tunekit.report.text import config_text, speedup_text  # noqa: E402
from tunekit.session.folder import load_run  # noqa: E402
from tunekit.trial.executor import KnownTarget, ProcessExecutor, TrialSpec  # noqa: E402
from tunekit.trial.watch import Limits  # noqa: E402
from tunekit.tune.confirm import round_order  # noqa: E402


def main() -> None:
    """Re-run and print a line per tier."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    run = load_run(options.run)
    discovery, own = Trials(run.trials).discovery, run.baseline_config
    if discovery is None or own is None:
        sys.exit(f"{options.run} holds no measured baseline")
    known = KnownTarget(discovery, own)
    configs = list(dict.fromkeys(tier.config for tier in run.recommendations if tier.config != own))
    rates: dict[TrainConfig | None, list[float]] = {config: [] for config in (None, *configs)}
    with tempfile.TemporaryDirectory() as scratch:
        limits = Limits(300.0, 120.0, int(0.9 * run.host.ram_limit_bytes))
        executor = ProcessExecutor(run.target, Path(scratch), limits, run.options.window_s)
        number = 0
        for round_number in range(options.rounds):
            for config in round_order(configs, True, round_number):
                spec = TrialSpec(number, TrialRole.CONFIRM, config, round_number)
                record = executor.run(spec, known, lambda progress: None)
                number += 1
                if record.measurement is None:
                    sys.exit(f"{config_text(config)} failed: {record.failure}")
                rates[config].append(record.measurement.rate_samples_per_s)
                print(
                    f"round {round_number}: {record.measurement.rate_samples_per_s:8.1f} samples/s", end="  "
                )
                print(config_text(config) if config else "baseline", flush=True)
    noise = noise_floor(rates[None])
    print(f"\n$ python benchmarks/rerun_tiers.py {' '.join(sys.argv[1:])}")
    print(f"A/A noise floor of the baseline: {noise.relative:.1%}" if noise else "A/A noise floor: n/a")
    for tier in run.recommendations:
        if tier.config == own:
            print(f"{tier.tier.value}: the baseline's own config")
            continue
        ratio = speedup(rates[tier.config], rates[None], noise)
        judged = verdict(ratio, noise) if ratio else "n/a"
        print(
            f"{tier.tier.value}: claimed {speedup_text(tier.speedup)}, again {speedup_text(ratio)}: {judged}"
        )


if __name__ == "__main__":
    main()
