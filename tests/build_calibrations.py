"""Calibrations as a GPU could have given them."""

from typing import Any

from tunekit.records.prediction import Calibration, ConvolutionSeen
from tunekit.units import MIB


def convolution(workspace_mib: float = 64, **overrides: Any) -> ConvolutionSeen:
    values: dict[str, Any] = {
        "shape": "32x64x56x56, kernel 3x3, to 64",
        "dtype": "float32",
        "benchmark": False,
        "forward_bytes": 0,
        "backward_bytes": int(workspace_mib * MIB),
    }
    return ConvolutionSeen(**(values | overrides))


def calibration(**overrides: Any) -> Calibration:
    """Of an H200; its context has 500 MiB."""
    values: dict[str, Any] = {
        "tunekit_version": "0.1.0",
        "created_at": "2026-05-01T10:00:00+00:00",
        "device_name": "NVIDIA H200",
        "compute_capability": "9.0",
        "driver": "550.54.15",
        "torch_version": "2.13.0+cu130",
        "cuda_version": "13.0",
        "cudnn_version": "91002",
        "context_bytes": 500 * MIB,
        "context_seen_by": "process",
        "blas_forward_bytes": 32 * MIB,
        "blas_backward_bytes": 32 * MIB,
        "blas_is_kept": True,
        "convolutions": (
            convolution(20),
            convolution(100),
            convolution(20, benchmark=True),
            convolution(400, benchmark=True),
        ),
    }
    return Calibration(**(values | overrides))
