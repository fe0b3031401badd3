"""A baseline that is too big for the machine is not the end."""

from pathlib import Path

import pytest
from build_records import GIB, host, options, profile, run
from real_trials import zoo_target
from scripted_search import RecordingListener

from tunekit.records.recommendation import Tier
from tunekit.records.run import FixedKnob
from tunekit.records.trial import OutcomeKind
from tunekit.search.folder import RunFolder
from tunekit.search.search import Machine, Search
from tunekit.trial.executor import ProcessExecutor
from tunekit.trial.watch import Limits

pytestmark = pytest.mark.real


def test_a_baseline_out_of_memory_is_searched_on_from_smaller_batches(tmp_path: Path) -> None:
    target = zoo_target("big_batch.py")
    fixed = [("num_workers", 0), ("compile", False), ("precision", "fp32")]
    asked = options(
        budget_s=300.0,
        max_trials=3,
        confirm_rounds=1,
        window_s=0.3,
        fixed=tuple(FixedKnob(knob=knob, value=value) for knob, value in fixed),
    )
    here = host(accelerators=(), cpus=2, ram_limit_bytes=23 * GIB)
    machine = Machine(profile=profile("cpu", native_precisions=("fp32",)), native_bf16=False)
    started = run(
        target=target, options=asked, host=here, profile=machine.profile, measured_on="cpu", trials=()
    )
    limits = Limits(trial_s=60.0, no_progress_s=30.0, ram_bytes=1100 << 20)
    with RunFolder(tmp_path / "run") as folder:
        executor = ProcessExecutor(target, folder.trials_folder, limits, asked.window_s)
        finished = Search(started, folder, executor, machine, RecordingListener()).run()

    baseline, halved = finished.trials[:2]
    assert baseline.failure is not None
    assert baseline.failure.kind is OutcomeKind.HOST_OOM
    assert baseline.config is not None
    assert baseline.config.batch_size == 64
    assert halved.config is not None
    assert halved.config.batch_size == 32
    assert halved.measurement is not None
    assert {tier.tier for tier in finished.recommendations} == set(Tier)
    assert all(tier.speedup is None and tier.config.batch_size < 64 for tier in finished.recommendations)
    assert "baseline-failed" in {note.code for note in finished.findings}
