"""The fixtures of simulated devices, which tunekit's tests share."""

from gpu_environment import gpu_torch, simulated_gpu

__all__ = ["gpu_torch", "simulated_gpu"]
