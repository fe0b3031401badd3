"""What is trained: the modules, the optimizers, and the knobs that are applied to them."""
