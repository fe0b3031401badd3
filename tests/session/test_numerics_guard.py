"""A search holds the losses of every mode that it would recommend against the baseline's."""

from pathlib import Path

import pytest
from build_records import config, failure, host, options
from scripted_search import (
    RecordingListener,
    ScriptedExecutor,
    guarding,
    rounds_of_answer,
    search_in,
    searched,
    smooth_rate,
    start_search,
)
from simulated_losses import curve, decreasing

from tunekit.recommend.recommendation import answer_of
from tunekit.records.config import Precision, TrainConfig
from tunekit.records.recommendation import Tier
from tunekit.records.run import FixedKnob, Run
from tunekit.records.trial import OutcomeKind, TrialRole
from tunekit.session.folder import RunFolder
from tunekit.trial.executor import TrialSpec
from tunekit.tune.jobs import Job, Work

GOOD = tuple(curve(decreasing, 64, 1, noise=0.1))
BAD = (*GOOD[:32], *(loss + 1.0 for loss in GOOD[32:]))


def all_agree(knobs: TrainConfig, spec: TrialSpec) -> tuple[float, ...]:
    return GOOD


def bf16_diverges(knobs: TrainConfig, spec: TrialSpec) -> tuple[float, ...]:
    return BAD if knobs.precision is Precision.BF16 else GOOD


def found(whole: Run, tier: Tier) -> TrainConfig:
    return next(one.config for one in whole.recommendations if one.tier is tier)


def codes(whole: Run) -> list[str]:
    return [finding.code for finding in whole.findings if finding.code.startswith("loss-")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture(scope="module")
def agreed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, RecordingListener]:
    listener = RecordingListener()
    folder = tmp_path_factory.mktemp("agreed") / "run"
    whole, _ = search_in(
        folder, options(max_trials=9), listener=listener, executor_options={"losses": all_agree}
    )
    return whole, listener


def test_each_mode_of_the_picks_runs_once_on_the_baselines_own_config(agreed):
    whole, _ = agreed
    own = whole.baseline_config
    modes = {(r.config.precision, r.config.compile) for r in whole.recommendations if not r.is_baseline}
    runs = guarding(whole.trials)
    assert runs
    assert len({record.config for record in runs}) == len(runs)
    for record in runs:
        mode = {"precision": record.config.precision, "compile": record.config.compile}
        assert record.config == own.model_copy(update=mode)
    exact = [record for record in searched(whole.trials) if record.measurement]
    known = {(r.config.precision, r.config.compile) for r in runs} | {
        (r.config.precision, r.config.compile)
        for r in exact
        if r.config.model_copy(update={"precision": own.precision, "compile": own.compile}) == own
    }
    assert modes <= known


def test_a_mode_whose_loss_diverges_is_kept_out_of_all_but_aggressive(folder: Path):
    whole, _ = search_in(folder, executor_options={"losses": bf16_diverges})
    assert "loss-diverges" in codes(whole)
    assert found(whole, Tier.AGGRESSIVE).precision is Precision.BF16
    for tier in (Tier.CONSERVATIVE, Tier.BALANCED):
        assert found(whole, tier).precision is not Precision.BF16
        assert smooth_rate(found(whole, tier)) > smooth_rate(config()), "the next best is found instead"


def test_a_guard_that_ends_without_a_finite_loss_bars_its_mode(folder: Path):
    def fails(knobs: TrainConfig, spec: TrialSpec):
        guards = spec.role is TrialRole.NUMERICS and knobs.precision is Precision.BF16
        return failure(OutcomeKind.NONFINITE_LOSS, message="the loss was nan") if guards else None

    whole, _ = search_in(
        folder, options(max_trials=9), executor_options={"losses": all_agree, "failing": fails}
    )
    assert "loss-diverges" in codes(whole)
    assert found(whole, Tier.BALANCED).precision is not Precision.BF16


def test_a_guard_that_fails_is_said_and_keeps_its_mode_out_of_every_tier(folder: Path):
    def fails(knobs: TrainConfig, spec: TrialSpec):
        return failure(OutcomeKind.HANG, message="stood") if spec.role is TrialRole.NUMERICS else None

    whole, _ = search_in(
        folder, options(max_trials=9), executor_options={"losses": all_agree, "failing": fails}
    )
    assert codes(whole)
    assert set(codes(whole)) == {"loss-unknown"}
    assert found(whole, Tier.BALANCED).precision is Precision.FP32
    assert len({record.config for record in guarding(whole.trials)}) == len(guarding(whole.trials))


def test_a_mode_whose_losses_there_was_no_time_to_check_is_in_no_tier_and_said(folder: Path):
    fixed = (FixedKnob(knob="compile", value=False),)
    asked = options(budget_s=61.0, max_trials=4, confirm_rounds=5, fixed=fixed)
    whole, _ = search_in(folder, asked, executor_options={"losses": all_agree})
    assert guarding(whole.trials) == []
    assert any(one.config.precision is Precision.BF16 for one in searched(whole.trials) if one.config)
    assert {one.config.precision for one in whole.recommendations} == {Precision.FP32}
    assert codes(whole) == ["loss-unknown"]
    assert any("no time was left in the budget" in (one.evidence or "") for one in whole.findings)


def test_the_losses_of_search_and_confirmation_never_come_from_tuned_loaders(folder: Path):
    def tuned_are_bad(knobs: TrainConfig, spec: TrialSpec) -> tuple[float, ...]:
        return GOOD if spec.role is TrialRole.NUMERICS or spec.config is None else BAD

    own = config(batch_size=32, num_workers=1)
    whole, _ = search_in(
        folder, options(max_trials=9), executor_options={"baseline": own, "losses": tuned_are_bad}
    )
    assert guarding(whole.trials)
    assert "loss-diverges" not in codes(whole)


def test_a_resumed_search_runs_no_guard_twice(folder: Path):
    asked = options(max_trials=9)
    reference, _ = search_in(folder.with_name("whole"), asked, executor_options={"losses": all_agree})
    at = guarding(reference.trials)[0].number
    with RunFolder(folder) as owned:
        with pytest.raises(KeyboardInterrupt):
            executor = ScriptedExecutor(owned.trials_folder, losses=all_agree, interrupt_at=at)
            start_search(owned, executor, asked).run()
        resumed = start_search(owned, ScriptedExecutor(owned.trials_folder, losses=all_agree), asked).run()
    assert [r.config for r in guarding(resumed.trials)] == [r.config for r in guarding(reference.trials)]
    assert [r.config for r in resumed.recommendations] == [r.config for r in reference.recommendations]


# --- what the first look teaches -----------------------------------------------------------


@pytest.mark.parametrize(("left_s", "rounds"), [(72.0, 3), (55.0, 2)])
def test_the_time_that_is_left_is_for_the_answers_losses_and_rounds(folder: Path, left_s: float, rounds: int):
    """No trial is within Conservative's limits, and one that is would take the time of a round."""
    own = config(batch_size=32, num_workers=4)
    with RunFolder(folder) as owned:
        executor = ScriptedExecutor(owned.trials_folder, baseline=own, losses=all_agree)
        search = start_search(owned, executor, options(budget_s=180.0), host=host(cpus=2))
        search.do(Job(work=Work.PREPARE))
        large = own.changed(batch_size=512, num_workers=1, precision=Precision.BF16)
        search.try_candidate(large, "a batch that Conservative does not take")
        executor.clock.now += search.left_s - left_s
        search.do(Job(work=Work.FINISH))
    (guard,) = guarding(search.records)
    assert guard.config == own.changed(precision=Precision.BF16)
    assert answer_of(search.found.recommendations) is not None
    assert rounds_of_answer(search.found) == rounds
