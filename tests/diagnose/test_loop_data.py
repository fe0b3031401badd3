"""Training that waits for its data: which loop is told so, why, with which figures, and which just is not."""

from collections.abc import Callable
from typing import Any

import pytest
from build_loops import (
    CPU,
    batch,
    codes,
    device_parts,
    findings,
    floors,
    found,
    parts,
    record,
    telemetry,
    threads,
    work,
)
from build_records import MIB, config, host, target, trial_record
from finding_texts import texts_of

from tunekit.records.attribution import LoaderWork
from tunekit.records.config import TrainConfig
from tunekit.records.trial import TrialRecord
from tunekit.trial.binding_syntax import parse_binding

CAUSES = ("loader-cpu", "loader-contended", "loader-storage", "loader-waits")
STEADY_S = 50_000 / 1280
"""Of an epoch, without its boundary."""


def waiting(details: Any = None, *, workers: int = 2, **overrides: Any) -> TrialRecord:
    """A loop on a CPU that waits for half of each step of 0.1 s."""
    values: dict[str, Any] = {"device": CPU, "parts": parts(wait=0.5)} | overrides
    return record(details, knobs={"num_workers": workers}, **values)


def computing(**overrides: Any) -> TrialRecord:
    """A loop on a CPU that hardly waits."""
    return record(**({"device": CPU, "parts": parts(wait=0.05)} | overrides))


def bound_to(text: str) -> dict[str, Any]:
    return {"target": target(bindings=(parse_binding(text),))}


def taking(cores: float, reads_bytes_per_s: float = 0.0) -> dict[str, Any]:
    """So many CPU cores of 8 for the trial's own processes."""
    return {"telemetry": telemetry({"cpu_cores": cores, "read_bytes_per_s": reads_bytes_per_s})}


UNPACKS = {"parts": parts(wait=0.4, fetch_cpu=0.3), "device_parts": device_parts(stall=0.2)}


ROWS = [
    ("data-bound", waiting(workers=0, loader_work=work(0.05, workers=1)), {}),
    ("data-bound", waiting(floors(0.08, 0.1)), {}),
    (
        "data-bound",
        waiting(floors(0.05, 0.4), workers=0, loader_work=work(0.4, cpu=0.02, workers=1)),
        {"host": host(cpus=2)},
    ),
    ("data-bound", waiting(floors(0.02, 0.1), loader_work=work(0.2, cpu=0.02)), {"host": host(cpus=2)}),
    ("data-wait", computing(parts=parts(wait=0.12), loader_work=work(0.2)), {}),
    ("data-wait", computing(details=floors(0.088, 0.1), parts=parts(wait=0.12)), {}),
    ("loader-cpu", waiting(loader_work=work(0.2, cpu=0.95)), {}),
    ("loader-cpu", waiting(loader_work=work(0.2, cpu=0.95)), bound_to("num_workers=--workers {}")),
    ("loader-cpu", waiting(loader_work=work(0.2), workers=8), {}),
    (
        "loader-cpu",
        waiting(
            loader_work=work(0.2, cpu=0.3),
            telemetry=telemetry({"cpu_cores": 7.5, "read_bytes_per_s": 50 * MIB}),
        ),
        {},
    ),
    (
        "loader-storage",
        waiting(loader_work=work(0.2, cpu=0.1), telemetry=telemetry({"read_bytes_per_s": 50 * MIB})),
        {},
    ),
    ("loader-storage", waiting(loader_work=work(0.2, cpu=0.1, queued=0.05, blocked=0.8), **taking(1.0)), {}),
    ("loader-contended", waiting(loader_work=work(0.2, cpu=0.45, queued=0.5), **taking(2.0)), {}),
    ("loader-contended", waiting(workers=0, loader_work=work(0.05, cpu=0.3, queued=0.68, workers=1)), {}),
    ("loader-waits", waiting(loader_work=work(0.2, cpu=0.1, queued=0.02), **taking(1.0)), {}),
    ("loader-waits", waiting(loader_work=work(0.2, cpu=0.1)), {"host": host(cpus=2)}),
    ("cpu-contended", computing(parts=parts(wait=0.05, run_queue=0.3), **taking(2.0)), {}),
    ("cpu-contended", computing(parts=parts(wait=0.05, run_queue=0.3), **taking(7.9)), {}),
    (
        "cpu-contended",
        computing(parts=parts(wait=0.05, run_queue=0.3), threads=threads(4), **taking(2.0)),
        {},
    ),
    ("unpickling", waiting(parts=parts(wait=0.4, fetch_cpu=0.3), batch=batch(piped_bytes=3 * MIB)), {}),
    ("unpickling", record(**UNPACKS), {}),
    (
        "costly-epochs",
        record(boundary_s=STEADY_S / 3, persistent_workers=False),
        bound_to("persistent_workers=--keep-workers"),
    ),
    *(
        ("costly-epochs", record(boundary_s=STEADY_S, knobs={"num_workers": workers}), {})
        for workers in (0, 2)
    ),
]


def test_what_keeps_training_waiting_is_told(golden: Callable[[str], object]):
    assert texts_of([found(code, of, **overrides) for code, of, overrides in ROWS]) == golden("loop_data.txt")


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
            "loader-waits",
            waiting(
                workers=0,
                loader_work=work(0.05, cpu=0.3, workers=1),
                telemetry=telemetry({"cpu_cores": 1.7}),
            ),
        ),
        *(
            ("unpickling", waiting(workers=workers, parts=parts(wait=wait, fetch_cpu=fetch_cpu)))
            for workers, wait, fetch_cpu in [(0, 0.4, 0.4), (2, 0.4, 0.1), (2, 0.04, 0.04), (2, 0.0, 0.0)]
        ),
        ("costly-epochs", record(**(BOUNDARY | {"boundary_s": 0.03 * STEADY_S}))),
        ("costly-epochs", record(**(BOUNDARY | {"boundary_s": None}))),
        ("costly-epochs", record(**(BOUNDARY | {"boundary_s": -5.0}))),
        ("costly-epochs", record(**BOUNDARY, epoch_samples=None)),
    ],
)
def test_what_training_does_not_feel_is_no_finding(absent: str, of: TrialRecord):
    assert absent not in codes(of)


@pytest.mark.parametrize(
    ("cpus", "batch_s", "workers"), [(8, 0.19, 4), (8, 2.0, 7), (2, 0.19, 1), (1, 2.0, 1)]
)
def test_the_workers_named_keep_up_with_training_as_far_as_the_cpus_go(
    cpus: int, batch_s: float, workers: int
):
    of = waiting(workers=0, loader_work=work(batch_s, workers=1))
    remedy = found("data-bound", of, host=host(cpus=cpus)).remedy
    assert f"num_workers={workers} in the DataLoader" in (remedy or "")


def searched(rates: dict[TrainConfig, float]) -> list[TrialRecord]:
    return [trial_record(number, rate, of) for number, (of, rate) in enumerate(rates.items())]


@pytest.mark.parametrize(
    ("with_workers", "remedy", "gain"),
    [
        # The same batch size with and without a worker: what it brought is measured.
        (config(num_workers=1, batch_size=512), "do not help", pytest.approx(2.0)),
        (
            config(num_workers=1, batch_size=64),
            "num_workers=1 in the DataLoader (measured 1.20x)",
            pytest.approx(1.2),
        ),
        (config(num_workers=1, batch_size=8), "(measured 3.00x with other changes)", None),
        # Another number of workers tells nothing.
        (config(num_workers=2, batch_size=8), "load in workers: num_workers=1 in the DataLoader", 2.0),
    ],
)
def test_what_the_search_tried_is_told_as_it_was_measured(with_workers: TrainConfig, remedy: str, gain: Any):
    own = [config(num_workers=0, batch_size=size) for size in (128, 64, 512)]
    trials = searched({own[0]: 100.0, own[1]: 250.0, own[2]: 400.0, with_workers: 300.0})
    of = waiting(workers=0, loader_work=work(0.05, workers=1))
    of = of.changed(config=own[0])
    seen = found("loader-cpu", of, host=host(cpus=2), trials=trials)
    assert remedy in (seen.remedy or "")
    assert seen.gain == gain


def test_the_workers_named_are_those_of_the_fastest_trial():
    own = config(num_workers=0)
    trials = searched({own: 100.0, config(num_workers=48, batch_size=8): 2000.0})
    of = waiting(workers=0, loader_work=work(0.05, workers=1)).changed(config=own)
    remedy = found("data-bound", of, host=host(cpus=8), trials=trials).remedy
    assert "num_workers=48 in the DataLoader (measured 20.00x with other changes)" in (remedy or "")


def test_a_measured_gain_comes_before_a_larger_predicted_one():
    own = config(num_workers=0)
    trials = searched({own: 100.0, config(num_workers=1): 110.0})
    of = waiting(workers=0, loader_work=work(0.05, workers=1), boundary_s=STEADY_S / 2).changed(config=own)
    seen = findings(of, host=host(cpus=2), trials=trials)
    assert [one.code for one in seen] == ["data-bound", "loader-cpu", "costly-epochs"]
    assert (seen[0].gain or 9) < (seen[2].gain or 0)


def test_a_gain_is_of_the_rate_over_whole_epochs():
    assert found("data-bound", waiting(boundary_s=STEADY_S / 3)).gain == pytest.approx(4 / 2.5)


@pytest.mark.parametrize("details", [floors(0.01, 0.08), None])
def test_one_worker_promises_no_more_than_it_can_make(details: Any):
    of = waiting(details, workers=0, loader_work=work(0.08, workers=1))
    assert found("data-bound", of, host=host(cpus=2)).gain == pytest.approx(0.1 / 0.08)


@pytest.mark.parametrize(
    ("seen", "of_host", "cause"),
    [
        # Little CPU time, and what the rest is spent on: nothing known of it, then each cause.
        (work(cpu=0.1), {}, "loader-waits"),
        (work(cpu=0.1), {"read_bytes_per_s": 50 * MIB}, "loader-storage"),
        (work(cpu=0.1, queued=0.46), {"read_bytes_per_s": 50 * MIB}, "loader-contended"),
        (work(cpu=0.1, queued=0.44), {"read_bytes_per_s": 50 * MIB}, "loader-storage"),
        (work(cpu=0.1, queued=0.44), {}, "loader-waits"),
        (work(cpu=0.1, queued=0.1, blocked=0.46), {}, "loader-storage"),
        # Half of the time on a CPU, which its own processes or others want too.
        (work(cpu=0.5, queued=0.2), {}, None),
        (work(cpu=0.5, queued=0.3), {}, "loader-contended"),
        (work(cpu=0.5, queued=0.3), {"cpu_cores": 6.1}, "loader-cpu"),
        (work(cpu=0.5, queued=0.1), {"cpu_cores": 7.3}, None),
        (work(cpu=0.7, queued=0.3), {"cpu_cores": 2.0}, "loader-cpu"),
    ],
)
def test_what_making_a_batch_waits_for_is_told_apart(
    seen: LoaderWork, of_host: dict[str, float], cause: str | None
):
    told = set(codes(waiting(loader_work=seen, telemetry=telemetry(of_host))))
    assert told & set(CAUSES) == ({cause} if cause else set())


def test_a_starved_training_thread_is_told_once_and_only_where_it_is_felt():
    starved = parts(wait=0.5, run_queue=0.4)
    in_loop = waiting(workers=0, parts=starved, loader_work=work(0.05, cpu=0.2, queued=0.8, workers=1))
    assert set(codes(in_loop)) & {"loader-contended", "cpu-contended"} == {"loader-contended"}
    assert "cpu-contended" not in codes(computing(parts=parts(run_queue=0.09)))
    hidden = record(parts=parts(run_queue=0.4), device_parts=device_parts(stall=0.01))
    assert "cpu-contended" not in codes(hidden)


def test_freed_cpus_save_no_more_than_the_stall():
    seen = found("loader-contended", waiting(loader_work=work(0.2, cpu=0.1, queued=0.9)))
    assert seen.gain == pytest.approx(2.0)
    in_loop = waiting(workers=0, loader_work=work(0.05, cpu=0.2, queued=0.8, workers=1))
    assert found("loader-contended", in_loop).gain == pytest.approx(1 / (1 - 0.5 * 0.8))


@pytest.mark.parametrize(
    ("boundary", "seen"),
    [
        # Of an epoch's 39 s: one boundary may be half of it, several are as sure as they are alike.
        ({"boundary_s": 2.0, "boundaries_seen": 1}, False),
        ({"boundary_s": 3.0, "boundaries_seen": 1}, True),
        ({"boundary_s": 2.0, "boundaries_seen": 4, "boundary_deviation_s": 0.1}, True),
        ({"boundary_s": 2.0, "boundaries_seen": 4, "boundary_deviation_s": 1.5}, False),
        ({"boundary_s": 3.0, "boundaries_seen": 2, "boundary_deviation_s": 1.0}, False),
        ({"boundary_s": 1.0, "boundaries_seen": 4, "boundary_deviation_s": 0.0}, False),
    ],
)
def test_boundaries_are_costly_where_those_that_were_timed_agree(boundary: dict[str, Any], seen: bool):
    assert ("costly-epochs" in codes(record(**boundary))) is seen
