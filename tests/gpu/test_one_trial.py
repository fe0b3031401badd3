"""A trial on simulated devices: what is told of it is held against the device's description and its trace."""

import re

import pytest
from gpu_commands import SCRIPTS, has_torchs_peaks, measured, script, tunekit

from simgpu.machine import SimulatedGpu

SHORT = ["--window", "1"]
DRIVERS_OWN_BYTES = 24146608128 - 23684186112
"""What NVML says is used of an A10G on which nobody has a context."""


def test_of_unlike_devices_the_one_that_trains_is_measured_and_no_other_touched(
    simulated_gpu: SimulatedGpu,
) -> None:
    """CUDA numbers the faster one first, the driver the T4: cuda:1 is the driver's 0."""
    ended = tunekit(
        simulated_gpu, "profile", SHORT, script("plain.py", "--device", "cuda:1"), "t4:slower=8,a10g:slower=8"
    )
    assert ended.process.returncode == 0, ended.process.stderr
    trial = measured(ended.profile.trials[0])
    assert trial.measurement is not None and trial.telemetry is not None
    loop, gpus = trial.measurement.loop, ended.profile.host.accelerators
    assert (loop.device.name, trial.discovery and trial.discovery.bf16_native) == ("Tesla T4", False)
    assert (ended.profile.measured_on, ended.profile.profile.id) == ("t4", "t4")
    assert [(gpu.index, gpu.profile_id, gpu.seen_by) for gpu in gpus] == [
        (0, "t4", ("nvml", "torch")),
        (1, "a10g", ("nvml", "torch")),
    ]
    assert gpus[0].uuid == f"GPU-{loop.device.uuid}" and gpus[0].pci_bus_id == loop.device.pci_bus_id
    assert has_torchs_peaks(ended, trial)
    t4, a10g = trial.telemetry.gpus
    assert (t4.is_used, a10g.is_used) == (True, False)
    assert a10g.peak_used_bytes == DRIVERS_OWN_BYTES
    assert t4.counted_power_w and a10g.counted_power_w and t4.counted_power_w > a10g.counted_power_w
    assert t4.peak_used_bytes is not None and loop.peak_reserved_bytes is not None
    assert t4.peak_used_bytes > loop.peak_reserved_bytes
    assert {work.device for work in simulated_gpu.trace()} == {0}
    assert "gpu-underused" not in {finding.code for finding in ended.profile.findings}


@pytest.mark.slow
def test_two_ranks_are_measured_as_one_training(simulated_gpu: SimulatedGpu) -> None:
    ranks = ["python", "-m", "torch.distributed.run", "--nproc-per-node", "2", str(SCRIPTS / "ddp_nccl.py")]
    ended = tunekit(simulated_gpu, "profile", SHORT, ranks, "a10g:slower=16,a10g:slower=16")
    assert ended.process.returncode == 0, ended.process.stderr
    trial = measured(ended.profile.trials[0])
    assert trial.measurement is not None and trial.telemetry is not None
    loop = trial.measurement.loop
    assert (loop.world_size, loop.batch_size) == (2, 64)
    epoch_s = 100 * loop.steady_time_s / loop.steady_batches + (loop.boundary_s or 0.0)
    assert loop.rate_samples_per_s == pytest.approx(12_800 / epoch_s)
    assert [one.batch_samples for one in loop.ranks] in ([], [64, 64])
    assert [gpu.is_used for gpu in trial.telemetry.gpus] == [True, True]
    assert len(re.findall(r"of ranks that sum to 3(?!\d)", ended.output())) == 2


@pytest.mark.slow
def test_a_gpu_that_loses_clock_at_its_power_limit_is_told_of(simulated_gpu: SimulatedGpu) -> None:
    """Its clock falls to 0.6 within 60 busy seconds, of which the window is the first part."""
    ended = tunekit(
        simulated_gpu,
        "profile",
        ["--window", "12"],
        script("plain.py"),
        "t4:slower=8:soak_s=60:soaked_clock=0.6",
    )
    assert ended.process.returncode == 0, ended.process.stderr
    trial = measured(ended.profile.trials[0])
    assert trial.telemetry is not None
    (gpu,) = trial.telemetry.gpus
    assert gpu.first_sm_clock_mhz is not None and gpu.last_sm_clock_mhz is not None
    assert gpu.last_sm_clock_mhz < 0.98 * gpu.first_sm_clock_mhz
    assert "gpu-unsoaked" in {finding.code for finding in ended.profile.findings}
    assert f"{gpu.first_sm_clock_mhz:.0f} at first" in " ".join(ended.process.stdout.split())
