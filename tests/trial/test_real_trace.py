"""Steps traced in real trials' own loops; torch's allocator is in predict/vram/test_simulated_peaks.py."""

from pathlib import Path

import pytest
from real_trials import RealTrials, zoo_target

from tunekit.predict.vram.predict import MemoryPrediction
from tunekit.records.details import Detail, Details
from tunekit.records.prediction import PURPOSES, Purpose, StepTrace

pytestmark = pytest.mark.real

BLAS_WORKSPACE_BYTES = 8_519_680


def looked_at(folder: Path, *words: str) -> Details:
    record = RealTrials(zoo_target(*words), folder, window_s=0.3).run_baseline((Detail.TRACE,))
    assert record.measurement is not None, record.failure
    assert record.measurement.details is not None
    return record.measurement.details


def read(folder: Path, name: str) -> StepTrace:
    return StepTrace.model_validate_json((folder / "0000" / name).read_text())


def predicted(folder: Path, precision: str = "own") -> MemoryPrediction:
    """Return the prediction by a trial's traces, beside workspaces of a GPU's libraries."""
    traces = []
    for size in (2, 4):
        facts = read(folder, f"trace-{precision}-{size}.json").model_dump()
        facts["blocks"] = (0, 1, *(block + 2 for block in facts["blocks"]))
        facts["sizes"] = (BLAS_WORKSPACE_BYTES,) * 2 + facts["sizes"]
        facts["purposes"] = (PURPOSES.index(Purpose.WORKSPACE),) * 2 + facts["purposes"]
        traces.append(StepTrace.model_validate(facts))
    return MemoryPrediction.of(*traces)


def test_a_script_that_does_not_live_through_a_small_batch_keeps_its_measurement(tmp_path: Path) -> None:
    details = looked_at(tmp_path, "known_times.py", "--state")
    assert details.trace is not None
    assert details.trace.steps == ()
    assert details.trace.why_ended is not None
    assert details.trace.why_ended.startswith("the script ended while it was traced: ")
    assert "must match the size of tensor" in details.trace.why_ended


def test_gradients_that_a_script_accumulates_are_traced(tmp_path: Path) -> None:
    steady = (
        "--init-scale",
        "1024",
        "--growth-interval",
        "100000",
    )  # a step that is skipped has no gradients
    details = looked_at(tmp_path, "scaler_accumulate.py", *steady)
    assert details.faults == ()
    assert details.trace is not None
    assert details.trace.batches_per_step == 4
    assert [one.precision for one in details.trace.steps] == [None, None], "its own autocast"
    assert predicted(tmp_path).peak(32).by_purpose[Purpose.GRADIENTS] > 0
