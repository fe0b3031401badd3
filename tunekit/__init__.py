"""tunekit: measure, tune and price the training command you already have."""

__version__ = "0.1.0"
