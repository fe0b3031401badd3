"""Proposals: legal, untried, accepted, the same every time, and the better for what trials told."""

import math

import numpy as np
import pytest
from build_records import GIB, baseline_record, config, cpu, host, trial_record, unhurried
from hypothesis import given, settings
from hypothesis import strategies as st

from tunekit.model.throughput import Prediction
from tunekit.records.run import KnobSpace
from tunekit.records.trial import TrialRole
from tunekit.search.guided import Guided, all_configs, expected_improvement

few = settings(unhurried, max_examples=25)

SPACE = tuple(
    KnobSpace(knob=knob, values=values, why_fixed=None if len(values) > 1 else "one value")
    for knob, values in {
        "batch_size": (32, 128, 512),
        "num_workers": (0, 1, 2, 4, 8),
        "prefetch_factor": (2, 4),
        "pin_memory": (False,),
        "persistent_workers": (True,),
        "compile": (False, True),
        "precision": ("fp32", "bf16"),
        "channels_last": (False,),
        "accumulate_grad_batches": (1,),
    }.items()
)
CONFIGS = all_configs(SPACE)


@st.composite
def histories(draw: st.DrawFn):
    """A baseline and some trials of the space, a few of which failed."""
    chosen = draw(st.lists(st.sampled_from(CONFIGS), max_size=6, unique=True))
    rates = st.none() | st.floats(1.0, 1e5)
    trials = [trial_record(number, draw(rates), of) for number, of in enumerate(chosen, 1)]
    return [baseline_record(rate=draw(st.floats(1.0, 1e5))), *trials]


@few
@given(histories(), st.integers(1, 64))
def test_a_proposal_is_of_the_space_and_untried(records, cpus):
    proposal = Guided(SPACE, host(cpus=cpus, cpus_total=cpus)).propose(records)
    untried = set(CONFIGS) - {record.config for record in records}
    if proposal is None:
        return
    assert proposal.config in untried
    assert proposal.gain is not None and proposal.gain >= 0 and math.isfinite(proposal.gain)
    assert proposal.expected_rate_samples_per_s > 0


@few
@given(histories())
def test_the_same_records_give_the_same_proposal(records):
    assert Guided(SPACE, host()).propose(records) == Guided(SPACE, host()).propose(records)


def test_a_walk_ends_when_every_config_was_tried():
    small = tuple(
        entry
        if entry.knob in ("num_workers", "batch_size")
        else entry.model_copy(update={"values": entry.values[:1]})
        for entry in SPACE
    )
    guided, records = Guided(small, host()), [baseline_record()]
    while (proposal := guided.propose(records)) is not None:
        records.append(trial_record(len(records), 100.0, proposal.config))
    assert {record.config for record in records} == {config(), *all_configs(small)}


def test_what_only_confirms_may_still_be_tried():
    records = [
        baseline_record(),
        *(trial_record(n, 1.0, of, role=TrialRole.CONFIRM) for n, of in enumerate(CONFIGS, 1)),
    ]
    assert Guided(SPACE, host()).propose(records) is not None


def test_a_batch_beyond_the_devices_memory_is_not_proposed_first():
    near_full = baseline_record(peak_reserved_bytes=20 * GIB)
    proposal = Guided(SPACE, host()).propose([near_full, trial_record(1, None, config(batch_size=512))])
    assert proposal is not None
    assert proposal.config.batch_size < 512


def test_a_loop_on_the_cpu_has_no_device_memory_to_run_out_of():
    assert Guided(SPACE, host(accelerators=())).propose([baseline_record(device=cpu())]) is not None


@given(st.floats(-3, 3), st.floats(1e-4, 3))
def test_expected_improvement_is_the_mean_of_what_is_gained(ahead, deviation):
    told = Prediction(np.array([ahead]), np.array([deviation]))
    at = np.linspace(ahead - 10 * deviation, ahead + 10 * deviation, 200_001)
    density = np.exp(-0.5 * ((at - ahead) / deviation) ** 2) / (deviation * math.sqrt(2 * math.pi))
    gained = np.trapezoid(np.maximum(at, 0.0) * density, at)
    assert expected_improvement(told, 0.0)[0] == pytest.approx(gained, abs=1e-6 * max(1, abs(ahead)))


@given(st.floats(-700, 700), st.floats(0, 10), st.floats(-700, 700))
def test_expected_improvement_is_never_negative(log_rate, deviation, best):
    gain = expected_improvement(Prediction(np.array([log_rate]), np.array([deviation])), best)[0]
    assert gain >= 0 and math.isfinite(gain)
