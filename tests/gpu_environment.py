"""The simulated GPU for tests: one Python with a CUDA build of torch, a fresh machine for each test."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from simgpu.environment import KNOWN_TORCH, Environment, find_environment
from simgpu.errors import NoEnvironmentError
from simgpu.simulation import Simulation, state_folder
from simgpu.trace import Work, read_trace

ROOT = Path(__file__).resolve().parents[1]
MUST_RUN = os.environ.get("TUNEKIT_NEEDS_SIMGPU") == "1"
USUAL_TORCH = "2.15.0"

on_both_torches = pytest.mark.parametrize("gpu_torch", list(KNOWN_TORCH), indirect=True)
"""For tests of what differs between the generations of CUDA; others run on the usual one alone."""


@dataclass(frozen=True)
class SimulatedGpu:
    """A machine with simulated devices, for as long as a test runs."""

    made: Environment
    state: Path
    own: Path
    """A folder of the test's: its caches."""
    shared: Path
    """A folder of the session's: what Triton and Inductor compiled."""

    @property
    def python(self) -> Path:
        """The interpreter that has the CUDA torch, and tunekit."""
        return self.made.python

    def environment(self, devices: str = "a10g", **settings: object) -> dict[str, str]:
        """The variables of a process on these devices; `copy_limit="1GiB"` sets SIMGPU_COPY_LIMIT.

        None of the caller's own settings of CUDA or of a simulation are among them.
        """
        inherited = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("SIMGPU", "CUDA_", "PYTORCH_"))
        }
        simulation = Simulation(self.made, devices=devices, state=self.state, trace=self.state / "trace")
        return {
            **inherited,
            **simulation.variables(inherited),
            "XDG_CACHE_HOME": str(self.own / "cache"),
            "TRITON_CACHE_DIR": str(self.shared / "triton"),
            "TORCHINDUCTOR_CACHE_DIR": str(self.shared / "inductor"),
            **{f"SIMGPU_{key.upper()}": str(value) for key, value in settings.items()},
        }

    def run(
        self,
        command: Sequence[str | Path],
        devices: str = "a10g",
        *,
        timeout_s: float = 300,
        more: Mapping[str, str] | None = None,
        **settings: object,
    ) -> "subprocess.CompletedProcess[str]":
        """Run `[script.py, ...]` or `["-c", ...]` with its Python; `more` are variables of any name.

        What the command started in its group ends with it, also when it takes too long.
        """
        environment = {**self.environment(devices, **settings), **(more or {})}
        whole = [self.python, *command]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            whole, env=environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True
        ) as process:
            try:
                output, errors = process.communicate(timeout=timeout_s)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        return subprocess.CompletedProcess(whole, process.returncode, output, errors)

    def trace(self) -> list[Work]:
        """What the devices did until now, by processes that have ended or waited for them."""
        return read_trace(self.state / "trace")

    def set(self, device: int, key: str, value: float, devices: str = "a10g") -> None:
        """Change a control of a device, as `python -m simgpu set` does."""
        words = ["set", str(device), key, str(value)]
        subprocess.run([*self._simgpu, *words], env=self.environment(devices), cwd=ROOT, check=True)

    @contextmanager
    def hold(self, device: int, size: int, devices: str = "a10g", **settings: object) -> Iterator[int]:
        """Another process that holds memory of a device; its pid."""
        words = ["hold", str(device), str(size)]
        environment = self.environment(devices, **settings)
        with subprocess.Popen(
            [*self._simgpu, *words], env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("holding")
            try:
                yield process.pid
            finally:
                process.terminate()

    @property
    def _simgpu(self) -> list[str]:
        return [sys.executable, "-m", "simgpu"]


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
