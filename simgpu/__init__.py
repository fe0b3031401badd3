"""A simulated NVIDIA GPU beneath an unmodified CUDA build of torch: its build, environments and devices."""
