"""Predicted bytes, held against what the host offers."""
