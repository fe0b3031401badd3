"""Training that waits for its data, and the cause that the loader's own figures show."""

from typing import Any

import pytest
from build_loops import CPU, batch, codes, device_parts, floors, found, parts, record, telemetry, work
from build_records import MIB, host, target

from tunekit.records.finding import Severity
from tunekit.records.trial import TrialRecord
from tunekit.trial.binding_syntax import parse_binding

CAUSES = {"loader-cpu", "loader-storage"}


def waiting(details: Any = None, *, workers: int = 2, **overrides: Any) -> TrialRecord:
    """A loop on a CPU that waits for half of each step of 0.1 s."""
    values: dict[str, Any] = {"device": CPU, "parts": parts(wait=0.5)} | overrides
    return record(details, knobs={"num_workers": workers}, **values)


def test_a_loop_in_one_process_is_told_so_first_with_a_number_of_workers():
    of = waiting(workers=0, loader_work=work(0.05, workers=1))
    finding = found("data-bound", of)
    assert codes(of)[0] == "data-bound"
    assert finding.severity is Severity.WARNING
    assert "in its own process" in finding.message
    assert finding.evidence == (
        "50% of each step goes by until its batch is there: 50.0 of 100 ms (host clock); num_workers is 0, "
        "8 CPUs may be used"
    )
    assert finding.remedy == "load in workers: num_workers=1 in the DataLoader; then measure again"
    assert (finding.value, finding.gain) == (pytest.approx(0.5), pytest.approx(2))


@pytest.mark.parametrize(
    ("cpus", "batch_s", "workers"), [(8, 0.19, 4), (8, 2.0, 7), (2, 0.19, 1), (1, 2.0, 1)]
)
def test_the_workers_named_keep_up_with_training_as_far_as_the_cpus_go(
    cpus: int, batch_s: float, workers: int
):
    of = waiting(workers=0, loader_work=work(batch_s, workers=1))
    remedy = found("data-bound", of, host=host(cpus=cpus)).remedy
    assert remedy is not None
    assert f"num_workers={workers} in the DataLoader" in remedy


def test_the_remedy_is_in_the_users_own_terms():
    of = target(bindings=(parse_binding("num_workers=--workers {}"),))
    remedy = found("loader-cpu", waiting(loader_work=work(0.25)), target=of).remedy
    assert remedy is not None
    assert remedy.startswith("--workers 5, or make a batch cheaper")


def test_the_floors_say_what_either_half_allows_and_bound_the_gain():
    finding = found("data-bound", waiting(floors(0.08, 0.1)))
    assert finding.gain == pytest.approx(1.25)
    assert finding.evidence is not None
    assert "the loader alone makes 1,280 samples/s, training alone takes 1,600" in finding.evidence


def test_a_gain_is_of_the_rate_over_whole_epochs():
    steady_s = 50_000 / 1280
    finding = found("data-bound", waiting(boundary_s=steady_s))
    assert finding.gain == pytest.approx(2 / 1.5)


@pytest.mark.parametrize("wait", [0.0, 0.05, 0.099])
def test_little_waiting_is_no_finding(wait: float):
    assert "data-bound" not in codes(waiting(parts=parts(wait=wait), loader_work=work()))


def test_a_wait_that_the_gpu_does_not_feel_is_no_finding():
    of = record(parts=parts(wait=0.8), device_parts=device_parts(stall=0.01), loader_work=work())
    assert not ({"data-bound"} | CAUSES) & set(codes(of))


def test_a_loader_that_computes_is_short_of_cpus():
    finding = found("loader-cpu", waiting(loader_work=work(0.2, cpu=0.95)))
    assert finding.evidence == (
        "making a batch takes a worker 200 ms, 95% of it on a CPU (clocks of the loader's processes over "
        "100 batches)"
    )
    assert finding.remedy is not None
    assert finding.remedy.startswith("num_workers=4 in the DataLoader, or make a batch cheaper")
    assert finding.gain == pytest.approx(2)


def test_workers_that_take_the_cpus_already_need_cheaper_batches():
    remedy = found("loader-cpu", waiting(loader_work=work(0.2), workers=8)).remedy
    assert remedy is not None
    assert remedy.startswith("there are as many workers as CPUs to spare, so make a batch cheaper")
    assert "num_workers" not in remedy


def test_workers_that_wait_for_a_cpu_do_not_wait_for_storage():
    of = waiting(loader_work=work(0.2, cpu=0.3)).model_copy(
        update={"telemetry": telemetry({"cpu_cores": 7.5, "read_bytes_per_s": 50 * MIB})}
    )
    assert CAUSES & set(codes(of)) == {"loader-cpu"}
    remedy = found("loader-cpu", of).remedy
    assert remedy is not None
    assert remedy.startswith("every CPU is at work, so make a batch cheaper")


@pytest.mark.parametrize(
    ("reads", "message"),
    [
        ({"read_bytes_per_s": 50 * MIB}, "waiting for storage, not computing"),
        ({"read_bytes_per_s": 0.5 * MIB}, "waiting, not computing"),
        ({}, "waiting, not computing"),
    ],
)
def test_a_loader_that_does_not_compute_waits(reads: dict[str, float], message: str):
    of = waiting(loader_work=work(0.2, cpu=0.1)).model_copy(update={"telemetry": telemetry(reads)})
    finding = found("loader-storage", of)
    assert message in finding.message
    assert finding.evidence is not None
    assert ("50.0 MiB/s come from storage" in finding.evidence) == (reads.get("read_bytes_per_s", 0) > MIB)


def test_half_computing_names_no_cause():
    assert not CAUSES & set(codes(waiting(loader_work=work(cpu=0.55))))
    assert not CAUSES & set(codes(waiting()))


def slow_first(**overrides: Any) -> TrialRecord:
    values: dict[str, Any] = {
        "loader_work": work(0.05, first_s=2.05),
        "persistent_workers": False,
        "boundary_s": 2.5,
    }
    return record(**(values | overrides))


def test_workers_that_begin_slowly_with_each_epoch_should_stay():
    finding = found("first-batch-slow", slow_first())
    assert (
        finding.evidence == "2.0 s for the first, 50 ms for the others (mean of 2 workers, their own clocks)"
    )
    assert finding.remedy is not None
    assert finding.remedy.startswith("persistent_workers=True in the DataLoader keeps")
    epoch_s = 50_000 / 1280 + 2.5
    assert finding.gain == pytest.approx(epoch_s / (epoch_s - 2.0))


@pytest.mark.parametrize(
    "overrides",
    [
        {"persistent_workers": True},
        {"loader_work": None},
        {"loader_work": work(0.05, first_s=0.2)},
        {"loader_work": work(0.001, first_s=0.1)},
        {"loader_work": work(1.0, first_s=3.0)},
    ],
)
def test_workers_that_stay_or_begin_soon_are_no_finding(overrides: dict[str, Any]):
    assert "first-batch-slow" not in codes(slow_first(**overrides))


def test_a_boundary_bounds_what_a_faster_first_batch_brings():
    epoch_s = 50_000 / 1280 + 0.5
    gain = found("first-batch-slow", slow_first(boundary_s=0.5)).gain
    assert gain == pytest.approx(epoch_s / (epoch_s - 0.5))


def test_a_training_process_that_unpacks_its_batches_is_told():
    of = waiting(parts=parts(wait=0.4, fetch_cpu=0.3), batch=batch(piped_bytes=3 * MIB))
    finding = found("unpickling", of)
    assert finding.evidence == (
        "30.0 ms of CPU time per batch, 75% of its wait (clock of its thread); 3.0 MiB of each batch are "
        "no tensors"
    )
    assert finding.remedy is not None
    assert finding.remedy.startswith("return tensors")
    assert "pin_memory" not in finding.remedy
    assert finding.gain == pytest.approx(1 / 0.7)


def test_pinning_moves_unpacking_to_a_thread_beside_a_gpu():
    seen = {"parts": parts(wait=0.4, fetch_cpu=0.3), "device_parts": device_parts(stall=0.2)}
    finding = found("unpickling", record(**seen))
    assert finding.remedy == (
        "return few large tensors instead of many small ones; pin_memory=True in the DataLoader moves it "
        "to a thread"
    )
    assert finding.gain == pytest.approx(1.25)
    pinned = found("unpickling", record(pin_memory=True, **seen)).remedy
    assert pinned is not None
    assert "pin_memory" not in pinned


@pytest.mark.parametrize(
    ("workers", "wait", "fetch_cpu"), [(0, 0.4, 0.4), (2, 0.4, 0.1), (2, 0.04, 0.04), (2, 0.0, 0.0)]
)
def test_little_unpacking_or_a_loop_that_makes_its_batches_is_no_finding(
    workers: int, wait: float, fetch_cpu: float
):
    assert "unpickling" not in codes(waiting(workers=workers, parts=parts(wait=wait, fetch_cpu=fetch_cpu)))


def test_batches_that_are_mostly_waited_for_take_more_workers_than_there_are_cpus():
    of = waiting(floors(0.05, 0.4), workers=0, loader_work=work(0.4, cpu=0.02, workers=1))
    finding = found("data-bound", of, host=host(cpus=2))
    assert finding.remedy == "load in workers: num_workers=8 in the DataLoader: they wait at the same time"
    assert finding.gain == pytest.approx(2.0)  # 0.1 s a step; 8 workers share 0.4 s, training takes 0.05 s


def test_one_worker_promises_no_more_than_it_can_make():
    of = waiting(floors(0.01, 0.08), workers=0, loader_work=work(0.08, workers=1))
    assert found("data-bound", of, host=host(cpus=2)).gain == pytest.approx(0.1 / 0.08)
    without_floors = waiting(workers=0, loader_work=work(0.08, workers=1))
    assert found("data-bound", without_floors, host=host(cpus=2)).gain == pytest.approx(0.1 / 0.08)


def test_workers_that_wait_do_not_take_the_cpus():
    of = waiting(floors(0.02, 0.1), workers=2, loader_work=work(0.2, cpu=0.02))
    finding = found("data-bound", of, host=host(cpus=2))
    assert finding.remedy == "num_workers=10 in the DataLoader: they wait at the same time"
    assert finding.gain == pytest.approx(5.0)


def test_threads_that_decode_in_the_loops_own_process_are_not_called_waiting():
    work_of_one_thread = work(0.05, cpu=0.3, workers=1)
    busy = telemetry({"cpu_cores": 1.7})
    own = waiting(workers=0, loader_work=work_of_one_thread, telemetry=busy)
    assert "loader-storage" not in codes(own, host=host(cpus=2))
