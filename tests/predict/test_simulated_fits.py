"""The batch at which a simulated GPU's memory ends, beside what `tunekit fits` says of it."""

import json
import re
from pathlib import Path

import pytest

from simgpu.machine import SimulatedGpu
from tunekit.units import GIB

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "peaks_script.py"
CAPACITY_BYTES = 3 * GIB
DEVICE = f"a10g:memory_bytes={CAPACITY_BYTES}:driver_bytes={CAPACITY_BYTES}:fp32_flops_per_s=1e15"
TRAINING = ("unet", "--small", "--optimizer", "adamw")


def runs(gpu: SimulatedGpu, batch: int) -> bool:
    """Return whether a plain run of a few steps lives through a batch size."""
    done = gpu.run([SCRIPT, *TRAINING, "--batch", str(batch), "--steps", "6"], DEVICE)
    assert done.returncode == 0 or "OutOfMemoryError" in done.stderr, done.stderr
    return done.returncode == 0


def profiles_in(folder: Path) -> Path:
    """Write the device's profile: an A10G's with so much memory."""
    folder.mkdir()
    text = (ROOT / "profiles" / "a10g.yaml").read_text()
    text = re.sub(r"^(torch_)?memory_bytes: \d+", rf"\1memory_bytes: {CAPACITY_BYTES}", text, flags=re.M)
    (folder / "a10g.yaml").write_text(text)
    return folder


@pytest.mark.slow
def test_memory_ends_where_fits_says_that_it_does(simulated_gpu: SimulatedGpu, tmp_path: Path) -> None:
    (tmp_path / "calibrations").mkdir()
    own = {
        "TUNEKIT_CALIBRATIONS": str(tmp_path / "calibrations"),
        "TUNEKIT_PROFILES": str(profiles_in(tmp_path / "profiles")),
    }
    calibrated = simulated_gpu.run(["-m", "tunekit", "doctor", "--calibrate"], DEVICE, more=own)
    assert calibrated.returncode == 0, calibrated.stderr
    command = ["-m", "tunekit", "fits", "--gpu", "a10g", "--out", tmp_path / "looked", "--"]
    script = [simulated_gpu.python, SCRIPT, *TRAINING, "--batch", "4"]
    done = simulated_gpu.run([*command, *script], DEVICE, more=own)
    assert done.returncode == 0, done.stderr
    fits = json.loads((tmp_path / "looked" / "fits.json").read_text())["prediction"]["fits"]
    largest = next(fit["largest"] for fit in fits if fit["precision"] in ("fp32", "tf32"))
    assert largest["high"] <= 1.3 * largest["low"], "a doubt that says something"
    assert runs(simulated_gpu, largest["low"])
    assert not runs(simulated_gpu, largest["high"] + 1)
