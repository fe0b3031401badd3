"""Predicts throughput, memory and scaling from measurements. Pure."""
