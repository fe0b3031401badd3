"""Every check that needs a CUDA GPU, in one command; a short table comes last.

    python benchmarks/gpu_check.py [--results benchmarks/results/NAME.md] [--budget 4m]
        [--counters-only | --attribution-only | --prediction-only]

First what every counter of the GPU says under loads whose truth is known, and its profile against the
device. Then where a known loop spends its time and memory, against torch.profiler and the driver. Then
predicted device memory, against torch and the driver, after `tunekit doctor --calibrate`. Then real
trials of the built-in workload `images`: precision, channels_last, compile and batch size with their memory
figures, an out-of-memory trial, and one whole search. Needs a machine with a CUDA build of torch;
`--allow-cpu` runs the same path on a CPU to try the script itself. On a simulated GPU (simgpu/) the table
says "simulated", and its results can only go to a file whose name says so.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARED_MEMORY_BYTES = 2 << 30
LEAST_TRIALS = 5
"""A search of fewer has found nothing."""
sys.path.insert(0, str(ROOT))

from gpu_attribution import check_attribution  # noqa: E402
from gpu_counters import check_counters, check_profile  # noqa: E402
from gpu_prediction import check_prediction  # noqa: E402

from tunekit.agent import TRIAL_VARIABLE  # noqa: E402
from tunekit.machine.detect import detect_host  # noqa: E402
from tunekit.machine.gpu.nvml import Nvml  # noqa: E402
from tunekit.records.codec import read_json  # noqa: E402
from tunekit.records.config import TrainConfig  # noqa: E402
from tunekit.records.host import Host  # noqa: E402
from tunekit.records.run import Run  # noqa: E402
from tunekit.records.target import Target  # noqa: E402
from tunekit.records.trial import OutcomeKind, TrialRecord, TrialRole  # noqa: E402
from tunekit.report.text import speedup_text  # noqa: E402
from tunekit.trial.executor import KnownTarget, ProcessExecutor, TrialSpec  # noqa: E402
from tunekit.trial.target import resolve_target  # noqa: E402
from tunekit.trial.watch import Limits  # noqa: E402
from tunekit.units import bytes_text, duration_text, rate_text  # noqa: E402
from tunekit.workloads import IMAGES_SCRIPT  # noqa: E402


@dataclass
class Report:
    """Rows of the table, filled by the checks.

    Attributes:
        is_simulated: whether the device is a simulation, whose figures never stand among real ones.
    """

    is_simulated: bool = False
    rows: list[tuple[str, str, str]] = field(default_factory=list)

    def add(self, check: str, figure: str, passed: bool | None) -> None:
        """Add one row and say it at once; None for a figure without a verdict."""
        verdict = {True: "ok", False: "FAILED", None: ""}[passed]
        self.rows.append((check, figure, verdict))
        print(f"{check}: {figure} {verdict}", flush=True)

    def table(self) -> str:
        """Return the rows as a Markdown table."""
        lines = [f"| check{', simulated' * self.is_simulated} | figure | |", "|---|---|---|"]
        return "\n".join(
            [*lines, *(f"| {check} | {figure} | {verdict} |" for check, figure, verdict in self.rows)]
        )


class Trials:
    """Real trials of one target, numbered as they come."""

    def __init__(self, target: Target, folder: Path, ram_bytes: int) -> None:
        self._target, self._folder = target, folder
        self._limits = Limits(trial_s=280.0, no_progress_s=240.0, ram_bytes=ram_bytes)
        self._count = 0
        self.known: KnownTarget | None = None

    def baseline(self) -> TrialRecord:
        """Run the target as it is; later trials build on what it teaches."""
        record = self._run(None)
        if record.discovery is not None and record.config is not None:
            self.known = KnownTarget(record.discovery, record.config)
        return record

    def with_knobs(self, **knobs: object) -> TrialRecord:
        """Run the baseline's config with some knobs changed."""
        assert self.known is not None
        return self._run(TrainConfig.model_validate({**self.known.baseline.model_dump(), **knobs}))

    def within(self, device_memory_bytes: int) -> TrialRecord:
        """Run the baseline's config again, with so much of the GPU's memory for torch."""
        assert self.known is not None
        return self._run(self.known.baseline, device_memory_bytes)

    def _run(self, config: TrainConfig | None, device_memory_bytes: int | None = None) -> TrialRecord:
        executor = ProcessExecutor(
            self._target, self._folder, self._limits, window_s=4.0, device_memory_bytes=device_memory_bytes
        )
        spec = TrialSpec(self._count, TrialRole.SEARCH if config else TrialRole.BASELINE, config)
        self._count += 1
        return executor.run(spec, self.known, lambda progress: None)


def check_device(report: Report, allow_cpu: bool) -> None:
    """The driver's view of the device, and whether a profile knows it."""
    host = detect_host()
    if not host.accelerators:
        if not allow_cpu:
            sys.exit("no CUDA GPU here: nvidia-smi should list one; use --allow-cpu to try the script itself")
        report.add("device", f"cpu ({host.cpu_name})", None)
        return
    gpu = host.accelerators[0]
    report.add("device", f"{gpu.name}, {bytes_text(gpu.memory_bytes)}, driver {gpu.driver}", None)
    report.add("profile", str(gpu.profile_id), gpu.profile_id is not None)
    report.add("link, NUMA node", f"{gpu.pcie}, {gpu.numa_node}", None)
    report.add("state", str(gpu.state), gpu.state is not None)


def check_shared_memory(report: Report, host: Host) -> None:
    """Workers hand their batches over in /dev/shm; a container's 64 MiB end every trial that has some."""
    if host.shm_bytes is None:
        report.add("/dev/shm", "n/a", None)
        return
    free_bytes = host.shm_bytes - (host.shm_used_bytes or 0)
    is_enough = free_bytes >= SHARED_MEMORY_BYTES
    remedy = "" if is_enough else "; trials run without workers: start the container with --shm-size=8g"
    report.add("/dev/shm", f"{bytes_text(free_bytes)} free{remedy}", is_enough)


def check_gpu(report: Report, host: Host) -> None:
    """The GPU's counters under known loads, and its profile against what the loads reached."""
    loaded = check_counters(report.add, host)
    check_profile(report.add, host, loaded)


def check_knobs(report: Report, trials: Trials, host: Host) -> TrialRecord:
    """The baseline and single changes to it: rate, memory, graphs."""
    base = trials.baseline()
    _add_trial(report, "baseline", base)
    if base.measurement is None or trials.known is None:
        return base
    batch = trials.known.baseline.batch_size
    free_bytes = (host.shm_bytes or SHARED_MEMORY_BYTES) - (host.shm_used_bytes or 0)
    count = min(8, host.cpus) if free_bytes >= SHARED_MEMORY_BYTES else 0
    workers: dict[str, object] = {"num_workers": count, "pin_memory": True}
    if count:
        workers |= {"prefetch_factor": 4, "persistent_workers": True}
    changes: list[tuple[str, dict[str, object]]] = [
        (f"{count} workers", workers),
        (f"{count} workers, tf32", {**workers, "precision": "tf32"}),
        (f"{count} workers, bf16", {**workers, "precision": "bf16"}),
        (f"{count} workers, bf16, channels_last", {**workers, "precision": "bf16", "channels_last": True}),
        (f"{count} workers, bf16, compile", {**workers, "precision": "bf16", "compile": True}),
        (f"{count} workers, bf16, 4x batch", {**workers, "precision": "bf16", "batch_size": batch * 4}),
    ]
    for name, knobs in changes:
        _add_trial(report, name, trials.with_knobs(**knobs))
    return base


def check_out_of_memory(report: Report, trials: Trials, base: TrialRecord, host: Host) -> None:
    """With half of what the baseline reserves, it ends as device_oom, and the memory comes back."""
    if not host.accelerators or base.measurement is None or not base.measurement.loop.peak_reserved_bytes:
        return
    cap_bytes = base.measurement.loop.peak_reserved_bytes // 2
    record = trials.within(cap_bytes)
    kind = record.failure.kind if record.failure else None
    name = f"baseline within {bytes_text(cap_bytes)}"
    report.add(name, str(kind or "fits"), kind is OutcomeKind.DEVICE_OOM)
    left = _own_processes(host.accelerators[0].index)
    if left is None:
        report.add("own processes left", "n/a: the driver does not tell of processes", None)
    else:
        report.add("own processes left", str(len(left)), not left)


def _own_processes(index: int) -> list[int] | None:
    """Return who of our trials still is on a GPU; None where the driver tells of no processes."""
    with Nvml() as nvml:
        reading = nvml.reading(index, pcie=False)
    if reading is None or reading.process_bytes is None:
        return None
    return [pid for pid in reading.process_bytes if _is_of_a_trial(pid)]


def _is_of_a_trial(pid: int) -> bool:
    try:
        return TRIAL_VARIABLE.encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # it has ended, or is somebody else's
        return False


def check_search(report: Report, folder: Path, gpu: str, budget: str) -> None:
    """One whole search on the built-in workload."""
    out = folder / "search"
    command = [sys.executable, "-m", "tunekit", "search", "--gpu", gpu, "--budget", budget, "--out", str(out)]
    print(f"$ {shlex.join(command)}", flush=True)
    done = subprocess.run(command, cwd=ROOT, check=False)
    report.add("search", f"exit {done.returncode}", done.returncode == 0)
    if done.returncode:
        return
    run = read_json(out / "run.json", Run)
    measured = sum(trial.measurement is not None for trial in run.trials)
    figure = f"{measured} of {len(run.trials)} measured in {duration_text(run.search_time_s)}"
    report.add("search trials", figure, measured >= LEAST_TRIALS)
    if run.noise_floor:
        report.add("A/A noise floor", f"{run.noise_floor.relative:.1%}", None)
    for tier in run.recommendations:
        reserved = bytes_text(tier.peak_reserved_bytes)
        figure = (
            f"{speedup_text(tier.speedup)}, {rate_text(tier.rate_samples_per_s.value)} samples/s, {reserved}"
        )
        report.add(
            tier.tier.value, figure, tier.is_baseline or (tier.speedup is not None and tier.speedup.value > 1)
        )


def _add_trial(report: Report, name: str, record: TrialRecord) -> None:
    if record.measurement is None:
        assert record.failure is not None
        report.add(name, f"{record.failure.kind}: {record.failure.message[:120]}", False)
        return
    loop = record.measurement.loop
    figure = (
        f"{rate_text(loop.rate_samples_per_s)} samples/s, allocated {bytes_text(loop.peak_allocated_bytes)}, "
        f"reserved {bytes_text(loop.peak_reserved_bytes)}, graphs {loop.compile_graphs}, "
        f"first step {duration_text(loop.first_step_s)}, wait {loop.data_wait_s / loop.steady_time_s:.0%}"
    )
    report.add(name, figure, True)


def main() -> None:
    """Run every check, print the table, and write it where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, help="also write the table to this Markdown file")
    parser.add_argument("--budget", default="8m", help="of the whole search (default: 8m)")
    parser.add_argument("--allow-cpu", action="store_true", help="run without a GPU, to try the script")
    parser.add_argument("--counters-only", action="store_true", help="leave out the trials and the search")
    parser.add_argument(
        "--attribution-only", action="store_true", help="only time and memory of a known loop"
    )
    parser.add_argument(
        "--prediction-only", action="store_true", help="only predicted memory and the calibration"
    )
    parser.add_argument("--window", type=float, default=4.0, help="steady seconds of its trials (default: 4)")
    parser.add_argument("--rounds", type=int, default=7, help="of processes with and without the agent")
    options = parser.parse_args()
    host = detect_host()
    report = Report(is_simulated="SIMGPU" in os.environ)
    if options.results and report.is_simulated != ("simulated" in options.results.name):
        parser.error(f"--results {options.results}: the name holds 'simulated' if the device is, only then")
    with tempfile.TemporaryDirectory(prefix="tunekit-gpu-check-") as scratch:
        folder = Path(scratch)
        target = resolve_target((sys.executable, str(IMAGES_SCRIPT)), ROOT, builtin="images")
        trials = Trials(target, folder / "trials", int(0.9 * host.ram_limit_bytes))
        checks: list[Callable[[], None]] = [
            lambda: check_device(report, options.allow_cpu),
            lambda: check_shared_memory(report, host),
        ]
        is_whole = not (options.counters_only or options.attribution_only or options.prediction_only)
        if is_whole or options.counters_only:
            checks += [lambda: check_gpu(report, host)]
        if is_whole or options.attribution_only:
            attribution = folder / "attribution"
            checks += [
                lambda: check_attribution(report.add, host, attribution, options.window, options.rounds)
            ]
        if is_whole or options.prediction_only:
            checks += [lambda: check_prediction(report.add, host, folder / "prediction")]
        if is_whole:
            checks += [
                lambda: check_out_of_memory(report, trials, check_knobs(report, trials, host), host),
                lambda: check_search(report, folder, "auto", options.budget),
            ]
        for check in checks:
            check()
    command = shlex.join(["python", "benchmarks/gpu_check.py", *sys.argv[1:]])
    where = "on a simulated device" if report.is_simulated else "on a real device"
    text = f"{date.today()}, {where}: `{command}`\n\n{report.table()}\n"
    print(f"\n{text}")
    if options.results:
        options.results.parent.mkdir(parents=True, exist_ok=True)
        options.results.write_text(text)
    failed = [row for row in report.rows if row[2] == "FAILED"]
    print(json.dumps({"checks": len(report.rows), "failed": len(failed)}))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
