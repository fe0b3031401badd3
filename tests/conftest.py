"""Every test's child processes compute on one thread: spinning threads on a busy machine prove nothing."""

import os

import pytest
from gpu_environment import gpu_torch, simulated_gpu
from hypothesis import HealthCheck, settings

__all__ = ["gpu_torch", "simulated_gpu"]

os.environ["OMP_NUM_THREADS"] = "1"

# A busy machine is no counterexample.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs on simulated devices, before `-m` selects."""
    for item in items:
        if isinstance(item, pytest.Function) and "gpu_torch" in item.fixturenames:
            item.add_marker(pytest.mark.gpu)
