"""Loop profiles for tests: whole ones, with everything that a GPU's loop can show."""

from typing import Any

from build_records import MIB, config, loop, trial_record
from scripted_profile import loop_profile

from tunekit.records.attribution import BatchSeen, LeafSeen, StepParts
from tunekit.records.details import Details, IsolatedRates, Kernel, KernelWindow, QueueSeen, SyncPoint
from tunekit.records.finding import Finding, Severity
from tunekit.records.measurement import GpuTelemetry, HostTelemetry, Measurement, Telemetry, TreeMemory
from tunekit.records.run import LoopProfile, RunStatus
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.session.ablation import contender

BATCH_BYTES = 256 * 3 * 224 * 224 * 4

BATCH = BatchSeen(
    samples=256,
    total_bytes=BATCH_BYTES + 2048,
    shared_bytes=BATCH_BYTES + 4096,
    piped_bytes=90,
    leaves=(
        LeafSeen(path="[0]", kind="tensor", dtype="float32", shape=(256, 3, 224, 224), bytes=BATCH_BYTES),
        LeafSeen(path="[1]", kind="tensor", dtype="int64", shape=(256,), bytes=2048),
    ),
)

DETAILS = Details(
    queue=QueueSeen(
        batches=5,
        predicted_bytes=5 * (BATCH_BYTES + 4096),
        shm_bytes=5 * (BATCH_BYTES + 4096),
        is_full=True,
        main_base_bytes=2000 * MIB,
        worker_base_bytes=300 * MIB,
        pss_bytes=3300 * MIB,
    ),
    floors=IsolatedRates(loader_step_s=0.041, compute_step_s=0.030),
    kernels=KernelWindow(
        batches=4,
        time_s=0.24,
        device_busy_s=0.10,
        h2d_s=0.02,
        kernels=(
            Kernel(
                name="void cutlass_80_tensorop_s1688gemm_128x128_32x3_nt_align4<long>",
                calls=160,
                time_s=0.05,
            ),
            Kernel(name="elementwise_kernel", calls=1200, time_s=0.01),
        ),
    ),
    syncs=(SyncPoint(where="train.py:42", what="aten::item", per_batch=1.0),),
)

GAIN = Finding(
    code="waits-for-loader",
    severity=Severity.WARNING,
    message="the loop waits for its loader",
    evidence="data wait 17.0 ms of 47.0 ms per step",
    remedy="give the loader more workers",
    gain=1.6,
)

TELEMETRY = Telemetry(
    window_s=4.5,
    samples=45,
    is_of_steady_window=True,
    cost_cpu_s=0.02,
    host=HostTelemetry(cpu_cores=2.4, read_bytes_per_s=12.3e6, rchar_bytes_per_s=123e6),
    gpus=(
        GpuTelemetry(index=0, is_used=True, utilization_percent=63.0, power_w=141.0, peak_tree_bytes=6 << 30),
    ),
)


def looked_into(**overrides: Any) -> TrialRecord:
    """Trial 0 of a script with 47 ms per step, 17 of them waiting, looked into as far as can be."""
    knobs = config(batch_size=256)
    values: dict[str, Any] = {
        "steady_time_s": 4.7,
        "parts": StepParts(data_wait_s=1.7, compute_s=2.6, optimizer_s=0.35, other_s=0.05),
        "batch": BATCH,
        "batch_bytes": BATCH.total_bytes,
        "boundary_s": 0.8,
    }
    seen = Measurement(
        loop=loop(1.0, knobs, **(values | overrides)),
        memory=TreeMemory(
            peak_pss_bytes=3400 * MIB, peak_shm_bytes=5 * (BATCH_BYTES + 4096), processes=3, samples=20
        ),
        details=DETAILS,
    )
    return trial_record(
        0, 1.0, knobs, role=TrialRole.BASELINE, overrides={"measurement": seen, "telemetry": TELEMETRY}
    )


def profiled(**overrides: Any) -> LoopProfile:
    """A finished loop profile of one process."""
    record = looked_into()
    assert record.config is not None
    values: dict[str, Any] = {
        "status": RunStatus.FINISHED,
        "trials": (record,),
        "contenders": (contender("as it is", record.config, (record,)),),
        "findings": (GAIN,),
        "profile_time_s": 21.0,
    }
    return loop_profile(**(values | overrides))
