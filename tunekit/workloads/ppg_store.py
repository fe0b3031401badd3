"""Windows of a pulse sensor for ppg.py: one second at 100 Hz, in zarr chunks of 512 windows."""

import numpy as np
import zarr

SEED = 20_240_301
WINDOW_SAMPLES = 100


class Contents:
    """`samples` windows of synthetic photoplethysmograms (PPG), the heart rate and rhythm of each."""

    workload, part_rows = "ppg", 8_192
    options = {"samples": "windows in all; a tenth of them validate"}
    sizes = {"cuda": {"samples": 2_000_000}, "cpu": {"samples": 50_000}}
    row_bytes = 2 * WINDOW_SAMPLES + 5

    def __init__(self, samples: int) -> None:
        self.rows, self.samples, self.name = samples, samples, f"{samples}-v1"

    def create(self, group: zarr.Group) -> None:
        """Create `windows` (int16, rows x 100), `heart_rate` (float32, per minute), `irregular` (uint8)."""
        shape, part = (self.rows, WINDOW_SAMPLES), (self.part_rows,)
        group.create_array("windows", shape=shape, chunks=(512, WINDOW_SAMPLES), dtype="int16")
        group.create_array("heart_rate", shape=(self.rows,), chunks=part, dtype="float32")
        group.create_array("irregular", shape=(self.rows,), chunks=part, dtype="uint8")

    def write(self, group: zarr.Group, start: int, stop: int) -> None:
        """Make windows: a systolic and a dicrotic wave for each beat, a wandering baseline, noise."""
        random, count = np.random.default_rng((SEED, start)), stop - start
        heart_rate, irregular = random.uniform(45, 180, count), random.random(count) < 0.3
        seconds, phase, wander, at = np.arange(WINDOW_SAMPLES) / 100, *random.random((3, count, 1))
        jitter = irregular[:, None] * 0.08 * np.sin(2 * np.pi * (2.7 * seconds + at))
        beat = (heart_rate[:, None] / 60 * seconds + phase + jitter) % 1
        wave = np.exp(-(((beat - 0.2) / 0.1) ** 2)) + 0.4 * np.exp(-(((beat - 0.55) / 0.12) ** 2))
        wave += 0.5 * np.sin(2 * np.pi * (0.3 * seconds + wander)) + random.normal(0, 0.05, wave.shape)
        group["windows"][start:stop] = (wave * 8_000).astype(np.int16)
        group["heart_rate"][start:stop] = heart_rate.astype(np.float32)
        group["irregular"][start:stop] = irregular.astype(np.uint8)
