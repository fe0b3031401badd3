"""The user's own samples: which come again, which never do, which are drawn alike."""

import pytest
from build_loops import codes, record
from build_records import baseline_record, config, confirm_records, run, trial_record

from tunekit.diagnose.run import run_findings
from tunekit.records.details import DataSeen, Details, IndicesSeen, SamplesSeen
from tunekit.records.target import StepNumber
from tunekit.records.trial import TrialRecord

CODES = {"samples-repeated", "samples-never-seen", "same-draws"}


def stream(count: int, distinct: int, whole_epochs: int = 1) -> DataSeen:
    return DataSeen(samples=SamplesSeen(whole_epochs=whole_epochs, count=count, distinct=distinct))


def draws(distinct: int, in_two: int) -> DataSeen:
    seen = {"distinct": distinct, "distinct_in_two": in_two, "data_set_samples": 1_000}
    return DataSeen(indices=IndicesSeen(is_whole=True, draws=distinct, digest="a", **seen))


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (stream(20_000, 10_000), {"samples-repeated"}),
        (stream(20_000, 19_990), set()),
        (stream(20_000, 10_000, whole_epochs=0), set()),
        (draws(960, 960), {"samples-never-seen"}),
        (draws(960, 998), set()),  # shuffled
        (draws(800, 800), set()),  # a part that was split off
        (DataSeen(shared_generators=("rng",)), {"same-draws"}),
        (DataSeen(), set()),
    ],
)
def test_each_fault_has_its_code(seen: DataSeen, expected: set[str]) -> None:
    assert set(codes(record(Details(data=seen), knobs={"num_workers": 2}))) & CODES == expected


def with_data(one: TrialRecord, seen: DataSeen) -> TrialRecord:
    assert one.measurement is not None
    return one.model_copy(update={"measurement": one.measurement.changed(details=Details(data=seen))})


def test_a_config_that_changes_the_samples_is_told_with_its_figures() -> None:
    faster = config(num_workers=8)
    own = with_data(baseline_record(), stream(10_000, 10_000))
    (confirm,) = confirm_records([900.0], faster)
    for seen, expected in ((stream(40_000, 10_000), [30_000]), (stream(10_000, 10_000), [])):
        trials = (own, trial_record(1, 900.0, faster), with_data(confirm, seen))
        found = run_findings(run(trials=trials), ())
        assert [one.value for one in found if one.code == "other-training"] == expected


def test_a_step_limit_that_stays_is_told_with_the_number_that_it_needs() -> None:
    own, larger = config(batch_size=16), config(batch_size=64)
    limit = StepNumber(source="--max-steps", name="max_steps", steps=1_000, is_option=True)
    baseline = with_data(baseline_record(of=own, overrides={"step_numbers": (limit,)}), draws(1_000, 1_000))
    trials = (baseline, trial_record(1, 900.0, larger, overrides={"step_numbers": (limit,)}))
    (found,) = (one for one in run_findings(run(trials=trials), ()) if one.code == "other-training")
    assert found.value == 250
    assert "--max-steps 1000" in found.evidence
