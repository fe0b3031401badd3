"""More rounds where the first leave it open whether there is a gain."""

import math
import random
from pathlib import Path
from typing import Any

import pytest
from build_loops import gpu, telemetry
from build_records import config, confirm_records, interval, options
from scripted_search import RecordingListener, ScriptedExecutor, search_in, start_search

from tunekit.recommend.noise import noise_floor, speedup, verdict
from tunekit.recommend.recommendation import answer_of
from tunekit.records.config import TrainConfig
from tunekit.records.host import GpuProcess
from tunekit.records.recommendation import NoiseFloor
from tunekit.records.run import Run
from tunekit.records.trial import TrialRole
from tunekit.records.trials import Trials
from tunekit.session.folder import RunFolder, load_run
from tunekit.trial.executor import TrialSpec
from tunekit.tune.budget import budget_for_more
from tunekit.tune.confirm import (
    MAX_ROUNDS,
    confirmed_before,
    rounds_done,
    second_stage,
)

QUIET = NoiseFloor(relative=0.02, pairs=4, processes=5)
PICK = config(batch_size=256)
ASKED = options(max_trials=4)


def test_a_round_in_which_another_process_came_to_the_gpu_is_no_evidence():
    came = gpu(neighbours=(GpuProcess(pid=4711, used_bytes=None),))
    picked = confirm_records([900.0, 1000.0], PICK)
    baselines = confirm_records([500.0, 250.0], first_number=200)
    shared = baselines[1].changed(telemetry=telemetry(None, came))
    records = (*picked, baselines[0], shared)
    assert (rounds_done(records, PICK), rounds_done((*picked, *baselines), PICK)) == (1, 2)
    assert Trials(records).confirm_of(config()) == baselines[:1]


def more_rounds(value: float, half: float, rounds: int = 5, noise: NoiseFloor = QUIET) -> int | None:
    return second_stage({PICK: interval(value, half)}, {PICK: rounds}, noise).get(PICK)


def test_what_the_first_rounds_tell_gets_no_more():
    assert more_rounds(1.3, 0.1) is None
    assert more_rounds(0.8, 0.1) is None
    assert more_rounds(1.0, 0.04) is None


def test_an_open_gain_gets_the_rounds_that_narrow_its_range_enough():
    # The range of 5 rounds reaches from 0.97 to 1.19: by 6 it has narrowed beyond 1.
    assert more_rounds(1.08, 0.10) in (2, 3)
    assert math.exp(math.log(1.08) - math.log(1.10) * math.sqrt(5 / (5 + more_rounds(1.08, 0.10)))) > 1


def test_what_no_affordable_number_of_rounds_would_tell_gets_none():
    assert MAX_ROUNDS == 10
    assert more_rounds(1.10, 0.5) is None
    assert more_rounds(1.08, 0.2, noise=NoiseFloor(relative=0.17, pairs=4, processes=5)) is None


def claims_of(gain: float, spread: float, experiments: int = 1000) -> dict[str, float]:
    """How often each verdict falls after both stages, for a true gain and a spread of each process."""
    chance, counts = (
        random.Random(20260102),
        dict.fromkeys(("faster", "slower", "no gain", "inconclusive"), 0),
    )
    for _ in range(experiments):
        ours = [math.exp(chance.gauss(math.log(gain), spread)) for _ in range(MAX_ROUNDS)]
        own = [math.exp(chance.gauss(0, spread)) for _ in range(MAX_ROUNDS)]
        noise, ratio = noise_floor(own[:5]), speedup(ours[:5], own[:5])
        assert ratio is not None
        rounds = 5 + second_stage({PICK: ratio}, {PICK: 5}, noise).get(PICK, 0)
        ratio = speedup(ours[:rounds], own[:rounds])
        assert ratio is not None
        counts[verdict(ratio, noise_floor(own[:rounds]))] += 1
    return {judged: count / experiments for judged, count in counts.items()}


@pytest.mark.parametrize("spread", [0.01, 0.05, 0.15])
def test_two_stages_seldom_confirm_a_gain_that_is_not_there(spread: float):
    assert claims_of(1.0, spread)["faster"] <= 0.025


def test_two_stages_find_a_gain_of_a_tenth_where_the_machine_is_quiet():
    assert claims_of(1.10, 0.03)["faster"] >= 0.9


def uneven(swing: float) -> dict[str, Any]:
    """A script where all that is tried is 12% faster; a confirming round and the next differ by a swing."""

    def noise(knobs: TrainConfig, spec: TrialSpec) -> float:
        is_swaying = spec.role is TrialRole.CONFIRM and knobs != config()
        return math.exp(swing * (-1) ** (spec.round or 0)) if is_swaying else 1.0

    return {"rate": lambda knobs: 100.0 if knobs == config() else 112.0, "noise": noise}


def test_a_search_adds_rounds_where_they_should_tell_and_then_confirms(tmp_path: Path):
    listener = RecordingListener()
    whole, _ = search_in(tmp_path / "run", ASKED, listener, executor_options=uneven(0.12))
    assert whole.second_stage is not None
    assert whole.second_stage.first_round == 5
    assert any(said.startswith("inconclusive so far") for said in listener.heard("said"))
    best = answer_of(whole.recommendations)
    assert best is not None
    assert best.speedup is not None
    assert len(best.confirm_trials) == 5 + whole.second_stage.rounds
    assert verdict(best.speedup, whole.noise_floor) == "faster"


def test_a_search_adds_no_rounds_where_the_first_tell_or_too_many_would_have_to(tmp_path: Path):
    steady, _ = search_in(tmp_path / "steady", ASKED, executor_options=uneven(0.01))
    wild, _ = search_in(tmp_path / "wild", ASKED, executor_options=uneven(0.6))
    assert steady.second_stage is None
    assert wild.second_stage is None
    kept = answer_of(wild.recommendations)
    assert kept is not None
    assert kept.is_baseline
    assert kept.set_aside is not None


def test_a_second_stage_that_was_cut_off_is_finished_and_not_begun_anew(tmp_path: Path):
    whole, _ = search_in(tmp_path / "whole", ASKED, executor_options=uneven(0.12))
    stage = whole.second_stage
    assert stage is not None
    at = next(one.number for one in whole.trials if one.round == stage.first_round + 1)
    with RunFolder(tmp_path / "cut") as folder:
        cut = ScriptedExecutor(folder.trials_folder, interrupt_at=at, **uneven(0.12))
        with pytest.raises(KeyboardInterrupt):
            start_search(folder, cut, ASKED).run()
        left = load_run(tmp_path / "cut")
        assert left.second_stage == stage
        executor = ScriptedExecutor(folder.trials_folder, **uneven(0.12))
        resumed = start_search(
            folder, executor, ASKED, second_stage=stage, search_time_s=left.search_time_s
        ).run()
    assert [spec.number for spec in executor.specs] == [
        one.number for one in whole.trials if one.number >= at
    ]
    assert resumed.recommendations == whole.recommendations


# --- more rounds where the answer is the user's own config ---------------------------------------


def asked_again(folder: Path, rounds: int, scripted: dict[str, Any]) -> tuple[Run, ScriptedExecutor]:
    saved = load_run(folder)
    asked = saved.options.changed(confirm_rounds=rounds)
    more_s = budget_for_more(saved, asked)
    return search_in(folder, asked, executor_options=scripted, status=saved.status, budget_s=more_s)


def test_rounds_beyond_the_budget_that_was_given_run_in_one_that_holds_them(tmp_path: Path):
    given = options(max_trials=4, budget_s=600.0)
    before, _ = search_in(tmp_path / "run", given)
    rounds = rounds_done(before.trials, confirmed_before(before.trials)[0])
    after, _ = asked_again(tmp_path / "run", rounds + 40, {})
    assert rounds_done(after.trials, confirmed_before(after.trials)[0]) == rounds + 40
    assert after.budget_s is not None and after.budget_s > 600.0
    assert after.options.budget_s == 600.0


def test_what_came_near_the_baseline_is_confirmed(tmp_path: Path):
    scripted = {"rate": lambda knobs: 100.0 if knobs == config() else 95.0}
    whole, _ = search_in(tmp_path / "run", options(max_trials=6), executor_options=scripted)
    (beside,) = confirmed_before(whole.trials)
    assert rounds_done(whole.trials, beside) >= 3
    best = answer_of(whole.recommendations)
    assert best is not None and best.is_baseline


def test_a_lucky_first_run_of_the_baseline_hides_no_gain(tmp_path: Path):
    lucky = iter((130.0,))
    scripted = {"rate": lambda knobs: next(lucky, 100.0) if knobs == config() else 110.0}
    whole, _ = search_in(tmp_path / "run", options(max_trials=6), executor_options=scripted)
    (beside,) = confirmed_before(whole.trials)
    assert rounds_done(whole.trials, beside) >= 3
    best = answer_of(whole.recommendations)
    assert best is not None and best.config == beside


def test_what_was_far_from_the_baseline_is_not_confirmed(tmp_path: Path):
    scripted = {"rate": lambda knobs: 100.0 if knobs == config() else 60.0}
    search_in(tmp_path / "run", options(max_trials=6), executor_options=scripted)
    _, executor = asked_again(tmp_path / "run", 8, scripted)
    assert executor.specs == []
