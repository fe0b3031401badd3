"""DataLoaders: how the script builds them, what their batches hold, what their workers do."""
