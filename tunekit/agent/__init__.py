"""The few stdlib-only modules that ride inside the training process, and where they live."""
