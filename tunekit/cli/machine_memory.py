"""`tunekit fits RUN --ram N --cpus N`: how much of another machine's memory a training takes."""

import argparse
import contextlib
import sys
from pathlib import Path

from rich.console import Console

from tunekit.cli.trials import memory_outside
from tunekit.errors import RecordError, UsageError
from tunekit.machine.profiles import find_profile, load_profiles
from tunekit.predict.fits import Fits
from tunekit.predict.step_traces import Unpredictable
from tunekit.recommend.machine_memory import (
    GpuNeed,
    HostNeed,
    config_of,
    host_need,
    machine_memory,
    saved_need,
    traced_need,
)
from tunekit.records.codec import to_json
from tunekit.records.machine_memory import OtherMachine
from tunekit.records.prediction import Purpose
from tunekit.records.profile import Profile
from tunekit.records.run import FitsRun, LoopProfile, Run
from tunekit.records.scaling_run import ScalingRun
from tunekit.report.machine_memory import machine_memory_blocks
from tunekit.report.terminal import draw
from tunekit.session.folder import folder_of, load_run, load_saved
from tunekit.units import MIB

_NO_GPU_MEMORY = "GPU memory unknown: give the RUN of a tunekit fits, with its trials"


def show_machine_memory(options: argparse.Namespace) -> int:
    """Show how much of another machine's memory a training takes, and return 0.

    Raises:
        UsageError: the machine, or the training, is not described.
    """
    if options.ram is None or options.cpus is None:
        raise UsageError("another machine needs --ram and --cpus; to run a training, put -- before it")
    if len(options.gpus) > 1:
        raise UsageError("another machine has one kind of GPU; give --gpu once")
    profile = find_profile(options.gpus[0], load_profiles()) if options.gpus else None
    if profile is not None and not profile.has_own_memory:
        raise UsageError(f"--gpu {profile.id}: its memory size is not known; leave --gpu out")
    host, gpu = _needs(options, profile)
    if host is None:
        raise UsageError("the size of a batch is unknown: give a RUN that measured one, or --batch-mib")
    machine = OtherMachine(
        ram_limit_bytes=options.ram,
        cpus=options.cpus,
        shm_bytes=options.shm,
        profile_id=profile.id if profile else None,
    )
    asked = (options.workers, options.prefetch)
    notes = [_NO_GPU_MEMORY] if profile and gpu is None else []
    found = machine_memory(machine, host, gpu, asked, notes)
    if options.json:
        sys.stdout.write(to_json(found) + "\n")
    else:
        draw(Console(highlight=False), machine_memory_blocks(found))
    return 0


def _needs(options: argparse.Namespace, profile: Profile | None) -> tuple[HostNeed | None, GpuNeed | None]:
    """Return what the training needs of RAM and GPU, each None where it is unknown."""
    host, gpu = None, None
    if options.run is not None:
        run = _loaded(options.run)
        config = config_of(run)
        host = host_need(run, config, options.batch_size, str(options.run))
        size = options.batch_size or (config.batch_size if config else None)
        if profile is not None and config is not None and size is not None:
            gpu = _gpu_need(run, options.run, profile, size)
        if host is None and gpu is not None and gpu.fit.peak is not None:
            per_sample = gpu.fit.peak.by_purpose.get(Purpose.BATCH, 0) / gpu.fit.peak.batch_size
            host = HostNeed(f"{options.run}, traced", per_sample * gpu.batch_size) if per_sample else None
    if options.batch_mib is not None:
        source, batch_bytes = f"--batch-mib {options.batch_mib:g}", options.batch_mib * MIB
        host = (host or HostNeed("", 0))._replace(
            source=source, batch_bytes=batch_bytes, batch_shared_bytes=None
        )
    return host, gpu


def _loaded(path: Path) -> Run | LoopProfile | FitsRun:
    saved = load_saved(path)
    return load_run(path) if isinstance(saved, ScalingRun) else saved


def _gpu_need(
    run: Run | LoopProfile | FitsRun, path: Path, profile: Profile, batch_size: int
) -> GpuNeed | None:
    """Return what the GPU's memory holds, by the traces in the run's folder, else by what the run saved."""
    config = config_of(run)
    assert config is not None
    outside = memory_outside()(profile)
    with contextlib.suppress(Unpredictable, RecordError, IndexError):  # no trials at all
        fits = Fits(run.trials, folder_of(path) / "trials", run.rank_host.cpus)
        if found := traced_need(fits, profile, config.precision, batch_size, outside):
            return found
    return saved_need(run, profile, config.precision, batch_size, outside)
