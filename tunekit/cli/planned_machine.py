"""`tunekit plan --ram N --cpus N`: the memory of a machine that is not here."""

import argparse
import contextlib
from pathlib import Path

from tunekit.cli.parser import defaults_of
from tunekit.cli.report_files import check_report_files, drawn, present
from tunekit.cli.trials import memory_outside
from tunekit.errors import RecordError, UsageError
from tunekit.machine.profiles import find_profile, load_profiles, taken_name
from tunekit.plan.machine_budget import (
    DeviceMemory,
    Training,
    accumulation,
    device_memory,
    machine_budget,
    planned_config,
    saved_device_memory,
    training_of_run,
)
from tunekit.predict.fits import Fits
from tunekit.predict.step_traces import Unpredictable
from tunekit.records.config import Precision, TrainConfig
from tunekit.records.machine_budget import Accumulation, PlannedMachine
from tunekit.records.profile import Profile
from tunekit.records.recommendation import Tier
from tunekit.records.run import FitsRun, LoopProfile, Run
from tunekit.report.machine_budget import budget_answer, budget_report
from tunekit.session.folder import kind_held, load_fits_run, load_run
from tunekit.session.predicted import outside_of
from tunekit.units import MIB, bytes_text, typed_duration_text

_ONLY_HERE = ("cpus", "batch_mib", "global_batch")
"""Flags, beside --ram, of a machine that is not here."""
_TIMES = ("max_session", "checkpoint_cost", "restart_cost", "interrupted_every")
_TAKEN = (
    *("run", "ram", *_ONLY_HERE, "gpu", "gpus", "batch", "precision", "tier"),
    *("full", "json", "html", "markdown", "full_paths"),
)


def _refuse_without_ram(options: argparse.Namespace) -> None:
    """Refuse flags that describe a machine, where none is described."""
    for name in _ONLY_HERE:
        if getattr(options, name) is not None:
            raise UsageError(f"{_given(options, name)} is of a machine that is not here; add --ram GIB")


def show_machine(options: argparse.Namespace) -> int:
    """Show what a training takes of a machine's memory, and return 0.

    Raises:
        UsageError: a flag can't be used.
    """
    if options.ram is None:
        _refuse_without_ram(options)
    _refuse_mixtures(options)
    check_report_files(options)
    profiles = load_profiles()
    profile = find_profile(options.gpu, profiles) if options.gpu else None
    if profile is not None and not profile.has_own_memory:
        raise UsageError(
            f"--gpu {profile.id}: it has no memory of its own, or none that is known; leave --gpu out"
        )
    machine = PlannedMachine(
        ram_limit_bytes=options.ram,
        cpus=options.cpus,
        gpus=options.gpus or 1,
        profile_id=profile.id if profile else None,
    )
    if machine.gpus > machine.cpus:
        raise UsageError(
            f"--gpus {machine.gpus} with --cpus {machine.cpus}: each GPU's process needs a CPU of its own; "
            "give all CPUs of the machine, or fewer GPUs"
        )
    training, accumulated = _of_run(options, machine, profile) if options.run else _of_flags(options)
    if training.batch_bytes is not None and training.batch_bytes * machine.gpus > machine.ram_limit_bytes:
        each = f" for each of {machine.gpus} GPUs" if machine.gpus > 1 else ""
        raise UsageError(
            f"{training.source}: a batch of {bytes_text(training.batch_bytes)}{each} is more than the "
            f"{bytes_text(machine.ram_limit_bytes)} of --ram; give the size of one batch, or more RAM"
        )
    taken = taken_name(options.gpu, profiles) if options.gpu else None
    budget = machine_budget(machine, training, accumulated, (taken,) if taken else ())
    report = drawn(
        budget, lambda shown, _, width: budget_report(shown, width), "machine-budget.json", options.full_paths
    )
    present(options, budget, report, lambda width: budget_answer(budget, width))
    return 0


def _refuse_mixtures(options: argparse.Namespace) -> None:
    usual = defaults_of("plan")
    others = [name for name, value in usual.items() if name not in _TAKEN and getattr(options, name) != value]
    if others:
        raise UsageError(
            f"{_given(options, others[0])} is for hours and dollars, --ram for a machine's memory; drop one"
        )
    if options.cpus is None:
        raise UsageError("--ram needs the machine's CPUs too; add --cpus N")
    if options.run is None:
        for name in ("tier", "precision"):
            if getattr(options, name) is not None:
                raise UsageError(f"{_given(options, name)} needs a run; give its folder")
        if options.batch is not None and options.global_batch is None:
            raise UsageError(
                f"{_given(options, 'batch')} needs a run here, or --global-batch; drop it or add one"
            )
        if options.batch_mib is None and options.global_batch is None:
            raise UsageError(
                "--ram needs a training: give a run folder, or the size of a batch: --batch-mib N"
            )


def _given(options: argparse.Namespace, name: str) -> str:
    """Return a flag as it was typed, or nearly."""
    value, flag = getattr(options, name), f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        return flag
    if name in _TIMES:
        return f"{flag} {typed_duration_text(value)}"
    if isinstance(value, float):
        return f"{flag} {value:g}"
    return f"{flag} {value[0] if isinstance(value, list) else getattr(value, 'text', value)}"


def _of_flags(options: argparse.Namespace) -> tuple[Training, Accumulation | None]:
    """Return what flags alone say of a training."""
    accumulated = None
    if options.global_batch is not None:
        if options.batch is None:
            raise UsageError(
                f"--global-batch {options.global_batch} needs what fits a GPU: add --batch N, or a run folder"
            )
        accumulated = accumulation(
            options.global_batch, options.gpus or 1, options.batch, f"--batch {options.batch}"
        )
    mib = options.batch_mib
    source = "" if mib is None else f"--batch-mib {mib:g}"
    return Training(source, batch_bytes=None if mib is None else mib * MIB), accumulated


def _of_run(
    options: argparse.Namespace, machine: PlannedMachine, profile: Profile | None
) -> tuple[Training, Accumulation | None]:
    """Return what a run says of a training, at the batch size that is asked for."""
    run, name = _loaded(options.run), str(options.run)
    config = planned_config(run, Tier(options.tier) if options.tier else None, name)
    size = options.batch or (config.batch_size if config else None)
    precision = Precision(options.precision) if options.precision else config.precision if config else None
    device = None
    if profile is not None and size is not None and precision is not None:
        device = _device(run, options.run, profile, precision, size)
    accumulated = None
    if options.global_batch is not None:
        most, limit = _most(options.batch, device)
        if most is None:
            raise UsageError(
                f"--global-batch {options.global_batch} needs what fits a GPU: add --batch N, or --gpu NAME "
                "with a run that predicted it"
            )
        accumulated = accumulation(options.global_batch, machine.gpus, most, limit)
        size = accumulated.batch_size
        if profile is not None and precision is not None:
            device = _device(run, options.run, profile, precision, size)
    meant: TrainConfig | None = config.changed(batch_size=size) if config and size else config
    training = training_of_run(run, config, meant, name)._replace(device=device)
    if options.batch_mib is not None:
        if training.batch_bytes is not None:
            raise UsageError(f"{name} knows the bytes of a batch; drop {_given(options, 'batch_mib')}")
        source = f"{name}, {_given(options, 'batch_mib')}"
        training = training._replace(source=source, batch_bytes=options.batch_mib * MIB)
    return training, accumulated


def _loaded(path: Path) -> Run | FitsRun:
    kind = kind_held(path)
    if kind not in (None, FitsRun):
        held = "a loop profile" if kind is LoopProfile else "a measured scaling"
        raise UsageError(f"{path} holds {held}; give the folder of tunekit search or tunekit fits")
    return load_fits_run(path) if kind is FitsRun else load_run(path)


def _device(
    run: Run | FitsRun, path: Path, profile: Profile, precision: Precision, batch_size: int
) -> DeviceMemory | None:
    """Return what the GPU's memory holds, by the traces in the run's folder, else by what it saved."""
    outside = outside_of(run.trials, memory_outside())(profile)
    folder = path.parent if path.is_file() else path
    found = None
    with contextlib.suppress(Unpredictable, RecordError):  # a saved report may lack its trials
        if run.trials:
            fits = Fits(run.trials, folder / "trials", run.rank_host.cpus)
            found = device_memory(fits, profile, precision, batch_size, outside)
    return found or saved_device_memory(run, profile, precision, outside)


def _most(asked: int | None, device: DeviceMemory | None) -> tuple[int | None, str]:
    """Return the largest batch of a GPU, and what that follows from."""
    if device is None:
        return asked, f"--batch {asked}"
    low = device.fit.largest.low
    if asked is not None and asked <= low:
        return asked, f"--batch {asked}"
    return low, f"{low:,} fit {device.fit.profile_id} in {device.fit.precision} with margin"
