"""Measured loops that something holds back: each builder gives a plausible whole, the test names the rest."""

from collections.abc import Mapping
from typing import Any

from any_records import records
from build_records import (
    GIB,
    config,
    device,
    discovery,
    host,
    measurement,
    profile,
    root,
    target,
    trial_record,
)
from hypothesis import strategies as st

from tunekit.diagnose.loop import LoopFacts, loop_findings
from tunekit.records.attribution import BatchSeen, DeviceParts, LoaderWork, StepParts, WorkerWork
from tunekit.records.details import Details, IsolatedRates, KernelWindow, SyncPoint
from tunekit.records.finding import Finding
from tunekit.records.measurement import (
    DeviceSeen,
    GpuTelemetry,
    HostTelemetry,
    LoopMeasurement,
    Measurement,
    Telemetry,
    Threads,
)
from tunekit.records.trial import TrialRecord

CPU = DeviceSeen(type="cpu", name="Intel(R) Xeon(R)", memory_bytes=None)
STEP_S = 0.1
"""Of every loop here: 100 steady batches of 128 samples in 10 s."""
BATCHES = 100


def parts(
    wait: float = 0.0,
    optimizer: float = 0.1,
    other: float = 0.0,
    fetch_cpu: float = 0.0,
    run_queue: float | None = None,
) -> StepParts:
    """Host parts as shares of the step; what is left is compute."""
    whole_s = BATCHES * STEP_S
    return StepParts(
        data_wait_s=wait * whole_s,
        compute_s=(1 - wait - optimizer - other) * whole_s,
        optimizer_s=optimizer * whole_s,
        other_s=other * whole_s,
        fetch_cpu_s=fetch_cpu * whole_s,
        run_queue_s=None if run_queue is None else run_queue * whole_s,
    )


def device_parts(stall: float = 0.0, drained: float = 0.0, optimizer: float = 0.1) -> DeviceParts:
    """Device parts as shares of the step, of which the last few batches were not read."""
    whole_s = 96 * STEP_S
    return DeviceParts(
        batches=96,
        stall_s=stall * whole_s,
        compute_s=(1 - stall - optimizer) * whole_s,
        optimizer_s=optimizer * whole_s,
        other_s=0.0,
        drained_batches=round(drained * 96),
    )


def work(
    batch_s: float = 0.1,
    cpu: float = 1.0,
    *,
    queued: float | None = None,
    blocked: float = 0.0,
    workers: int = 2,
    slow: float = 1.0,
    batches: int = 50,
    **overrides: Any,
) -> LoaderWork:
    """Workers with so many batches each, the last one `slow` times as slow as the others.

    Of their time the shares `cpu` on a CPU, `queued` waiting for one, `blocked` waiting for a disk.
    """
    times = [batches * batch_s] * (workers - 1) + [batches * batch_s * slow]
    values: dict[str, Any] = {
        "workers": tuple(WorkerWork(batches=batches, time_s=t) for t in times),
        "cpu_s": cpu * sum(times),
        "run_queue_s": None if queued is None else queued * sum(times),
        "block_io_s": None if queued is None else blocked * sum(times),
    }
    return LoaderWork(**(values | overrides))


def threads(intra_op: int = 2, **variables: str) -> Threads:
    return Threads(intra_op=intra_op, inter_op=2, variables=variables)


def floors(compute_s: float | None = None, loader_s: float | None = None) -> Details:
    return Details(
        floors=IsolatedRates(
            compute_step_s=compute_s,
            loader_step_s=loader_s,
        )
    )


def kernels(busy: float = 0.5, batches: int = 5, **overrides: Any) -> Details:
    """A trace of batches that take as long as untraced ones; shares of them."""
    whole_s = batches * STEP_S
    window = KernelWindow(batches=batches, time_s=whole_s, device_busy_s=busy * whole_s, **overrides)
    return Details(kernels=window)


def measured(details: Details | None = None, *, workers: int = 2, **overrides: Any) -> Measurement:
    """A loop on an A10G whose steps take 0.1 s; all of it compute by default."""
    knobs = config(num_workers=workers)
    whole = measurement(128 / STEP_S, knobs, **({"parts": parts()} | overrides))
    return whole.model_copy(update={"details": details})


def record(
    details: Details | None = None,
    *,
    knobs: Mapping[str, Any] | None = None,
    telemetry: Telemetry | None = None,
    **overrides: Any,
) -> TrialRecord:
    """The trial of such a loop."""
    of = config(**(knobs or {}))
    made = trial_record(1, 128 / STEP_S, of, **({"parts": parts()} | overrides))
    assert made.measurement is not None
    return made.model_copy(
        update={
            "measurement": made.measurement.model_copy(update={"details": details}),
            "telemetry": telemetry,
        }
    )


def slow_together(**overrides: Any) -> TrialRecord:
    """A loop on a busy machine: 8 ms for a batch of the loader alone, 10 of the training alone, 120 of both.

    12% of its step time is data wait.
    """
    seen = StepParts(data_wait_s=1.44, compute_s=9.36, optimizer_s=1.2, other_s=0.0)
    values = {"device": CPU, "steady_time_s": 12.0, "parts": seen, "loader_work": work()}
    return record(floors(0.010, 0.008), **(values | overrides))


def telemetry(
    of_host: Mapping[str, Any] | None = None, *gpus: GpuTelemetry, steady: bool = True
) -> Telemetry:
    return Telemetry(
        window_s=10.0,
        samples=20,
        is_of_steady_window=steady,
        cost_cpu_s=0.1,
        host=HostTelemetry(**(of_host or {})),
        gpus=gpus,
    )


def gpu(**overrides: Any) -> GpuTelemetry:
    return GpuTelemetry(**({"index": 0, "is_used": True} | overrides))


def batch(**overrides: Any) -> BatchSeen:
    values = {"samples": 128, "total_bytes": 1000, "shared_bytes": 4096, "piped_bytes": 0, "leaves": ()}
    return BatchSeen(**(values | overrides))


def sync(where: str = "train.py:42", per_batch: float = 1.0) -> SyncPoint:
    return SyncPoint(where=where, what="loss.item()", per_batch=per_batch)


def findings(of: TrialRecord, **overrides: Any) -> list[Finding]:
    """What is found of a trial, by default of a plain script on 8 CPUs with an A10G."""
    values: dict[str, Any] = {
        "target": target(),
        "discovery": discovery(roots=(root(),)),
        "host": host(),
        "profile": profile(),
    }
    return loop_findings(LoopFacts(of, **(values | overrides)))


def found(code: str, of: TrialRecord, **overrides: Any) -> Finding:
    """Return the one finding of a code."""
    (one,) = [each for each in findings(of, **overrides) if each.code == code]
    return one


def codes(of: TrialRecord, **overrides: Any) -> list[str]:
    return [one.code for one in findings(of, **overrides)]


_some_seconds = st.floats(1e-3, 1e3) | st.floats(1e-300, 1e300)
_variables = st.sampled_from(["1", "64", "4,2", "", "\u00b2", "none"])


def _any_details() -> st.SearchStrategy[Details]:
    """Any of the details, with figures that need not agree."""
    return st.builds(
        Details,
        floors=st.none() | records(IsolatedRates),
        kernels=st.none() | records(KernelWindow),
        syncs=st.none() | st.just((sync(), sync("a.py:1", 0.01))),
    )


@st.composite
def _any_telemetry(draw: st.DrawFn) -> Telemetry:
    reasons = st.sampled_from([(), ("gpu_idle",), ("hw_slowdown", "sw_power_cap")])
    gpus = st.lists(records(GpuTelemetry, throttle_reasons=reasons), max_size=2)
    figure = st.none() | st.floats(0, 1e12)
    host_figures = {name: draw(figure) for name in ("cpu_cores", "read_bytes_per_s", "rchar_bytes_per_s")}
    return telemetry(host_figures, *draw(gpus), steady=draw(st.booleans()))


@st.composite
def any_loops(draw: st.DrawFn) -> TrialRecord:
    """Trials whose figures are as wild as their fields allow, and need not agree with each other."""
    loop = records(
        LoopMeasurement,
        device=st.sampled_from([device(), CPU, DeviceSeen(type="mps", name="M1", memory_bytes=8 * GIB)]),
        parts=records(StepParts),
        device_parts=st.none() | records(DeviceParts),
        loader_work=st.none() | records(LoaderWork),
        batch=st.none() | st.just(batch(piped_bytes=77)),
        threads=st.none() | st.builds(threads, st.integers(1, 64), OMP_NUM_THREADS=_variables),
        steady_time_s=_some_seconds,
    )
    drawn = draw(loop)
    wild = (
        "device",
        "parts",
        "device_parts",
        "loader_work",
        "batch",
        "threads",
        "steady_time_s",
        "boundary_s",
    )
    wild += ("boundary_deviation_s", "boundaries_seen", "epoch_samples", "epoch_batches")
    wild += ("rate_interval_relative", "rate_trend_relative")
    return record(
        draw(st.none() | _any_details()),
        knobs={"num_workers": draw(st.integers(0, 8))},
        telemetry=draw(st.none() | _any_telemetry()),
        **{name: getattr(drawn, name) for name in wild},
    )
