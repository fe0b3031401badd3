"""Every error that simgpu's commands raise on purpose."""


class SimgpuError(Exception):
    """Something can't be done as asked; the message says what, the value and the remedy."""


class NoEnvironmentError(SimgpuError):
    """No environment with that torch has been made."""
