"""Whether a config trains on the samples of the baseline: which counts are the same, and which are not."""

from typing import Any

import pytest
from build_records import baseline_record, config, confirm_records

from tunekit.recommend.data_check import data_check, data_checks, trains_otherwise
from tunekit.records.data_check import DataCheck, Difference, DifferenceCode, Sameness
from tunekit.records.details import ContentsSeen, DataSeen, Details, IndicesSeen, LeafSeen, SamplesSeen
from tunekit.records.trials import Trials

OWN = config(batch_size=32, num_workers=0)
FASTER = config(batch_size=128, num_workers=2, persistent_workers=False)
SAME, DIFFERS, NOT_CHECKED = Sameness


def draws(count: int = 10_000, **known: Any) -> IndicesSeen:
    """Two whole epochs of a shuffled data set of 10,000."""
    usual = {"is_whole": True, "distinct": count, "distinct_in_two": count, "data_set_samples": 10_000}
    return IndicesSeen(**({"draws": count, "digest": f"{count:x}", **usual} | known))


def samples(count: int = 10_000, **known: Any) -> SamplesSeen:
    """Two whole epochs of samples that are always the same."""
    usual = {"whole_epochs": 2, "distinct": count, "distinct_in_two": count, "digests": ("a", "a")}
    return SamplesSeen(**({"count": count, **usual} | known))


def contents(*prints: str, indices: tuple[int, ...] = (3, 5), unlike: int = 0) -> ContentsSeen:
    return ContentsSeen(indices=indices, leaves=[LeafSeen(prints=one, unlike=unlike) for one in prints])


def rows(**known: Any) -> DataSeen:
    return DataSeen(**({"indices": draws(), "samples": samples(), "changing": ()} | known))


def stream(count: int = 10_000, **known: Any) -> DataSeen:
    return DataSeen(samples=samples(count, **known))


def check_of(own: DataSeen | list[DataSeen], seen: DataSeen, **changed: Any) -> DataCheck:
    baselines = own if isinstance(own, list) else [own]
    details = [Details(data=one) for one in baselines]
    return data_check(details, Details(data=seen), OWN, FASTER.changed(**changed))


SHUFFLED_REST = draws(9_984, distinct_in_two=9_999)
PADDED = draws(10_112, distinct=10_000)
REPLACED = draws(10_000, distinct=6_320, distinct_in_two=8_650)
WINDOW = {"whole_epochs": 0, "distinct_in_two": None, "digests": ()}


@pytest.mark.parametrize(
    ("own", "seen"),
    [
        pytest.param(rows(), rows(), id="all"),
        pytest.param(rows(), rows(indices=SHUFFLED_REST), id="a shuffled remainder"),
        pytest.param(rows(), rows(indices=PADDED), id="padding up to a batch"),
        pytest.param(
            rows(indices=REPLACED),
            rows(indices=draws(9_984, distinct=6_290, distinct_in_two=8_600)),
            id="chance",
        ),
        pytest.param(rows(changing=("epoch",)), rows(), id="changes that workers see"),
        pytest.param(
            rows(shared_generators=("rng",)), rows(shared_generators=("rng",)), id="the user's own fault"
        ),
        pytest.param(
            rows(samples=samples(made_again=9, made_otherwise=9)),
            rows(samples=samples(made_again=9, made_otherwise=8)),
            id="random by nature",
        ),
        pytest.param(stream(), stream(), id="a stream"),
        pytest.param(
            stream(), stream(digests=("b", "c")), id="a stream that is random by nature, looked at once"
        ),
        pytest.param(
            stream(), stream(9_800, distinct_in_two=9_990), id="short batches at the ends of shares"
        ),
    ],
)
def test_what_is_the_same(own: DataSeen, seen: DataSeen) -> None:
    check = check_of(own, seen)
    assert (check.verdict, check.differences) == (SAME, ())


@pytest.mark.parametrize(
    ("own", "seen", "code", "affected", "of"),
    [
        (rows(), rows(indices=draws(20_000, distinct=10_000)), "repeated", 10_000, 20_000),
        (rows(), rows(indices=draws(9_984, distinct_in_two=9_984)), "missing", 16, 10_000),
        (rows(), rows(indices=draws(9_000, distinct_in_two=9_900)), "missing", 1_000, 10_000),
        (rows(), rows(shared_generators=("rng",)), "same_draws", 5_000, 10_000),
        (rows(unshared=("calls",)), rows(), "unshared", 10_000, 10_000),
        (
            rows(samples=samples(made_again=9)),
            rows(samples=samples(made_again=9, made_otherwise=2)),
            "content",
            2,
            9,
        ),
        (stream(), stream(20_000, distinct=10_000), "repeated", 10_000, 20_000),
        (stream(), stream(20_000), "repeated", 10_000, 20_000),
        (stream(), stream(4_000, distinct=2_000, **WINDOW), "repeated", 2_000, 4_000),
        (stream(), stream(5_000), "missing", 5_000, 10_000),
        (stream(), stream(9_990, distinct_in_two=9_990), "missing", 10, 10_000),
    ],
)
def test_what_differs(own: DataSeen, seen: DataSeen, code: str, affected: int, of: int) -> None:
    check = check_of(own, seen)
    assert check.verdict is DIFFERS
    assert [(one.code, one.affected, one.of) for one in check.differences] == [(code, affected, of)]


def test_a_stream_of_other_content_differs_where_two_baselines_agree() -> None:
    other = stream(digests=("b", "b"))
    assert check_of([stream(), stream()], other).differences[0].code is DifferenceCode.CONTENT
    assert check_of([stream(), stream(digests=("c", "c"))], other).verdict is SAME


def test_workers_that_persist_do_not_see_what_changes() -> None:
    found = check_of(rows(changing=("epoch",)), rows(), persistent_workers=True).differences
    assert [(one.code, one.example) for one in found] == [(DifferenceCode.STALE, "epoch")]
    assert check_of(rows(changing=("set_epoch",)), rows(), persistent_workers=True).verdict is SAME


@pytest.mark.parametrize(
    ("first", "second", "seen", "compared", "altered"),
    [
        (contents("a" * 16), contents("a" * 16), contents("a" * 16), 2, 0),
        (contents("a" * 16), contents("a" * 16), contents("a" * 8 + "b" * 8), 2, 1),
        (contents("a" * 16), contents("a" * 8 + "c" * 8), contents("b" * 16), 0, 0),  # unseeded
        (contents("a" * 16, unlike=1), contents("a" * 16), contents("b" * 16), 0, 0),  # can't be pinned
        (contents("a" * 16, "b" * 16), contents("a" * 16, "c" * 16), contents("a" * 16, "d" * 16), 2, 0),
        (contents("a" * 16), contents("a" * 16), contents("a" * 8 + "b" * 8, indices=(5, 9)), 1, 0),
        (contents("a" * 16), None, contents("b" * 16), 0, 0),
    ],
)
def test_contents_are_compared_where_two_baselines_agree(
    first: ContentsSeen, second: ContentsSeen | None, seen: ContentsSeen, compared: int, altered: int
) -> None:
    check = check_of([rows(contents=first), rows(contents=second)], rows(contents=seen))
    assert check.samples_checked == compared
    assert [one.affected for one in check.differences] == ([altered] if altered else [])
    assert (check.why_not is None) == bool(compared)


def test_what_was_not_seen_is_not_checked() -> None:
    own = Details(data=rows())
    unwatched = rows(samples=None, faults=("its workers come from a fork server",))
    for details in (Details(), Details(faults=("data: it took too long",)), Details(data=unwatched)):
        check = data_check([own], details, OWN, FASTER)
        assert check.verdict is NOT_CHECKED and check.why_not
    long = check_of(stream(4_000, **WINDOW), stream(4_000, **WINDOW))
    assert long.verdict is NOT_CHECKED and long.why_not
    of_batches = check_of(rows(), rows(indices=draws(2_500, data_set_samples=2_500)))
    assert (of_batches.verdict, of_batches.why_not) == (NOT_CHECKED, "the data set makes whole batches")


def test_other_differences_join() -> None:
    other = Difference(code=DifferenceCode.STEPS, affected=1, of=2)
    for seen in (Details(data=rows()), Details()):
        check = data_check([Details(data=rows())], seen, OWN, FASTER, (other,))
        assert (check.verdict, check.differences) == (DIFFERS, (other,))


@pytest.mark.parametrize(
    ("code", "other", "is_excluded"),
    [
        ("repeated", FASTER, True),
        ("repeated", FASTER.changed(num_workers=4), True),
        ("repeated", FASTER.changed(num_workers=1), False),
        ("missing", FASTER.changed(num_workers=4), False),
        ("stale", FASTER.changed(num_workers=4), False),
        ("stale", FASTER.changed(num_workers=4, persistent_workers=True), True),
        ("unshared", FASTER.changed(num_workers=1), True),
        ("unshared", FASTER.changed(num_workers=0), False),
    ],
)
def test_a_config_with_the_same_cause_is_excluded_too(code: str, other: Any, is_excluded: bool) -> None:
    found = Difference(code=DifferenceCode(code), affected=1, of=1)
    checks = {FASTER: DataCheck(verdict=DIFFERS, differences=(found,))}
    assert trains_otherwise(other, checks, OWN) is is_excluded


def test_a_confirmed_config_that_ended_before_it_was_examined_says_so() -> None:
    larger = config(batch_size=512)
    trials = Trials((baseline_record(), *confirm_records([900.0, 950.0], larger)))
    check = data_checks(trials)[larger]
    assert check.verdict is Sameness.NOT_CHECKED
    assert check.why_not is not None and "no confirming process got to look" in check.why_not
