"""A measured trial with everything that its findings follow from."""

import math
from dataclasses import dataclass
from functools import cached_property

from tunekit.recommend.diagnose.loop.attribution import (
    Attribution,
    Bound,
    Closure,
    attribution,
    bound,
    closure,
    floors_of,
    ratio,
)
from tunekit.recommend.diagnose.loop.remedies import set_knob
from tunekit.records.attribution import LoaderWork
from tunekit.records.config import TrainConfig
from tunekit.records.details import Details
from tunekit.records.host import Host
from tunekit.records.measurement import LoopMeasurement, Measurement
from tunekit.records.profile import Profile
from tunekit.records.target import Discovery, Target
from tunekit.records.telemetry import GpuTelemetry, Telemetry
from tunekit.trial.binding_syntax import BoundValue

_FIRST_WORKERS = 4
"""Where nobody timed a batch: it hides loading that takes up to four times as long as the step."""

_ALL_CPUS_SHARE = 0.9
"""CPUs that work this much have nothing to give."""

_WAITS_SHARE = 0.4
"""Of making a batch on a CPU: below it, making is mostly waiting, and more processes can wait at once."""

_MOST_WAITING_WORKERS = 16
"""Each still takes memory and a process."""


@dataclass(frozen=True)
class LoopFacts:
    """What one measured trial is known to be; `host` is one rank's share of the machine."""

    measurement: Measurement
    config: TrainConfig | None
    telemetry: Telemetry | None
    target: Target
    discovery: Discovery | None
    host: Host
    profile: Profile | None

    @property
    def loop(self) -> LoopMeasurement:
        """The loop from inside."""
        return self.measurement.loop

    @property
    def details(self) -> Details:
        """What was looked at afterwards; empty where nothing was."""
        return self.measurement.details or Details()

    @property
    def work(self) -> LoaderWork | None:
        """What making batches costs."""
        return self.loop.loader_work

    @property
    def batch_s(self) -> float | None:
        """Mean seconds that one of the loader's processes takes for a batch; None if unknown."""
        return None if self.work is None else ratio(self.work.time_s, self.work.batches)

    @property
    def cpu_share(self) -> float | None:
        """CPU seconds per second of making batches; None if unknown."""
        return None if self.work is None else ratio(self.work.cpu_s, self.work.time_s)

    @property
    def is_cuda(self) -> bool:
        """Whether the loop trains on a CUDA device."""
        return self.loop.device.type == "cuda"

    @cached_property
    def attribution(self) -> Attribution:
        """Where the step's time goes."""
        return attribution(self.measurement)

    @cached_property
    def closure(self) -> Closure | None:
        """Whether the halves account for the whole."""
        return closure(self.measurement)

    @cached_property
    def bound(self) -> Bound:
        """What holds the loop back."""
        return bound(self.measurement, self.telemetry)

    @property
    def gpus(self) -> tuple[GpuTelemetry, ...]:
        """GPUs that the trial computed on; none where figures are not of the steady window."""
        seen = self.telemetry
        if seen is None or not seen.is_of_steady_window or not self.is_cuda:
            return ()
        return tuple(gpu for gpu in seen.gpus if gpu.is_used)

    @property
    def making_waits(self) -> bool:
        """Whether making a batch is mostly waiting, for storage, a network or a sleep, not computing.

        The loop's own process tells of its one thread only: a data set may decode in others.
        """
        share = self.cpu_share
        cores = self.telemetry.host.cpu_cores if self.telemetry is not None else None
        if self.loop.num_workers == 0 and cores is not None and cores > 1.0:
            return False
        return share is not None and share < _WAITS_SHARE and not self.cpus_are_taken

    @property
    def most_workers(self) -> int:
        """Workers that the CPUs carry beside the training process; more where they mostly wait."""
        return _MOST_WAITING_WORKERS if self.making_waits else max(1, self.host.cpus - 1)

    @property
    def cpus_are_taken(self) -> bool:
        """Whether the training itself uses every CPU that it may, by the parent's look at its processes."""
        if self.telemetry is None or self.telemetry.host.cpu_cores is None:
            return False
        return self.telemetry.host.cpu_cores >= _ALL_CPUS_SHARE * self.host.cpus * self.loop.world_size

    @property
    def more_workers(self) -> int | None:
        """A number of workers that could keep up with the training; None where the CPUs carry no more."""
        present = self.loop.num_workers
        wanted = present + 1 if present else _FIRST_WORKERS
        floors = floors_of(self.measurement)
        step_s = self.loop.step_time_s * (1 - self.attribution.stall_share)
        if floors is not None and floors.compute_step_s is not None:
            step_s = floors.compute_step_s
        needed = ratio(self.batch_s, step_s) if self.batch_s is not None else None
        if needed is not None:
            wanted = max(present + 1, math.ceil(needed))
        wanted = min(wanted, self.most_workers)
        return wanted if wanted > present else None

    def set_knob(self, knob: str, value: BoundValue) -> str:
        """Return words that set a knob where the target keeps it."""
        return set_knob(self.target, knob, value)
