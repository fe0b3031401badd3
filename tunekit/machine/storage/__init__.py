"""What lies under a data set, and how fast it is read."""
