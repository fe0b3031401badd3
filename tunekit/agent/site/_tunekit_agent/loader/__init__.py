"""The script's DataLoaders: their construction, their batches and their workers."""
