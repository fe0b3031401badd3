"""Memory that grows with each batch is told from memory that comes and goes."""

import os
import random
from collections.abc import Callable

import pytest
from _tunekit_agent.measure import growth
from _tunekit_agent.measure.host import memory_of, own_bytes

MIB = 1 << 20
COMES_AND_GOES = random.Random(0)


@pytest.mark.parametrize(
    ("taken_mib", "grows_mib"),
    [
        (lambda batch: 300 + batch, 1.0),
        (lambda batch: 300 + batch % 100, 1.0),
        (lambda batch: 300 + batch + COMES_AND_GOES.uniform(0, 40), 1.0),
        (lambda batch: 300 + COMES_AND_GOES.uniform(0, 40), 0.0),
        (lambda batch: 300 + min(batch, 30), 0.0),
        (lambda batch: 900 - batch, 0.0),
    ],
    ids=["endless", "epochs", "beside others", "others alone", "a start", "falls"],
)
def test_each_batch_adds_what_it_keeps(
    taken_mib: Callable[[int], float], grows_mib: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = growth.MemoryGrowth()
    for batch in range(450):
        monkeypatch.setattr(growth, "_taken", lambda devices, at=batch: (taken_mib(at) * MIB, (0, 0)))
        if taken_mib(100) == 300 and batch % 100 == 0:
            seen.epoch_started()
        seen.asked(batch * 0.06, batch)
        seen.asked(batch * 0.06 + 0.01, batch)
    assert seen.facts()["growth_bytes_per_batch"] / MIB == pytest.approx(grows_mib, abs=0.15)


def test_too_few_looks_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = growth.MemoryGrowth()
    for batch in range(7):
        monkeypatch.setattr(growth, "_taken", lambda devices, at=batch: (at * MIB, (at * MIB, 0)))
        seen.asked(batch, batch)
    assert seen.facts() == {"growth_bytes_per_batch": 0, "growth_bytes_per_epoch": None}


@pytest.mark.parametrize(
    ("peaks_mib", "grows_mib"),
    [
        (lambda epoch, batch: (300 + 48 * epoch + 16 * min(batch, 3), 80), 48),
        (lambda epoch, batch: (300 + 90 * (epoch > 0), 80), 0),
        (lambda epoch, batch: (300 + 4 * (10 * epoch + batch), 80), 0),
        (lambda epoch, batch: (300 + 48 * epoch, 80 + 40 * epoch), 0),
    ],
    ids=["a stream each", "a validation", "all the time", "larger samples"],
)
def test_each_epoch_adds_what_it_reserves_before_it_is_steady(
    peaks_mib: Callable[[int, int], tuple[int, int]], grows_mib: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = growth.MemoryGrowth()
    for at in range(40):
        epoch, batch = divmod(at, 10)
        peaks = tuple(one * MIB for one in peaks_mib(epoch, batch))
        monkeypatch.setattr(growth, "_taken", lambda devices, peaks=peaks: (0, peaks))
        if batch == 0:
            seen.epoch_started()
        seen.asked(at, at)
    assert seen.facts()["growth_bytes_per_epoch"] == grows_mib * MIB


def test_memory_of_its_own_is_what_the_kernel_counts() -> None:
    before, kept = own_bytes(), bytearray(b"1" * (64 << 20))
    assert own_bytes() - before == pytest.approx(len(kept), rel=0.1)
    whole = memory_of(os.getpid())
    assert whole is not None and own_bytes() == pytest.approx(whole.private_bytes, rel=0.5)
