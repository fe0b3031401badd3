"""What a loader's queue takes of /dev/shm: predicted beside seen, and what a small /dev/shm makes of it.

    python benchmarks/ram_buffer.py [--batch-size 256] [--side 224] [--workers 2] [--prefetch 2]

Each shape of batch is a real trial that is held, once measured, until its queue is full. "kept" is the last
batch of the epoch before, which forked workers keep mapped; the formula does not count it, nor does the
ratio. The last part runs `tunekit search` with a /dev/shm of 64 MiB of its own, which needs root.
Goal: every queue that is held full takes within 10% of what was predicted; a miss ends with status 1.
"""

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tunekit.records.details import Detail  # noqa: E402
from tunekit.records.target import Target  # noqa: E402
from tunekit.records.trial import TrialRecord, TrialRole  # noqa: E402
from tunekit.trial.executor import ProcessExecutor, TrialSpec  # noqa: E402
from tunekit.trial.watch import Limits  # noqa: E402

LOOP = Path(__file__).with_name("ram_buffer_loop.py")
SHAPES = {
    "images": "float32 images, labels",
    "tokens": "dict of int64 ids, mask, labels",
    "uint8": "tuple of float32 and uint8 images, labels",
    "padded": "padded to each batch's longest",
    "nested": "nested lists of small tensors",
}
GOAL = 0.10
LIMITS = Limits(trial_s=180.0, no_progress_s=60.0, ram_bytes=20 << 30)
SMALL_SHM = "mount -t tmpfs -o size=64m tmpfs /dev/shm"
FITS = ("--shape", "images", "--side", "64", "--batch-size", "64", "--workers", "1")
"""3 MiB a batch: three in the queue fit into 64 MiB, 33 don't."""
DOES_NOT_FIT = (*FITS[:-1], "4", "--prefetch", "8")


def trial_of(*words: str) -> TrialRecord:
    """Return the record of one trial of the loop, its full queue looked at."""
    target = Target(
        name=LOOP.stem,
        command=(sys.executable, str(LOOP), *words),
        working_dir=str(ROOT),
        script=str(LOOP),
        script_sha256=None,
    )
    with tempfile.TemporaryDirectory() as folder:
        executor = ProcessExecutor(target, Path(folder), LIMITS, 1.0, hide_gpus=True)
        spec = TrialSpec(0, TrialRole.BASELINE, None, details=(Detail.QUEUE,))
        return executor.run(spec, None, lambda progress: None)


def row_of(shape: str, words: tuple[str, ...]) -> tuple[str, bool]:
    """Return one row of the table, and whether its queue met the goal."""
    record = trial_of("--shape", shape, *words)
    if record.measurement is None:
        return f"| {SHAPES[shape]} | n/a: {record.failure.message if record.failure else ''} |", False
    details = record.measurement.details
    queue = details.queue if details else None
    if queue is None:
        return f"| {SHAPES[shape]} | n/a: {', '.join(details.faults) if details else ''} |", False
    ratio = (queue.shm_bytes - queue.kept_bytes) / max(queue.predicted_bytes, 1)
    is_met = queue.is_full and abs(ratio - 1) <= GOAL
    full = "" if queue.is_full else " (not full)"
    row = (
        f"| {SHAPES[shape]} | {mib(record.measurement.loop.batch_bytes)} | {mib(queue.predicted_bytes)} "
        f"| {mib(queue.shm_bytes)}{full} | {mib(queue.kept_bytes)} | {ratio:.3f} "
        f"| {'yes' if is_met else 'no'} | {mib(queue.pss_bytes)} |"
    )
    return row, is_met


def mib(size_bytes: int | None) -> str:
    """Return bytes in MiB."""
    return "n/a" if size_bytes is None else f"{size_bytes / 2**20:.2f}"


def search_inside(folder: Path) -> None:
    """Search where /dev/shm is small, for configs that do not fit; then run a baseline that does not."""
    search = (
        *(sys.executable, "-m", "tunekit", "search", "--budget", "3m", "--trials", "3", "--confirm", "1"),
        *("--window", "0.5", "--out", str(folder / "run"), "--fix", "num_workers=4"),
        *("--fix", "prefetch_factor=8", "--fix", "compile=false", "--fix", "precision=fp32"),
        *("--", sys.executable, str(LOOP), *FITS),
    )
    subprocess.run(search, cwd=ROOT, capture_output=True, check=False)
    for path in sorted((folder / "run").glob("trials/*/trial.json")) or sorted(folder.rglob("trial.json")):
        failure = json.loads(path.read_text()).get("failure")
        if failure is not None:
            print(f"- `tunekit search`, trial {path.parent.name}: {failure['kind']}: {failure['message']}")
    failure = trial_of(*DOES_NOT_FIT).failure
    print(f"- a baseline that does not fit: {f'{failure.kind}: {failure.message}' if failure else 'it ran'}")


def in_small_shm() -> str:
    """Return what `search_inside` prints with a /dev/shm of 64 MiB of its own; words where there is none."""
    try:
        subprocess.run(["unshare", "-m", "sh", "-c", SMALL_SHM], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "- skipped: a /dev/shm of its own needs root and mount namespaces (unshare -m)"
    inside = shlex.join([sys.executable, str(Path(__file__).resolve()), "--inside"])
    command = ["unshare", "-m", "sh", "-c", f"{SMALL_SHM} && exec {inside}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.rstrip()


def main() -> None:
    """Measure every shape and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--prefetch", type=int, default=2)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        with tempfile.TemporaryDirectory() as folder:
            search_inside(Path(folder))
        return
    words = tuple(
        word
        for name in ("batch_size", "side", "workers", "prefetch")
        for word in (f"--{name.replace('_', '-')}", str(getattr(options, name)))
    )
    print(f"$ python benchmarks/ram_buffer.py {' '.join(sys.argv[1:])}".rstrip())
    print(f"\nMiB; {options.workers} workers x prefetch {options.prefetch} + 1; goal within {GOAL:.0%}\n")
    print("| batch | one batch | predicted | seen | of it kept | (seen - kept) / predicted | goal | PSS |")
    print("|---|---|---|---|---|---|---|---|")
    met = []
    for shape in SHAPES:
        row, is_met = row_of(shape, words)
        print(row, flush=True)
        met.append(is_met)
    print(f"\n/dev/shm of 64 MiB:\n\n{in_small_shm()}")
    print(f"\ngoal, each full queue within {GOAL:.0%} of its prediction: {'met' if all(met) else 'missed'}")
    sys.exit(not all(met))


if __name__ == "__main__":
    main()
