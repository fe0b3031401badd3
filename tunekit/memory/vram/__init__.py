"""Device memory before there is a device: what a traced step would take from torch's CUDA allocator."""
