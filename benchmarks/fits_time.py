"""How long is it from a script's start-up to what fits which GPU, on a machine without one?

    python benchmarks/fits_time.py [NAME:BATCH ...]

Runs `tunekit fits` for all GPUs on fits_script.py with ResNet-50 and five other models, one after another,
and prints what its start-up took (until the script asked for its first batch), how long after that the answer
was there, the CPU seconds of all processes together, and of how many GPUs it tells in fp32 and in 16 bit.
Goal: each answer within 60 s on a machine that does nothing else.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CASES = (
    "resnet50:64",
    "resnet50:256",
    "vit_s:64",
    "bert_base:32",
    "gpt2:16",
    "lstm:64",
    "unet:16",
)
_GOAL_S = 60.0


def main() -> int:
    """Run all, print the table, return whether one missed the goal."""
    is_missed = False
    print(f"{'model':12}{'batch':>6}{'start-up s':>12}{'answer s':>10}{'CPU s':>8}", end="")
    print(f"{'fp32':>6}{'16 bit':>8}{'loader':>10}", flush=True)
    for case in sys.argv[1:] or CASES:
        name, _, batch = case.partition(":")
        with tempfile.TemporaryDirectory() as folder:
            before_s = cpu_s()
            run, took_s = fits(name, batch, Path(folder) / "looked")
        if run is None:
            print(f"{name:12}{batch:>6}   nothing was predicted, after {took_s:.0f} s", flush=True)
            is_missed = True
            continue
        trial = run["trials"][-1]
        loop = (trial["measurement"] or trial["dry"])["loop"]
        answer_s = run["fits_time_s"] - loop["startup_s"]
        is_missed |= answer_s > _GOAL_S
        precisions = [fit["precision"] for fit in run["prediction"]["fits"]]
        whole = sum(precision in ("fp32", "tf32") for precision in precisions)
        loader = run["prediction"]["loader_measured"]
        print(
            f"{name:12}{batch:>6}{loop['startup_s']:12.1f}{answer_s:10.1f}{cpu_s() - before_s:8.1f}"
            f"{whole:6}{len(precisions) - whole:8}"
            f"{'n/a' if loader is None else f'{loader:.0f}/s':>10}",
            flush=True,
        )
    print(f"\ngoal: each answer within {_GOAL_S:.0f} s of the start-up's end")
    return int(is_missed)


def cpu_s() -> float:
    """Return the CPU seconds of all processes that were run and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fits(name: str, batch: str, folder: Path) -> tuple[Any, float]:
    """Return what `tunekit fits` saved, None where it predicted nothing, and the seconds that it ran."""
    script = [sys.executable, str(ROOT / "benchmarks" / "fits_script.py"), name, "--batch", batch]
    began = time.monotonic()
    command = [sys.executable, "-m", "tunekit", "fits", "--out", str(folder), "--", *script]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    took_s = time.monotonic() - began
    if done.returncode:
        print(done.stderr[-500:], file=sys.stderr)
        return None, took_s
    return json.loads((folder / "fits.json").read_text()), took_s


if __name__ == "__main__":
    sys.exit(main())
