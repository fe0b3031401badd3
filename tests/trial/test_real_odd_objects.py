"""Trials of scripts whose objects are out of the ordinary: measured as any other, or told for what failed."""

from pathlib import Path
from typing import Any

import pytest
from real_trials import Plan, Ran, looking_at, loop_of

from tunekit.records.trial import OutcomeKind
from tunekit.trial.binding_syntax import parse_binding

pytestmark = pytest.mark.real

TUNED = {"channels_last": True, "precision": "bf16"}


def odd(kind: str, **more: Any) -> Plan:
    return Plan(("python", "odd_objects.py", "--kind", kind), **more)


@looking_at(
    odd("lazy", tuned=TUNED, is_slow=True),
    odd("lazy-early", tuned=TUNED, is_slow=True),
    odd("odd", tuned=TUNED),
)
def test_odd_modules_are_known_and_take_every_knob_of_a_model(ran: Ran) -> None:
    assert (ran.baseline.failure, ran.baseline.faults) == (None, ())
    assert ran.baseline.discovery is not None
    (root,) = ran.baseline.discovery.roots
    parameters = 5462 if ran.plan.words[-1] == "odd" else 5370
    assert (root.parameters, root.has_4d_weights, root.channels_last) == (parameters, True, False)
    assert ran.tuned is not None and ran.tuned.faults == ()
    losses, before = loop_of(ran.tuned).losses[:8], loop_of(ran.baseline).losses[:8]
    assert losses == pytest.approx(before, abs=0.1)
    assert losses != before


@looking_at(odd("refuses-parameters"))
def test_a_fault_of_the_agents_ends_the_trial_as_one_and_its_traceback_is_kept(ran: Ran) -> None:
    failure = ran.baseline.failure
    assert failure is not None
    assert failure.kind is OutcomeKind.AGENT_ERROR
    assert "model/roots.py" in failure.message
    path = Path(failure.message.rpartition(" ")[2])
    assert path.parent == ran.trials / "0000"
    assert "in named_parameters" in path.read_text()


@looking_at(odd("refuses-layout", tuned={"channels_last": True}))
def test_a_knob_that_a_model_refuses_ends_the_trial_as_not_applied(ran: Ran) -> None:
    assert ran.tuned is not None and ran.tuned.failure is not None
    assert ran.tuned.failure.kind is OutcomeKind.KNOB_NOT_APPLIED
    assert "TypeError" in ran.tuned.failure.message
    assert parse_binding((ran.tuned.failure.remedy or "").partition("--bind ")[2]).knob == "channels_last"


@looking_at(odd("refuses-state", is_slow=True))
def test_a_model_whose_memory_can_not_be_read_is_measured_without_it(ran: Ran) -> None:
    assert loop_of(ran.baseline).model is None
    (fault,) = ran.baseline.faults
    assert "measure/record.py" in fault


@looking_at(Plan(("python", "known_times.py", "--state"), {"batch_size": 32}))
def test_a_script_that_needs_its_batch_size_elsewhere_is_told_how_to_bind_it(ran: Ran) -> None:
    assert ran.tuned is not None and ran.tuned.failure is not None
    assert ran.tuned.failure.kind is OutcomeKind.SCRIPT_ERROR
    assert "--bind 'batch_size=--batch-size {}'" in (ran.tuned.failure.remedy or "")
