"""Predicts the throughput of every config in a space from the trials so far. Pure."""
