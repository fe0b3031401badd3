"""Workers that differ from each other, and batches that differ from the rest."""

from typing import Any

import pytest
from build_loops import CPU, codes, found, parts, record, work
from build_records import target

from tunekit.records.attribution import LoaderWork
from tunekit.records.finding import Severity
from tunekit.trial.binding_syntax import parse_binding

waits = {"device": CPU, "parts": parts(wait=0.5)}
computes = {"device": CPU, "parts": parts(wait=0.05)}


def test_a_worker_far_slower_than_the_others_holds_them_up():
    finding = found("worker-imbalance", record(loader_work=work(0.1, workers=4, slow=3.0), **waits))
    assert finding.severity is Severity.WARNING
    assert finding.evidence == (
        "300 ms per batch against 100 ms of the median of 4 workers (their own clocks)"
    )
    assert (finding.value, finding.gain) == (pytest.approx(3), pytest.approx(2))


def test_an_imbalance_that_training_does_not_feel_is_a_note():
    finding = found("worker-imbalance", record(loader_work=work(0.1, workers=4, slow=2.0), **computes))
    assert (finding.severity, finding.gain) == (Severity.INFO, None)


def few_batches() -> LoaderWork:
    whole = work(0.1, workers=3, slow=5.0)
    few = whole.workers[-1].model_copy(update={"batches": 4})
    return whole.model_copy(update={"workers": (*whole.workers[:-1], few)})


@pytest.mark.parametrize("seen", [None, work(0.1, workers=4, slow=1.4), work(0.1, workers=1), few_batches()])
def test_even_or_single_workers_and_few_batches_are_no_finding(seen: LoaderWork | None):
    assert "worker-imbalance" not in codes(record(loader_work=seen, **waits))


@pytest.mark.parametrize("tail", [{"p99_batch_s": 0.41}, {"p99_batch_s": 0.3, "slowest_batch_s": 1.1}])
def test_rare_slow_batches_ask_for_a_longer_queue(tail: dict[str, float]):
    of = record(loader_work=work(0.1, **tail), **computes)
    bound = target(bindings=(parse_binding("prefetch_factor=c.yaml:data.prefetch"),))
    finding = found("batch-time-tail", of, target=bound)
    assert finding.severity is Severity.INFO
    assert finding.remedy is not None
    assert "data.prefetch: 4 in c.yaml" in finding.remedy
    assert finding.gain == pytest.approx(1 / 0.95)


@pytest.mark.parametrize(
    "overrides",
    [
        {"loader_work": work(0.1)},
        {"parts": parts(wait=0.01)},
        {"loader_work": work(0.1, p99_batch_s=9.0, workers=1, batches=19)},
        {"num_workers": 0},
        {"loader_work": None},
    ],
)
def test_hidden_or_even_batches_are_no_finding(overrides: dict[str, Any]):
    values = {"loader_work": work(0.1, p99_batch_s=9.0), **computes} | overrides
    assert "batch-time-tail" not in codes(record(**values))
