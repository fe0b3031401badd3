"""How the data will be loaded, as `tunekit doctor` is told it: by flags, or by a config of a run."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tunekit.errors import UsageError

if TYPE_CHECKING:
    from tunekit.records.checkup import LoaderPlan
    from tunekit.records.config import TrainConfig
    from tunekit.records.measurement import LoopMeasurement
    from tunekit.records.run import Run

TIERS = ("balanced", "conservative", "aggressive")
"""The nearest to balanced first."""
BASELINE = "baseline"


def loader_of(options: argparse.Namespace) -> "LoaderPlan | None":
    """Return how the data will be loaded, by flags or by a run.

    Raises:
        UsageError: flags contradict each other, or say too little.
    """
    from tunekit.records.checkup import LoaderPlan  # noqa: PLC0415
    from tunekit.units import MIB  # noqa: PLC0415

    flags = ("workers", "prefetch", "batch_mib", "processes")
    given = [name for name in flags if getattr(options, name) is not None]
    if options.run is not None:
        if given:
            names = ", ".join("--" + name.replace("_", "-") for name in given)
            raise UsageError(f"--run {options.run} knows {names} already; drop one or the other")
        return _loader_of_run(options.run, options.tier)
    if options.tier is not None:
        raise UsageError(f"--tier {options.tier} says nothing without --run; add --run RUN")
    if not given:
        return None
    if options.workers is None:
        raise UsageError(f"--{given[0].replace('_', '-')} says nothing without --workers; add --workers N")
    return LoaderPlan(
        num_workers=options.workers,
        prefetch_factor=options.prefetch or 2,
        batch_bytes=None if options.batch_mib is None else max(1, int(options.batch_mib * MIB)),
        processes=options.processes or 1,
    )


def _loader_of_run(folder: Path, wanted: str | None) -> "LoaderPlan":
    """Return how a config of a run loads its data: the wanted one, else what is nearest to balanced.

    Raises:
        UsageError: the run has no such config, or did not measure any.
    """
    from tunekit.memory.ram import held_per_sample  # noqa: PLC0415
    from tunekit.records.checkup import LoaderPlan  # noqa: PLC0415
    from tunekit.search.folder import load_run  # noqa: PLC0415

    run = load_run(folder)
    configs = _configs(run)
    name = wanted or next(iter(configs), None)
    if name is None or (name == BASELINE and name not in configs):
        raise UsageError(f"the baseline of {folder} was not measured; say --workers and --batch-mib instead")
    if name not in configs:
        raise UsageError(
            f"{folder} has no {name} config (it has: {', '.join(configs)}); choose another --tier"
        )
    config, loop = configs[name]
    held_bytes = config.batch_bytes(held_per_sample(config, loop))
    batch_bytes = config.batch_bytes(loop.bytes_per_sample)
    return LoaderPlan(
        num_workers=config.num_workers,
        prefetch_factor=config.prefetch_factor or 2,
        batch_bytes=round(batch_bytes) or None,
        held_batch_bytes=round(held_bytes) if held_bytes > batch_bytes else None,
        processes=loop.world_size,
        taken_from=f"{name} of {folder}",
    )


def _configs(run: "Run") -> "dict[str, tuple[TrainConfig, LoopMeasurement]]":
    """Return the measured configs by their tier, the nearest to balanced first and the baseline last."""
    loops = {trial.number: trial.measurement.loop for trial in run.trials if trial.measurement is not None}
    by_tier = {one.tier.value: one for one in run.recommendations}
    found = {}
    for tier in TIERS:
        best = by_tier.get(tier)
        numbers = (*best.confirm_trials, best.search_trial) if best else ()
        measured = [loops[number] for number in numbers if number in loops]
        if best and measured:
            found[tier] = (best.config, max(measured, key=lambda loop: loop.bytes_per_sample))
    baseline = run.baseline
    if baseline is not None and baseline.config is not None and baseline.number in loops:
        found[BASELINE] = (baseline.config, loops[baseline.number])
    return found
