"""Built-in training scripts, written as a user would write them and run as a command."""

from pathlib import Path

IMAGES_SCRIPT = Path(__file__).with_name("images.py")
"""The built-in workload `images`: image classification from a zarr store."""
