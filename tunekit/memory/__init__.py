"""Predicted bytes: batches, RAM buffer."""
