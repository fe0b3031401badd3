"""Epochs: what their boundaries cost, and epochs too short for their loader."""

from typing import Any

import pytest
from build_loops import codes, found, record
from build_records import target

from tunekit.trial.binding_syntax import parse_binding

STEADY_S = 50_000 / 1280
"""Of an epoch, without its boundary."""


def test_workers_that_start_anew_with_each_epoch_should_stay():
    of = record(boundary_s=STEADY_S / 3, persistent_workers=False)
    bound = target(bindings=(parse_binding("persistent_workers=--keep-workers"),))
    finding = found("costly-epochs", of, target=bound)
    assert finding.message == "each epoch starts its workers anew, and training waits for them"
    assert (
        finding.evidence
        == "13.0 s at each boundary, 25% of an epoch of 52.1 s (host clock, 1 boundary timed)"
    )
    assert finding.remedy == "--keep-workers keeps the workers from epoch to epoch"
    assert (finding.value, finding.gain) == (pytest.approx(0.25), pytest.approx(4 / 3))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_boundary_that_no_workers_cause_has_another_remedy(workers: int):
    of = record(boundary_s=STEADY_S, knobs={"num_workers": workers})
    finding = found("costly-epochs", of)
    assert finding.remedy is not None
    assert "persistent_workers" not in finding.remedy
    assert finding.gain == pytest.approx(2)


@pytest.mark.parametrize(
    "overrides",
    [{"boundary_s": 0.03 * STEADY_S}, {"boundary_s": None}, {"boundary_s": -5.0}, {"epoch_samples": None}],
)
def test_a_cheap_or_unknown_boundary_is_no_finding(overrides: dict[str, Any]):
    of = record(**({"persistent_workers": False, "boundary_s": STEADY_S} | overrides))
    assert "costly-epochs" not in codes(of)


@pytest.mark.parametrize(
    ("batches", "workers", "prefetch", "is_short"),
    [(15, 4, 4, True), (16, 4, 4, False), (5, 2, 1, True), (6, 2, 1, False), (1, 0, None, False)],
)
def test_an_epoch_shorter_than_its_queue_is_told(
    batches: int, workers: int, prefetch: int | None, is_short: bool
):
    of = record(knobs={"num_workers": workers, "prefetch_factor": prefetch}, epoch_batches=batches)
    assert ("short-epochs" in codes(of)) == is_short


def test_a_short_epoch_needs_fewer_workers_that_stay():
    of = record(knobs={"num_workers": 8}, epoch_batches=10, persistent_workers=False)
    finding = found("short-epochs", of)
    assert finding.evidence == "10 batches per epoch; 8 workers with prefetch 2 queue 16"
    assert finding.remedy is not None
    assert finding.remedy.startswith(
        "num_workers=3 in the DataLoader, or persistent_workers=True in the DataLoader, or longer epochs"
    )


def test_an_unknown_epoch_is_no_short_one():
    assert "short-epochs" not in codes(record(epoch_batches=None, epoch_samples=None))
