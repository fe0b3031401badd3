"""The machine around the GPUs: CPUs, memory, mounts, and the Python that trains."""
