"""A value for every knob."""

from enum import StrEnum
from typing import Any, Self

from pydantic import NonNegativeInt, PositiveInt, model_validator

from tunekit.records.base import Record

LOADER_KNOBS = ("batch_size", "num_workers", "prefetch_factor", "pin_memory", "persistent_workers")
"""Knobs of the training loader."""

WORKER_KNOBS = ("prefetch_factor", "persistent_workers")
"""Of these, the ones that mean nothing without workers."""

MODEL_KNOBS = ("compile", "precision", "channels_last")
"""Knobs that are applied to the root modules."""

KNOBS = (*LOADER_KNOBS, *MODEL_KNOBS, "accumulate_grad_batches")
"""Every knob, in the order in which it is shown."""

USUAL_PREFETCH = 2
"""Batches that each worker keeps ready where nothing says otherwise: torch's own."""


class Precision(StrEnum):
    """Arithmetic of the training step."""

    FP32 = "fp32"
    """float32; matmuls in IEEE float32 (matmul precision "highest")."""
    TF32 = "tf32"
    """float32 storage, TF32 tensor cores in matmuls (matmul precision "high")."""
    BF16 = "bf16"
    """bfloat16 autocast over float32 parameters."""
    FP16 = "fp16"
    """float16 autocast over float32 parameters; needs a gradient scaler in the script."""


class TrainConfig(Record):
    """A value for every knob of one training loop."""

    batch_size: PositiveInt
    """Samples per batch and device."""
    num_workers: NonNegativeInt
    """Loader processes per device; 0 loads in the main process."""
    prefetch_factor: PositiveInt | None
    """Batches that each worker keeps ready; None with 0 workers."""
    pin_memory: bool
    persistent_workers: bool
    compile: bool
    precision: Precision
    channels_last: bool
    accumulate_grad_batches: PositiveInt = 1
    """Batches per optimizer step."""

    @model_validator(mode="after")
    def _legal(self) -> Self:
        if self.num_workers == 0 and self.prefetch_factor is not None:
            raise ValueError(f"prefetch_factor must be null with num_workers 0, got {self.prefetch_factor}")
        if self.num_workers == 0 and self.persistent_workers:
            raise ValueError("persistent_workers must be false with num_workers 0")
        if self.num_workers > 0 and self.prefetch_factor is None:
            raise ValueError(
                f"prefetch_factor must be at least 1 with num_workers {self.num_workers}, got null"
            )
        return self

    def changed(self, **values: Any) -> Self:
        """Return the config with other values of some knobs.

        Without workers nothing is prefetched and no worker persists, whatever was said; the first workers
        prefetch as many batches as torch has it, where nothing was said.
        """
        if values.get("num_workers", self.num_workers) == 0:
            values |= {"prefetch_factor": None, "persistent_workers": False}
        elif self.prefetch_factor is None:
            values.setdefault("prefetch_factor", USUAL_PREFETCH)
        return super().changed(**values)

    @property
    def queue_batches(self) -> int:
        """Batches that the workers keep ready: workers x prefetch."""
        return self.num_workers * (self.prefetch_factor or 0)

    def batch_bytes(self, bytes_per_sample: float) -> float:
        """Return the size of one batch."""
        return self.batch_size * bytes_per_sample
