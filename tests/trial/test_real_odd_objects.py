"""Trials of scripts whose objects are out of the ordinary: measured as any other, or told for what failed."""

from pathlib import Path

import pytest
from real_trials import RealTrials, zoo_target

from tunekit.records.trial import OutcomeKind
from tunekit.trial.binding_syntax import parse_binding

pytestmark = pytest.mark.real


def trials_of(kind: str, folder: Path) -> RealTrials:
    trials = RealTrials(zoo_target("odd_objects.py", "--kind", kind), folder)
    trials.run_baseline()
    return trials


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("lazy", 5370),
        pytest.param("lazy-early", 5370, marks=pytest.mark.slow),
        pytest.param("lazy-unused", 5370, marks=pytest.mark.slow),
        ("odd", 5462),
    ],
)
def test_odd_modules_are_known_and_take_every_knob_of_a_model(
    kind: str, parameters: int, tmp_path: Path
) -> None:
    trials = trials_of(kind, tmp_path)
    baseline = trials.baseline
    assert baseline is not None
    assert (baseline.failure, baseline.faults) == (None, ())
    assert baseline.discovery is not None
    (root,) = baseline.discovery.roots
    assert (root.parameters, root.has_4d_weights, root.channels_last) == (parameters, True, False)
    tuned = trials.run(channels_last=True, precision="bf16")
    assert (tuned.failure, tuned.faults) == (None, ())
    assert tuned.measurement is not None and baseline.measurement is not None
    losses, before = tuned.measurement.loop.losses[:8], baseline.measurement.loop.losses[:8]
    assert losses == pytest.approx(before, abs=0.1)
    assert losses != before


def test_a_fault_of_the_agents_ends_the_trial_as_one_and_its_traceback_is_kept(tmp_path: Path) -> None:
    record = trials_of("refuses-parameters", tmp_path).baseline
    assert record is not None and record.failure is not None
    assert record.failure.kind is OutcomeKind.AGENT_ERROR
    message, _, path = record.failure.message.partition("; its traceback is in ")
    assert message.startswith("tunekit's agent failed after 0 steps, in model/roots.py:")
    assert message.endswith("RuntimeError: this is no business of yours")
    assert Path(path).parent == tmp_path / "0000"
    assert "in named_parameters" in Path(path).read_text()
    assert record.failure.remedy is not None
    assert "report it" in record.failure.remedy


def test_a_knob_that_a_model_refuses_ends_the_trial_as_not_applied(tmp_path: Path) -> None:
    record = trials_of("refuses-layout", tmp_path).run(channels_last=True)
    assert record.failure is not None
    assert record.failure.kind is OutcomeKind.KNOB_NOT_APPLIED
    assert record.failure.message.startswith("channels_last could not be set: TypeError: this weight stays")
    assert record.failure.remedy is not None
    assert parse_binding(record.failure.remedy.partition("--bind ")[2]).knob == "channels_last"


def test_a_model_whose_memory_can_not_be_read_is_measured_without_it(tmp_path: Path) -> None:
    record = trials_of("refuses-state", tmp_path).baseline
    assert record is not None and record.measurement is not None
    assert record.measurement.loop.model is None
    (fault,) = record.faults
    assert fault.startswith("the agent failed in measure/record.py:")
