"""What a measured loop tells of itself, as the loop profile and its report ask for it. Pure."""

from dataclasses import dataclass

from tunekit.memory.ram import RamVerdict, buffer_bytes, buffer_verdict, fits_shm, queue_bytes
from tunekit.recommend.diagnose.loop import loop_findings
from tunekit.records.config import Precision, TrainConfig
from tunekit.records.finding import Finding
from tunekit.records.host import Host
from tunekit.records.measurement import Measurement
from tunekit.records.profile import Profile
from tunekit.records.target import Discovery, Target
from tunekit.records.telemetry import Telemetry
from tunekit.records.trial import TrialRecord
from tunekit.units import bytes_text

_TOLERANCE = 0.10
"""How far a step may lie outside max and sum of its halves and still be said to lie within."""
_PREFETCH = (1, 2, 4, 8)


def findings_of(
    record: TrialRecord, target: Target, discovery: Discovery | None, host: Host, profile: Profile
) -> tuple[Finding, ...]:
    """Return what is wrong with the loop of a trial, or with its measurement."""
    if record.measurement is None:
        return ()
    return tuple(loop_findings(record.measurement.loop))


@dataclass(frozen=True)
class Part:
    """One part of a step."""

    name: str
    step_s: float
    """Seconds per batch."""
    share: float
    """Of the whole step, from 0 to 1."""
    source: str


@dataclass(frozen=True)
class Attribution:
    """Where the time of a step goes."""

    parts: tuple[Part, ...]


def attribution(measurement: Measurement) -> Attribution:
    """Return where the steady window's time went, per batch, by the host's clock."""
    loop = measurement.loop
    told = (
        ("data wait", loop.parts.data_wait_s),
        ("compute", loop.parts.compute_s),
        ("optimizer", loop.parts.optimizer_s),
        ("other", loop.parts.other_s),
    )
    return Attribution(
        tuple(
            Part(name, time_s / loop.steady_batches, time_s / loop.steady_time_s, "host clock")
            for name, time_s in told
        )
    )


@dataclass(frozen=True)
class Closure:
    """Whether the two halves of a loop explain its step."""

    step_s: float
    compute_s: float
    loader_s: float
    holds: bool
    meaning: str


def closure(measurement: Measurement) -> Closure | None:
    """Return how the loader alone and the training alone explain the step; None where one is missing."""
    floors = measurement.details.floors if measurement.details else None
    if floors is None or floors.loader_step_s is None or floors.compute_step_s is None:
        return None
    step_s, compute_s, loader_s = measurement.loop.step_time_s, floors.compute_step_s, floors.loader_step_s
    least, most = max(compute_s, loader_s), compute_s + loader_s
    holds = (1 - _TOLERANCE) * least <= step_s <= (1 + _TOLERANCE) * most
    where = "within" if holds else ("above" if step_s > most else "below")
    return Closure(step_s, compute_s, loader_s, holds, f"{where} max and sum")


@dataclass(frozen=True)
class GridCell:
    """One choice of workers and prefetch."""

    num_workers: int
    prefetch_factor: int
    buffer_bytes: int
    ram_bytes: int
    verdict: RamVerdict
    why: str
    is_present: bool


def ram_grid(
    batch_bytes: float,
    main_base_bytes: int,
    worker_base_bytes: int,
    host: Host,
    present: tuple[int, int | None] | None = None,
) -> tuple[GridCell, ...]:
    """Return what each choice of workers and prefetch would take of this host's RAM, predicted."""
    workers = {2**power for power in range(max(1, host.cpus).bit_length())} | {host.cpus}
    depths = set(_PREFETCH)
    if present is not None and present[0] and present[1]:
        workers, depths = workers | {present[0]}, depths | {present[1]}
    return tuple(
        _cell(count, depth, batch_bytes, main_base_bytes + count * worker_base_bytes, host, present)
        for count in sorted(workers)
        for depth in sorted(depths)
    )


def _cell(
    count: int,
    depth: int,
    batch_bytes: float,
    base_bytes: int,
    host: Host,
    present: tuple[int, int | None] | None,
) -> GridCell:
    loader = TrainConfig(
        batch_size=1,
        num_workers=count,
        prefetch_factor=depth,
        pin_memory=False,
        persistent_workers=False,
        compile=False,
        precision=Precision.FP32,
        channels_last=False,
    )
    buffered = buffer_bytes(loader, batch_bytes)
    fits = fits_shm(queue_bytes(loader, batch_bytes), host)
    verdict = buffer_verdict(buffered, base_bytes, host.ram_limit_bytes) if fits else RamVerdict.OOM
    limit = f"{bytes_text(host.ram_limit_bytes)} of RAM" if fits else "what is free of /dev/shm"
    return GridCell(
        num_workers=count,
        prefetch_factor=depth,
        buffer_bytes=buffered,
        ram_bytes=base_bytes + buffered,
        verdict=verdict,
        why=f"held against {limit}",
        is_present=present == (count, depth),
    )


@dataclass(frozen=True)
class VramBudget:
    """What the device's memory is taken by; None is unknown."""

    parameters_bytes: int | None
    buffers_bytes: int | None
    gradients_bytes: int | None
    optimizer_bytes: int | None
    batch_bytes: int | None
    activations_bytes: int | None
    fragmentation_bytes: int | None
    context_bytes: int | None
    peak_allocated_bytes: int
    reserved_bytes: int


def vram_budget(measurement: Measurement, telemetry: Telemetry | None) -> VramBudget | None:
    """Return what takes the device's memory; None on a CPU, and where its peaks were not looked at."""
    return None
