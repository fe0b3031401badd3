"""What a real trial looks at once its loop is measured: kernels, queue, halves of the loop, sizes, traces."""

import json
import subprocess
import sys
from typing import Any

import pytest
from real_trials import Plan, Ran, looking_at

from tunekit.predict.loader_rate import cpus_per_worker
from tunekit.predict.vram.predict import MemoryPrediction
from tunekit.records.details import Detail, Details, IsolatedRates, QueueSeen
from tunekit.records.measurement import Measurement
from tunekit.records.prediction import PURPOSES, Purpose, StepTrace
from tunekit.records.trial import OutcomeKind

pytestmark = pytest.mark.real

BOTH = (Detail.QUEUE, Detail.FLOORS)
OWN_SHM = ("unshare", "-rm", "sh", "-c", 'mount -t tmpfs tmpfs /dev/shm && exec "$@"', "sh")
"""Before a command: it sees a /dev/shm that no trial beside it fills or empties."""
HAS_OWN_SHM = subprocess.run([*OWN_SHM, "true"], capture_output=True).returncode == 0


def looks(*words: str, details: tuple[Detail, ...], **more: Any) -> Plan:
    sizes = {"sizes": more.pop("sizes")} if "sizes" in more else {}
    command = (*OWN_SHM, sys.executable) if HAS_OWN_SHM and Detail.FLOORS in details else ("python",)
    return Plan((*command, *words), asked={"details": details, **sizes}, **more)


def measured(ran: Ran) -> tuple[Measurement, Details]:
    measurement = ran.baseline.measurement
    assert measurement is not None, ran.baseline.failure
    assert measurement.details is not None
    return measurement, measurement.details


# --- more workers ---------------------------------------------------------------------------


@looking_at(looks("decodes.py", "--sleep", "0.004", "--workers", "0", details=BOTH, window_s=5.0))
def test_workers_that_wait_are_tried_beyond_the_cpus(ran: Ran) -> None:
    measurement, details = measured(ran)
    assert details.floors is not None and len(details.floors.workers) >= 4, details.floors
    rates = {one.num_workers: 8 / one.step_s for one in details.floors.workers}
    assert rates[8] > 2 * rates[1] and cpus_per_worker(measurement) < 0.5  # 8 times on a quiet machine


@looking_at(looks("decodes.py", "--workers", "1", details=BOTH, window_s=5.0))
def test_workers_that_compute_are_tried_until_the_cpus_are_busy(ran: Ran) -> None:
    measurement, details = measured(ran)
    assert details.floors is not None and 1 <= len(details.floors.workers) < 7
    assert cpus_per_worker(measurement) > 0.5


# --- kernels -------------------------------------------------------------------------------


@looking_at(looks("plain_with_validation.py", details=(Detail.KERNELS, Detail.SYNCS, Detail.PEAKS)))
def test_on_a_cpu_operators_are_seen_and_nothing_that_only_a_gpu_has(ran: Ran) -> None:
    measurement, details = measured(ran)
    assert (measurement.loop.device_parts, measurement.loop.device.usable_bytes) == (None, None)
    assert (ran.baseline.faults, details.faults, details.syncs, details.peaks) == ((), (), None, None)
    assert details.kernels is not None
    assert (details.kernels.batches, details.kernels.device_busy_s) == (5, None)
    assert {kernel.name: kernel.calls for kernel in details.kernels.kernels}["aten::addmm"] == 3 * 5


# --- the queue and the two halves of the loop ----------------------------------------------


def both(details: Details) -> tuple[QueueSeen, IsolatedRates]:
    assert details.faults == ()
    assert details.queue is not None
    assert details.floors is not None
    return details.queue, details.floors


@looking_at(looks("known_times.py", "--workers", "2", "--features", "65536", details=BOTH))
def test_two_workers_fill_the_queue_as_predicted_and_each_half_shows_its_own_time(ran: Ran) -> None:
    measurement, details = measured(ran)
    queue, floors = both(details)
    assert (queue.batches, queue.is_full) == (5, True)
    assert measurement.loop.batch is not None
    assert queue.predicted_bytes == 5 * measurement.loop.batch.shared_bytes
    # Of an epoch that began while the script still held a batch of the one before.
    assert queue.shm_bytes - queue.kept_bytes == pytest.approx(queue.predicted_bytes, rel=0.1)
    assert queue.kept_bytes == pytest.approx(measurement.loop.batch_bytes, rel=0.1)
    assert queue.main_base_bytes is not None and queue.worker_base_bytes is not None
    assert queue.pss_bytes is not None
    assert queue.pss_bytes >= queue.main_base_bytes + 2 * queue.worker_base_bytes
    assert floors.why_not is None
    assert floors.loader_step_s is not None and floors.compute_step_s is not None
    # A busy machine may look at the clock late when it begins to count: a full queue came for free then.
    assert 0.020 / 8 < floors.loader_step_s < 0.2
    assert 0.010 < floors.compute_step_s < 0.1
    step_s = measurement.loop.steady_time_s / measurement.loop.steady_batches
    assert step_s > 0.010, "the script sleeps as long in each step"


@looking_at(looks("known_times.py", "--in-place", details=BOTH, is_slow=True))
def test_without_workers_there_is_no_queue_and_a_batch_changed_in_place_is_not_replayed(ran: Ran) -> None:
    queue, floors = both(measured(ran)[1])
    assert (queue.batches, queue.predicted_bytes, queue.shm_bytes) == (0, 0, 0)
    assert queue.worker_base_bytes is None
    assert floors.loader_step_s is not None and floors.loader_step_s > 0.020
    assert floors.compute_step_s is None
    assert "in place" in (floors.why_not or "")


@looking_at(looks("exact_schedule.py", details=BOTH, is_slow=True))
def test_a_schedule_that_ends_while_it_is_looked_at_keeps_its_measurement(ran: Ran) -> None:
    measurement, details = measured(ran)
    assert measurement.loop.steady_batches >= 10
    assert details.queue is not None  # seen before the end
    assert details.floors is None
    assert any("Tried to step" in fault for fault in details.faults)


# --- other batch sizes ---------------------------------------------------------------------


@looking_at(
    looks(
        *("known_times.py", "--encoding", "--per-row", "0.001", "--workers", "1"),
        details=(Detail.SIZES,),
        sizes=(8, 32),
    )
)
def test_a_larger_batch_takes_longer_in_the_same_process(ran: Ran) -> None:
    measurement, details = measured(ran)
    assert measurement.loop.batch_size == 16
    assert details.faults == ()
    assert details.sizes is not None and details.sizes.why_ended is None
    small, large = details.sizes.sizes
    assert (small.batch_size, large.batch_size) == (8, 32)
    assert small.step_s > 0.010 + 8 * 0.001  # what they sleep
    assert large.step_s > 0.010 + 32 * 0.001
    assert small.peak_reserved_bytes is None


@looking_at(looks("known_times.py", "--state", details=(Detail.SIZES,), sizes=(16, 32, 64), is_slow=True))
def test_a_script_that_knows_its_own_size_alone_keeps_its_measurement_and_that_size(ran: Ran) -> None:
    _, details = measured(ran)
    assert details.sizes is not None
    assert [one.batch_size for one in details.sizes.sizes] == [16]
    assert "batch size 32: " in (details.sizes.why_ended or "")


# --- traces --------------------------------------------------------------------------------


STEADY = ("--init-scale", "1024", "--growth-interval", "100000")
"""A step that is skipped has no gradients."""
WORKSPACE_BYTES = 8_519_680


@looking_at(looks("scaler_accumulate.py", *STEADY, details=(Detail.TRACE,)))
def test_gradients_that_a_script_accumulates_are_traced(ran: Ran) -> None:
    _, details = measured(ran)
    assert details.faults == ()
    assert details.trace is not None
    assert details.trace.batches_per_step == 4
    assert [one.precision for one in details.trace.steps] == [None, None], "its own autocast"
    traces = []
    for size in (2, 4):  # beside workspaces of a GPU's libraries
        facts = json.loads((ran.trials / "0000" / f"trace-own-{size}.json").read_text())
        facts["blocks"] = (0, 1, *(block + 2 for block in facts["blocks"]))
        facts["sizes"] = (WORKSPACE_BYTES, WORKSPACE_BYTES, *facts["sizes"])
        facts["purposes"] = (PURPOSES.index(Purpose.WORKSPACE),) * 2 + tuple(facts["purposes"])
        traces.append(StepTrace.model_validate(facts))
    assert MemoryPrediction.of(*traces).peak(32).by_purpose[Purpose.GRADIENTS] > 0


# --- the largest samples -------------------------------------------------------------------

LARGEST = (Detail.LARGEST,)
ROW_BYTES, LABEL_BYTES = 4 * 4, 8


@looking_at(looks("grows_longer.py", "--longest", "150", details=LARGEST))
def test_samples_that_the_measured_window_never_met_are_trained_on(ran: Ran) -> None:
    measurement, details = measured(ran)
    seen = details.largest
    assert seen is not None
    assert (details.faults, seen.why_ended, seen.survived) == ((), None, True)
    assert (seen.varies, seen.data_set_samples) == (True, 1_000_000)
    assert seen.samples_read > 16
    assert seen.batch_bytes is not None and seen.times_usual is not None
    # The longest of those that were read, of 130 to 150 rows; each is padded to it.
    rows, rest = divmod(seen.batch_bytes - 16 * LABEL_BYTES, 16 * ROW_BYTES)
    assert (rest, 130 < rows <= 150) == (0, True)
    assert seen.times_usual > 1
    assert seen.batch_bytes > 1.5 * measurement.loop.batch_bytes


@looking_at(looks("grows_longer.py", "--longest", "2500", "--room", "400", details=LARGEST, is_slow=True))
def test_a_script_without_memory_for_the_longest_has_failed(ran: Ran) -> None:
    failure = ran.baseline.failure
    assert failure is not None
    assert failure.kind is OutcomeKind.HOST_OOM
    assert failure.largest is not None
    assert (failure.largest.is_given, failure.largest.data_set_samples) == (True, 1_000_000)
