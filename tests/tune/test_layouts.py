"""The search for a layout, on scripted rates: what it tries, what it may choose, when it keeps the old."""

import math

from build_data import array_access

from tunekit.records.data_layout import Layout, LayoutTrial
from tunekit.tune.layouts import MAX_TRIALS, ROUNDS, search_layouts, slice_samples

MANY = array_access(shape=(1 << 26, 100))


def rate_of(layout: Layout | None) -> float:
    """Reads that decode less are faster; without a codec they are fastest of all, but large."""
    chunk = layout.chunk_samples if layout else 4096
    return 1e6 / (500 + chunk) * (2 if layout and layout.codec == "none" else 1)


def measured(layout: Layout | None) -> LayoutTrial:
    ratio = 1.6 if layout and layout.codec == "none" else 1.0
    return LayoutTrial(layout=layout, rate_samples_per_s=rate_of(layout), size_ratio=ratio, is_cold=True)


def searched(array=MANY, noise=0.01, gain=None, max_size=1.5, deadline_s=math.inf):
    def again(layout: Layout, count: int) -> list[tuple[float, float]]:
        old, new = rate_of(None), gain * rate_of(None) if gain else rate_of(layout)
        return [(old * (1 + noise * (-1) ** n), new * (1 - noise * (-1) ** n)) for n in range(count)]

    return search_layouts(array, 65_536, max_size, measured, again, deadline_s, lambda: 0.0)


def test_the_fastest_within_the_size_is_proved_in_rounds() -> None:
    search = searched()
    assert search.recommended is not None
    assert search.recommended.codec != "none"
    assert search.recommended.chunk_samples <= 128
    assert (len(search.trials), len(search.rounds)) == (MAX_TRIALS + 1, ROUNDS)
    assert search.trials[0].layout is None
    assert len({one.layout for one in search.trials}) == len(search.trials)
    assert searched(max_size=1.7).recommended.codec == "none"


def test_a_gain_within_the_noise_keeps_the_layout() -> None:
    assert (searched(gain=1.04, noise=0.05).recommended, searched(gain=1.0).verdict) == (None, "no gain")


def test_no_layout_has_too_many_files_or_breaks_its_shards() -> None:
    for layout in (one.layout for one in searched().trials if one.layout):
        shard = layout.shard_samples or layout.chunk_samples
        assert shard % layout.chunk_samples == 0
        assert MANY.shape[0] / shard <= max(10_000, MANY.files)


def test_the_budget_ends_the_search_after_two_layouts() -> None:
    assert len(searched(deadline_s=-1.0).trials) == 3


def test_a_slice_holds_several_files_and_never_more_than_may_be_taken() -> None:
    assert slice_samples(MANY, 1 << 28) == 2048 * 32
    assert slice_samples(array_access(chunks=(1 << 16, 100)), 1 << 28) == 4 << 16
    assert slice_samples(MANY, 4000) == 10
    assert slice_samples(array_access(shape=(50, 100)), 1 << 28) == 50
