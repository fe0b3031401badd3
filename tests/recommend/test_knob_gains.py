"""What each knob is worth, by the answer beside itself without it."""

from pathlib import Path

import pytest
from build_records import config, configs, options, trial_record
from hypothesis import given
from scripted_search import search_in

from tunekit.recommend.knob_gains import knob_gains, knobs_put_back
from tunekit.recommend.recommendation import answer_of
from tunekit.records.config import KNOBS, WORKER_KNOBS, TrainConfig
from tunekit.records.trial import TrialRecord, TrialRole

BEFORE = config(num_workers=1)
AFTER = config(num_workers=4, batch_size=256)


def rounds(of: TrainConfig, rates: list[float | None], first: int = 0) -> list[TrialRecord]:
    """Fresh processes of a config, one a round; a rate of None is one that failed."""
    return [
        trial_record(first + at, rate, of, role=TrialRole.ABLATION, overrides={"round": at})
        for at, rate in enumerate(rates)
    ]


def test_without_workers_what_needs_them_goes_with_them():
    found = knobs_put_back(config(num_workers=2, batch_size=256), config(num_workers=0))
    assert list(found) == ["batch_size", "num_workers"]
    assert found["num_workers"] == config(num_workers=0, batch_size=256)
    assert found["batch_size"] == config(num_workers=2)
    back = knobs_put_back(config(num_workers=0), config(num_workers=3, prefetch_factor=5))
    assert back == {"num_workers": config(num_workers=3, prefetch_factor=5)}


@given(configs(), configs())
def test_every_knob_that_differs_is_put_back_alone_and_legally(own, before):
    for knob, put_back in knobs_put_back(own, before).items():
        assert getattr(put_back, knob) == getattr(before, knob) != getattr(own, knob)
        moved = {name for name in KNOBS if getattr(put_back, name) != getattr(own, name)}
        assert moved <= ({"num_workers", *WORKER_KNOBS} if knob == "num_workers" else {knob})


def test_a_knob_is_worth_the_rate_over_that_without_it():
    trials = [
        *rounds(AFTER, [1000.0, 1010.0, 990.0]),
        *rounds(AFTER.changed(num_workers=1), [500.0, 505.0, 495.0], first=10),
        *rounds(AFTER.changed(batch_size=BEFORE.batch_size), [1000.0, 1000.0, 1000.0], first=20),
    ]
    batch, workers = knob_gains(AFTER, BEFORE, trials, None)
    assert (workers.knob, workers.before, workers.after) == ("num_workers", 1, 4)
    assert workers.factor.value == pytest.approx(2.0)
    assert batch.factor.low < 1.0 < batch.factor.high


def test_a_knob_that_was_not_measured_beside_the_answer_is_left_out():
    without = AFTER.changed(num_workers=1)
    assert knob_gains(AFTER, BEFORE, rounds(AFTER, [1000.0] * 3), None) == ()
    failed = [*rounds(AFTER, [1000.0, None, 990.0]), *rounds(without, [None, 500.0, None], first=10)]
    assert knob_gains(AFTER, BEFORE, failed, None) == ()


def test_a_search_measures_them_where_that_is_asked_for(tmp_path: Path):
    whole, _ = search_in(tmp_path / "run", options(max_trials=8, ablate=True))
    best = answer_of(whole.recommendations)
    assert best is not None
    assert whole.baseline_config is not None
    put_back = knobs_put_back(best.config, whole.baseline_config)
    assert [one.knob for one in whole.knob_gains] == list(put_back)
    assert len(whole.history.ablating) == 3 * (1 + len(put_back))
    assert {one.round for one in whole.history.ablating} == {0, 1, 2}
    plain, _ = search_in(tmp_path / "plain", options(max_trials=8))
    assert plain.knob_gains == ()
    assert [one.config for one in plain.recommendations] == [one.config for one in whole.recommendations]
