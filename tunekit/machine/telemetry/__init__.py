"""Measures, from the parent process, what the machine does while a trial runs."""
