"""How fast the loader would be on a GPU's usual machine."""

from typing import Any

import pytest
from build_fits import gpu, machine
from build_records import config, cpu, loop

from tunekit.predict.loader_rate import loader_rate, loader_work_of, usual_instance
from tunekit.records.attribution import LoaderWork, WorkerWork
from tunekit.records.details import IsolatedRates
from tunekit.records.measurement import LoopMeasurement


def test_the_loader_has_its_share_of_the_smallest_and_cheapest_machine():
    several = gpu(
        "a10g",
        22.0,
        instances=(
            machine("eight", gpus=8, vcpus=192),
            machine("dear", vcpus=16, usd_per_h=3.0),
            machine("cheap", vcpus=4, usd_per_h=1.0),
            machine("unknown", vcpus=None, usd_per_h=0.1),
        ),
    )
    found = usual_instance(several)
    assert found is not None and found.name == "cheap"
    assert usual_instance(gpu("k80", 11.0)) is None


WORK = LoaderWork(
    workers=(WorkerWork(batches=50, time_s=10.0),),
    cpu_s=5.0,
)
"""Of batches that take 0.1 s of a CPU each, 0.2 s altogether."""


def loaded(epoch_samples: int | None, **overrides: Any) -> LoopMeasurement:
    """Batches of 16."""
    values: dict[str, Any] = {"device": cpu(), "epoch_samples": epoch_samples}
    return loop(32.0, config(batch_size=16), **(values | overrides))


@pytest.mark.parametrize(
    ("epoch_samples", "batch_size", "at_work"),
    [(None, 10_000, 4), (4000, 16, 4), (4000, 1000, 4), (4000, 1001, 4), (4000, 2000, 2), (4000, 4000, 1)],
)
def test_no_more_vcpus_are_at_work_than_an_epoch_has_batches(
    epoch_samples: int | None, batch_size: int, at_work: int
):
    rate = loader_rate(loaded(epoch_samples), WORK, machine(vcpus=4), batch_size)
    assert rate is not None
    assert rate.high == pytest.approx(at_work * 16 / 0.1)
    assert rate.low == pytest.approx(0.5 * at_work * 16 / 0.2)
    assert rate.low <= rate.value <= rate.high


def test_each_gpu_of_a_machine_has_its_share():
    rate = loader_rate(loaded(4000), WORK, machine(gpus=8, vcpus=4), 4000)
    assert rate is not None
    assert rate.high == pytest.approx(0.5 * 16 / 0.1)


def test_without_a_machine_or_a_cost_nothing_is_known():
    assert loader_rate(loaded(4000), WORK, None, 16) is None
    assert loader_rate(loaded(4000), WORK, machine(vcpus=None), 16) is None
    assert loader_rate(loaded(4000), None, machine(), 16) is None


def test_what_a_batch_costs_is_taken_from_the_loader_alone_where_that_was_looked_at():
    beside_training = WORK.model_copy(update={"cpu_s": 9.0})
    measured = loaded(4000, loader_work=beside_training)
    assert loader_work_of(measured, IsolatedRates(loader_work=WORK)) is WORK
    assert loader_work_of(measured, IsolatedRates()) == beside_training
    assert loader_work_of(measured, None) == beside_training
