"""The whole walk of a search, on scripted trials and a scripted clock."""

from pathlib import Path
from typing import Any

import pytest
from build_records import MIB, config, cpu, failure, options, target
from hypothesis import given
from hypothesis import strategies as st
from scripted_search import (
    TRIAL_S,
    RecordingListener,
    ScriptedExecutor,
    any_search_context,
    confirming,
    learnt,
    out_of_memory_above,
    search_in,
    searched,
    smooth_rate,
    start_search,
)

from tunekit.errors import BudgetTooSmallError, EmptySpaceError, NoTrainingLoopError, TargetError
from tunekit.records.config import Precision, TrainConfig
from tunekit.records.details import Detail
from tunekit.records.recommendation import Tier
from tunekit.records.run import FixedKnob, Objective, Run, RunStatus
from tunekit.records.trial import OutcomeKind, TrialRole
from tunekit.session.folder import RunFolder, load_run
from tunekit.trial.binding_syntax import parse_binding
from tunekit.trial.executor import TrialSpec
from tunekit.tune.confirm import rounds_due
from tunekit.tune.knob_access import SearchContext


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, ScriptedExecutor, RecordingListener, Path]:
    """One ordinary search of 15 minutes with trials of 10 s."""
    folder = tmp_path_factory.mktemp("walk") / "run"
    listener = RecordingListener()
    whole, executor = search_in(folder, listener=listener)
    return whole, executor, listener, folder


def configs_of(whole: Run) -> list[TrainConfig | None]:
    return [record.config for record in searched(whole.trials)]


def fails_as(kind: OutcomeKind, **more: Any):
    return lambda knobs, spec: failure(kind, **more)


def fails_elsewhere_than(own: TrainConfig):
    """A script whose every other batch size is undone."""
    return lambda knobs, spec: (
        None if knobs.batch_size == own.batch_size else failure(OutcomeKind.KNOB_NOT_APPLIED)
    )


# --- the walk ------------------------------------------------------------------------------


def test_the_script_as_it_is_comes_first(walked):
    whole, executor, _, _ = walked
    first = whole.trials[0]
    details = (Detail.QUEUE, Detail.SYNCS, Detail.PEAKS, Detail.FLOORS, Detail.DATA)
    first_spec = TrialSpec(0, TrialRole.BASELINE, None, details=details, bindings=(), max_s=900.0 + 8.0)
    assert executor.specs[0] == first_spec
    assert all(spec.max_s <= first_spec.max_s for spec in executor.specs)
    looks = {(), (Detail.SIZES,), (Detail.DATA,), (Detail.LARGEST, Detail.DATA)}
    assert {spec.details for spec in executor.specs[1:]} == looks
    assert (first.number, first.role, first.is_baseline_config) == (0, TrialRole.BASELINE, True)
    assert sum(record.role is TrialRole.BASELINE for record in whole.trials) == 1


def test_the_first_trial_of_each_mode_without_compile_looks_at_other_batch_sizes(walked):
    whole, executor, _, _ = walked
    sizes = next(entry.values for entry in whole.space if entry.knob == "batch_size")
    modes = []
    for spec in executor.specs[1:]:
        if Detail.SIZES not in spec.details:
            assert spec.sizes == ()
            continue
        assert spec.role is TrialRole.SEARCH
        assert spec.config is not None and not spec.config.compile
        modes.append((spec.config.precision, spec.config.channels_last))
        assert 1 <= len(spec.sizes) <= 5
        assert set(spec.sizes) <= set(sizes)
    eager = [r.config for r in searched(whole.trials) if r.config and not r.config.compile]
    assert len(modes) == len(set(modes)) == len({(one.precision, one.channels_last) for one in eager})


def test_the_search_says_that_nothing_more_is_worth_a_trial_and_confirms(walked):
    whole, _, listener, _ = walked
    assert listener.heard("said") == ["no untried config is expected to be more than 0.5% faster"]
    assert len(searched(whole.trials)) >= 4
    for recommendation in whole.recommendations:
        assert len(recommendation.confirm_trials) == whole.options.confirm_rounds


def test_confirmation_interleaves_the_baseline_with_every_finalist(walked):
    whole, _, _, _ = walked
    again = confirming(whole.trials)
    rounds = sorted({record.round for record in again})
    assert rounds == list(range(len(rounds)))
    assert len(rounds) >= 3
    finalists = {recommendation.config for recommendation in whole.recommendations}
    for number in rounds:
        of_round = [record for record in again if record.round == number]
        assert sum(record.is_baseline_config for record in of_round) == 1
        assert finalists <= {record.config for record in of_round}
    assert again == list(whole.trials[-len(again) :]), "confirmation comes last"


@pytest.mark.parametrize(
    ("done", "wanted", "fitting", "rounds"),
    [
        ((0, 0), 5, 9, (2, 5)),  # time for all that is wanted
        ((0, 0), 5, 0, (2, 1)),  # what was never confirmed is no answer, whatever the time
        ((3, 3), 5, 0, (0, 0)),
        ((3, 0), 5, 0, (1, 1)),
        ((5, 5), 5, 9, (0, 0)),
        ((), 5, 9, (0, 0)),
    ],
)
def test_rounds_are_run_while_they_fit_but_never_none(
    done: tuple[int, ...], wanted: int, fitting: int, rounds: tuple[int, int]
):
    finalists = {config(batch_size=8 * (i + 1)): count for i, count in enumerate(done)}
    configs, count = rounds_due(finalists, wanted, fitting)
    assert (len(configs), count) == rounds


def test_the_search_finds_most_of_what_there_is(walked):
    whole, _, _, _ = walked
    best = smooth_rate(config(batch_size=512, num_workers=6, precision=Precision.BF16, compile=True))
    aggressive = next(r for r in whole.recommendations if r.tier is Tier.AGGRESSIVE)
    assert smooth_rate(aggressive.config) > 0.9 * best


def test_the_listener_hears_every_trial_begin_and_end(walked):
    whole, _, listener, _ = walked
    assert [number for number, _, _ in listener.heard("started")] == [r.number for r in whole.trials]
    assert listener.heard("ended") == list(whole.trials)
    assert listener.heard("started")[0][1] == "the script as it is"
    left = [left_s for _, _, left_s in listener.heard("started")]
    assert left == sorted(left, reverse=True)
    assert left[-1] >= 0
    (known,) = listener.heard("space")
    assert known.space == whole.space


def rounds_of(whole: Run) -> dict[int | None, set[TrainConfig | None]]:
    again = confirming(whole.trials)
    return {one.round: {r.config for r in again if r.round == one.round} for one in again}


# --- limits --------------------------------------------------------------------------------


def test_a_budget_that_the_baseline_uses_up_is_too_small(folder: Path):
    with pytest.raises(
        BudgetTooSmallError, match="the baseline alone took 10 s of the budget of 9 s; use --budget 120s"
    ):
        search_in(folder, options(budget_s=9.0))
    assert load_run(folder).status is RunStatus.FAILED


# --- targets that can't be tuned -----------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "error"),
    [(OutcomeKind.NO_TRAINING_LOOP, NoTrainingLoopError), (OutcomeKind.SCRIPT_ERROR, TargetError)],
)
def test_a_baseline_that_fails_ends_the_search_with_its_last_lines(
    folder: Path, kind: OutcomeKind, error: type[TargetError]
):
    lines = tuple(f"line {number}" for number in range(12))
    failing = fails_as(kind, message="what happened", remedy="what to do", last_lines=lines)
    with pytest.raises(TargetError) as caught:
        search_in(folder, executor_options={"failing": failing})
    assert type(caught.value) is error
    text = str(caught.value)
    assert text.startswith(f"the baseline failed ({kind}): what happened; what to do")
    assert text.endswith("\n    line 11")
    assert "line 1\n" not in text
    saved = load_run(folder)
    assert saved.status is RunStatus.FAILED
    assert [record.failure.kind for record in saved.trials if record.failure] == [kind]


def test_a_script_that_leaves_nothing_to_search_says_why(folder: Path):
    known = learnt(loaders=(), roots=())
    with pytest.raises(EmptySpaceError, match="nothing is left to search"):
        search_in(folder, executor_options={"baseline": config(num_workers=0), "learns": lambda spec: known})


# --- a baseline that does not fit ----------------------------------------------------------


def learns_when_it_fits(limit: int, baseline: TrainConfig):
    """Roots are seen only by a trial that gets through a step."""

    def learns(spec: TrialSpec):
        knobs = spec.config or baseline
        return learnt(baseline, complete=knobs.batch_size <= limit)

    return learns


def test_a_baseline_out_of_memory_is_searched_on_from_smaller_batches(folder: Path):
    own = config(batch_size=512)
    whole, executor = search_in(
        folder,
        options(max_trials=15),
        executor_options={
            "baseline": own,
            "failing": out_of_memory_above(100),
            "learns": learns_when_it_fits(100, own),
        },
    )
    assert [spec.config.batch_size for spec in executor.specs[1:4] if spec.config] == [256, 128, 64]
    assert executor.specs[3].role is TrialRole.SEARCH
    assert whole.status is RunStatus.FINISHED
    assert whole.recommendations
    for recommendation in whole.recommendations:
        assert recommendation.config.batch_size <= 100
        assert recommendation.speedup is None
        assert not recommendation.is_baseline
    assert not any(record.is_baseline_config for record in confirming(whole.trials))
    assert "baseline-failed" in {note.code for note in whole.findings}


def test_a_baseline_out_of_memory_after_some_steps_is_followed_by_smaller_batches_only(folder: Path):
    at_100 = {"baseline": config(batch_size=512), "failing": out_of_memory_above(100)}
    whole, _ = search_in(folder, options(max_trials=8), executor_options=at_100)
    assert [one.config.batch_size for one in searched(whole.trials)[:3] if one.config] == [256, 128, 64]
    assert whole.recommendations
    fixed = options(max_trials=3, fixed=(FixedKnob(knob="batch_size", value=512),))
    with pytest.raises(TargetError, match="failed, 2 of 2 alike"):
        search_in(folder.with_name("fixed"), fixed, executor_options=at_100)
    tried = configs_of(load_run(folder.with_name("fixed")))
    assert not any(one.precision is Precision.FP32 for one in tried if one)


def test_out_of_memory_with_a_single_sample_is_the_end(folder: Path):
    own = config(batch_size=8)
    with pytest.raises(TargetError, match="no batch size down to 1 could be measured: device_oom"):
        search_in(
            folder,
            executor_options={
                "baseline": own,
                "failing": out_of_memory_above(0),
                "learns": learns_when_it_fits(0, own),
            },
        )


# --- configs that must not be started ------------------------------------------------------


def test_a_tier_without_a_fitting_config_gets_one_made_to_fit(folder: Path):
    greedy = config(num_workers=8, prefetch_factor=2)
    fixed = (FixedKnob(knob="compile", value=False),)
    whole, _ = search_in(
        folder,
        options(max_trials=15, fixed=fixed),
        executor_options={"baseline": greedy, "measured": lambda knobs: {"bytes_per_sample": 8 * MIB}},
    )
    assert {r.tier for r in whole.recommendations} == set(Tier)


# --- confirmation --------------------------------------------------------------------------


def test_a_config_that_fails_when_confirmed_is_not_recommended(folder: Path):
    def flaky(knobs: TrainConfig, spec: TrialSpec):
        second_life = spec.role is TrialRole.CONFIRM and spec.config is not None
        return failure(OutcomeKind.HOST_OOM) if second_life and knobs.precision is Precision.BF16 else None

    whole, _ = search_in(folder, options(max_trials=9), executor_options={"failing": flaky})
    failed = {record.config for record in confirming(whole.trials) if record.failure}
    assert failed
    assert not failed & {recommendation.config for recommendation in whole.recommendations}
    alone = [number for number, configs in rounds_of(whole).items() if len(configs) == 1]
    assert not alone, "without a finalist the baseline is not run again"


def test_a_search_in_which_everything_but_the_baseline_failed_says_so(folder: Path):
    def failing(knobs: TrainConfig, spec: TrialSpec):
        if not spec.number:
            return None
        often = failure(OutcomeKind.SCRIPT_ERROR, message="no folder data", remedy="mount it")
        return failure(OutcomeKind.HANG) if spec.number == 1 else often

    with pytest.raises(
        TargetError, match=r"every trial .* failed, (\d+) of \1 alike \(script_error\): no folder.*; mount it"
    ):
        search_in(folder, options(max_trials=4), executor_options={"failing": failing})
    assert load_run(folder).status is RunStatus.FAILED


def test_a_baseline_that_nothing_beats_is_kept(folder: Path):
    own = config(num_workers=2)
    whole, _ = search_in(
        folder,
        options(max_trials=9),
        executor_options={"baseline": own, "rate": lambda knobs: 1000.0 if knobs == own else 500.0},
    )
    assert [r.config for r in whole.recommendations] == [own] * 3
    assert all(r.is_baseline for r in whole.recommendations)
    assert [r.same_as for r in whole.recommendations] == [None, Tier.CONSERVATIVE, Tier.CONSERVATIVE]


# --- interrupted and resumed ---------------------------------------------------------------


@pytest.mark.parametrize("at", [0, 4])
def test_ctrl_c_in_a_trial_keeps_what_was_finished(folder: Path, at: int):
    with RunFolder(folder) as owned:
        executor = ScriptedExecutor(owned.trials_folder, interrupt_at=at)
        search = start_search(owned, executor, cut_short="what an earlier budget had no time for")
        with pytest.raises(KeyboardInterrupt):
            search.run()
    saved = load_run(folder)
    assert (saved.status, saved.cut_short) == (RunStatus.INTERRUPTED, None)
    assert search.found == saved
    assert [record.number for record in saved.trials] == list(range(at))
    assert saved.search_time_s == pytest.approx(at * TRIAL_S)


def test_kill_9_between_a_trial_and_the_run_file_loses_nothing(folder: Path):
    whole, _ = search_in(folder, options(max_trials=5))
    (folder / "run.json").unlink()
    (folder / "study.journal").write_text("garbage")
    (folder / "trials" / "0099").mkdir()
    again, executor = search_in(folder, options(max_trials=5))
    assert executor.specs == []
    assert again.trials == whole.trials


# --- every kind of target ------------------------------------------------------------------


@given(any_search_context(), st.integers(0, 3))
def test_any_script_on_any_machine_gets_its_answer(
    tmp_path_factory: pytest.TempPathFactory, context: SearchContext, failing_third: int
):
    def failing(knobs: TrainConfig, spec: TrialSpec):
        return failure() if spec.number and spec.number % 3 == failing_third else None

    folder = tmp_path_factory.mktemp("any") / "run"
    seen = {"device": cpu()} if context.discovery.device_type == "cpu" else {}
    executor_options = {
        "baseline": context.baseline,
        "failing": failing,
        "learns": lambda spec: context.discovery,
        "measured": lambda knobs: seen,
    }
    asked = options(max_trials=8, confirm_rounds=2)
    try:
        whole, executor = search_in(
            folder, asked, executor_options=executor_options, host=context.host, profile=context.profile
        )
    except EmptySpaceError:
        return
    ran = {spec.config for spec in executor.specs} | {context.baseline}
    assert {recommendation.config for recommendation in whole.recommendations} <= ran
    assert len(whole.recommendations) + len(whole.missing_tiers) == 3
    confirmed = {record.number for record in confirming(whole.trials) if record.measurement}
    for recommendation in whole.recommendations:
        assert set(recommendation.confirm_trials) <= confirmed


OWN_BATCHES = config(num_workers=0, batch_size=32)
MAKES_BATCHES: dict[str, Any] = {
    "baseline": OWN_BATCHES,
    "learns": lambda spec: learnt(OWN_BATCHES, loaders=()),
}
BOUND_BATCH = target(bindings=(parse_binding("batch_size=--bs {}"),))


def test_a_script_that_makes_its_batches_itself_first_runs_at_half_its_size(folder: Path):
    whole, _ = search_in(folder, executor_options=MAKES_BATCHES, target=BOUND_BATCH)
    first = searched(whole.trials)[0]
    assert first.config == OWN_BATCHES.model_copy(update={"batch_size": 16})
    assert whole.trials[1] == first
    assert len(searched(whole.trials)) > 1
    assert whole.recommendations


def test_a_batch_size_that_does_not_reach_the_loop_ends_the_search(folder: Path):
    missed = {**MAKES_BATCHES, "failing": fails_elsewhere_than(OWN_BATCHES)}
    with pytest.raises(TargetError, match="another batch size does not reach the loop"):
        search_in(folder, executor_options=missed, target=BOUND_BATCH)
    assert [record.role for record in load_run(folder).trials] == [TrialRole.BASELINE, TrialRole.SEARCH]
    with pytest.raises(TargetError, match="another batch size does not reach the loop"):  # resumed
        search_in(folder, executor_options=missed, target=BOUND_BATCH)
    assert len(load_run(folder).trials) == 2


def test_the_shortest_training_is_another_config_than_the_highest_rate(folder: Path):
    """Compiling makes a tenth faster and takes five minutes: an epoch never wins it back."""

    def start(knobs: TrainConfig) -> dict[str, Any]:
        return {"first_step_s": 300.0 if knobs.compile else 1.0}

    by_rate, _ = search_in(folder / "rate", options(max_trials=9), executor_options={"measured": start})
    aggressive = {one.tier: one.config for one in by_rate.recommendations}[Tier.AGGRESSIVE]
    assert aggressive.compile
    by_finish = options(max_trials=9, objective=Objective.FINISH_TIME, epochs=1, epochs_given=True)
    found, _ = search_in(folder / "finish", by_finish, executor_options={"measured": start})
    assert not any(one.config.compile for one in found.recommendations)
    assert all(one.finish_time_s for one in found.recommendations)
