"""The VRAM budget at the peak: it always adds up, and says what it can't know."""

from typing import Any

import pytest
from build_records import GIB, MIB, cpu, loop, measurement
from hypothesis import given
from hypothesis import strategies as st

from tunekit.predict.vram.budget import VramBudget, vram_budget
from tunekit.records.attribution import ModelBytes
from tunekit.records.details import Details, PeaksSeen
from tunekit.records.measurement import GpuTelemetry, HostTelemetry, Measurement, Telemetry

MODEL = ModelBytes(
    parameters_bytes=400 * MIB, buffers_bytes=MIB, gradients_bytes=400 * MIB, optimizer_bytes=800 * MIB
)


def peaks(**overrides: Any) -> PeaksSeen:
    values: dict[str, Any] = {
        "forward_backward_bytes": 4 * GIB,
        "optimizer_bytes": 2 * GIB,
        "gradients_at_start_bytes": 0,
        "batch_bytes": 64 * MIB,
    }
    return PeaksSeen(**(values | overrides))


def measured(seen: PeaksSeen | None, **overrides: Any) -> Measurement:
    """A trial of MODEL that allocated 4 GiB and reserved 5."""
    record = measurement()
    values: dict[str, Any] = {"model": MODEL, "batch_bytes": 64 * MIB, **overrides}
    details = None if seen is None else Details(peaks=seen)
    return record.model_copy(update={"loop": loop(**values), "details": details})


def telemetry(*tree_bytes: int | None, is_used: bool = True) -> Telemetry:
    gpus = tuple(
        GpuTelemetry(index=n, is_used=is_used, peak_tree_bytes=told) for n, told in enumerate(tree_bytes)
    )
    return Telemetry(
        window_s=5.0, samples=10, is_of_steady_window=True, cost_cpu_s=0.1, host=HostTelemetry(), gpus=gpus
    )


def budget(seen: PeaksSeen | None, told: Telemetry | None = None, **overrides: Any) -> VramBudget:
    made = vram_budget(measured(seen, **overrides), told)
    assert made is not None
    return made


def parts_bytes(made: VramBudget) -> int:
    return (
        made.parameters_bytes
        + made.buffers_bytes
        + made.gradients_bytes
        + made.optimizer_bytes
        + made.batch_bytes
        + made.activations_bytes
    )


def test_while_activations_peak_freed_gradients_are_not_there():
    made = budget(peaks(), telemetry(5 * GIB + 500 * MIB))
    assert made.peak_in == "forward and backward"
    assert made.gradients_bytes == 0
    assert made.complete_gradients_bytes == 400 * MIB
    assert made.activations_bytes == 4 * GIB - (400 + 1 + 800 + 64) * MIB
    assert made.fragmentation_bytes == GIB
    assert made.context_bytes == 500 * MIB
    assert made.note is None


def test_gradients_that_were_freed_before_they_were_looked_at_are_predicted():
    freed = MODEL.model_copy(update={"gradients_are_predicted": True})
    in_step = budget(peaks(forward_backward_bytes=3 * GIB, optimizer_bytes=4 * GIB), model=freed)
    assert in_step.gradients_are_predicted
    assert in_step.shows_predicted_gradients
    there = budget(peaks(gradients_at_start_bytes=400 * MIB), model=freed)
    assert there.gradients_are_predicted
    assert not there.shows_predicted_gradients, "those that a batch began with were counted"
    assert not budget(peaks(), model=MODEL).gradients_are_predicted


def test_without_a_look_at_a_batch_the_place_of_the_peak_is_unknown():
    made = budget(None)
    assert made.peak_in is None
    assert made.gradients_bytes == 0
    assert made.note is not None
    assert "no batch was looked at" in made.note


def test_a_driver_that_counts_less_than_was_reserved_leaves_no_context():
    made = budget(peaks(), telemetry(4 * GIB))
    assert made.context_bytes == 0
    assert made.note is not None
    assert "memory was given back" in made.note


@pytest.mark.parametrize("told", [None, telemetry(), telemetry(None), telemetry(GIB, is_used=False)])
def test_without_the_drivers_figure_there_is_no_context(told: Telemetry | None):
    made = budget(peaks(), told)
    assert made.context_bytes is None
    assert made.nvml_bytes is None


def test_a_cpu_has_no_budget():
    assert vram_budget(measurement(device=cpu(), model=MODEL), None) is None


sizes = st.integers(0, 64 * GIB)
models = st.builds(
    ModelBytes, parameters_bytes=sizes, buffers_bytes=sizes, gradients_bytes=sizes, optimizer_bytes=sizes
)
any_peaks = st.builds(
    PeaksSeen,
    forward_backward_bytes=sizes,
    optimizer_bytes=sizes,
    gradients_at_start_bytes=sizes,
    batch_bytes=sizes,
)


@given(models, st.none() | any_peaks, sizes, sizes, st.none() | sizes)
def test_the_parts_add_up_whatever_was_seen(
    model: ModelBytes, seen: PeaksSeen | None, allocated: int, cached: int, nvml: int | None
):
    reserved = allocated + cached
    told = None if nvml is None else telemetry(nvml)
    made = budget(seen, told, model=model, peak_allocated_bytes=allocated, peak_reserved_bytes=reserved)
    assert parts_bytes(made) == allocated
    assert allocated + made.fragmentation_bytes == reserved
    if nvml is not None and nvml >= reserved:
        assert reserved + (made.context_bytes or 0) == nvml
    known = model.parameters_bytes + model.buffers_bytes + model.optimizer_bytes
    if known > allocated:
        assert made.note is not None
        assert made.activations_bytes == 0
    assert made.gradients_bytes <= model.gradients_bytes
