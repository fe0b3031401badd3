"""Bound knobs reach the script by their own way, and the agent leaves them alone."""

import json
from pathlib import Path

import pytest
from build_records import config, discovery
from real_trials import LIMITS, RealTrials, zoo_target

from tunekit.errors import TargetError
from tunekit.records.trial import TrialRole
from tunekit.trial.binding_syntax import parse_binding
from tunekit.trial.executor import KnownTarget, ProcessExecutor, TrialSpec


@pytest.mark.real
def test_words_and_variables_reach_the_script(tmp_path: Path) -> None:
    bindings = (parse_binding("num_workers=--workers {}"), parse_binding("compile=env:TUNEKIT_TEST_COMPILE"))
    target = zoo_target("transform_first.py").model_copy(update={"bindings": bindings})
    trials = RealTrials(target, tmp_path)
    assert trials.run_baseline().failure is None
    record = trials.run(num_workers=2)
    assert record.measurement is not None
    assert record.measurement.loop.num_workers == 2
    asked = json.loads((tmp_path / "0001" / "request.json").read_text())["knobs"]
    assert "num_workers" not in asked


def test_a_trial_that_needs_a_rewritten_file_is_refused_before_it_starts(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("bs: 128\n")
    bound = parse_binding(f"batch_size={tmp_path}/a.yaml:bs")
    target = zoo_target("transform_first.py").model_copy(update={"bindings": (bound,)})
    executor = ProcessExecutor(target, tmp_path / "trials", LIMITS, 0.5)
    spec = TrialSpec(1, TrialRole.SEARCH, config(batch_size=64))
    with pytest.raises(TargetError, match=r"can't read a rewritten .*a\.yaml yet"):
        executor.run(spec, KnownTarget(discovery(), config()), lambda progress: None)
    assert not (tmp_path / "trials").exists()
    assert (tmp_path / "a.yaml").read_text() == "bs: 128\n"
