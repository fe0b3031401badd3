"""A real trial with real workers, sampled from outside; the GPUs are scripted, since there are none."""

import pytest
from machine.scripted_nvml import L4, T4, ScriptedNvml
from real_trials import LIMITS, zoo_target

from tunekit.machine.gpu.nvml import GpuReading
from tunekit.machine.telemetry.series import Series, load_series
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.trial.executor import KnownTarget, ProcessExecutor, TrialSpec

pytestmark = pytest.mark.real

BUSY = GpuReading(utilization_percent=80.0, used_bytes=3e9, power_w=60.0)


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> tuple[TrialRecord, dict[str, Series]]:
    """A trial with two workers beside two GPUs, one of whose drivers gives up half-way."""
    folder = tmp_path_factory.mktemp("run")
    nvml = ScriptedNvml([T4, L4], readings={0: [BUSY], 1: [BUSY]})
    store = folder / "telemetry.zarr"
    executor = ProcessExecutor(
        zoo_target("plain_with_validation.py"),
        folder / "trials",
        LIMITS,
        window_s=2.0,
        nvml=nvml,
        gpus=(0, 1),
        telemetry_store=store,
    )
    baseline = executor.run(TrialSpec(0, TrialRole.BASELINE, None), None, lambda progress: None)
    assert baseline.config is not None
    assert baseline.discovery is not None
    config = baseline.config.model_copy(update={"num_workers": 2, "prefetch_factor": 2})
    known = KnownTarget(baseline.discovery, baseline.config)
    nvml.readings[1] = [BUSY, BUSY, None]
    record = executor.run(TrialSpec(1, TrialRole.SEARCH, config), known, lambda progress: None)
    assert record.measurement is not None, record.failure
    assert not nvml.is_open
    return record, {series.name: series for series in load_series(store, 1)}


def test_the_record_tells_of_the_steady_window(trial: tuple[TrialRecord, dict[str, Series]]) -> None:
    told = trial[0].telemetry
    assert told is not None
    assert told.is_of_steady_window
    assert told.window_s > 0.5
    assert told.host.cpu_cores is not None
    assert told.host.cpu_cores > 0
    assert [gpu.index for gpu in told.gpus] == [0, 1]
    assert told.gpus[0].utilization_percent == 80.0


def test_the_series_cover_the_trial_from_start_to_end(trial: tuple[TrialRecord, dict[str, Series]]) -> None:
    record, series = trial
    host, loop = series["host"], series["loop"]
    times = [t_s for t_s in host.column("t_s") if t_s is not None]
    assert times == sorted(times)
    assert 0 <= times[0] < times[-1] <= record.duration_s
    assert loop.labels[0] == "starting"
    assert "measuring" in loop.labels
    assert max(value for value in host.column("processes") if value is not None) >= 3
    cpu_s = [value for value in host.column("cpu_s") if value is not None]
    assert cpu_s == sorted(cpu_s)
    assert cpu_s[-1] > cpu_s[0]
    steps = [value for value in loop.column("steps") if value is not None]
    assert steps == sorted(steps)
    assert steps[-1] > 0


def test_a_driver_that_gives_up_in_mid_run_leaves_a_gap_and_no_failure(
    trial: tuple[TrialRecord, dict[str, Series]],
) -> None:
    busy = trial[1]["gpu1"].column("utilization_percent")
    assert busy[-1] is None
    assert trial[0].telemetry is not None
    assert set(trial[1]["gpu0"].column("utilization_percent")) == {80.0}
