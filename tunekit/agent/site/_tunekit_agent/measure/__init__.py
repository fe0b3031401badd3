"""Turns the loop's ticks into the figures of a measurement."""
