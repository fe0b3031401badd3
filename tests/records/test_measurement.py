"""Figures of a loop that follow from others: the rate of all ranks."""

import pytest
from build_records import loop
from hypothesis import given
from hypothesis import strategies as st

from tunekit.records.data_parallel import DataParallelKind, DataParallelSeen, RankSeen
from tunekit.records.measurement import LoopMeasurement

rates = st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=8)


def of_ranks(*samples_per_s: float, world_size: int | None = None, rate: float = 100.0) -> LoopMeasurement:
    """A loop whose rank 0 has a rate over whole epochs, and whose ranks' clocks tell others."""
    seen = [RankSeen(rank=rank, samples_per_s=one) for rank, one in enumerate(samples_per_s)]
    return loop(rate, world_size=world_size or len(seen), ranks=tuple(seen))


def test_ranks_that_were_not_timed_are_taken_to_be_as_fast_as_the_first() -> None:
    assert loop(100.0, world_size=4).rate_samples_per_s == pytest.approx(400.0)
    assert loop(100.0, world_size=4).slowest_rank_share is None


def test_ranks_on_other_hosts_are_taken_to_be_as_fast_as_those_here() -> None:
    assert of_ranks(50.0, 40.0, world_size=8).rate_samples_per_s == pytest.approx(720.0)


@given(rates)
def test_the_rates_of_the_ranks_add_up(each: list[float]) -> None:
    found = of_ranks(*each, rate=each[0])
    assert found.rate_samples_per_s == pytest.approx(sum(each), rel=1e-9)
    assert found.slowest_rank_share == pytest.approx(min(each) * len(each) / sum(each), rel=1e-9)


def test_a_last_batch_that_is_not_full_is_no_rank_of_its_own() -> None:
    ranks = tuple(
        RankSeen(rank=rank, samples_per_s=50.0, batch_samples=mean) for rank, mean in enumerate((16.0, 15.6))
    )
    assert loop(100.0, world_size=2, ranks=ranks).rate_samples_per_s == 200.0


@pytest.mark.parametrize(("sync_gradients", "rate"), [(True, 150.0), (False, 180.0)])
def test_ranks_whose_gradients_are_summed_count_by_their_batches(sync_gradients: bool, rate: float) -> None:
    """The second has half the batch; its clock told of another span of the window."""
    ranks = (
        RankSeen(rank=0, samples_per_s=50.0, batch_samples=16.0),
        RankSeen(rank=1, samples_per_s=40.0, batch_samples=8.0),
    )
    seen = DataParallelSeen(
        kind=DataParallelKind.DDP,
        backend="gloo",
        gradient_bytes=8,
        syncs_gradients=sync_gradients,
    )
    found = loop(100.0, world_size=2, ranks=ranks, data_parallel=seen)
    assert found.rate_samples_per_s == pytest.approx(rate)
