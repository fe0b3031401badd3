"""Predicts device memory without a device, by replaying traced steps in a model of torch's CUDA allocator.

allocator   torch's caching allocator, replayed (pure)
expandable  the same with expandable segments (pure)
trace       allocations and ops of any batch size, from two traced sizes (pure)
predict     peaks, their composition, and the largest batch that fits (pure)
"""
