"""Every test's child processes compute on one thread: spinning threads on a busy machine prove nothing."""

import os

import pytest
from gpu_environment import gpu_torch, simulated_gpu

__all__ = ["gpu_torch", "simulated_gpu"]

os.environ["OMP_NUM_THREADS"] = "1"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs on simulated devices, before `-m` selects."""
    for item in items:
        if isinstance(item, pytest.Function) and "gpu_torch" in item.fixturenames:
            item.add_marker(pytest.mark.gpu)
