"""Training that waits for its data: which loop is told so, why, with which figures, and which just is not."""

from typing import Any

import pytest
from build_loops import CPU, batch, codes, device_parts, floors, found, parts, record, telemetry, work
from build_records import MIB, host, target

from tunekit.records.attribution import LoaderWork
from tunekit.records.trial import TrialRecord
from tunekit.trial.binding_syntax import parse_binding

CAUSES = {"loader-cpu", "loader-storage"}
STEADY_S = 50_000 / 1280
"""Of an epoch, without its boundary."""


def waiting(details: Any = None, *, workers: int = 2, **overrides: Any) -> TrialRecord:
    """A loop on a CPU that waits for half of each step of 0.1 s."""
    values: dict[str, Any] = {"device": CPU, "parts": parts(wait=0.5)} | overrides
    return record(details, knobs={"num_workers": workers}, **values)


def computing(**overrides: Any) -> TrialRecord:
    """A loop on a CPU that hardly waits."""
    return record(**({"device": CPU, "parts": parts(wait=0.05)} | overrides))


def slow_first(**overrides: Any) -> TrialRecord:
    work_of = {"loader_work": work(0.05, first_s=2.05), "persistent_workers": False, "boundary_s": 2.5}
    return record(**(work_of | overrides))


def bound_to(text: str) -> dict[str, Any]:
    return {"target": target(bindings=(parse_binding(text),))}


UNPACKS = {"parts": parts(wait=0.4, fetch_cpu=0.3), "device_parts": device_parts(stall=0.2)}
RAN_50_MS = "50% of each step goes by until its batch is there: 50.0 of 100 ms (host clock)"
MAKING = (
    "making a batch takes a worker 200 ms, {} of it on a CPU "
    "(clocks of the loader's processes over 100 batches)"
)


@pytest.mark.parametrize(
    ("code", "severity", "of", "overrides", "evidence", "value", "gain", "remedy"),
    [
        (
            "data-bound",
            "warning",
            waiting(workers=0, loader_work=work(0.05, workers=1)),
            {},
            f"{RAN_50_MS}; num_workers is 0, 8 CPUs may be used",
            0.5,
            2,
            "load in workers: num_workers=1 in the DataLoader; then measure again",
        ),
        # The floors say what either half allows, and bound the gain.
        (
            "data-bound",
            "warning",
            waiting(floors(0.08, 0.1)),
            {},
            f"{RAN_50_MS}; the loader alone makes 1,280 samples/s, training alone takes 1,600; 2 workers, "
            "8 CPUs may be used",
            0.5,
            1.25,
            "num_workers=3 in the DataLoader, or make a batch cheaper",
        ),
        # 0.1 s a step; 8 workers that mostly wait share 0.4 s, more than there are CPUs.
        (
            "data-bound",
            "warning",
            waiting(floors(0.05, 0.4), workers=0, loader_work=work(0.4, cpu=0.02, workers=1)),
            {"host": host(cpus=2)},
            f"{RAN_50_MS}; the loader alone makes 320 samples/s, training alone takes 2,560; num_workers is "
            "0, 2 CPUs may be used",
            0.5,
            2,
            "load in workers: num_workers=8 in the DataLoader: they wait at the same time",
        ),
        (
            "data-bound",
            "warning",
            waiting(floors(0.02, 0.1), loader_work=work(0.2, cpu=0.02)),
            {"host": host(cpus=2)},
            f"{RAN_50_MS}; the loader alone makes 1,280 samples/s, training alone takes 6,400; 2 workers, "
            "2 CPUs may be used",
            0.5,
            5,
            "num_workers=10 in the DataLoader: they wait at the same time",
        ),
        (
            "loader-cpu",
            "warning",
            waiting(loader_work=work(0.2, cpu=0.95)),
            {},
            MAKING.format("95%"),
            0.95,
            2,
            "num_workers=4 in the DataLoader, or make a batch cheaper",
        ),
        (
            "loader-cpu",
            "warning",
            waiting(loader_work=work(0.2, cpu=0.95)),
            bound_to("num_workers=--workers {}"),
            MAKING.format("95%"),
            0.95,
            2,
            "--workers 4, or make a batch cheaper",
        ),
        (
            "loader-cpu",
            "warning",
            waiting(loader_work=work(0.2), workers=8),
            {},
            MAKING.format("100%"),
            1,
            2,
            "there are as many workers as CPUs to spare, so make a batch cheaper",
        ),
        # Workers that wait for a CPU do not wait for storage.
        (
            "loader-cpu",
            "warning",
            waiting(
                loader_work=work(0.2, cpu=0.3),
                telemetry=telemetry({"cpu_cores": 7.5, "read_bytes_per_s": 50 * MIB}),
            ),
            {},
            MAKING.format("30%") + "; every CPU is at work (telemetry)",
            0.3,
            2,
            "every CPU is at work, so make a batch cheaper",
        ),
        (
            "loader-storage",
            "warning",
            waiting(loader_work=work(0.2, cpu=0.1), telemetry=telemetry({"read_bytes_per_s": 50 * MIB})),
            {},
            MAKING.format("10%") + "; 50.0 MiB/s come from storage (/proc/PID/io)",
            0.1,
            2,
            "num_workers=4 in the DataLoader waits for 4 batches at once",
        ),
        (
            "first-batch-slow",
            "warning",
            slow_first(),
            {},
            "2.0 s for the first, 50 ms for the others (mean of 2 workers, their own clocks)",
            2.05,
            (STEADY_S + 2.5) / (STEADY_S + 0.5),
            "persistent_workers=True in the DataLoader keeps",
        ),
        # The boundary bounds what a faster first batch brings.
        (
            "first-batch-slow",
            "warning",
            slow_first(boundary_s=0.5),
            {},
            "2.0 s for the first, 50 ms for the others (mean of 2 workers, their own clocks)",
            2.05,
            (STEADY_S + 0.5) / STEADY_S,
            "",
        ),
        (
            "unpickling",
            "warning",
            waiting(parts=parts(wait=0.4, fetch_cpu=0.3), batch=batch(piped_bytes=3 * MIB)),
            {},
            "30.0 ms of CPU time per batch, 75% of its wait (clock of its thread); 3.0 MiB of each batch are "
            "no tensors",
            0.75,
            1 / 0.7,
            "return tensors",
        ),
        # Beside a GPU, pinning moves unpacking to a thread.
        (
            "unpickling",
            "warning",
            record(**UNPACKS),
            {},
            "30.0 ms of CPU time per batch, 75% of its wait (clock of its thread)",
            0.75,
            1.25,
            "return few large tensors instead of many small ones; pin_memory=True in the DataLoader moves it "
            "to a thread",
        ),
        (
            "worker-imbalance",
            "warning",
            waiting(loader_work=work(0.1, workers=4, slow=3.0)),
            {},
            "300 ms per batch against 100 ms of the median of 4 workers (their own clocks)",
            3,
            2,
            "shards of equal cost",
        ),
        (
            "worker-imbalance",
            "info",
            computing(loader_work=work(0.1, workers=4, slow=2.0)),
            {},
            "200 ms per batch against 100 ms of the median of 4 workers (their own clocks)",
            2,
            None,
            "",
        ),
        *(
            (
                "batch-time-tail",
                "info",
                computing(loader_work=work(0.1, **tail)),
                bound_to("prefetch_factor=c.yaml:data.prefetch"),
                f"median 100 ms, {evidence} of 100 (clocks of the workers); 5% of each step is stall "
                "(host clock)",
                value,
                1 / 0.95,
                "data.prefetch: 4 in c.yaml",
            )
            for tail, evidence, value in [
                ({"p99_batch_s": 0.41}, "p99 410 ms, slowest 150 ms", 4.1),
                ({"p99_batch_s": 0.3, "slowest_batch_s": 1.1}, "p99 300 ms, slowest 1.1 s", 11),
            ]
        ),
        (
            "costly-epochs",
            "warning",
            record(boundary_s=STEADY_S / 3, persistent_workers=False),
            bound_to("persistent_workers=--keep-workers"),
            "13.0 s at each boundary, 25% of an epoch of 52.1 s (host clock, 1 boundary timed)",
            0.25,
            4 / 3,
            "--keep-workers keeps the workers from epoch to epoch",
        ),
        *(
            (
                "costly-epochs",
                "warning",
                record(boundary_s=STEADY_S, knobs={"num_workers": workers}),
                {},
                "39.1 s at each boundary, 50% of an epoch of 1m 18s (host clock, 1 boundary timed)",
                0.5,
                2,
                remedy,
            )
            for workers, remedy in [(0, "look at what the script does"), (2, "the workers stay")]
        ),
        (
            "short-epochs",
            "info",
            record(knobs={"num_workers": 8}, epoch_batches=10, persistent_workers=False),
            {},
            "10 batches per epoch; 8 workers with prefetch 2 queue 16",
            10,
            None,
            "num_workers=3 in the DataLoader, or persistent_workers=True in the DataLoader, or longer epochs",
        ),
    ],
)
def test_what_keeps_training_waiting_is_told(
    code: str,
    severity: str,
    of: TrialRecord,
    overrides: dict[str, Any],
    evidence: str,
    value: float,
    gain: float | None,
    remedy: str,
):
    finding = found(code, of, **overrides)
    assert (finding.severity, finding.evidence) == (severity, evidence)
    assert finding.value == pytest.approx(value)
    assert finding.gain == (None if gain is None else pytest.approx(gain))
    assert remedy in (finding.remedy or "")


def few_batches() -> LoaderWork:
    whole = work(0.1, workers=3, slow=5.0)
    few = whole.workers[-1].model_copy(update={"batches": 4})
    return whole.model_copy(update={"workers": (*whole.workers[:-1], few)})


TAIL = {"loader_work": work(0.1, p99_batch_s=9.0)}
BOUNDARY = {"boundary_s": STEADY_S, "persistent_workers": False}


@pytest.mark.parametrize(
    ("absent", "of"),
    [
        *(("data-bound", waiting(parts=parts(wait=wait), loader_work=work())) for wait in (0.0, 0.05, 0.099)),
        # A wait that the GPU does not feel.
        *(
            (code, record(parts=parts(wait=0.8), device_parts=device_parts(stall=0.01), loader_work=work()))
            for code in ("data-bound", *CAUSES)
        ),
        # Half computing names no cause, nor does a loader that nobody timed.
        *((code, waiting(loader_work=work(cpu=0.55))) for code in CAUSES),
        *((code, waiting()) for code in CAUSES),
        # Threads that decode in the loop's own process are not called waiting.
        (
            "loader-storage",
            waiting(
                workers=0,
                loader_work=work(0.05, cpu=0.3, workers=1),
                telemetry=telemetry({"cpu_cores": 1.7}),
            ),
        ),
        ("first-batch-slow", slow_first(persistent_workers=True)),
        ("first-batch-slow", slow_first(loader_work=None)),
        ("first-batch-slow", slow_first(loader_work=work(0.05, first_s=0.2))),
        ("first-batch-slow", slow_first(loader_work=work(0.001, first_s=0.1))),
        ("first-batch-slow", slow_first(loader_work=work(1.0, first_s=3.0))),
        *(
            ("unpickling", waiting(workers=workers, parts=parts(wait=wait, fetch_cpu=fetch_cpu)))
            for workers, wait, fetch_cpu in [(0, 0.4, 0.4), (2, 0.4, 0.1), (2, 0.04, 0.04), (2, 0.0, 0.0)]
        ),
        *(
            ("worker-imbalance", waiting(loader_work=seen))
            for seen in (None, work(0.1, workers=4, slow=1.4), work(0.1, workers=1), few_batches())
        ),
        ("batch-time-tail", computing(loader_work=work(0.1))),
        ("batch-time-tail", computing(parts=parts(wait=0.01), **TAIL)),
        ("batch-time-tail", computing(loader_work=work(0.1, p99_batch_s=9.0, workers=1, batches=19))),
        ("batch-time-tail", computing(num_workers=0, **TAIL)),
        ("batch-time-tail", computing(loader_work=None)),
        ("costly-epochs", record(**(BOUNDARY | {"boundary_s": 0.03 * STEADY_S}))),
        ("costly-epochs", record(**(BOUNDARY | {"boundary_s": None}))),
        ("costly-epochs", record(**(BOUNDARY | {"boundary_s": -5.0}))),
        ("costly-epochs", record(**BOUNDARY, epoch_samples=None)),
        ("short-epochs", record(epoch_batches=None, epoch_samples=None)),
        *(
            ("short-epochs", record(knobs={"num_workers": n, "prefetch_factor": of}, epoch_batches=batches))
            for batches, n, of in [(16, 4, 4), (6, 2, 1), (1, 0, None)]
        ),
    ],
)
def test_what_training_does_not_feel_is_no_finding(absent: str, of: TrialRecord):
    assert absent not in codes(of)


@pytest.mark.parametrize(("batches", "workers", "prefetch"), [(15, 4, 4), (5, 2, 1)])
def test_an_epoch_just_shorter_than_its_queue_is_told(batches: int, workers: int, prefetch: int):
    of = record(knobs={"num_workers": workers, "prefetch_factor": prefetch}, epoch_batches=batches)
    assert "short-epochs" in codes(of)


@pytest.mark.parametrize(
    ("cpus", "batch_s", "workers"), [(8, 0.19, 4), (8, 2.0, 7), (2, 0.19, 1), (1, 2.0, 1)]
)
def test_the_workers_named_keep_up_with_training_as_far_as_the_cpus_go(
    cpus: int, batch_s: float, workers: int
):
    of = waiting(workers=0, loader_work=work(batch_s, workers=1))
    remedy = found("data-bound", of, host=host(cpus=cpus)).remedy
    assert f"num_workers={workers} in the DataLoader" in (remedy or "")


def test_a_gain_is_of_the_rate_over_whole_epochs():
    assert found("data-bound", waiting(boundary_s=STEADY_S)).gain == pytest.approx(2 / 1.5)


@pytest.mark.parametrize("details", [floors(0.01, 0.08), None])
def test_one_worker_promises_no_more_than_it_can_make(details: Any):
    of = waiting(details, workers=0, loader_work=work(0.08, workers=1))
    assert found("data-bound", of, host=host(cpus=2)).gain == pytest.approx(0.1 / 0.08)


@pytest.mark.parametrize("reads", [{"read_bytes_per_s": 0.5 * MIB}, {}])
def test_a_wait_that_no_storage_explains_is_not_called_one_for_storage(reads: dict[str, float]):
    seen = found("loader-storage", waiting(loader_work=work(0.2, cpu=0.1), telemetry=telemetry(reads)))
    assert "storage" not in seen.message
    assert "come from storage" not in (seen.evidence or "")


def test_a_cause_of_waiting_comes_first_and_names_the_process_that_waits():
    of = waiting(workers=0, loader_work=work(0.05, workers=1))
    assert codes(of)[0] == "data-bound"
    assert "in its own process" in found("data-bound", of).message
    assert found("costly-epochs", record(**BOUNDARY)).message.startswith("each epoch starts its workers anew")


def test_memory_that_is_pinned_already_is_not_advised():
    assert "pin_memory" not in (found("unpickling", record(pin_memory=True, **UNPACKS)).remedy or "")
    on_cpu = waiting(parts=parts(wait=0.4, fetch_cpu=0.3))
    assert "pin_memory" not in (found("unpickling", on_cpu).remedy or "")
