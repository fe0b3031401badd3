"""The proposals as Optuna sees them, and the same again from the same records."""

from typing import Any

import optuna
import pytest
from build_records import config, failure, options, unhurried
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution
from scripted_search import search_in, searched, surroundings

from tunekit.records.trial import OutcomeKind
from tunekit.search.guided import Proposal
from tunekit.search.sampler import ThroughputSampler
from tunekit.search.space import build_space
from tunekit.search.study import Study

SPACE = build_space(surroundings(), options())
CHOICES = {entry.knob: entry.values for entry in SPACE if entry.is_searched}


def asked(proposal: Proposal | None) -> optuna.Trial:
    sampler = ThroughputSampler(SPACE, lambda: proposal)
    return optuna.create_study(direction="maximize", sampler=sampler).ask()


@pytest.mark.parametrize("workers", [0, 4])
def test_optuna_hands_out_the_parameters_of_the_proposal(workers: int):
    knobs = config(num_workers=workers, batch_size=256, precision="bf16", pin_memory=True)
    trial = asked(Proposal(knobs, 20.0, 1000.0, 0.1))
    for knob in ("batch_size", "num_workers", "precision", "pin_memory", "compile"):
        assert trial.suggest_categorical(knob, CHOICES[knob]) == getattr(knobs, knob)
    if workers:
        assert trial.suggest_categorical("prefetch_factor", CHOICES["prefetch_factor"]) == 2


def test_the_relative_space_is_the_searched_knobs():
    study = optuna.create_study(direction="maximize")
    found = ThroughputSampler(SPACE, lambda: None).infer_relative_search_space(
        study, study.ask()._cached_frozen_trial
    )
    assert found == {knob: CategoricalDistribution(values) for knob, values in CHOICES.items()}


def test_a_parameter_that_is_no_knob_takes_its_first_value_or_is_refused():
    trial = asked(None)
    assert trial.suggest_categorical("colour", ["red", "blue"]) == "red"
    with pytest.raises(ValueError, match="only knobs with listed values can be sampled, got 'lr'"):
        trial._suggest("lr", FloatDistribution(0.0, 1.0))


@given(st.integers(1, 9), st.integers(2, 6))
@settings(unhurried, max_examples=5)
def test_a_study_of_replayed_records_proposes_what_the_search_did(
    tmp_path_factory: pytest.TempPathFactory, most: int, failing: int
):
    """At every trial of a whole search, whatever failed in it."""

    def fails(knobs: Any, spec: Any) -> Any:
        return failure(OutcomeKind.SCRIPT_ERROR) if spec.number and spec.number % failing == 0 else None

    folder = tmp_path_factory.mktemp("replayed") / "run"
    whole, _ = search_in(folder, options(max_trials=most + 1), executor_options={"failing": fails})
    proposed = [record for record in searched(whole.trials) if record.number <= most]
    assert proposed
    for record in proposed:
        study = Study(whole.space, whole.rank_host)
        study.tell(whole.trials[: record.number])
        proposal = study.propose()
        assert proposal is not None
        assert proposal.config == record.config
