"""Which storage a data set is on, and how fast it can be read."""
