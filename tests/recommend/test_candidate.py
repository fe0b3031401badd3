"""The config whose gain a search leaves open."""

from typing import Any

from build_records import (
    baseline_record,
    config,
    confirm_records,
    interval,
    recommendation,
    run,
    trial_record,
)

from tunekit.recommend.candidate import candidate_of
from tunekit.records.interval import Interval
from tunekit.records.recommendation import NoiseFloor, SetAside, Tier
from tunekit.records.run import Run

FAST, FASTER = config(batch_size=256), config(batch_size=512)
GIB = 2**30
UNCLEAR = Interval(value=1.08, low=0.98, high=1.19)
OWN = recommendation(of=config(), is_baseline=True, speedup=interval(1.0))
TRIED = (baseline_record(0, 500.0, config()), trial_record(1, 520.0, FAST), trial_record(2, 530.0, FASTER))


def kept(*others: Any, **overrides: Any) -> Run:
    noise = NoiseFloor(relative=0.02, pairs=4, processes=5)
    return run(**({"recommendations": (OWN, *others), "trials": TRIED, "noise_floor": noise} | overrides))


def test_the_fastest_that_was_tried_is_it_where_no_round_told():
    found = candidate_of(kept())
    assert found is not None
    assert (found.name, found.config, found.trial, found.rounds) == ("candidate", FASTER, 2, 0)
    assert (found.factor, found.speedup) == (1.06, None)
    assert found.learning_rate is not None and found.learning_rate.value == 0.4


def test_rounds_of_it_give_its_range():
    own = tuple(
        one.changed(is_baseline_config=True)
        for one in confirm_records([500.0, 505.0], config(), first_number=50)
    )
    found = candidate_of(kept(trials=(*TRIED, *own, *confirm_records([540.0, 500.0], FASTER))))
    assert found is not None and found.speedup is not None
    assert (found.rounds, round(found.factor, 3)) == (2, 1.034)
    assert found.speedup.low < 1 < found.speedup.high


def test_what_the_answer_set_aside_comes_first():
    aside = SetAside(config=FAST, search_trial=1, confirm_trials=(7, 8, 9), speedup=UNCLEAR)
    found = candidate_of(kept(recommendations=(OWN.changed(set_aside=aside),)))
    assert found is not None
    assert (found.config, found.trial, found.rounds, found.speedup) == (FAST, 1, 3, UNCLEAR)


def test_a_tiers_config_has_the_name_of_the_tier():
    greedy = recommendation(Tier.AGGRESSIVE, FAST, speedup=UNCLEAR, search_trial=1, confirm_trials=(7, 8))
    found = candidate_of(kept(greedy))
    assert found is not None
    assert (found.name, found.config, found.rounds, found.speedup) == ("aggressive", FAST, 2, UNCLEAR)


def test_there_is_none_where_nothing_is_left_open():
    excluded = SetAside(config=FAST, search_trial=1, confirm_trials=(7,), speedup=interval(1.0, 0.01))
    assert candidate_of(kept(recommendations=(OWN.changed(set_aside=excluded),))) is None
    assert candidate_of(kept(recommendation(Tier.AGGRESSIVE, FAST))) is None
    assert candidate_of(kept(recommendations=(recommendation(of=FAST, speedup=UNCLEAR),))) is None
    assert candidate_of(kept(trials=TRIED[:1])) is None


def test_without_a_recommendation_it_is_the_best_config_found():
    found = candidate_of(kept(recommendations=()))
    assert found is not None and (found.config, found.speedup) == (FASTER, None)


def test_a_script_that_scales_its_own_learning_rate_is_given_none():
    found = candidate_of(kept(script_scales_lr=True))
    assert found is not None and found.learning_rate is None
