"""What only a machine with a CUDA GPU can show, in parts that are run one after another.

    python benchmarks/gpu_check.py --list
    python benchmarks/gpu_check.py [--only PART ...] [--results benchmarks/results/NAME.md] [--limit SECONDS]

Each part is a process with a time limit, and appends its rows to the results file as they come. A part that
fails or reaches its limit adds a row with the last lines of its stderr, and the next part runs. Ctrl-C keeps
what was written. Without a GPU, try the script on a simulated one:
`python -m simgpu run --device a10g -- python benchmarks/gpu_check.py --only device`.
"""

import argparse
import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from agent_overhead import interleaved, ratio_text  # noqa: E402
from gpu_attribution import check_attribution  # noqa: E402
from gpu_counters import check_counters  # noqa: E402
from gpu_prediction import BATCHES, check_prediction  # noqa: E402
from gpu_rows import Job, Rows  # noqa: E402
from gpu_trials import SHARED_MEMORY_BYTES, check_knobs, check_search  # noqa: E402

from tunekit.machine.detect import detect_host  # noqa: E402
from tunekit.units import bytes_text  # noqa: E402

MODELS = ("resnet50", "gpt2", "lstm")
OVERHEAD_GOAL = 0.01
GRACE_S = 30.0
"""A part that is ended has this long to end its own processes."""
LAST_LINES = 6
TORCH = """
import platform, torch
torch.ones(1, device="cuda")
print(f"{torch.__version__}, Python {platform.python_version()}")
"""


@dataclass(frozen=True)
class Part:
    """A part of the check."""

    name: str
    shows: str
    minutes: float
    """What to expect, from a simulated H100 on two CPU cores; per model for the prediction."""
    limit_s: float
    check: Callable[[Job], None]


def check_device(job: Job) -> None:
    """The driver's view of the device, whether a profile knows it, torch's view, and /dev/shm."""
    gpu, free_bytes = job.gpu, job.host.shm_free_bytes
    job.add("device", f"{gpu.name}, {bytes_text(gpu.memory_bytes)}, driver {gpu.driver}", None)
    job.add("profile", str(gpu.profile_id), gpu.profile_id is not None)
    job.add("link, NUMA node", f"{gpu.pcie}, {gpu.numa_node}", None)
    job.add("state", str(gpu.state), gpu.state is not None)
    is_enough = None if free_bytes is None else free_bytes >= SHARED_MEMORY_BYTES
    remedy = "; trials run without workers: start the container with --shm-size=8g" * (is_enough is False)
    job.add("/dev/shm", f"{bytes_text(free_bytes)} free{remedy}", is_enough)
    seen = subprocess.run([sys.executable, "-c", TORCH], stdout=subprocess.PIPE, text=True, check=True)
    job.add("torch", seen.stdout.strip(), True)


def check_overhead(job: Job) -> None:
    """What the agent with its events adds to steps of 10 ms; no verdict where two runs without it differ."""
    off, on, again = interleaved(10.0, 300, 7, "cuda")
    added, floor = sum(on) / sum(off) - 1, abs(sum(again) / sum(off) - 1)
    job.add("two runs without the agent", ratio_text(again, off), None)
    figure = f"{ratio_text(on, off)}, {1e6 * (sum(on) - sum(off)) / len(on):.0f} us of a 10 ms step"
    job.add("agent on / off", figure, added <= OVERHEAD_GOAL if floor <= OVERHEAD_GOAL else None)


PARTS = (
    Part("device", "what the driver and torch say of the device; /dev/shm", 0.1, 90, check_device),
    Part("counters", "the driver's counters under known loads; the profile", 0.6, 240, check_counters),
    Part("attribution", "a known loop's stall, sync points, VRAM budget", 0.9, 420, check_attribution),
    Part("overhead", "what the agent adds to a step of 10 ms", 3.4, 420, check_overhead),
    Part("knobs", "trials of single knobs, and one out of memory", 6, 540, check_knobs),
    Part("prediction", "predicted memory of --models, by a calibration", 5, 540, check_prediction),
    Part("search", "one whole search of --budget", 7, 540, check_search),
)


def run_here(part: Part, job: Job) -> None:
    """Run a part in this process. The last lines of stderr say which child failed."""
    try:
        part.check(job)
    except subprocess.CalledProcessError as error:
        sys.exit(f"exit {error.returncode} of {shlex.join(map(str, error.cmd))[:150]}")
    except KeyboardInterrupt:
        sys.exit(1)


def run_part(part: Part, rows: Rows, limit_s: float) -> None:
    """Run a part in a process of its own; why it ended early is a row."""
    command = [sys.executable, __file__, *sys.argv[1:], "--results", str(rows.path), "--here", part.name]
    began_s = time.monotonic()
    ended: str | None = "interrupted"
    with (
        TemporaryDirectory(prefix="tunekit-gpu-check-", ignore_cleanup_errors=True) as folder,
        TemporaryFile("w+", errors="replace") as errors,
        subprocess.Popen(
            [*command, folder], stdin=subprocess.DEVNULL, stderr=errors, process_group=0
        ) as child,
    ):
        try:
            code = child.wait(limit_s)
            ended = f"exit {code}" if code else None
        except subprocess.TimeoutExpired:
            ended = f"stopped at its limit of {limit_s:g} s"
        finally:
            for number in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                    os.killpg(child.pid, number)
                    child.wait(GRACE_S)
            errors.seek(0)
            said = errors.read()
            sys.stderr.write(said)
            if ended:
                last = [line.strip() for line in said.splitlines() if line.strip()][-LAST_LINES:]
                rows.add(part.name, "\n".join([ended, *last]), False)
            rows.write(f"\n{part.name} took {time.monotonic() - began_s:.0f} s\n")


def parser_of() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [part.name for part in PARTS]
    parser.add_argument("--list", action="store_true", help="list the parts, and end")
    parser.add_argument("--only", action="append", choices=names, help="run this part; may be repeated")
    parser.add_argument(
        "--results", type=Path, help="Markdown file (default: benchmarks/results/DATE-GPU.md)"
    )
    parser.add_argument(
        "--limit", type=float, metavar="S", help="seconds for each part (default: see --list)"
    )
    parser.add_argument("--models", nargs="+", choices=BATCHES, default=MODELS, help="of the prediction")
    parser.add_argument("--trace-on-cpu", action="store_true", help="predict as a machine without a GPU does")
    parser.add_argument("--budget", default="5m", help="of the search (default: 5m)")
    parser.add_argument("--here", nargs=2, help=argparse.SUPPRESS)
    return parser


def main() -> int:
    """Run the parts; return 1 if a check failed, 130 after Ctrl-C."""
    parser = parser_of()
    options = parser.parse_args()
    if options.list:
        for part in PARTS:
            print(f"{part.name:12} {part.minutes:4g} min, at most {part.limit_s / 60:4g}  {part.shows}")
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    host = detect_host()
    if not host.accelerators:
        sys.exit("no CUDA GPU here: nvidia-smi should list one, or use a simulated one (see --help)")
    gpu, is_simulated = host.accelerators[0], "SIMGPU" in os.environ
    name = f"{date.today()}-{'simulated-' * is_simulated}{gpu.profile_id or 'gpu'}.md"
    rows = Rows(options.results or ROOT / "benchmarks" / "results" / name, is_simulated)
    if is_simulated != ("simulated" in rows.path.name):
        parser.error(
            f"--results {rows.path}: 'simulated' must be in the name if the device is, and only then"
        )
    by_name = {part.name: part for part in PARTS}
    if options.here:
        part, folder = by_name[options.here[0]], Path(options.here[1])
        run_here(part, Job(rows.add, host, folder, options.models, options.trace_on_cpu, options.budget))
        return 0
    began_s, size_bytes, code = time.monotonic(), rows.size_bytes(), 0
    try:
        for part in (by_name[one] for one in options.only or by_name):
            rows.begin(part.name, f"{gpu.name}, driver {gpu.driver}")
            run_part(part, rows, options.limit or part.limit_s)
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    failed = rows.failed_since(size_bytes)
    command = shlex.join(["python", "benchmarks/gpu_check.py", *sys.argv[1:]])
    rows.write(f"\nTotal: {time.monotonic() - began_s:.0f} s, {failed} FAILED; `{command}`\n")
    return code or int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
