"""Every sentence and figure of a report, computed once from the run."""

from typing import Any

import pytest
from build_records import (
    MIB,
    baseline_record,
    config,
    confirm_records,
    cpu,
    failure,
    host,
    interval,
    largest_seen,
    options,
    profile,
    recommendation,
    run,
    target,
    trial_record,
)
from read_report import ReadRun, drawn, view

from tunekit.plain_text import printable
from tunekit.recommend.recommendation import answer_of
from tunekit.records.finding import Finding
from tunekit.records.interval import Interval
from tunekit.records.recommendation import (
    LearningRate,
    LearningRateRule,
    NoiseFloor,
    Recommendation,
    ScalingRow,
    SetAside,
    Tier,
)
from tunekit.records.run import FixedKnob, KnobRange, Objective, Run, RunStatus
from tunekit.records.target import Target
from tunekit.records.trial import OutcomeKind, TrialRole
from tunekit.report.blocks import Line
from tunekit.report.text import (
    config_text,
    finding_text,
    host_text,
    interval_text,
    outcome_text,
    speedup_text,
)
from tunekit.trial.binding_syntax import parse_binding
from tunekit.trial.typed_commands import target_text

fast = config(batch_size=256, num_workers=4, compile=True)
WIDE = Interval(value=1.83, low=0.24, high=13.73)
MANY = Interval(value=1.40, low=0.97, high=2.02)
SOME = Interval(value=1.08, low=0.98, high=1.19)
NEAR = Interval(value=1.07, low=0.98, high=1.17)
NOISE = NoiseFloor(relative=0.02, pairs=4, processes=5)


def finished(*tiers, **overrides) -> Run:
    values = {
        "recommendations": tiers or (recommendation(of=fast),),
        "noise_floor": NOISE,
        "trials": (
            baseline_record(of=config()),
            trial_record(1, 1000.0, fast),
            *confirm_records([1000.0, 1010.0, 990.0], fast),
        ),
    }
    return run(**(values | overrides))


def command(*words: str) -> Target:
    return Target(name="train", command=words, working_dir="/", script=None, script_sha256=None)


# --- the answer ----------------------------------------------------------------------------


def test_a_faster_config_is_confirmed():
    assert view(finished()).answer == (
        "Confirmed (high confidence): Balanced is 2.00x (1.94 to 2.06) as fast as your baseline: "
        "1,000 samples/s (970 to 1,030) instead of 500 (measured)."
    )


@pytest.mark.parametrize(
    ("floor", "begins"),
    [
        (0.016, "Confirmed (high confidence)"),
        (0.07, "Confirmed (medium confidence)"),
        (0.17, "Confirmed (low confidence, machine is busy)"),
    ],
)
def test_a_speed_up_on_a_busy_machine_does_not_look_like_one_on_a_quiet_machine(floor: float, begins: str):
    noise = NoiseFloor(relative=floor, pairs=4, processes=5)
    assert view(finished(noise_floor=noise)).answer.startswith(begins)


def left_open_run(ratio: Interval, rounds: int = 5, floor: float = 0.02, **overrides: Any) -> Run:
    """A run in which the baseline took the place of a pick with that speed-up."""
    aside = SetAside(config=fast, search_trial=1, confirm_trials=tuple(range(2, 2 + rounds)), speedup=ratio)
    own = recommendation(of=config(), is_baseline=True, speedup=interval(1.0), set_aside=aside)
    return finished(own, noise_floor=NoiseFloor(relative=floor, pairs=4, processes=5), **overrides)


def left_open(ratio: Interval, floor: float = 0.02, **asked: Any) -> ReadRun:
    return view(left_open_run(ratio, floor=floor, options=options(**asked)), "reports/x")


def kept(ratio: Interval, **more: Any) -> str:
    return left_open(ratio, **more).answer


def test_a_gain_that_is_excluded_is_none():
    assert kept(Interval(value=1.01, low=1.006, high=1.014)) == (
        "No gain (high confidence): the best config found is 1.01x (1.01 to 1.01) as fast as your baseline, "
        "over 5 rounds (measured). Keep your own: 1,000 samples/s (970 to 1,030) (measured)."
    )


@pytest.mark.parametrize(
    ("floor", "ratio", "waited_s", "tells", "step"),
    [
        (
            0.17,
            WIDE,
            None,
            "Machine is busy",
            "tunekit search --budget 15m --wait-quiet 10m -- python train.py",
        ),
        (
            0.17,
            WIDE,
            60.0,
            "busy in spite of --wait-quiet 1m",
            "--wait-quiet 1m --window 20 -- python train.py",
        ),
        (
            0.17,
            MANY,
            60.0,
            "--wait-quiet 1m: about 6 confirming",
            "tunekit search --resume reports/x --confirm 6",
        ),
        (0.02, SOME, None, "About 8 confirming rounds", "tunekit search --resume reports/x --confirm 8"),
        (0.02, SOME, 60.0, "About 8 confirming rounds", "tunekit search --resume reports/x --confirm 8"),
        (0.09, NEAR, None, "The difference is within the noise floor", "--window 20 -- python train.py"),
    ],
)
def test_a_gain_that_is_left_open_says_what_would_tell(
    floor: float, ratio: Interval, waited_s: float | None, tells: str, step: str
):
    shown = left_open(ratio, floor=floor, wait_quiet_s=waited_s)
    found = f"the best config found is {speedup_text(ratio)} as fast as your baseline, over 5 rounds"
    assert shown.answer.startswith(f"Inconclusive: {found} (measured; noise floor {floor:.1%}). ")
    assert tells in shown.answer
    assert shown.answer.endswith("Until then keep your own: 1,000 samples/s (970 to 1,030) (measured).")
    settles, own = shown.next_steps
    assert settles.startswith("to settle it: tunekit search ") and settles.endswith(step)
    assert own == "train as before: python train.py"


@pytest.mark.parametrize("waited_s", [None, 60.0])
@pytest.mark.parametrize("floor", [0.02, 0.09, 0.17])
@pytest.mark.parametrize("ratio", [WIDE, MANY, SOME, NEAR], ids=["wide", "many", "some", "near"])
def test_nobody_is_told_to_wait_who_has_waited(ratio: Interval, floor: float, waited_s: float | None):
    shown = left_open(ratio, floor=floor, wait_quiet_s=waited_s)
    texts = (shown.answer, *shown.next_steps)
    if waited_s is not None:
        assert not any("with --wait-quiet" in text or "--wait-quiet 10m" in text for text in texts)


def test_a_config_that_is_left_open_is_named_with_its_learning_rate_and_its_file():
    (line,) = [one for one in left_open(SOME).lines if one.startswith("Best config found")]
    assert line == (
        "Best config found (trial 1, not confirmed): batch_size: 128 -> 256, num_workers: 2 -> 4, "
        "compile: off -> on, lr: 0.1 -> 0.2 (predicted: linear rule for 2x the batch, with warm-up); in "
        "reports/x/candidate.yaml"
    )
    assert not any(
        "not confirmed" in one for one in left_open(Interval(value=1.0, low=0.99, high=1.01)).lines
    )


def test_a_search_that_is_not_over_names_no_file_yet():
    (line,) = [
        one
        for one in view(left_open_run(SOME, status=RunStatus.INTERRUPTED), "reports/x").lines
        if "not confirmed" in one
    ]
    assert "candidate.yaml" not in line


def test_the_file_of_a_config_that_is_left_open_is_that_of_the_tier_that_has_it():
    aside = SetAside(config=fast, search_trial=1, confirm_trials=(2, 3), speedup=SOME)
    own = recommendation(of=config(), is_baseline=True, speedup=interval(1.0), set_aside=aside)
    greedy = recommendation(Tier.AGGRESSIVE, fast, speedup=SOME)
    lines = view(finished(own, greedy), "reports/x").lines
    assert any(one.endswith("; in reports/x/aggressive.yaml") for one in lines)


def test_a_gain_of_aggressive_alone_is_not_hidden_by_the_tier_that_keeps_the_baseline():
    own = recommendation(of=config(), is_baseline=True, speedup=interval(1.0))
    greedy = recommendation(Tier.AGGRESSIVE, fast)
    assert view(finished(own, greedy)).answer == (
        "Confirmed (high confidence) for Aggressive alone: Aggressive is 2.00x (1.94 to 2.06) as fast as "
        "your baseline: 1,000 samples/s (970 to 1,030) instead of 500 (measured). Within the limits of "
        "Balanced keep your own config, 1,000 samples/s (970 to 1,030) (measured)."
    )


def test_a_smaller_tiers_config_is_judged_by_its_own_speed_up_and_not_by_what_it_replaced():
    aside = SetAside(
        config=config(batch_size=1024), search_trial=1, confirm_trials=(2,), speedup=interval(1.1, 0.5)
    )
    smaller = recommendation(of=fast, set_aside=aside)
    assert view(finished(smaller)).answer.startswith("Confirmed (high confidence): Balanced is 2.00x")


def test_more_rounds_than_anybody_would_wait_for_are_not_asked_for():
    assert "The difference is within the noise floor" in kept(Interval(value=1.03, low=0.7, high=1.5))


def test_a_slower_config_is_said_to_be_slower():
    slow = recommendation(of=fast, speedup=interval(0.8))
    assert view(finished(slow)).answer.startswith(
        "Slower (high confidence): Balanced is 0.80x (0.78 to 0.82) as fast as your baseline: "
    )


@pytest.mark.parametrize(
    ("ratio", "told"),
    [
        (interval(2.0), "Confirmed (high confidence): Balanced is 2.00x (1.94 to 2.06) as fast"),
        (interval(0.5), "Slower (high confidence): Balanced is 0.50x (0.48 to 0.52) as fast"),
        (interval(1.0, 0.04), "No gain (high confidence): Balanced is 1.00x (0.96 to 1.04) as fast"),
    ],
)
def test_a_search_for_the_shortest_training_says_how_long_it_is(ratio: Interval, told: str):
    asked = options(objective=Objective.FINISH_TIME, epochs=100, epochs_given=True)
    best = recommendation(of=fast, speedup=ratio, finish_time_s=5040.0)
    shown = view(finished(best, options=asked))
    assert shown.answer == (
        f"{told} as your baseline in the planned training: 1h 24m instead of 2h 46m (predicted from measured "
        "parts)."
    )
    assert ("planned run (predicted)", "2h 46m", "1h 24m") in shown.tiers.rows
    assert any(row[0] == "speed-up of run" for row in shown.tiers.rows)


def test_a_planned_run_is_shown_whatever_is_looked_for():
    best = recommendation(of=fast, finish_time_s=5040.0)
    shown = view(finished(best, options=options(epochs=100, epochs_given=True)))
    assert ("planned run (predicted)", "2h 46m", "1h 24m") in shown.tiers.rows
    assert not any(row[0] == "planned run (predicted)" for row in view(finished()).tiers.rows)


def test_a_baseline_that_nothing_beats_is_kept():
    own = recommendation(of=config(), is_baseline=True, speedup=interval(1.0))
    tried = {"trials": (baseline_record(of=config()), trial_record(1, 520.0, fast))}
    shown = view(finished(own, **tried), "reports/x")
    assert shown.answer == (
        "No config was confirmed to be faster than your own: the best config found is 1.04x as fast as your "
        "baseline, in one process (measured; noise floor 2.0%). Fresh processes of both would tell. Until "
        "then keep your own: 1,000 samples/s (970 to 1,030) (measured)."
    )
    assert shown.next_steps[0] == (
        "to settle it: tunekit profile --against reports/x/candidate.yaml --rounds 5 -- python train.py"
    )
    cut = view(finished(own, cut_short="--budget 2m has room for 1 search trial", **tried)).answer
    assert "than your own (--budget 2m has room for 1 search trial): the best config" in cut
    assert shown.changes == ()


def test_configs_that_were_slower_in_their_trials_are_no_gain_and_leave_nothing_to_settle():
    own = recommendation(of=config(), is_baseline=True, speedup=interval(1.0))
    slower = [trial_record(number, 400.0, config(batch_size=16 * number)) for number in (1, 2)]
    for count, said in (
        (1, "the one other config tried was not faster"),
        (2, "none of 2 others tried was faster"),
    ):
        shown = view(finished(own, trials=(baseline_record(of=config()), *slower[:count])))
        assert shown.answer.startswith(f"No gain: {said} than your own config in its trial. Keep yours:")
        assert "would tell" not in shown.answer
        assert shown.changes == ()
        assert shown.next_steps == ("train as before: python train.py",)


def test_rounds_that_were_run_are_what_the_best_config_is_judged_by():
    own = recommendation(of=config(), is_baseline=True, speedup=interval(1.0))
    again = [
        record.changed(is_baseline_config=True)
        for record in confirm_records([500.0, 510.0, 490.0], config(), first_number=50)
    ]
    trials = (
        baseline_record(of=config()),
        trial_record(1, 600.0, fast),
        *confirm_records([510.0, 480.0, 560.0], fast),
        *again,
    )
    answer = view(finished(own, trials=trials)).answer
    assert "the best config found is 1.03x (0.81 to 1.31) as fast as your baseline, over 3 rounds" in answer


def test_a_budget_without_another_config_says_so():
    own = recommendation(of=config(), is_baseline=True, speedup=interval(1.0))
    shown = view(finished(own, trials=(baseline_record(of=config()),)))
    assert shown.answer.startswith("No other config was measured in this budget: give a longer --budget.")


def test_configs_that_all_failed_are_no_matter_of_the_budget():
    own = recommendation(of=config(), is_baseline=True, speedup=interval(1.0))
    crashed = failure(OutcomeKind.WORKER_CRASH, message="KeyError: 'label'", remedy="look at the data")
    trials = (
        baseline_record(of=config()),
        trial_record(1, None, fast, overrides={"failure": crashed}),
        trial_record(2, None, fast, overrides={"failure": crashed}),
        trial_record(3, None, fast, overrides={"failure": failure(OutcomeKind.REFUSED)}),
    )
    shown = view(finished(own, trials=trials))
    assert shown.answer.startswith("No other config could be measured: every one that was tried failed.")
    lines = shown.passage()
    assert "note: 2 trials of 4 ended as worker_crash: KeyError: 'label'; look at the data" in lines
    assert not any("refused" in line for line in lines)


def test_a_baseline_that_failed_leaves_the_speed_up_unknown():
    alone = recommendation(of=fast, speedup=None)
    shown = view(finished(alone, trials=(baseline_record(rate=None), trial_record(1, of=fast))))
    assert shown.answer == (
        "Balanced: 1,000 samples/s (970 to 1,030) (measured); speed-up n/a: the baseline could not be "
        "measured here."
    )
    rows = {row[0]: row[1:] for row in shown.tiers.rows}
    assert rows["speed-up"] == ("n/a", "n/a")
    assert rows["samples/s"][0] == "n/a"


@pytest.mark.parametrize(
    ("trials", "words"),
    [
        ((), "No recommendation yet: 0 trials, 0 of them failed (status: interrupted)."),
        ((baseline_record(rate=None),), "No recommendation yet: 1 trial, 1 of them failed"),
        ((baseline_record(),), "No recommendation yet: 1 trial, 0 of them failed"),
    ],
)
def test_without_a_recommendation_there_is_no_claim(trials, words: str):
    shown = view(run(trials=trials, status=RunStatus.INTERRUPTED))
    assert shown.answer.startswith(words)
    assert shown.next_steps == ("tunekit search --resume FOLDER",)
    assert shown.scaling.rows == ()


@pytest.mark.parametrize(
    ("place", "words", "typed", "note"),
    [
        ("/mnt/shared", (), "/mnt/shared", ""),
        ("postgresql://***@db/runs", (), "'postgresql://***@db/runs'", "  # with the user in place of ***"),
        (
            "postgresql://***@db/runs",
            ("--token", "***"),
            "'postgresql://***@db/runs'",
            " --token '***'  # with the secret in place of ***",
        ),
    ],
)
def test_a_shared_search_is_gone_on_with_by_all(place: str, words: tuple[str, ...], typed: str, note: str):
    of = target(command=("python", "train.py", *words))
    open_run = run(trials=(), status=RunStatus.INTERRUPTED, shared_at=place, target=of)
    (step,) = view(open_run).next_steps
    again = f"tunekit search --share {typed} --budget 15m -- python train.py{note}"
    assert step == again


@pytest.mark.parametrize("status", [one for one in RunStatus if one is not RunStatus.FINISHED])
def test_an_answer_before_the_end_of_the_search_is_marked(status: RunStatus):
    assert view(finished(status=status)).answer == (
        f"{view(finished()).answer} Not final (status: {status.value})."
    )


def test_the_answer_speaks_of_balanced_or_the_nearest_tier():
    tiers = {tier: recommendation(tier) for tier in Tier}
    assert answer_of(run().recommendations) is None
    assert answer_of(finished(*tiers.values()).recommendations) == tiers[Tier.BALANCED]
    without = (tiers[Tier.AGGRESSIVE], tiers[Tier.CONSERVATIVE])
    assert answer_of(finished(*without).recommendations) == tiers[Tier.CONSERVATIVE]
    assert answer_of(finished(tiers[Tier.AGGRESSIVE]).recommendations) == tiers[Tier.AGGRESSIVE]


# --- how it was measured, what changes, what next ------------------------------------------


def test_it_says_how_it_was_measured():
    assert view(finished()).how_measured == (
        "Measured on a10g: 5 trials in 10m 00s, 3 confirming rounds, noise floor 2.0%."
    )
    assert view(finished(noise_floor=None)).how_measured.endswith("noise floor n/a.")


def test_it_says_how_many_hosts_measured_it():
    whole = finished()
    shared = (t.changed(host_name=f"node-{t.number % 3}") for t in whole.trials)
    told = view(whole.changed(trials=tuple(shared))).how_measured
    assert told.startswith("Measured on a10g: 5 trials by 3 hosts in 10m 00s, ")


def test_only_what_differs_from_the_baseline_is_a_change():
    assert view(finished()).changes == (
        "batch_size: 128 -> 256",
        "num_workers: 2 -> 4",
        "compile: off -> on",
        "lr: 2x for SGD, 1.41x for Adam (predicted for 2x the batch)",
    )


def lr_change(**overrides: Any) -> str:
    return view(finished(**overrides)).changes[-1]


def test_where_the_batch_changes_the_learning_rate_is_among_the_changes():
    def scaled(rule: LearningRateRule, value: float) -> Recommendation:
        lr = LearningRate(value=value, rule=rule, base_lr=0.1, base_batch=128, source="baseline")
        return recommendation(of=fast, learning_rate=lr)

    linear = lr_change(recommendations=(scaled(LearningRateRule.LINEAR, 0.2),))
    assert linear == "lr: 0.1 -> 0.2 (predicted: linear rule for 2x the batch, with warm-up)"
    sqrt = lr_change(recommendations=(scaled(LearningRateRule.SQRT, 0.1414),))
    assert sqrt == "lr: 0.1 -> 0.1414 (predicted: sqrt rule for 2x the batch)"
    assert lr_change(script_scales_lr=True) == "lr: leave it, your script scales it with the batch"


def test_a_knob_that_falls_away_is_none():
    lone = recommendation(of=config(num_workers=0))
    assert view(finished(lone)).changes == (
        "num_workers: 2 -> 0",
        "prefetch_factor: 2 -> none",
        "persistent_workers: on -> off",
    )


def test_the_next_step_trains_with_the_config():
    same_batch = recommendation(of=config(num_workers=4))
    assert view(finished(same_batch)).next_steps == ("tunekit run FOLDER/balanced.yaml",)


def test_another_global_batch_names_the_learning_rate_unless_it_is_bound():
    larger = recommendation(of=config(batch_size=4 * config().batch_size))
    steps = view(finished(larger)).next_steps
    assert steps == (
        "choose an lr in your script, or bind it (--bind), then:",
        "tunekit run FOLDER/balanced.yaml --keep-lr",
    )
    bound = target(bindings=(parse_binding("lr=--lr {}"),))
    assert view(finished(larger, target=bound)).next_steps == ("tunekit run FOLDER/balanced.yaml",)


def test_a_script_that_scales_its_own_learning_rate_is_just_run():
    larger = recommendation(of=config(batch_size=4 * config().batch_size))
    steps = view(finished(larger, script_scales_lr=True)).next_steps
    assert steps == ("tunekit run FOLDER/balanced.yaml",)


def test_without_anything_better_the_next_step_is_the_users_own_command():
    own = recommendation(of=config(), is_baseline=True)
    (step,) = view(finished(own, trials=(baseline_record(of=config()),))).next_steps
    assert step == "train as before: python train.py"


def test_another_device_asks_to_search_again_there():
    asked = run().options.model_copy(
        update={
            "gpu": "a10g",
            "fixed": (FixedKnob(knob="compile", value=False),),
            "ranges": (KnobRange(knob="num_workers", low=0, high=4),),
            "max_batch": 64,
        }
    )
    bound = target(bindings=(parse_binding("num_workers=--workers {}"),), samples_per_step=8)
    shown = view(finished(measured_on="cpu", profile=profile(), options=asked, target=bound))
    assert shown.next_steps[0] == (
        "on a machine with NVIDIA A10G: tunekit search --range num_workers=0..4 --max-batch 64 --budget 15m "
        "--gpu a10g --fix compile=false --bind 'num_workers=--workers {}' --samples-per-step 8 "
        "-- python train.py"
    )


def test_the_built_in_workload_leads_to_the_users_own():
    builtin = command("python", "images.py").model_copy(update={"builtin": "images"})
    shown = view(finished(target=builtin))
    assert shown.next_steps == ("on your own script: tunekit search -- python train.py",)


def test_findings_are_blocks_with_what_shows_them_and_what_to_do():
    told = (
        Finding(code="one", severity="info", message="something"),
        Finding(code="two", severity="warning", message="other", evidence="3 ms", remedy="do this", gain=1.2),
    )
    shown = view(finished(findings=told))
    assert [one.heading for one in shown.findings] == ["warning two: other", "note one: something"]
    assert shown.findings[0].details == ("seen: 3 ms", "do: do this", "gain: at most 1.20x (predicted)")
    assert shown.notes == ()


# --- tables --------------------------------------------------------------------------------


def test_tiers_stand_beside_the_baseline():
    rate = LearningRate(
        value=0.2, rule=LearningRateRule.LINEAR, base_lr=0.1, base_batch=128, source="baseline"
    )
    shown = view(
        finished(
            recommendation(Tier.CONSERVATIVE, config(batch_size=256), learning_rate=rate),
            recommendation(Tier.BALANCED, config(batch_size=512), learning_rate=rate),
        )
    ).tiers
    assert shown.columns == ("", "baseline", "conservative", "balanced")
    rows = {row[0]: row[1:] for row in shown.rows}
    assert rows["batch_size"] == ("128", "256", "512")
    assert rows["samples/s"] == ("500", "1,000", "1,000")
    assert rows["speed-up"] == ("1", "2.00x", "2.00x")
    assert rows["lr (predicted)"] == ("0.1", "0.2", "0.2")
    assert rows["VRAM reserved"] == ("5.0 GiB", "5.0 GiB", "5.0 GiB")
    assert all(len(row) == len(shown.columns) for row in shown.rows)


@pytest.mark.parametrize(
    ("batches", "columns"),
    [
        ((256, 256, 256), {"conservative = balanced = aggressive": "256"}),
        ((256, 256, 512), {"conservative = balanced": "256", "aggressive": "512"}),
        ((256, 512, 512), {"conservative": "256", "balanced = aggressive": "512"}),
        ((256, 512, 256), {"conservative = aggressive": "256", "balanced": "512"}),
        ((64, 256, 512), {"conservative": "64", "balanced": "256", "aggressive": "512"}),
    ],
)
def test_tiers_with_one_config_are_one_column(batches: tuple[int, ...], columns: dict[str, str]):
    configs = [config(batch_size=batch) for batch in batches]
    shown = view(finished(*(recommendation(tier, of) for tier, of in zip(Tier, configs, strict=True))))
    sizes = next(row for row in shown.tiers.rows if row[0] == "batch_size")
    assert dict(zip(shown.tiers.columns[2:], sizes[2:], strict=True)) == columns
    assert [row[0] for row in shown.short_tiers.rows] == ["baseline", *columns]
    assert {column for _, column in shown.tiers.changed} == set(range(2, 2 + len(columns)))


def test_a_tier_with_figures_of_its_own_keeps_its_column():
    tiers = (recommendation(Tier.CONSERVATIVE, fast), recommendation(of=fast, speedup=interval(1.9)))
    assert view(finished(*tiers)).tiers.columns == ("", "baseline", "conservative", "balanced")


def test_the_baselines_rate_is_that_of_its_fresh_processes():
    again = tuple(
        record.model_copy(update={"is_baseline_config": True})
        for record in confirm_records([400.0, 400.0], config(), first_number=50)
    )
    rows = {row[0]: row[1:] for row in view(finished(trials=(baseline_record(), *again))).tiers.rows}
    assert rows["samples/s"][0] == "400"


def test_rows_that_say_nothing_are_left_out():
    tier = recommendation(of=fast, peak_reserved_bytes=None, device_memory_bytes=None)
    records = (baseline_record(device=cpu()), trial_record(1, of=fast, device=cpu()))
    labels = [row[0] for row in view(finished(tier, trials=records)).tiers.rows]
    assert "VRAM reserved" not in labels


def test_the_multi_gpu_table_is_of_the_answers_tier_and_stars_the_optimizers_rule():
    rows = tuple(
        ScalingRow(
            tier=tier,
            gpus=2,
            total_batch=batch,
            total_workers=8,
            buffer_bytes=MIB,
            ram_bytes=MIB,
            lr_linear=0.4,
            lr_sqrt=None,
        )
        for tier, batch in ((Tier.CONSERVATIVE, 2), (Tier.BALANCED, 4096))
    )
    shown = view(finished(scaling=rows)).scaling
    assert shown.title == "Multi-GPU scaling, balanced (predicted; * the rule of your optimizer)"
    assert shown.columns[-2:] == ("lr linear *", "lr sqrt")
    assert shown.rows == (("2", "4,096", "8", "1.0 MiB", "1.0 MiB", "0.4", "n/a"),)


# --- texts ---------------------------------------------------------------------------------


def test_unknown_is_not_applicable():
    assert interval_text(None) == speedup_text(None) == "n/a"
    assert config_text(None) == "unknown config"


@pytest.mark.parametrize(
    "wide", [Interval(value=36.9, low=0.0, high=73.8), Interval(value=36.9, low=0.3, high=4000.0)]
)
def test_a_range_that_says_nothing_is_not_printed(wide: Interval):
    assert interval_text(wide, " samples/s") == "36.9 samples/s (range too wide to tell)"
    assert speedup_text(wide) == "36.90x (range too wide to tell)"
    rows = {row[0]: row[1:] for row in view(finished(recommendation(of=fast, speedup=wide))).tiers.rows}
    assert rows["  95% range"] == ("", "too wide")


def test_a_config_is_one_line():
    assert config_text(config(num_workers=0)) == "batch 128, workers 0, fp32"
    everything = config(pin_memory=True, compile=True, channels_last=True, precision="bf16")
    assert config_text(everything) == (
        "batch 128, workers 2 x prefetch 2, bf16, persistent, pinned, compile, channels_last"
    )


def test_no_name_forges_a_line_of_its_own():
    forged = "H200\nerror torch-absent: forged"
    gpu = host().accelerators[0].model_copy(update={"name": forged})
    texts = [
        host_text(host(accelerators=(gpu,))),
        finding_text(Finding(code="one", severity="info", message=forged, evidence=forged, remedy=forged)),
        view(finished(measured_on=forged)).how_measured,
    ]
    shown = drawn([Line(text) for text in texts], 400).strip().splitlines()
    assert [r"\nerror" in line for line in shown] == [True] * len(texts)


def test_an_outcome_is_one_line_that_says_measured():
    assert outcome_text(trial_record(1, 1000.0)) == "1,000 samples/s, 7.81 it/s (measured)"
    failed = trial_record(1, None, overrides={"failure": failure(OutcomeKind.HANG, message="no batch")})
    assert outcome_text(failed) == "hang: no batch"
    given_up = trial_record(1, 1000.0, stop_reason="abandoned")
    assert outcome_text(given_up) == "1,000 samples/s, 7.81 it/s (measured, abandoned)"


def test_a_machine_is_one_line():
    assert host_text(host()) == "NVIDIA A10G 22.0 GiB, 8 CPUs, 32.0 GiB RAM, 16.0 GiB /dev/shm"
    small = host(accelerators=(), cpus=2, shm_bytes=None)
    assert host_text(small) == "no GPU, 2 of 8 CPUs, 32.0 GiB RAM, n/a /dev/shm"


def test_what_could_steer_a_terminal_is_written_out():
    assert printable("caf\u00e9 [red] \u65e5\u672c") == "caf\u00e9 [red] \u65e5\u672c"
    assert printable("\x1b[31mred\x07\r") == r"\x1b[31mred\x07\r"
    assert printable("two\nlines\u2028three") == r"two\nlines\u2028three"
    assert target_text(command("echo", "\x1b[2J")) == r"echo '\x1b[2J'"


def test_the_losses_of_another_mode_are_one_line_below_how_it_was_measured():
    losses = tuple(2.0 - index / 64 for index in range(64))
    compiled = config(compile=True)
    guard = trial_record(50, of=compiled, role=TrialRole.NUMERICS, losses=losses)
    trials = (baseline_record(of=config(), losses=losses), trial_record(1, 1000.0, fast), guard)
    assert view(finished(trials=trials)).losses == (
        "losses: compile agrees with the baseline over 64 steps (measured)"
    )
    assert view(finished()).losses == ""


def test_a_trial_without_memory_says_in_words_how_it_grew():
    grew = failure(
        OutcomeKind.HOST_OOM, message="too big; it grew from 310 MiB to 900 MiB in 4.2 s, 140 MiB/s"
    )
    shown = view(
        finished(trials=(baseline_record(), trial_record(1, None, fast, overrides={"failure": grew})))
    )
    lines = shown.passage()
    assert any(
        "host_oom: too big; it grew from 310 MiB to 900 MiB in 4.2 s, 140 MiB/s" in one for one in lines
    )


def test_the_largest_samples_are_one_line_and_count_in_the_memory_of_a_tier():
    seen = largest_seen()
    lived = recommendation(of=fast).model_copy(update={"largest": seen})
    told = "largest samples (measured): batches up to 3.1x the usual bytes (4,096 of 50,000 samples read); "
    assert view(finished(lived)).largest == (
        f"{told}every tier trained on such a batch; buffers count such batches"
    )
    not_lived = seen.model_copy(update={"is_lived_through": False})
    other = recommendation(Tier.AGGRESSIVE, of=fast).model_copy(update={"largest": not_lived})
    assert view(finished(lived, other)).largest.startswith(f"{told}{lived.tier.value} trained on")
    assert view(finished(other)).largest.startswith(f"{told}no tier trained on")
    assert view(finished()).largest == ""


def test_a_speed_up_whose_inverse_no_float_holds_has_no_price():
    assert "billed by the hour" in view(finished(), "reports/x").price
    next_to_nothing = recommendation(of=fast, speedup=Interval(value=5e-324, low=5e-324, high=5e-324))
    assert view(finished(next_to_nothing), "reports/x").price == ""
