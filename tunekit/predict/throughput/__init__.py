"""Throughput of every config of a space, predicted from the trials that were run. Pure."""
