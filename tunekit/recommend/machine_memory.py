"""RAM and GPU memory that a training needs on another machine. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from tunekit.predict.fits import Fits
from tunekit.predict.ram import BaseRam, predicted_base_ram, ram_grid
from tunekit.recommend.memory import measured_sample
from tunekit.recommend.recommendation import answer_of
from tunekit.records.config import Precision, TrainConfig
from tunekit.records.machine_memory import GpuFit, LoaderMemory, MachineMemory, MemoryPart, OtherMachine
from tunekit.records.prediction import OutsideTorch, PredictedFit, Purpose
from tunekit.records.profile import Profile
from tunekit.records.run import FitsRun, LoopProfile, Run

_HALVES = (Precision.BF16, Precision.FP16)
_GPU_PARTS = {
    "model": (Purpose.PARAMETERS, Purpose.BUFFERS),
    "gradients": (Purpose.GRADIENTS,),
    "optimizer": (Purpose.OPTIMIZER,),
    "batch": (Purpose.BATCH,),
    "activations": (Purpose.ACTIVATIONS,),
    "workspaces": (Purpose.WORKSPACE,),
    "held by the script": (Purpose.HELD,),
}


class GpuNeed(NamedTuple):
    """GPU memory that a training needs."""

    fit: PredictedFit
    outside: OutsideTorch
    batch_size: int


class HostNeed(NamedTuple):
    """RAM that a training needs."""

    source: str
    batch_bytes: float
    batch_shared_bytes: float | None = None
    """The same in /dev/shm, if that differs."""
    base: BaseRam | None = None
    """RAM of its processes without the buffer; None if not measured."""
    others_bytes: int | None = None
    """RAM that other programs used on the run's machine."""
    loader: tuple[int, int | None] | None = None
    """Workers and prefetch factor of the run."""


# --- from a run --------------------------------------------------------------------------------


def config_of(run: Run | LoopProfile | FitsRun) -> TrainConfig | None:
    """Return the config that a run recommends, else the one it measured."""
    if isinstance(run, FitsRun):
        return run.script_config
    if isinstance(run, LoopProfile):
        return run.profiled_trial.config if run.profiled_trial else None
    best = answer_of(run.recommendations)
    return best.config if best else run.baseline_config


def host_need(
    run: Run | LoopProfile | FitsRun, config: TrainConfig | None, batch_size: int | None, source: str
) -> HostNeed | None:
    """Return the host memory that a run measured; None if it measured no batch."""
    measured = [(one.config, one.measurement) for one in run.trials if one.measurement is not None]
    if config is None or not measured:
        return None
    own = [one for known, one in measured if known == config] or [one for _, one in measured]
    sample, meant = measured_sample(config, own), config.changed(batch_size=batch_size or config.batch_size)
    if not sample.data_bytes:
        return None
    available = run.host.ram_available_bytes
    return HostNeed(
        source,
        meant.batch_bytes(sample.data_bytes),
        None if sample.shared_bytes is None else meant.batch_bytes(sample.shared_bytes),
        predicted_base_ram(own),
        None if available is None else max(0, run.host.ram_limit_bytes - available),
        (config.num_workers, config.prefetch_factor),
    )


def traced_need(
    fits: Fits, profile: Profile, precision: Precision, batch_size: int, outside: OutsideTorch
) -> GpuNeed | None:
    """Return the GPU memory of a batch by the traced steps; None in a precision that wasn't traced."""
    named = _in_precision(fits.for_profiles([profile], lambda _: outside).fits, precision)
    fit = fits.at(profile, named.precision, batch_size, outside) if named else None
    return None if fit is None else GpuNeed(fit, outside, batch_size)


def saved_need(
    run: Run | LoopProfile | FitsRun,
    profile: Profile,
    precision: Precision,
    batch_size: int,
    outside: OutsideTorch,
) -> GpuNeed | None:
    """Return the same from the run's saved prediction, for a run without its trials' files."""
    if isinstance(run, LoopProfile) or run.prediction is None:
        return None
    fits = [one for one in run.prediction.fits if one.profile_id == profile.id]
    fit = _in_precision(fits, precision)
    return None if fit is None else GpuNeed(fit, outside, batch_size)


def _in_precision(fits: Sequence[PredictedFit], precision: Precision) -> PredictedFit | None:
    """Return the fit in a precision, else in another one with as many bits."""
    alike = [one for one in fits if (one.precision in _HALVES) == (precision in _HALVES)]
    return next((one for one in alike if one.precision is precision), alike[0] if alike else None)


# --- on the machine ----------------------------------------------------------------------------


def machine_memory(
    machine: OtherMachine,
    host: HostNeed,
    gpu: GpuNeed | None = None,
    asked: tuple[int | None, int | None] = (None, None),
    notes: Sequence[str] = (),
) -> MachineMemory:
    """Return the memory that a training needs on a machine.

    Args:
        machine: the machine as the user describes it.
        host: RAM that the training needs.
        gpu: GPU memory that it needs; None if unknown.
        asked: workers and prefetch factor, each None for the run's own or, failing that, the best.
        notes: further limitations of the verdicts.
    """
    base, (workers, prefetch) = host.base or BaseRam(), asked
    own_workers, own_prefetch = host.loader or (machine.cpus, None)
    wanted = (
        (workers or own_workers or machine.cpus, prefetch or own_prefetch or 2)
        if workers or prefetch
        else None
    )
    grid = ram_grid(
        host.batch_bytes,
        base.main_bytes,
        base.worker_bytes,
        machine,
        host.loader,
        host.batch_shared_bytes,
        (wanted,) if wanted else (),
    )
    loaders = tuple(LoaderMemory(**vars(one)) for one in grid)
    loader = _best(loaders, machine.cpus)
    if wanted:
        loader = next(one for one in loaders if (one.num_workers, one.prefetch_factor) == wanted)
    return MachineMemory(
        machine=machine,
        source=host.source,
        batch_bytes=host.batch_bytes,
        loader=loader,
        loaders=loaders,
        gpu=None if gpu is None else _gpu_fit(gpu),
        parts=(*_ram_parts(machine, host, loader), *(_gpu_parts(gpu) if gpu else ())),
        notes=(*_left_out(machine, host), *notes),
    )


def _best(loaders: Sequence[LoaderMemory], cpus: int) -> LoaderMemory:
    """Return the run's own setting unless it is OOM, else the Safe or Risky one with the most workers."""
    present = next((one for one in loaders if one.is_present), loaders[0])
    if present.is_present and present.verdict != "OOM":
        return present
    for verdict in ("Safe", "Risky"):
        alike = [one for one in loaders if one.verdict == verdict and one.num_workers <= cpus]
        if alike:
            return max(alike, key=lambda one: (one.num_workers, one.prefetch_factor or 0))
    return present


def _ram_parts(machine: OtherMachine, host: HostNeed, loader: LoaderMemory) -> list[MemoryPart]:
    base = host.base
    workers_bytes = loader.num_workers * base.worker_bytes if base and base.worker_bytes else None
    parts = [
        _part("RAM", "system, other programs", host.others_bytes),
        _part("RAM", "training process", base.main_bytes if base else None),
        _part("RAM", "loader workers", workers_bytes, "predicted"),
        _part("RAM", "loader buffer", loader.buffer_bytes, "predicted"),
    ]
    return [*parts, _rest("RAM", "left for page cache and spikes", machine.ram_limit_bytes, parts)]


def _gpu_parts(need: GpuNeed) -> list[MemoryPart]:
    peak, outside = need.fit.peak, need.outside
    if peak is None:
        return []
    sizes = {
        name: sum(peak.by_purpose.get(one, 0) for one in purposes) for name, purposes in _GPU_PARTS.items()
    }
    sizes["allocator cache and rounding"] = peak.reserved_bytes - sum(peak.by_purpose.values())
    parts = [_part("GPU", name, size, "predicted") for name, size in sizes.items() if size]
    is_measured = outside.context.source.startswith("measured")
    basis = "measured" if is_measured else "assumed"
    parts.append(_part("GPU", "CUDA context (at most)", outside.context.high, basis))
    return [*parts, _rest("GPU", "free", need.fit.capacity_bytes, parts)]


def _part(memory: str, name: str, size_bytes: int | None, basis: str = "measured") -> MemoryPart:
    known = "unknown" if size_bytes is None else basis
    return MemoryPart(memory=memory, name=name, size_bytes=size_bytes, basis=known)


def _rest(memory: str, name: str, total_bytes: int, parts: Sequence[MemoryPart]) -> MemoryPart:
    return _part(memory, name, total_bytes - sum(one.size_bytes or 0 for one in parts), "the rest")


def _gpu_fit(need: GpuNeed) -> GpuFit | None:
    fit, peak = need.fit, need.fit.peak
    if peak is None:
        return None
    tight = "tight" if need.batch_size <= fit.largest.high else "no"
    return GpuFit(
        precision=fit.precision,
        batch_size=need.batch_size,
        fits="yes" if need.batch_size <= fit.largest.low else tight,
        largest_batch=fit.largest.low,
        largest_checkpointed=fit.checkpointed.low if fit.checkpointed else None,
        peak_batch_size=peak.batch_size,
        reserved_bytes=peak.reserved_bytes,
        capacity_bytes=fit.capacity_bytes,
    )


def _left_out(machine: OtherMachine, host: HostNeed) -> list[str]:
    """Return notes on what the verdicts leave out."""
    lines = []
    if host.base is None:
        lines.append("the verdicts leave out the processes' own memory, which was not measured")
    elif not host.base.worker_bytes:
        lines.append("the verdicts leave out each worker's own memory, which was not measured")
    if machine.shm_bytes is None:
        lines.append("the verdicts leave out /dev/shm, 64 MiB in a container by default; give --shm")
    return lines
