"""What training steps allocate and compute, op by op: for device memory and speed that nobody measured."""
