"""Traced steps of a model whose memory is known in closed form."""

import json
from pathlib import Path

from build_records import MIB

from tunekit.records.details import TracedAt, TraceSeen
from tunekit.records.prediction import PURPOSES, BytesRange, OutsideTorch, Purpose, StepTrace
from tunekit.records.profile import Profile

PARAMETERS_BYTES = 64 * MIB
SAMPLE_BYTES = 128 * MIB
SAMPLE_FLOPS = 10**10


def steps(batch_size: int, sample_bytes: int = SAMPLE_BYTES, dtype: str = "float32") -> StepTrace:
    """Parameters that stay, and activations that come and go in each of two steps."""
    places = [PURPOSES.index(one) for one in (Purpose.PARAMETERS, Purpose.ACTIVATIONS, Purpose.ACTIVATIONS)]
    size = batch_size * sample_bytes
    return StepTrace(
        batch_size=batch_size,
        blocks=(0, 1, 1, 2, 2),
        sizes=(PARAMETERS_BYTES, size, -1, size, -1),
        purposes=tuple(places),
        ops=(
            ("convolution", dtype, batch_size * SAMPLE_FLOPS, batch_size * 10**7),
            ("relu", dtype, 0, size),
            ("_foreach_add_", "float32", 0, 3 * PARAMETERS_BYTES),
        ),
    )


def seen(*precisions: str | None, doubts: tuple[str, ...] = (), device_type: str = "cuda") -> TraceSeen:
    """What the agent tells of such steps at batch sizes 2 and 4."""
    return TraceSeen(
        device_type=device_type,
        steps=tuple(
            TracedAt(precision=precision, batch_size=size, file=_name(precision, size))
            for precision in precisions or (None, "bf16")
            for size in (2, 4)
        ),
        doubts=doubts,
    )


def write_steps(folder: Path, of: TraceSeen) -> None:
    """Write the files of a trial's trace; under bf16 activations take half."""
    for one in of.steps:
        dtype, per_sample = ("float32", SAMPLE_BYTES)
        if one.precision == "bf16":
            dtype, per_sample = "bfloat16", SAMPLE_BYTES // 2
        told = steps(one.batch_size, per_sample, dtype).model_dump()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / one.file).write_text(json.dumps(told))


def _name(precision: str | None, size: int) -> str:
    return f"trace-{precision or 'own'}-{size}.json"


def outside(of: Profile) -> OutsideTorch:
    """A context of 300 to 500 MiB."""
    return OutsideTorch(
        context=BytesRange(low=300 * MIB, high=500 * MIB, source="test"),
        blas_workspace_bytes=0 if of.is_cpu else 16 * MIB,
    )
