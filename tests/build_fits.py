"""Traced trials and predictions for tests, without a process: a step of a small convolutional net."""

from pathlib import Path
from typing import Any

from build_records import GIB, MIB, baseline_record, config, cpu, host, measurement, profile, target

from tunekit.records.attribution import LoaderWork, WorkerWork
from tunekit.records.codec import write_json
from tunekit.records.config import Precision
from tunekit.records.details import CheckpointingSeen, Details, IsolatedRates, TracedAt, TraceSeen
from tunekit.records.prediction import (
    PURPOSES,
    BytesRange,
    DevicePrediction,
    LargestBatch,
    OpCost,
    OutsideTorch,
    PeakShown,
    PredictedFit,
    PredictionPath,
    Purpose,
    StepTrace,
)
from tunekit.records.profile import FactConfidence, Instance, Profile
from tunekit.records.run import FitsOptions, FitsRun, GpuFacts, RunStatus
from tunekit.records.trial import TrialRecord

PARAMETERS = 40 * MIB
PER_SAMPLE = 12 * MIB
"""Activations in float32."""


def steps(
    batch_size: int, share: float = 1.0, dtype: str = "float32", is_checkpointed: bool = False
) -> StepTrace:
    """Parameters and momentum that stay; batch, activations and gradients that come and go, twice.

    Args:
        batch_size: samples.
        share: of the activations' bytes in float32.
        dtype: of the ops.
        is_checkpointed: half of the activations are kept, and a third more is computed.
    """
    kept, work = (0.5, 4 / 3) if is_checkpointed else (1.0, 1.0)
    blocks, sizes, purposes = [], [], []

    def allocated(size: float, purpose: Purpose) -> int:
        blocks.append(len(purposes))
        sizes.append(int(size))
        purposes.append(PURPOSES.index(purpose))
        return len(purposes) - 1

    def freed(block: int) -> None:
        blocks.append(block)
        sizes.append(-1)

    allocated(PARAMETERS, Purpose.PARAMETERS)
    allocated(PARAMETERS, Purpose.OPTIMIZER)
    for _ in range(2):
        batch = allocated(batch_size * 600_000, Purpose.BATCH)
        layer = batch_size * PER_SAMPLE * share * kept / 6
        layers = [allocated(layer, Purpose.ACTIVATIONS) for _ in range(6)]
        gradients = allocated(PARAMETERS, Purpose.GRADIENTS)
        for block in (*reversed(layers), gradients, batch):
            freed(block)
    ops = tuple(
        OpCost(name=name, dtype=dtype, flops=work * flops * batch_size, moved_bytes=4e6 * share * batch_size)
        for name, flops in (("convolution", 2e9), ("addmm", 1e9), ("relu", 0.0))
    )
    return StepTrace(
        batch_size=batch_size, blocks=tuple(blocks), sizes=tuple(sizes), purposes=tuple(purposes), ops=ops
    )


def traced_trial(
    folder: Path,
    precision: Precision = Precision.FP32,
    batch_cost_s: float | None = 0.004,
    traces: tuple[str | None, ...] = (None, "bf16"),
    epoch_samples: int | None = 50_000,
    checkpointed: tuple[str | None, ...] = (),
    **seen: Any,
) -> TrialRecord:
    """A baseline trial on a CPU whose steps were traced at batch sizes 2 and 4.

    Args:
        folder: of the trials, the first of which gets the traces.
        precision: the script's own.
        batch_cost_s: CPU seconds that the loader takes for a batch of 16; None for unknown.
        traces: what was traced, as in TracedAt.
        epoch_samples: of the loader.
        checkpointed: of the traces, those that were also traced with gradient checkpointing.
        seen: of TraceSeen.
    """
    (folder / "0000").mkdir(parents=True, exist_ok=True)
    told = []
    ways = [*((under, False) for under in traces), *((under, True) for under in checkpointed)]
    for under, with_it in ways:
        for size in (2, 4):
            name = f"trace-{under or 'own'}{'-checkpointed' * with_it}-{size}.json"
            is_half = under == "bf16" or precision in (Precision.BF16, Precision.FP16)
            made = steps(size, *((0.5, "bfloat16") if is_half else ()), is_checkpointed=with_it)
            write_json(folder / "0000" / name, made)
            told.append(TracedAt(precision=under, batch_size=size, is_checkpointed=with_it, file=name))
    values: dict[str, Any] = {"device_type": "cpu", "steps": tuple(told)}
    if checkpointed:
        values["checkpointing"] = CheckpointingSeen(blocks=12, names=("Block",))
    details = Details(
        floors=IsolatedRates(loader_step_s=0.008, compute_step_s=0.5),
        trace=TraceSeen(**(values | seen)),
    )
    knobs = config(batch_size=16, precision=precision)
    loop: dict[str, Any] = {"device": cpu(), "epoch_samples": epoch_samples}
    if batch_cost_s is not None:
        loop["loader_work"] = LoaderWork(
            workers=(WorkerWork(batches=50, time_s=60 * batch_cost_s),),
            cpu_s=50 * batch_cost_s,
        )
    measured = measurement(32.0, knobs, **loop).model_copy(update={"details": details})
    return baseline_record(0, 32.0, knobs, overrides={"measurement": measured})


def outside(low_mib: int = 300, high_mib: int = 1500) -> OutsideTorch:
    """What lies beside torch on a GPU that was not calibrated."""
    context = BytesRange(low=low_mib * MIB, high=high_mib * MIB, source="assumed: a test")
    return OutsideTorch(context=context, blas_workspace_bytes=16 * MIB)


def machine(name: str = "g5.xlarge", gpus: int = 1, vcpus: int | None = 4, **values: Any) -> Instance:
    return Instance(
        provider="aws",
        name=name,
        gpus=gpus,
        vcpus=vcpus,
        ram_gb=16.0,
        region=None,
        as_of="2026-05",
        source="a table",
        confidence=FactConfidence.HIGH,
        **({"usd_per_h": 1.0} | values),
    )


def gpu(name: str, gib: float | None, native: tuple[str, ...] = ("fp32",), **overrides: Any) -> Profile:
    """A GPU of so much memory, without a machine."""
    memory = None if gib is None else int(gib * GIB)
    return profile(
        name,
        memory_bytes=memory,
        torch_memory_bytes=memory,
        native_precisions=native,
        **overrides,
    )


K80 = gpu("k80", 11.0, tf32_tflops=None, bf16_tflops=None, fp16_tflops=None, fp32_tflops=4.1)
T4 = gpu("t4", 14.5, ("fp32", "fp16"), tf32_tflops=None, bf16_tflops=None)
A10G = gpu("a10g", 22.1, ("fp32", "tf32", "bf16", "fp16"), instances=(machine(),))


def fit(
    name: str,
    gib: float,
    largest: tuple[int, int, int],
    precision: Precision = Precision.FP32,
    most: int | None = None,
    **more: Any,
) -> PredictedFit:
    """One GPU's prediction, at `most` samples at most; 3/4 of its memory is taken where something fits."""
    capacity = int(gib * GIB)
    low, value, high = largest
    purposes = {Purpose.PARAMETERS: 0.1, Purpose.OPTIMIZER: 0.1, Purpose.ACTIVATIONS: 0.5}
    shown = PeakShown(
        batch_size=max(1, min(low, most or low)),
        allocated_bytes=int(0.7 * capacity),
        reserved_bytes=int(0.75 * capacity),
        by_purpose={purpose: int(share * capacity) for purpose, share in purposes.items()},
    )
    return PredictedFit(
        profile_id=name,
        precision=precision,
        capacity_bytes=capacity,
        largest=LargestBatch(low=low, value=value, high=high),
        peak=shown if low else None,
        **({"bound_by": "compute" if low else "VRAM"} | more),
    )


def predicted(fits: tuple[PredictedFit, ...], **overrides: Any) -> DevicePrediction:
    values: dict[str, Any] = {
        "path": PredictionPath.LOOP_ON_CPU,
        "margin": 0.1,
        "traced_sizes": (2, 4),
        "fits": fits,
        "loader_measured": 2000.0,
        "loader_cpus": 8,
    }
    return DevicePrediction(**(values | overrides))


def fits_run(fits: tuple[PredictedFit, ...] = (), **overrides: Any) -> FitsRun:
    """A finished prediction on an 8-CPU machine without a GPU; its script trains with a batch of 128."""
    names = dict.fromkeys(one.profile_id for one in fits)
    values: dict[str, Any] = {
        "tunekit_version": "1.0.0",
        "created_at": "2026-01-02T03:04:05Z",
        "status": RunStatus.FINISHED,
        "target": target(),
        "options": FitsOptions(),
        "host": host(accelerators=()),
        "profile": profile("cpu"),
        "measured_on": "cpu",
        "trials": (baseline_record(0, 32.0, device=cpu()),),
        "prediction": predicted(fits) if fits else None,
        "gpus": tuple(
            GpuFacts(profile_id=name, outside=outside(), instance="g5.xlarge", vcpus=4) for name in names
        ),
        "fits_time_s": 20.0,
    }
    return FitsRun(**(values | overrides))
