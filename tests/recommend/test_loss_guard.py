"""Which modes of precision and compile are guarded by which trial, and what follows."""

import pytest
from build_records import baseline_record, config, confirm_records, failure, trial_record
from simulated_losses import curve, decreasing

from tunekit.diagnose.registry import findings_of
from tunekit.recommend.numerics import Mode, excluded_modes, guarded_modes, modes_due
from tunekit.records.config import Precision, TrainConfig
from tunekit.records.recommendation import LossOutcome
from tunekit.records.trial import OutcomeKind, TrialRecord, TrialRole

GOOD = tuple(curve(decreasing, 64, 1, noise=0.1))
BAD = (*GOOD[:32], *(loss + 1.0 for loss in GOOD[32:]))
OWN = config()
BF16 = config(precision=Precision.BF16)
COMPILED = config(compile=True)
FAST = config(precision=Precision.BF16, num_workers=6, batch_size=512)
BASELINE = baseline_record(of=OWN, losses=GOOD)


def guard(of: TrainConfig, losses: tuple = GOOD, number: int = 7, **more) -> TrialRecord:
    return trial_record(number, of=of, role=TrialRole.NUMERICS, losses=losses, **more)


def guard_failed(of: TrainConfig, kind: OutcomeKind, message: str = "why") -> TrialRecord:
    failed = {"failure": failure(kind, message=message)}
    return trial_record(7, None, of, role=TrialRole.NUMERICS, overrides=failed)


def outcomes(*records: TrialRecord, picks=()) -> dict[str, LossOutcome]:
    return {one.name: one.verdict.outcome for one in guarded_modes((BASELINE, *records), picks)}


def test_the_modes_of_the_picks_are_due_once_each():
    picks = [trial_record(1, of=FAST), trial_record(2, of=BF16.model_copy(update={"batch_size": 9}))]
    assert modes_due((BASELINE,), [*picks, BASELINE]) == [Mode.of(BF16)]
    assert modes_due((BASELINE, guard(BF16)), picks) == []
    assert modes_due((BASELINE, guard_failed(BF16, OutcomeKind.HANG)), picks) == [], "no second try"


def test_a_search_trial_of_exactly_that_config_serves():
    search = trial_record(1, of=BF16, losses=BAD)
    assert modes_due((BASELINE, search), [search]) == []
    assert excluded_modes((BASELINE, search)) == {Mode.of(BF16)}


def test_a_trial_given_up_before_its_losses_say_anything_is_no_guard():
    early = trial_record(1, of=BF16, losses=GOOD[:9], stop_reason="abandoned")
    assert modes_due((BASELINE, early), [trial_record(2, of=FAST)]) == [Mode.of(BF16)]
    told = trial_record(1, of=BF16, losses=BAD, stop_reason="abandoned")
    assert excluded_modes((BASELINE, told)) == {Mode.of(BF16)}


@pytest.mark.parametrize("losses", [(), GOOD[:15]])
def test_nothing_is_due_where_the_baseline_told_too_few_losses(losses: tuple):
    known = baseline_record(of=OWN, losses=losses)
    pick = trial_record(1, of=FAST)
    assert modes_due((known,), [pick]) == []
    (finding,) = findings_of(*guarded_modes((known,), [pick]))
    assert (finding.code, finding.evidence) == ("loss-unknown", f"the baseline reported {len(losses)} losses")


def test_only_modes_with_bad_losses_are_barred():
    records = (BASELINE, guard(BF16, BAD, 7), guard(COMPILED, GOOD, 8))
    assert excluded_modes(records) == {Mode.of(BF16)}
    assert outcomes(*records[1:]) == {"bf16": LossOutcome.DIVERGENT, "compile": LossOutcome.OK}


def test_a_loss_that_is_none_bars_by_its_figures_and_by_its_failure():
    nan = guard(BF16, (*GOOD[:40], None, *GOOD[41:]))
    failed = guard_failed(BF16, OutcomeKind.NONFINITE_LOSS, "the loss was nan after 90 steps")
    assert outcomes(nan) == outcomes(failed) == {"bf16": LossOutcome.NONFINITE}
    (finding,) = findings_of(*guarded_modes((BASELINE, failed)))
    assert finding.code == "loss-diverges"
    assert finding.evidence == "trial 7: the loss was nan after 90 steps (measured)"
    assert "--fix precision=fp32" in (finding.remedy or "")


def test_a_guard_that_failed_otherwise_is_unknown_and_bars_nothing():
    failed = guard_failed(BF16, OutcomeKind.HANG, "no batch for 90 s")
    assert excluded_modes((BASELINE, failed)) == frozenset()
    (finding,) = findings_of(*guarded_modes((BASELINE, failed)))
    assert finding.code == "loss-unknown"
    assert finding.evidence == "its run ended as hang: no batch for 90 s"


def test_processes_of_an_unseeded_baseline_are_the_yardstick():
    def ending_at(level: float) -> tuple[float, ...]:
        return (*GOOD[:32], *(level for _ in range(32)))

    again = tuple(
        record.model_copy(update={"is_baseline_config": True})
        for level in (0.7, 1.4, 2.2)
        for record in confirm_records([500.0], OWN, losses=ending_at(level))
    )
    higher = guard(BF16, ending_at(2.0))
    alone = baseline_record(of=OWN, losses=ending_at(1.0))
    assert excluded_modes((alone, higher)) == {Mode.of(BF16)}
    assert excluded_modes((alone, higher, *again)) == frozenset()
