"""Real trials of data sets whose samples depend on the loader's knobs, and of some that only seem to."""

from typing import Any

import pytest
from real_trials import Plan, Ran, looking_at

from tunekit.recommend.data_check import data_check
from tunekit.records.data_check import DataCheck, Sameness
from tunekit.records.details import DataSeen, Detail
from tunekit.records.trial import TrialRecord

pytestmark = pytest.mark.real

LOOKS = {"details": (Detail.DATA,)}


def looks(kind: str, *flags: str, is_slow: bool = False, **knobs: Any) -> Plan:
    """A plan whose baseline and config both look at their samples."""
    name = "-".join([kind, *(flag.strip("-") for flag in flags), *knobs])
    words = ("python", "epoch_samples.py", kind, *flags)
    return Plan(words, {**LOOKS, **knobs}, is_slow=is_slow, asked=LOOKS, name=name)


def seen_by(record: TrialRecord | None) -> DataSeen:
    assert record is not None and record.measurement is not None, record
    details = record.measurement.details
    assert details is not None and details.data is not None, details
    assert (details.faults, details.data.faults) == ((), ())
    return details.data


def checked(ran: Ran) -> DataCheck:
    """The check of the config against the baseline, which counts as two processes."""
    assert ran.tuned is not None and ran.tuned.config is not None and ran.baseline.config is not None
    assert ran.tuned.measurement is not None and ran.baseline.measurement is not None
    own, seen = ran.baseline.measurement.details, ran.tuned.measurement.details
    assert own is not None and seen is not None
    return data_check([own, own], seen, ran.baseline.config, ran.tuned.config)


@looking_at(
    looks("plain", num_workers=2),
    looks("sharded", num_workers=2),
    looks("shared-out", num_workers=2, is_slow=True),
    looks("sharded", "--workers", "2", num_workers=3, is_slow=True),
    looks("seeded-by-index", "--workers", "2", num_workers=3, is_slow=True),
    looks("plain", "--replacement", num_workers=2, batch_size=128, is_slow=True),
    looks("augmented", "--workers", "2", persistent_workers=True, is_slow=True),
)
def test_the_same_samples_stay_so(ran: Ran) -> None:
    check = checked(ran)
    assert (check.verdict, check.differences, check.indices_checked) == (Sameness.SAME, (), 640)
    is_stream = seen_by(ran.tuned).indices is None
    assert check.samples_checked == (0 if is_stream else 256)


@looking_at(looks("plain", "--drop-last", "--rows", "700", batch_size=128))
def test_a_shuffled_remainder_is_the_same_and_counted(ran: Ran) -> None:
    check = checked(ran)
    assert (check.verdict, check.left_out_samples) == (Sameness.SAME, 700 % 128 - 700 % 32)


@looking_at(
    looks("seeds-by-worker", num_workers=2),
    looks("curriculum", "--workers", "2", persistent_workers=True),
    looks("augmented", num_workers=2),
    looks("shared-file", num_workers=3),
    looks("logged", num_workers=2),
    looks("plain", "--drop-last", "--rows", "700", "--in-order", batch_size=128, is_slow=True),
)
def test_other_samples_are_found(ran: Ran) -> None:
    check = checked(ran)
    assert check.verdict is Sameness.DIFFERS
    expected = {
        "seeds-by-worker": ("repeated", 640, 1280),
        "curriculum": ("stale", 640, 640),
        "augmented": ("same_draws", 320, 640),
        "plain": ("missing", 32, 672),
        "logged": ("unshared", 640, 640),
    }
    (found,) = check.differences
    if ran.plan.words[2] == "shared-file":
        assert found.code == "content" and found.affected > 0
        return
    assert (found.code, found.affected, found.of) == expected[ran.plan.words[2]]


@looking_at(looks("unseeded", num_workers=2, is_slow=True))
def test_what_is_random_by_nature_is_not_compared(ran: Ran) -> None:
    own, seen = seen_by(ran.baseline), seen_by(ran.tuned)
    assert own.samples is not None and own.samples.made_otherwise == own.samples.made_again == 640
    assert own.contents is not None and seen.contents is not None
    assert own.contents.leaves[0].prints != seen.contents.leaves[0].prints


@looking_at(
    looks("seeds-by-worker", "--workers", "2", is_slow=True),
    looks("augmented", "--workers", "2", is_slow=True),
    looks("plain", "--workers", "2", is_slow=True),
)
def test_the_baseline_tells_of_its_own_faults(ran: Ran) -> None:
    seen = seen_by(ran.baseline)
    assert seen.samples is not None
    repeated = seen.samples.count - seen.samples.distinct
    kind = ran.plan.words[2]
    assert repeated == (640 if kind == "seeds-by-worker" else 0)
    assert seen.shared_generators == (("rng",) if kind == "augmented" else ())
