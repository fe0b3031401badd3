"""An example of every finding, for `tunekit explain`: what the checks say of the tests' records."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from build_checkups import checkup
from build_checkups import found as found_here
from build_comparisons import compared, searched, slower
from build_loops import findings, gpu, record, telemetry
from build_records import (
    GIB,
    baseline_record,
    config,
    confirm_records,
    cpu,
    failure,
    host,
    largest_seen,
    profile,
    run,
    target,
    trial_record,
)
from build_scaling import Step, bare_run, scaled, scaling_trial, seen
from finding_texts import texts_of

from tunekit.diagnose.examples import EXAMPLES_FILE, examples
from tunekit.diagnose.registry import CODES
from tunekit.diagnose.run import run_findings
from tunekit.diagnose.scaling import scaling_findings
from tunekit.recommend.measured_scaling import with_figures
from tunekit.recommend.numerics import GuardedMode, LossVerdict, Mode
from tunekit.records.config import Precision
from tunekit.records.data_parallel import DataParallelKind
from tunekit.records.details import DataSeen, Details, IndicesSeen, SamplesSeen
from tunekit.records.finding import Finding
from tunekit.records.host import GpuProcess
from tunekit.records.measurement import Threads
from tunekit.records.recommendation import LossOutcome
from tunekit.records.run import Run
from tunekit.records.target import StepNumber
from tunekit.records.trial import OutcomeKind, WrittenFile

GOLDEN, WHOLE = Path(__file__).parent / "golden", "whole_runs.txt"


def of_searches() -> Iterator[Finding]:
    """Of whole searches, in which much went wrong."""
    lost = failure(OutcomeKind.DEVICE_OOM, largest=largest_seen())
    (late,) = confirm_records([None])
    limit = StepNumber(source="--max-steps", name="max_steps", steps=1_000, is_option=True)
    draws = IndicesSeen(
        is_whole=True, draws=1_000, digest="a", distinct=1_000, distinct_in_two=1_000, data_set_samples=1_000
    )
    neighbour = telemetry({}, gpu(neighbours=(GpuProcess(pid=4711, used_bytes=2 * GIB, name="python"),)))
    own, larger = config(batch_size=16), config(batch_size=64)
    kept = {"step_numbers": (limit,)}
    baseline = baseline_record(of=own, overrides=kept)
    assert baseline.measurement is not None
    looked_into = baseline.measurement.changed(details=Details(data=DataSeen(indices=draws)))
    trials = (
        baseline.changed(measurement=looked_into),
        trial_record(1, 900.0, larger, overrides=kept | {"learning_rate": 0.4}),
        trial_record(2, 500.0, larger, overrides={"telemetry": neighbour}),
        trial_record(3, 700.0, overrides={"written": (WrittenFile(path="model.pt", action="diverted"),)}),
        late.changed(failure=lost, number=4),
    )
    modes = [
        GuardedMode(Mode.of(config(precision=Precision.BF16)), "bf16", "--fix precision=fp32", verdict, 5)
        for verdict in (
            LossVerdict(LossOutcome.DIVERGENT, 200, 20, 1.25, 1.5, 0.02),
            LossVerdict(LossOutcome.UNKNOWN, why="the script's losses were not seen"),
        )
    ]
    yield from run_findings(run(trials=trials, measured_on="cpu", script_scales_lr=True), modes)
    yield from run_findings(run(trials=(baseline_record(rate=None),)), ())
    yield from run_findings(run(trials=(baseline_record(epoch_samples=None),)), ())


def of_loops() -> Iterator[Finding]:
    halves = DataSeen(samples=SamplesSeen(whole_epochs=1, count=20_000, distinct=10_000))
    fixed = IndicesSeen(
        is_whole=True, draws=960, digest="a", distinct=960, distinct_in_two=960, data_set_samples=1_000
    )
    for data in (halves, DataSeen(indices=fixed), DataSeen(shared_generators=("rng",))):
        yield from findings(record(Details(data=data), knobs={"num_workers": 2}))
    yield from findings(record(processes_apart=2))
    yield from findings(
        record(has_loader=False, num_workers=0, prefetch_factor=None, persistent_workers=False)
    )


def of_several_processes() -> Iterator[Finding]:
    quiet = Step(ring_s=0.001, spread=0.001)
    bare = seen(kind=DataParallelKind.NONE, backend="gloo", syncs_gradients=None, gradient_bytes=None)
    kept = [
        scaling_trial(number, n, step=quiet, of=config(batch_size=128 // n), baseline=config())
        for number, n in enumerate((1, 2, 4))
    ]
    plain = scaled(quiet)
    follows = [one.changed(learning_rate=0.1 * (one.processes or 1)) for one in plain.trials]
    for one in (
        scaled(quiet, loop=lambda n: {"epoch_samples": 48_000}),
        scaled(quiet, loop=lambda n: {"data_parallel": bare if n > 1 else None}),
        scaled(replace(quiet, wait_s=0.01), host=host(cpus=4, ram_limit_bytes=9 * GIB)),
        scaled(Step(ring_s=0.010, spread=0.0)),
        scaled(quiet, loop=lambda n: {"device": cpu(), "threads": Threads(intra_op=3, inter_op=1)}),
        with_figures(bare_run(trials=tuple(kept)), profile()),
        with_figures(plain.changed(trials=tuple(follows)), profile()),
    ):
        yield from scaling_findings(one)


def of_comparisons() -> Iterator[Finding]:
    once, other = (
        searched(rates=[980.0], host=host(cpu_name="AMD EPYC")),
        target(script="b.py", script_sha256="b" * 64),
    )
    noisy = searched(rates=(850.0, 1100.0, 930.0), own_rates=(400.0, 500.0, 420.0))
    grown = slower(0.1, loop={"peak_reserved_bytes": 9 * GIB})
    pairs: list[tuple[Run, Run]] = [
        (searched(), searched()),
        (searched(), noisy),
        (searched(), searched(rates=(3000.0, 3400.0, 3000.0))),
        (searched(), once),
        (searched(), grown),
        (searched(target=target(script_sha256="a" * 64)), slower(0.5, target=other)),
    ]
    for pair in pairs:
        yield from compared(*pair).against[0].findings


def test_the_findings_of_whole_runs_are_reported(golden: Callable[[str], object]):
    several = [*of_searches(), *of_loops(), *of_several_processes(), *of_comparisons()]
    several += found_here(checkup(accelerators=(), environment={"CUDA_VISIBLE_DEVICES": ""}))
    first = {one.code: one for one in reversed(several) if one.code not in texts()}
    assert texts_of(first[code] for code in sorted(first)) == golden(WHOLE)


def test_every_code_has_an_example(request: pytest.FixtureRequest):
    """A row in a test of this folder gives one; then run this file with --update-golden."""
    told = texts() | texts(WHOLE)
    made = {
        code: dict(re.findall(r"^  (seen|do): (.*)$", told[code], re.MULTILINE)) for code in sorted(CODES)
    }
    if request.config.getoption("--update-golden"):
        EXAMPLES_FILE.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        examples.cache_clear()
    assert examples() == made


def texts(pattern: str = "[!w]*.txt") -> dict[str, str]:
    """Return the first text of each code in golden files of this folder, usually those of other tests."""
    found: dict[str, str] = {}
    for path in sorted(GOLDEN.glob(pattern)):
        for text in path.read_text(encoding="utf-8").strip().split("\n\n"):
            found.setdefault(text.split()[1].rstrip(":"), text)
    return found
