"""GPUs: what the driver and torch say of them, which are visible, and what their memory holds."""
