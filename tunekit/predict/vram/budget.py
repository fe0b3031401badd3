"""Breaks down a GPU's memory at the peak of a measured trial. Pure."""

from typing import Literal

from pydantic import NonNegativeInt

from tunekit.records.attribution import ModelBytes
from tunekit.records.base import Record
from tunekit.records.details import PeaksSeen
from tunekit.records.measurement import Measurement, Telemetry
from tunekit.units import bytes_text

PeakPlace = Literal["forward and backward", "optimizer step"]

_SAME_PEAK = 0.99
"""A batch that reaches this share of the process's peak is assumed to have caused it."""


class VramBudget(Record):
    """Device memory at the peak, in bytes; all figures are measured except possibly the gradients.

    Parameters to activations_bytes add up to peak_allocated_bytes; with fragmentation_bytes to
    peak_reserved_bytes; with context_bytes to nvml_bytes.
    """

    parameters_bytes: NonNegativeInt
    buffers_bytes: NonNegativeInt
    gradients_bytes: NonNegativeInt
    """Gradients that existed at the peak: while activations peak, only those left by the last batch."""
    optimizer_bytes: NonNegativeInt
    batch_bytes: NonNegativeInt
    activations_bytes: NonNegativeInt
    """Activations and workspace: the remainder of peak_allocated_bytes."""
    fragmentation_bytes: NonNegativeInt
    """Peak of torch's reserved memory minus peak of its allocated memory."""
    context_bytes: NonNegativeInt | None
    """CUDA context and libraries; None if the driver does not report memory by process."""
    complete_gradients_bytes: NonNegativeInt
    """All gradients, whether or not they exist at the peak."""
    gradients_are_predicted: bool = False
    """Whether complete_gradients_bytes is predicted, because the script had freed its gradients."""
    peak_allocated_bytes: NonNegativeInt
    peak_reserved_bytes: NonNegativeInt
    nvml_bytes: NonNegativeInt | None
    """The driver's maximum for the trial's processes."""
    allocation_retries: NonNegativeInt | None
    """Times that the allocator freed its cache to find room: a sign that memory is short."""
    peak_in: PeakPlace | None
    """Where the peak occurred; None if the two halves of a batch were not measured."""
    note: str | None = None
    """Limitations of the figures."""

    @property
    def shows_predicted_gradients(self) -> bool:
        """Whether gradients_bytes is predicted; gradients present at a batch's start are measured."""
        return self.gradients_are_predicted and self.peak_in == "optimizer step"


def vram_budget(measurement: Measurement, telemetry: Telemetry | None) -> VramBudget | None:
    """Return the budget of a trial; None on a CPU, or if the model's size is unknown.

    Args:
        measurement: the trial's measurement, preferably with peaks in its details.
        telemetry: the same trial's telemetry, for the driver's figure.
    """
    loop = measurement.loop
    model, allocated_bytes, reserved_bytes = loop.model, loop.peak_allocated_bytes, loop.peak_reserved_bytes
    if model is None or allocated_bytes is None or reserved_bytes is None:
        return None
    peaks = measurement.details.peaks if measurement.details is not None else None
    peak_in = _peak_in(peaks)
    known = _known(model, peaks, peak_in, loop.batch_bytes)
    parts = _up_to(known, allocated_bytes)
    nvml_bytes = _nvml_bytes(telemetry)
    return VramBudget(
        **parts,
        activations_bytes=allocated_bytes - sum(parts.values()),
        fragmentation_bytes=max(0, reserved_bytes - allocated_bytes),
        context_bytes=None if nvml_bytes is None else max(0, nvml_bytes - reserved_bytes),
        complete_gradients_bytes=model.gradients_bytes,
        gradients_are_predicted=model.gradients_are_predicted,
        peak_allocated_bytes=allocated_bytes,
        peak_reserved_bytes=reserved_bytes,
        nvml_bytes=nvml_bytes,
        allocation_retries=loop.allocation_retries,
        peak_in=peak_in,
        note="; ".join(_notes(measurement, known, peaks, nvml_bytes)) or None,
    )


def _peak_in(peaks: PeaksSeen | None) -> PeakPlace | None:
    if peaks is None:
        return None
    in_step = peaks.optimizer_bytes > peaks.forward_backward_bytes
    return "optimizer step" if in_step else "forward and backward"


def _known(
    model: ModelBytes, peaks: PeaksSeen | None, peak_in: PeakPlace | None, batch_bytes: int
) -> dict[str, int]:
    """Return the parts with known sizes, those that certainly exist at the peak first."""
    gradients_bytes = model.gradients_bytes if peak_in == "optimizer step" else 0
    if peaks is not None and peak_in == "forward and backward":
        gradients_bytes = min(peaks.gradients_at_start_bytes, model.gradients_bytes)
    return {
        "parameters_bytes": model.parameters_bytes,
        "buffers_bytes": model.buffers_bytes,
        "batch_bytes": peaks.batch_bytes if peaks is not None else batch_bytes,
        "gradients_bytes": gradients_bytes,
        "optimizer_bytes": model.optimizer_bytes,
    }


def _up_to(known: dict[str, int], limit_bytes: int) -> dict[str, int]:
    """Return the parts, with the last ones cut so that they fit into the peak."""
    parts: dict[str, int] = {}
    left_bytes = limit_bytes
    for name, count_bytes in known.items():
        parts[name] = min(count_bytes, left_bytes)
        left_bytes -= parts[name]
    return parts


def _nvml_bytes(telemetry: Telemetry | None) -> int | None:
    """Return the driver's figure for the trial's processes on the GPU where it is largest."""
    gpus = telemetry.gpus if telemetry is not None else ()
    known = (gpu.peak_tree_bytes for gpu in gpus if gpu.is_used and gpu.peak_tree_bytes is not None)
    return max(known, default=None)


def _notes(
    measurement: Measurement, known: dict[str, int], peaks: PeaksSeen | None, nvml_bytes: int | None
) -> list[str]:
    loop = measurement.loop
    allocated_bytes, reserved_bytes = loop.peak_allocated_bytes or 0, loop.peak_reserved_bytes or 0
    notes = []
    if sum(known.values()) > allocated_bytes:
        notes.append(
            f"the known parts come to {bytes_text(sum(known.values()))}, more than the peak of "
            f"{bytes_text(allocated_bytes)}: some came after it or lie elsewhere, and are cut to fit"
        )
    if peaks is None:
        notes.append("gradients that were there at the peak count as activations: no batch was looked at")
    elif max(peaks.forward_backward_bytes, peaks.optimizer_bytes) < _SAME_PEAK * allocated_bytes:
        of_batch = max(peaks.forward_backward_bytes, peaks.optimizer_bytes)
        notes.append(
            f"the batch that was looked at reached {bytes_text(of_batch)}: the peak was made by something "
            "else, such as the first step, a larger batch or a validation"
        )
    if loop.world_size > 1:
        notes.append("peaks are of the rank that needs most, the model's parts of rank 0")
    if nvml_bytes is not None and nvml_bytes < reserved_bytes:
        notes.append(
            f"the driver counted {bytes_text(nvml_bytes)}, less than was reserved at the peak: "
            "memory was given back before it was read"
        )
    return notes
