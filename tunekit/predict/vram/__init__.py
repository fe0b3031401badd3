"""Device memory before there is a device: what a traced step would take from torch's CUDA allocator.

allocator   torch's caching allocator, replayed (pure)
expandable  the same with expandable segments (pure)
trace       allocations and ops of any batch size, by two that were traced (pure)
predict     peaks, what they are spent on, the largest batch that fits (pure)
"""
