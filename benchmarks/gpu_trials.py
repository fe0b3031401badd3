"""Real trials of the built-in workload `images` on a GPU: single knobs, out of memory, a whole search.

Part of `python benchmarks/gpu_check.py`.
"""

import subprocess
import sys
from pathlib import Path

from gpu_rows import Add, Job

from tunekit.agent import TRIAL_VARIABLE
from tunekit.machine.gpu.nvml import Nvml
from tunekit.records.codec import read_json
from tunekit.records.config import TrainConfig
from tunekit.records.host import Host
from tunekit.records.run import Run
from tunekit.records.trial import OutcomeKind, TrialRecord, TrialRole
from tunekit.report.text import speedup_text
from tunekit.trial.executor import KnownTarget, ProcessExecutor, TrialSpec
from tunekit.trial.target import resolve_target
from tunekit.trial.watch import Limits
from tunekit.units import bytes_text, duration_text, rate_text
from tunekit.workloads import script_of

ROOT = Path(__file__).resolve().parents[1]
SHARED_MEMORY_BYTES = 2 << 30
"""What the batches of the workers take of /dev/shm, at most."""
MIN_TRIALS = 5
"""A search of fewer has found nothing."""


class Trials:
    """Real trials, numbered as they come."""

    def __init__(self, host: Host, folder: Path) -> None:
        self._target = resolve_target((sys.executable, str(script_of("images"))), ROOT, builtin="images")
        self._folder = folder
        self._limits = Limits(trial_s=280.0, no_progress_s=240.0, ram_bytes=int(0.9 * host.ram_limit_bytes))
        self._count = 0
        self.known: KnownTarget | None = None

    def baseline(self) -> TrialRecord:
        """Run the target as it is; later trials build on what it teaches."""
        record = self.run(None)
        if record.discovery is not None and record.config is not None:
            self.known = KnownTarget(record.discovery, record.config)
        return record

    def run(self, config: TrainConfig | None, device_memory_bytes: int | None = None) -> TrialRecord:
        """Run a config, or the target as it is, with so much of the GPU's memory for torch."""
        executor = ProcessExecutor(
            self._target, self._folder, self._limits, window_s=4.0, device_memory_bytes=device_memory_bytes
        )
        spec = TrialSpec(self._count, TrialRole.SEARCH if config else TrialRole.BASELINE, config)
        self._count += 1
        return executor.run(spec, self.known, lambda progress: None)


def check_knobs(job: Job) -> None:
    """The baseline and single changes to it: rate, memory, graphs; then with too little memory."""
    add, host = job.add, job.host
    trials = Trials(host, job.folder)
    base = trials.baseline()
    _add_trial(add, "baseline", base)
    if base.measurement is None or trials.known is None:
        return
    config = trials.known.baseline
    has_room = host.shm_free_bytes is None or host.shm_free_bytes >= SHARED_MEMORY_BYTES
    count = min(8, host.cpus) if has_room else 0
    workers: dict[str, object] = {"num_workers": count, "pin_memory": True}
    if count:
        workers |= {"prefetch_factor": 4, "persistent_workers": True}
    changes: tuple[tuple[str, dict[str, object]], ...] = (
        ("", {}),
        (", tf32", {"precision": "tf32"}),
        (", bf16", {"precision": "bf16"}),
        (", bf16, channels_last", {"precision": "bf16", "channels_last": True}),
        (", bf16, compile", {"precision": "bf16", "compile": True}),
        (", bf16, 4x batch", {"precision": "bf16", "batch_size": config.batch_size * 4}),
    )
    for name, knobs in changes:
        changed = TrainConfig.model_validate({**config.model_dump(), **workers, **knobs})
        _add_trial(add, f"{count} workers{name}", trials.run(changed))
    if base.measurement.loop.peak_reserved_bytes:
        cap_bytes = base.measurement.loop.peak_reserved_bytes // 2
        _add_out_of_memory(add, trials.run(config, cap_bytes), cap_bytes, job.gpu.index)


def _add_out_of_memory(add: Add, record: TrialRecord, cap_bytes: int, gpu: int) -> None:
    """With half of what the baseline reserves, it ends as device_oom, and the memory comes back."""
    kind = record.failure.kind if record.failure else None
    add(f"baseline within {bytes_text(cap_bytes)}", str(kind or "fits"), kind is OutcomeKind.DEVICE_OOM)
    with Nvml() as nvml:
        reading = nvml.reading(gpu, pcie=False)
    if reading.process_bytes is None:
        add("own processes left", "n/a: the driver does not tell of processes", None)
        return
    left = [pid for pid in reading.process_bytes if _is_of_a_trial(pid)]
    add("own processes left", str(len(left)), not left)


def _is_of_a_trial(pid: int) -> bool:
    try:
        return TRIAL_VARIABLE.encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # it has ended, or is somebody else's
        return False


def _add_trial(add: Add, name: str, record: TrialRecord) -> None:
    if record.measurement is None:
        assert record.failure is not None
        add(name, f"{record.failure.kind}: {record.failure.message[:400]}", False)
        return
    loop = record.measurement.loop
    figure = (
        f"{rate_text(loop.rate_samples_per_s)} samples/s, allocated {bytes_text(loop.peak_allocated_bytes)}, "
        f"reserved {bytes_text(loop.peak_reserved_bytes)}, first step {duration_text(loop.first_step_s)}, "
        f"graphs {loop.compile_graphs}, wait {loop.parts.data_wait_s / loop.steady_time_s:.0%}"
    )
    add(name, figure, True)


def check_search(job: Job) -> None:
    """One whole search."""
    add, out = job.add, job.folder / "run"
    words = ["search", "--gpu", "auto", "--budget", job.budget, "--out", str(out)]
    subprocess.run([sys.executable, "-m", "tunekit", *words], cwd=ROOT, check=True)
    run = read_json(out / "run.json", Run)
    measured = sum(trial.measurement is not None for trial in run.trials)
    figure = f"{measured} of {len(run.trials)} measured in {duration_text(run.search_time_s)}"
    add("search trials", figure, measured >= MIN_TRIALS)
    if run.noise_floor:
        add("A/A noise floor", f"{run.noise_floor.relative:.1%}", None)
    for tier in run.recommendations:
        figure = (
            f"{speedup_text(tier.speedup)}, {rate_text(tier.rate_samples_per_s.value)} samples/s, "
            f"{bytes_text(tier.peak_reserved_bytes)}"
        )
        is_faster = tier.speedup is not None and tier.speedup.value > 1
        add(tier.tier.value, figure, tier.is_baseline or is_faster)
