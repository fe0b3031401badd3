"""What a real trial sees of its loop once it is measured."""

import json
from pathlib import Path

import pytest
from real_trials import LIMITS, zoo_target

from tunekit.records.details import Detail
from tunekit.records.trial import TrialRole
from tunekit.trial.executor import ProcessExecutor, TrialSpec

pytestmark = pytest.mark.real


def test_on_a_cpu_operators_are_seen_and_nothing_that_only_a_gpu_has(tmp_path: Path) -> None:
    executor = ProcessExecutor(
        zoo_target("plain_with_validation.py"), tmp_path, LIMITS, window_s=0.2, device_memory_bytes=1 << 30
    )
    wanted = (Detail.KERNELS, Detail.SYNCS, Detail.PEAKS)
    spec = TrialSpec(0, TrialRole.BASELINE, None, details=wanted)
    record = executor.run(spec, None, lambda progress: None)
    assert record.measurement is not None
    assert record.measurement.loop.device_parts is None
    # Asked to hold a CUDA device to 1 GiB, it starts none and holds nothing.
    request = json.loads((tmp_path / "0000" / "request.json").read_text())
    assert request["device_memory_bytes"] == 1 << 30
    assert record.measurement.loop.device.whole_bytes is None
    assert record.faults == ()
    details = record.measurement.details
    assert details is not None
    assert details.faults == ()
    assert details.syncs is None
    assert details.peaks is None
    assert details.kernels is not None
    assert details.kernels.batches == 5
    calls = {kernel.name: kernel.calls for kernel in details.kernels.kernels}
    assert calls["aten::addmm"] == 3 * 5
    assert details.kernels.device_busy_s is None


def test_without_a_loader_the_batches_that_a_step_accumulates_are_counted(tmp_path: Path) -> None:
    target = zoo_target("gpt_no_loader.py", "--gradient_accumulation_steps", "4")
    target = target.model_copy(update={"samples_per_step": 12})
    executor = ProcessExecutor(target, tmp_path, LIMITS, window_s=0.2)
    spec = TrialSpec(0, TrialRole.BASELINE, None, details=(Detail.KERNELS,))
    record = executor.run(spec, None, lambda progress: None)
    assert record.measurement is not None
    assert record.measurement.details is not None
    kernels = record.measurement.details.kernels
    assert kernels is not None
    assert kernels.batches == 8  # whole steps
    calls = {kernel.name: kernel.calls for kernel in kernels.kernels}
    assert calls["aten::addmm"] == 8 * kernels.batches  # four layers in each of two blocks


def test_epochs_that_end_while_it_is_looked_are_in_no_trace(tmp_path: Path) -> None:
    executor = ProcessExecutor(zoo_target("short_epochs.py"), tmp_path, LIMITS, window_s=0.2)
    spec = TrialSpec(0, TrialRole.BASELINE, None, details=(Detail.QUEUE, Detail.KERNELS))
    record = executor.run(spec, None, lambda progress: None)
    assert record.measurement is not None
    details = record.measurement.details
    assert details is not None
    assert details.faults == ()
    assert details.queue is not None
    assert details.kernels is not None
    assert details.kernels.batches == 5
    calls = {kernel.name: kernel.calls for kernel in details.kernels.kernels}
    assert calls["aten::addmm"] == 3 * 5
