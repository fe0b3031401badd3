"""What a training takes of the RAM and device memory of a machine that is not here. Pure."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from tunekit.errors import UsageError
from tunekit.predict.fits import Fits
from tunekit.predict.ram import OOM_SHARE, BaseRam, GridCell, RamVerdict, predicted_base_ram, ram_grid
from tunekit.recommend.memory import measured_sample
from tunekit.recommend.recommendation import answer_of
from tunekit.records.config import Precision, TrainConfig
from tunekit.records.host import Host
from tunekit.records.machine_budget import (
    Accumulation,
    BudgetRow,
    BufferCell,
    CheckpointedVram,
    FigureBasis,
    MachineBudget,
    PlannedMachine,
    VramBudget,
)
from tunekit.records.prediction import (
    CheckpointingPredicted,
    OutsideTorch,
    PredictedFit,
    PredictionPath,
    Purpose,
)
from tunekit.records.profile import Profile, TakenName
from tunekit.records.recommendation import Tier
from tunekit.records.run import FitsRun, Run
from tunekit.units import count_text

_HALVES = (Precision.BF16, Precision.FP16)
_SYSTEM = "system, other programs"
_NO_RUN = "give a RUN that a search wrote"
_NO_TRACE = "give the RUN folder of tunekit fits or tunekit search --gpu, with its trials"


class DeviceMemory(NamedTuple):
    """What a GPU's memory is predicted to hold."""

    fit: PredictedFit
    outside: OutsideTorch
    path: PredictionPath
    checkpointing: CheckpointingPredicted | None = None
    checkpointed: PredictedFit | None = None
    """At the same batch size with gradient checkpointing; None where that is not known."""


class Training(NamedTuple):
    """What is known of a training's memory, for each of its processes."""

    source: str
    """Where the figures come from."""
    batch_size: int | None = None
    """Of one GPU."""
    batch_bytes: float | None = None
    """Of a batch while it waits."""
    batch_shared_bytes: float | None = None
    """The same in /dev/shm."""
    base: BaseRam | None = None
    """Of its processes, without the buffer."""
    measured_on: str = ""
    """The device that the base was measured on."""
    taken_bytes: int | None = None
    """What the system and other programs had taken of that machine's RAM."""
    loader: tuple[int, int | None] | None = None
    """Workers and prefetch factor that it has."""
    device: DeviceMemory | None = None
    """At its batch size; None where that is not known."""


# --- what a run knows --------------------------------------------------------------------------


def planned_config(run: Run | FitsRun, tier: Tier | None, name: str) -> TrainConfig | None:
    """Return the config that a run says most of: a tier's, Balanced by default, else the script's own.

    Raises:
        UsageError: the run has no such tier.
    """
    recommendations = run.recommendations if isinstance(run, Run) else ()
    if tier is not None:
        by_tier = {one.tier: one for one in recommendations}
        if tier not in by_tier:
            known = ", ".join(by_tier) or "none"
            raise UsageError(f"{name} has no {tier} tier (it has: {known}); choose another --tier")
        return by_tier[tier].config
    best = answer_of(recommendations)
    if best is not None:
        return best.config
    return run.baseline_config if isinstance(run, Run) else run.script_config


def training_of_run(
    run: Run | FitsRun, config: TrainConfig | None, meant: TrainConfig | None, name: str
) -> Training:
    """Return what a run measured of a training's host memory.

    Args:
        run: the saved run.
        config: of the run, whose trials count; None where the script never built a loader.
        meant: the same with the batch size that is meant.
        name: how to call the run.
    """
    measured = [one.measurement for one in run.trials if one.measurement is not None]
    if config is None or meant is None:
        return Training(name, measured_on=run.measured_on, taken_bytes=_taken(run.host))
    own = [
        one.measurement for one in run.trials if one.measurement is not None and one.config == config
    ] or measured
    sample = measured_sample(config, own) if own else None
    batch_bytes = meant.batch_bytes(sample.data_bytes) if sample and sample.data_bytes else None
    shared = sample.shared_bytes if sample else None
    return Training(
        source=name,
        batch_size=meant.batch_size,
        batch_bytes=batch_bytes,
        batch_shared_bytes=None if shared is None or batch_bytes is None else meant.batch_bytes(shared),
        base=predicted_base_ram(own) if own else None,
        measured_on=run.measured_on,
        taken_bytes=_taken(run.host),
        loader=(config.num_workers, config.prefetch_factor),
    )


def device_memory(
    fits: Fits, profile: Profile, precision: Precision, batch_size: int, outside: OutsideTorch
) -> DeviceMemory | None:
    """Return what a GPU's memory holds at a batch size, by steps that were traced; None where none were."""
    prediction = fits.for_profiles([profile], lambda _: outside)
    named = _in_precision(prediction.fits, precision)
    fit = fits.at(profile, named.precision, batch_size, outside) if named else None
    if named is None or fit is None:
        return None
    checkpointed = fits.at(profile, named.precision, batch_size, outside, is_checkpointed=True)
    return DeviceMemory(fit, outside, prediction.path, prediction.checkpointing, checkpointed)


def saved_device_memory(
    run: Run | FitsRun, profile: Profile, precision: Precision, outside: OutsideTorch
) -> DeviceMemory | None:
    """Return what a run holds of a GPU: at its largest batch, for the trials' files are gone.

    Args:
        run: the saved run.
        profile: of the GPU.
        precision: that is trained in.
        outside: what the GPU's memory holds beside torch's tensors, where the run does not say.
    """
    if run.prediction is None:
        return None
    facts = run.gpus if isinstance(run, FitsRun) else ()
    known = next((one.outside for one in facts if one.profile_id == profile.id), outside)
    fit = _in_precision([one for one in run.prediction.fits if one.profile_id == profile.id], precision)
    if fit is None or fit.peak is None:
        return None
    return DeviceMemory(fit, known, run.prediction.path, run.prediction.checkpointing)


def _in_precision(fits: Sequence[PredictedFit], precision: Precision) -> PredictedFit | None:
    """Return the fit in a precision, else in the other one of 16, or of 32, bit."""
    alike = [one for one in fits if (one.precision in _HALVES) == (precision in _HALVES)]
    return next((one for one in alike if one.precision is precision), alike[0] if alike else None)


def _taken(host: Host) -> int | None:
    available = host.ram_available_bytes
    return None if available is None else max(0, host.ram_limit_bytes - available)


# --- the global batch --------------------------------------------------------------------------


def accumulation(
    global_batch: int, gpus: int, most: int, limit: str, asked: str = "--global-batch"
) -> Accumulation:
    """Return how a global batch is made of as few passes of each GPU as there can be, exactly.

    Args:
        global_batch: samples of an optimizer step over all GPUs.
        gpus: that share it.
        most: samples that a pass may have on one GPU.
        limit: what that follows from, in words.
        asked: the flag, for messages.

    Raises:
        UsageError: it can't be split over the GPUs, or not one sample fits.
    """
    if global_batch % gpus:
        below = global_batch - global_batch % gpus
        near = " or ".join(str(one) for one in (below, below + gpus) if one)
        raise UsageError(f"{asked} {global_batch} can't be split over {gpus} GPUs; give {near}")
    if most < 1:
        raise UsageError(f"{asked} {global_batch}: not one sample fits ({limit}); give another --gpu")
    per_gpu = global_batch // gpus
    batch_size = next(size for size in range(min(most, per_gpu), 0, -1) if per_gpu % size == 0)
    return Accumulation(
        global_batch=global_batch, batch_size=batch_size, steps=per_gpu // batch_size, gpus=gpus, limit=limit
    )


# --- the budget --------------------------------------------------------------------------------


def machine_budget(
    machine: PlannedMachine,
    training: Training,
    accumulated: Accumulation | None = None,
    taken_names: tuple[TakenName, ...] = (),
) -> MachineBudget:
    """Return what a training takes of a machine's memory.

    Args:
        machine: that is not here.
        training: what is known of it, at the batch size that is meant.
        accumulated: how its global batch is made, where one was asked for.
        taken_names: GPUs whose profile has another id than was typed.
    """
    base = training.base or BaseRam()
    cells: tuple[GridCell, ...] = ()
    if training.batch_bytes is not None:
        shared = training.batch_shared_bytes
        cells = ram_grid(
            machine.gpus * training.batch_bytes,
            machine.gpus * base.main_bytes,
            machine.gpus * base.worker_bytes,
            machine.cpus_of_each,
            training.loader,
            None if shared is None else machine.gpus * shared,
        )
    chosen = _chosen(cells, machine.cpus_of_each.cpus)
    return MachineBudget(
        machine=machine,
        source=training.source,
        batch_size=training.batch_size,
        batch_bytes=training.batch_bytes,
        cells=tuple(_cell(one) for one in cells),
        chosen=None if chosen is None else _cell(chosen),
        ram=_ram_rows(machine, training, chosen),
        vram=_vram(training.device),
        accumulation=accumulated,
        vram_needs=_vram_needs(machine, training),
        taken_names=taken_names,
        unknown=_unknown(machine, training),
    )


def _cell(cell: GridCell) -> BufferCell:
    return BufferCell(**vars(cell))


def _chosen(cells: Sequence[GridCell], cpus: int) -> GridCell | None:
    """Return the run's own loader where it may start; else the most workers, and prefetch, that are best.

    Safe comes before Risky, and no more workers are taken than there are CPUs.
    """
    present = next((one for one in cells if one.is_present), None)
    if present is not None and present.verdict is not RamVerdict.OOM:
        return present
    for verdict in (RamVerdict.SAFE, RamVerdict.RISKY):
        alike = [one for one in cells if one.verdict is verdict and one.num_workers <= cpus]
        if alike:
            return max(alike, key=lambda one: (one.num_workers, one.prefetch_factor or 0))
    return present or next(iter(cells), None)


def _ram_rows(machine: PlannedMachine, training: Training, chosen: GridCell | None) -> tuple[BudgetRow, ...]:
    """Return the parts of the machine's RAM; with what is left they come to all of it."""
    total, taken = machine.ram_limit_bytes, training.taken_bytes
    kept_bytes = total - math.floor(OOM_SHARE * total)
    rows = [
        _row(
            _SYSTEM,
            taken,
            FigureBasis.MEASURED,
            "taken on the run's machine before its trials",
        )
        if taken is not None
        else _unknown_row(_SYSTEM, "no run; it has to fit into the reserve"),
        *_process_rows(machine, training, chosen),
        _unknown_row(
            "data set",
            "what the script loads into memory is in its processes; files are cached in what is free",
        ),
    ]
    if chosen is None:
        rows.append(_unknown_row("loader's buffer", "the bytes of a batch are not known"))
    else:
        workers, prefetch = count_text(chosen.num_workers, "worker"), chosen.prefetch_factor or 0
        ranks = f" x {machine.gpus} processes" if machine.gpus > 1 else ""
        source = f"{workers} x prefetch {prefetch} x one batch{ranks}"
        rows.append(_row("loader's buffer", chosen.buffer_bytes, FigureBasis.PREDICTED, source))
    reserve = max(0, kept_bytes - (taken or 0))
    beside = ", less what is taken already" if taken else ""
    rows.append(
        _row(
            "reserve",
            reserve,
            FigureBasis.ASSUMED,
            f"{1 - OOM_SHARE:.0%} of the RAM, for spikes{beside}; more than {OOM_SHARE:.0%} counts as OOM",
        )
    )
    return (*rows, _rest_row("left for the page cache", total, rows))


def _process_rows(
    machine: PlannedMachine, training: Training, chosen: GridCell | None
) -> tuple[BudgetRow, ...]:
    """Return what the training's processes take without the buffer."""
    base = training.base
    if base is None:
        return (_unknown_row("framework and CUDA", f"the processes' own memory: {_NO_RUN}"),)
    is_without_cuda = training.measured_on == "cpu" and machine.profile_id not in (None, "cpu")
    cuda = "; CUDA's libraries come on top" if is_without_cuda else ""
    each = f", each of {machine.gpus} processes" if machine.gpus > 1 else ""
    main = _row(
        "framework and CUDA",
        machine.gpus * base.main_bytes,
        FigureBasis.MEASURED,
        f"the training's processes on {training.measured_on}{each}{cuda}",
    )
    if not base.worker_bytes or chosen is None:
        return (main,)
    count = machine.gpus * chosen.num_workers
    workers = _row(
        "loader workers",
        count * base.worker_bytes,
        FigureBasis.PREDICTED,
        f"{count} x what one took of its own on {training.measured_on}",
    )
    return main, workers


def _vram(device: DeviceMemory | None) -> VramBudget | None:
    if device is None or device.fit.peak is None:
        return None
    fit, peak, outside = device.fit, device.fit.peak, device.outside
    by, steps = peak.by_purpose, device.path.value

    def traced(name: str, *purposes: Purpose, note: str = "") -> BudgetRow:
        size_bytes = sum(by.get(one, 0) for one in purposes)
        return _row(name, size_bytes, FigureBasis.PREDICTED, f"{steps}{note}")

    outside_basis = (
        FigureBasis.MEASURED if outside.context.source.startswith("measured") else FigureBasis.ASSUMED
    )
    rows = [
        traced("model", Purpose.PARAMETERS, Purpose.BUFFERS),
        traced("gradients", Purpose.GRADIENTS, note="; those that are there at the peak"),
        traced("optimizer", Purpose.OPTIMIZER),
        traced("batch", Purpose.BATCH),
        traced("activations", Purpose.ACTIVATIONS),
        traced("workspaces", Purpose.WORKSPACE),
        traced("held by the script", Purpose.HELD),
        _row(
            "allocator's cache",
            peak.reserved_bytes - peak.allocated_bytes,
            FigureBasis.PREDICTED,
            "torch's allocator, simulated",
        ),
        # Of a block the rest that is too small to split off counts as allocated, and has no purpose.
        _row(
            "rounding of blocks",
            peak.allocated_bytes - sum(by.values()),
            FigureBasis.PREDICTED,
            "torch's allocator, simulated",
        ),
        _row("cuDNN (at most)", outside.workspace.high, outside_basis, outside.workspace.source),
        _row("CUDA context (at most)", outside.context.high, outside_basis, outside.context.source),
    ]
    rows = [one for one in rows if one.size_bytes]
    verdict = "yes" if peak.batch_size <= fit.largest.low else "tight"
    return VramBudget(
        precision=fit.precision,
        batch_size=peak.batch_size,
        fits="no" if peak.batch_size > fit.largest.high else verdict,
        largest_batch=fit.largest.low,
        reserved_bytes=peak.reserved_bytes,
        capacity_bytes=fit.capacity_bytes,
        rows=(*rows, _rest_row("free", fit.capacity_bytes, rows)),
        checkpointed=_checkpointed(device),
    )


def _checkpointed(device: DeviceMemory) -> CheckpointedVram | None:
    largest, peak = device.fit.checkpointed, device.checkpointed.peak if device.checkpointed else None
    if largest is None:
        return None
    return CheckpointedVram(
        largest_batch=largest.low,
        reserved_bytes=peak.reserved_bytes if peak else None,
        extra_flops=device.checkpointing.extra_flops if device.checkpointing else None,
    )


def _row(name: str, size_bytes: int, basis: FigureBasis, source: str) -> BudgetRow:
    return BudgetRow(name=name, size_bytes=size_bytes, basis=basis, source=source)


def _unknown_row(name: str, why: str) -> BudgetRow:
    return BudgetRow(name=name, size_bytes=None, basis=FigureBasis.UNKNOWN, source=why)


def _rest_row(name: str, total: int, rows: Sequence[BudgetRow]) -> BudgetRow:
    """Return what is left, so that all rows come to the whole; negative where they take more."""
    rest = total - sum(one.size_bytes or 0 for one in rows)
    is_known = all(one.size_bytes is not None for one in rows)
    source = "what the other rows leave" if is_known else "what the rows leave whose figures are known"
    return _row(name, rest, FigureBasis.REST, source)


def _vram_needs(machine: PlannedMachine, training: Training) -> str | None:
    """Return what would say the device memory; None where it is known."""
    if machine.profile_id is None:
        return "give --gpu NAME and a RUN"
    return _NO_TRACE if training.device is None else None


def _unknown(machine: PlannedMachine, training: Training) -> tuple[str, ...]:
    lines = []
    if training.batch_bytes is None:
        lines.append("workers x prefetch: the bytes of a batch are not known; give --batch-mib N")
    elif training.base is None:
        lines.append(
            f"the processes' own memory, which the verdicts leave out: {_NO_RUN}, or take it off --ram"
        )
    elif not training.base.worker_bytes:
        lines.append(
            "what each further worker takes of its own, which the verdicts leave out: no trial told it"
        )
    lines.append("/dev/shm, which the verdicts leave out: a container has 64 MiB of it unless told otherwise")
    if machine.profile_id is not None and training.batch_bytes and training.measured_on in ("", "cpu"):
        lines.append("pinned memory, which takes up to twice a batch's data: the verdicts leave that out")
    if machine.gpus > 1:
        lines.append("what NCCL takes of the memory of each of several GPUs")
    if needs := _vram_needs(machine, training):
        lines.append(f"device memory: {needs}")
    elif training.device and training.device.fit.batch_size not in (0, training.batch_size):
        lines.append(
            f"device memory at batch {training.batch_size or 0:,}: the run holds that of batch "
            f"{training.device.fit.batch_size:,}, as its trials' files are gone or an epoch has no more "
            "samples"
        )
    return tuple(lines)
