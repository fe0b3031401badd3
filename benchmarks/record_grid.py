"""Records a grid: every config of a small space of one real script, each in three fresh processes.

    python benchmarks/record_grid.py remote_storage [--repeats 3] [--window 0.5]

The searches that `search_efficiency.py` races are replayed on what this writes to `benchmarks/grids/`: the
trial records as a search would have kept them, one JSON per line, after a line that says what was recorded
where. Each repeat runs all configs in another shuffled order; the last also looks at both halves of the loop
alone. Compiled code is cached in a folder of the recording's own, so that a config's first repeat compiles
as a search's trial does. An interrupted recording goes on where it was.
"""

import argparse
import gzip
import itertools
import os
import random
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from grid import GRIDS_FOLDER, GridHeader  # noqa: E402

from tunekit.machine.detect import detect_host  # noqa: E402
from tunekit.records.config import KnobValue, TrainConfig  # noqa: E402
from tunekit.records.details import Detail  # noqa: E402
from tunekit.records.run import KnobSpace  # noqa: E402
from tunekit.records.trial import TrialRecord, TrialRole  # noqa: E402
from tunekit.trial.executor import KnownTarget, ProcessExecutor, TrialSpec  # noqa: E402
from tunekit.trial.target import resolve_target  # noqa: E402
from tunekit.trial.watch import Limits  # noqa: E402
from tunekit.tune.space import config_from  # noqa: E402

TARGETS_FOLDER = Path(__file__).with_name("grid_targets")

Values = dict[str, tuple[KnobValue, ...]]
_LOADER: Values = {
    "batch_size": (8, 16, 32, 64),
    "num_workers": (0, 1, 2, 3, 4, 8),
    "precision": ("fp32", "bf16"),
}
_COMPUTE: Values = {"num_workers": (0, 1, 2), "precision": ("fp32", "bf16"), "compile": (False, True)}
SEARCHED: dict[str, Values] = {
    "remote_storage": _LOADER,
    "decoded_images": {**_LOADER, "num_workers": (0, 1, 2, 3), "prefetch_factor": (2, 4)},
    "transformer": {**_COMPUTE, "batch_size": (4, 8, 16, 32)},
    "many_layers": {**_COMPUTE, "batch_size": (16, 64, 256, 1024)},
    "elementwise": {**_COMPUTE, "batch_size": (4, 8, 16, 32)},
}
"""What each target's grid spans."""


def space_of(values: Values, baseline: TrainConfig) -> tuple[KnobSpace, ...]:
    """Return the space of a grid: a knob that it does not span has the baseline's value."""
    own = baseline.model_dump() | {"prefetch_factor": 2, "persistent_workers": True}
    return tuple(
        KnobSpace(knob=knob, values=values[knob])
        if knob in values
        else KnobSpace(knob=knob, values=(own[knob],), why_fixed="not recorded")
        for knob in own
    )


def configs_of(space: tuple[KnobSpace, ...]) -> list[TrainConfig]:
    """Return every config of a space once."""
    chosen = itertools.product(*(entry.values for entry in space))
    names = [entry.knob for entry in space]
    return list(dict.fromkeys(config_from(dict(zip(names, one, strict=True)), space) for one in chosen))


def without_bulk(record: TrialRecord) -> TrialRecord:
    """Return a record without what no replay reads: time series, losses, files written."""
    measurement = record.measurement
    if measurement is not None:
        loop = measurement.loop.model_copy(update={"losses": ()})
        measurement = measurement.model_copy(update={"loop": loop})
    return record.model_copy(update={"measurement": measurement, "telemetry": None, "written": ()})


def main() -> None:
    """Record what is missing of one grid."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("target", choices=sorted(SEARCHED))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--window", type=float, default=0.5, metavar="S")
    options = parser.parse_args()
    GRIDS_FOLDER.mkdir(exist_ok=True)
    growing = GRIDS_FOLDER / f"{options.target}.jsonl"
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(scratch) / "inductor")
        record(options.target, options.repeats, options.window, growing, Path(scratch))
    with gzip.open(growing.with_suffix(".jsonl.gz"), "wb", compresslevel=9) as packed:
        packed.write(growing.read_bytes())
    growing.unlink()


def record(name: str, repeats: int, window_s: float, growing: Path, scratch: Path) -> None:
    """Append the trials that `growing` does not have yet."""
    script = TARGETS_FOLDER / f"{name}.py"
    host = detect_host().model_copy(update={"hostname": "recording"})
    target = resolve_target((sys.executable, str(script)), TARGETS_FOLDER)
    limits = Limits(trial_s=280.0, no_progress_s=90.0, ram_bytes=int(0.9 * host.ram_limit_bytes))
    executor = ProcessExecutor(target, scratch, limits, window_s)
    spec = TrialSpec(0, TrialRole.BASELINE, None, details=(Detail.QUEUE, Detail.FLOORS))
    lines = growing.read_text().splitlines() if growing.exists() else []
    if not lines:
        baseline = executor.run(spec, None, lambda progress: None)
        if baseline.config is None:
            sys.exit(f"the baseline failed: {baseline.failure}")
        header = GridHeader(
            target=name,
            recorded_at=datetime.now(UTC).isoformat(timespec="seconds"),
            command=f"python benchmarks/record_grid.py {' '.join(sys.argv[1:])}",
            host=host,
            window_s=window_s,
            space=space_of(SEARCHED[name], baseline.config),
        )
        lines = [header.model_dump_json(), without_bulk(baseline).model_dump_json()]
        growing.write_text("\n".join(lines) + "\n")
    header = GridHeader.model_validate_json(lines[0])
    baseline = TrialRecord.model_validate_json(lines[1])
    assert baseline.config is not None and baseline.discovery is not None
    known = KnownTarget(baseline.discovery, baseline.config)
    order = []
    for repeat in range(repeats):
        configs = configs_of(header.space)
        random.Random(f"{name} {repeat}").shuffle(configs)
        order += [(repeat, config) for config in configs]
    began, had = time.monotonic(), len(lines) - 2
    for number, (repeat, config) in enumerate(order[had:], had + 1):
        details = (Detail.FLOORS,) if repeat == repeats - 1 else ()
        spec = TrialSpec(number, TrialRole.SEARCH, config, round=repeat, details=details)
        trial = executor.run(spec, known, lambda progress: None)
        with growing.open("a") as file:
            file.write(without_bulk(trial).model_dump_json() + "\n")
        left_s = (time.monotonic() - began) / (number - had) * (len(order) - number)
        rate = f"{trial.rate_samples_per_s:.1f} samples/s" if trial.rate_samples_per_s else trial.failure
        print(
            f"{name} {number}/{len(order)}: {rate}, {trial.duration_s:.1f} s; {left_s:.0f} s left", flush=True
        )


if __name__ == "__main__":
    main()
