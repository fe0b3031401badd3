"""The simulated GPU for tests: one Python with a CUDA build of torch, a fresh machine for each test."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from simgpu.environment import KNOWN_TORCH, USUAL_TORCH, Environment, find_environment
from simgpu.errors import NoEnvironmentError
from simgpu.machine import SimulatedGpu
from simgpu.simulation import state_folder

ROOT = Path(__file__).resolve().parents[1]
MUST_RUN = os.environ.get("TUNEKIT_NEEDS_SIMGPU") == "1"

ON_THIS_THREAD = """
import torch
torch.autograd.set_multithreading_enabled(False)
"""
"""Begins a script that may end right after `backward()`.

The thread that computes gradients on a GPU drops the caller's context after the caller has returned. Where
Python is already ending, torch may abort there: "terminate called without an active exception", in about 6
of 100 such scripts on a busy machine.
"""

on_both_torches = pytest.mark.parametrize(
    "gpu_torch",
    [pytest.param(version, marks=[pytest.mark.slow] * (version != USUAL_TORCH)) for version in KNOWN_TORCH],
    indirect=True,
)
"""For tests of what differs between the generations of CUDA: by default they run on the usual torch only."""


@pytest.fixture(scope="session")
def gpu_torch(request: pytest.FixtureRequest) -> Environment:
    """The environment with a version of torch, which is made before the tests: never by them."""
    version = getattr(request, "param", USUAL_TORCH)
    try:
        return find_environment(version)
    except NoEnvironmentError as error:
        if MUST_RUN:
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture
def simulated_gpu(
    gpu_torch: Environment, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SimulatedGpu]:
    """Simulated devices under a CUDA build of torch; a test that uses it carries the marker `gpu`."""
    base = tmp_path_factory.getbasetemp()
    session = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    shared = session / f"compiled-{gpu_torch.folder.name}"
    own = tmp_path / "simulated_gpu"
    own.mkdir()
    with state_folder() as state:
        yield SimulatedGpu(gpu_torch, state, own, shared)
