"""The batch at which a simulated GPU's memory ends, beside what `tunekit fits` says of it."""

import json
from pathlib import Path

import pytest
from gpu_environment import SimulatedGpu

pytestmark = [pytest.mark.gpu, pytest.mark.real]

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "peaks_script.py"
DEVICE = "a10g:memory_bytes=3GiB:driver_bytes=3GiB:fp32_flops_per_s=1e15"
TRAINING = ("unet", "--small", "--optimizer", "adamw")


def runs(gpu: SimulatedGpu, batch: int) -> bool:
    """Return whether a plain run of a few steps lives through a batch size."""
    done = gpu.run([SCRIPT, *TRAINING, "--batch", str(batch), "--steps", "6"], DEVICE)
    assert done.returncode == 0 or "OutOfMemoryError" in done.stderr, done.stderr
    return done.returncode == 0


def test_memory_ends_where_fits_says_that_it_does(simulated_gpu: SimulatedGpu, tmp_path: Path) -> None:
    own = {"TUNEKIT_CALIBRATIONS": str(tmp_path)}
    calibrated = simulated_gpu.run(["-m", "tunekit", "doctor", "--calibrate"], DEVICE, more=own)
    assert calibrated.returncode == 0, calibrated.stderr
    command = ["-m", "tunekit", "fits", "--gpu", "auto", "--out", tmp_path / "looked", "--"]
    script = [simulated_gpu.python, SCRIPT, *TRAINING, "--batch", "4"]
    done = simulated_gpu.run([*command, *script], DEVICE, more=own)
    assert done.returncode == 0, done.stderr
    fits = json.loads((tmp_path / "looked" / "fits.json").read_text())["prediction"]["fits"]
    largest = next(fit["largest"] for fit in fits if fit["precision"] in ("fp32", "tf32"))
    assert largest["high"] <= 1.3 * largest["low"], "a doubt that says something"
    assert runs(simulated_gpu, largest["low"])
    assert not runs(simulated_gpu, largest["high"] + 1)
