"""From ticks of the loop to the figures of a measurement."""
