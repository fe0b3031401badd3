"""Steps traced in real trials' own loops, beside the same steps on fake tensors of a GPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from real_trials import RealTrials, zoo_target

from tunekit.memory.vram.predict import MemoryPrediction
from tunekit.records.details import Detail, Details
from tunekit.records.step_trace import PURPOSES, Purpose, StepTrace

pytestmark = pytest.mark.real

SIZES = ("32", "128")
FAKE = Path(__file__).parents[2] / "benchmarks" / "vram_loop_fake.py"
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


@pytest.mark.skipif(
    not torch.backends.cuda.is_built() and not torch.__version__.startswith("2.13."),
    reason="fake cuda tensors on a CPU-only build are known for torch 2.13",
)
def test_an_untouched_loop_takes_what_its_steps_take_on_fake_tensors(tmp_path: Path) -> None:
    """Of a CNN and of ResNet-50 too: benchmarks/vram_loop.py."""
    details = looked_at(tmp_path, "known_memory.py", "gpt")
    assert details.faults == ()
    assert details.trace is not None
    assert (details.trace.device_type, details.trace.why_ended, details.trace.doubts) == ("cpu", None, ())
    words = [sys.executable, str(FAKE), "gpt", "32", *SIZES]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    for precision, fake in json.loads(done.stdout).items():
        prediction = predicted(tmp_path, precision)
        for size in SIZES:
            peak = prediction.peak(int(size)).allocated_bytes
            assert peak == pytest.approx(fake["peaks"][size], rel=0.02), (precision, size)
        flops = sum(op.flops for op in read(tmp_path, f"trace-{precision}-4.json").ops) / 4
        assert flops == pytest.approx(fake["flops"], rel=0.01), precision


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
