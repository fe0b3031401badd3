"""A simulated machine for a program's tests: run commands on it, change it, read what its devices did."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from simgpu.environment import Environment
from simgpu.simulation import Simulation
from simgpu.trace import Work, read_trace

_HOME = Path(__file__).resolve().parents[1]
"""Where `python -m simgpu` is found."""


@dataclass(frozen=True)
class SimulatedGpu:
    """A machine with simulated devices, for as long as its state folder is there."""

    made: Environment
    state: Path
    own: Path
    """A folder for the caches of one test."""
    shared: Path
    """A folder that outlives it: what Triton and Inductor compiled."""

    @property
    def python(self) -> Path:
        """The interpreter that has the CUDA torch."""
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
        subprocess.run([*self._simgpu, *words], env=self.environment(devices), cwd=_HOME, check=True)

    @contextmanager
    def hold(self, device: int, size: int, devices: str = "a10g", **settings: object) -> Iterator[int]:
        """Another process that holds memory of a device; its pid."""
        words = ["hold", str(device), str(size)]
        environment = self.environment(devices, **settings)
        with subprocess.Popen(
            [*self._simgpu, *words], env=environment, cwd=_HOME, stdout=subprocess.PIPE, text=True
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
