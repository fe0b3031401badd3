"""Spectrograms for spectrograms.py: chirps in noise, as short-time Fourier transforms of three lengths."""

import numpy as np
import zarr

SEED = 20_240_302
SIZE, CLASSES = 224, 20
RATE_HZ, SECONDS = 16_000, 2
FFT_SAMPLES = (448, 896, 1_792)
"""Lengths of the Fourier transforms, one channel each, from fine in time to fine in frequency."""


class Contents:
    """`samples` spectrograms of 224 frequencies x 224 times x 3 channels in float16, and their classes."""

    workload, part_rows = "spectrograms", 8
    options = {"samples": "spectrograms in all; a tenth of them validate"}
    sizes = {"cuda": {"samples": 6_400}, "cpu": {"samples": 320}}
    row_bytes = 2 * SIZE * SIZE * 3

    def __init__(self, samples: int) -> None:
        self.rows, self.samples, self.name = samples, samples, f"{samples}-v1"
        self.labels = np.random.default_rng(SEED).integers(CLASSES, size=samples)

    def create(self, group: zarr.Group) -> None:
        """Create `spectrograms` (float16, rows x 224 x 224 x 3, in dB) and `labels` (int64, rows)."""
        shape = (SIZE, SIZE, 3)
        chunks = (self.part_rows, *shape)
        group.create_array("spectrograms", shape=(self.rows, *shape), chunks=chunks, dtype="float16")
        group.create_array("labels", data=self.labels)

    def write(self, group: zarr.Group, start: int, stop: int) -> None:
        """Make spectrograms."""
        random = np.random.default_rng((SEED, start))
        group["spectrograms"][start:stop] = np.stack(
            [spectrogram(chirp(label, random)) for label in self.labels[start:stop]]
        )


def chirp(label: int, random: np.random.Generator) -> np.ndarray:
    """Return two seconds of a tone with a harmonic, in noise; the label sets how fast its frequency rises."""
    seconds = np.arange(RATE_HZ * SECONDS) / RATE_HZ
    start_hz, rise_hz = random.uniform(200, 1_500), 100 * (label - CLASSES / 2)
    phase = 2 * np.pi * (start_hz + rise_hz / 2 * seconds) * seconds
    return np.sin(phase) + 0.3 * np.sin(2 * phase) + random.normal(0, 0.3, len(seconds))


def spectrogram(sound: np.ndarray) -> np.ndarray:
    """Return decibels, float16 (224, 224, 3), of a sound: the lowest frequencies of each transform."""
    channels = []
    for length in FFT_SAMPLES:
        at = np.linspace(0, len(sound) - length, SIZE).astype(int)
        frames = np.lib.stride_tricks.sliding_window_view(sound, length)[at] * np.hanning(length)
        power = np.abs(np.fft.rfft(frames)[:, :SIZE].T) ** 2 / length
        channels.append(10 * np.log10(power + 1e-6))
    return np.stack(channels, axis=-1).astype(np.float16)
