"""Training steps on tensors without data: they allocate as on a GPU, and nothing is computed.

Imports torch, so only a process of its own imports this.
"""
