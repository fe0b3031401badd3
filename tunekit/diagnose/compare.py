"""Compares runs with the first one: factors, regressions, differences between the machines. Pure."""

from collections.abc import Mapping, Sequence
from statistics import geometric_mean

from tunekit.diagnose.registry import findings_of, worst_first
from tunekit.diagnose.run_pair import CHANGES, RunPair, Side
from tunekit.recommend.memory import memory_need
from tunekit.recommend.noise import mean_interval
from tunekit.recommend.time_breakdown import (
    DEVICE_PARTS,
    HOST_PARTS,
    Seconds,
    boundary_s,
    have_device_parts,
    mean_s,
)
from tunekit.records.comparison import ComparedRun, ReferenceComparison, RunComparison, TimePart

BETWEEN_EPOCHS = "between epochs"
"""The part of the time that is outside the steady window but included in the rate."""


def compare_runs(sides: Sequence[Side], tolerance: float, tunekit_version: str) -> RunComparison:
    """Return runs side by side, each compared with the first one, the reference.

    A regression is a rate that is significantly lower than the reference's, and by more than the tolerance;
    on different machines, speedups over the runs' own baselines are compared instead. There is no regression
    if the two can't be compared, or if too few processes ran to decide.

    Args:
        sides: at least two runs, the reference first.
        tolerance: how much slower a run may be, as a share of the reference.
        tunekit_version: the version that makes the comparison.

    Raises:
        ValueError: a side has no measurements, or there are fewer than two.
    """
    by_device = have_device_parts(one.loop for side in sides for one in side.measured)
    runs = tuple(_compared_run(side, DEVICE_PARTS if by_device else HOST_PARTS) for side in sides)
    against = tuple(
        _against(RunPair(sides[0], side, tolerance), runs[0], shown)
        for side, shown in zip(sides[1:], runs[1:], strict=True)
    )
    return RunComparison(
        tunekit_version=tunekit_version,
        tolerance=tolerance,
        has_regression=any(one.is_regression for one in against),
        clock="device" if by_device else "host",
        runs=runs,
        against=against,
    )


def _against(pair: RunPair, before: ComparedRun, after: ComparedRun) -> ReferenceComparison:
    reference, other, deciding = pair.reference, pair.other, pair.deciding
    verdict = pair.verdict_on(deciding)
    changed = after.config.model_dump()
    return ReferenceComparison(
        name=other.name,
        rate_ratio=geometric_mean(other.rates) / geometric_mean(reference.rates),
        factor=pair.factor,
        machine_differences=pair.machine_differences,
        compared_by=pair.compared_by,
        why_not=pair.why_not,
        verdict=verdict,
        baseline_factor=pair.baseline_factor,
        baseline_verdict=pair.verdict_on(pair.baseline_factor),
        relative_factor=pair.relative_factor,
        machine_explains=_machine_explains(pair),
        changed_knobs=tuple(
            knob for knob, value in before.config.model_dump().items() if value != changed[knob]
        ),
        reserved_ratio=pair.reserved_ratio,
        is_regression=verdict == "slower" and deciding is not None and deciding.value < 1 - pair.tolerance,
        findings=worst_first(findings_of(pair)),
    )


def _machine_explains(pair: RunPair) -> bool:
    """Return whether the baselines differ in the same direction, while speedups over them don't differ."""
    factor, own, relative = pair.factor, pair.baseline_factor, pair.relative_factor
    verdict = pair.verdict_on(factor)
    if factor is None or own is None or verdict not in CHANGES or verdict != pair.verdict_on(own):
        return False
    if relative is not None:
        return pair.verdict_on(relative) not in CHANGES
    return factor.low <= own.high and own.low <= factor.high


def _compared_run(side: Side, parts: Mapping[str, Seconds]) -> ComparedRun:
    """Return the summary of one run.

    Args:
        side: the run.
        parts: the parts of the steady window's time, by the clock that all runs have.

    Raises:
        ValueError: it has no measured process, or its config is unknown.
    """
    run, config, measured = side.run, side.config, side.measured
    if not measured or config is None:
        raise ValueError(f"{side.folder} has nothing measured to compare; choose another tier")
    rate = mean_interval(side.rates, run.noise_floor)
    epoch_samples, loops = side.loop.epoch_samples_total, [one.loop for one in measured]
    if any(loop.boundary_s is not None and loop.epoch_samples is not None for loop in loops):
        parts = {**parts, BETWEEN_EPOCHS: boundary_s}
    return ComparedRun(
        name=side.name,
        folder=side.folder,
        created_at=run.created_at,
        commit=run.commit,
        measured_on=run.measured_on,
        device=side.loop.device.name,
        tier=side.chosen.tier if side.chosen else None,
        config=config,
        rates_samples_per_s=tuple(side.rates),
        rate_samples_per_s=rate,
        epoch_time_s=epoch_samples / rate.value if epoch_samples else None,
        objective=run.options.objective,
        speedup=side.chosen.speedup if side.chosen and not side.is_baseline else None,
        is_baseline=side.is_baseline,
        noise_floor=run.noise_floor,
        memory=memory_need(config, measured, run.rank_host),
        time_parts=tuple(TimePart(name=name, seconds=mean_s(loops, of)) for name, of in parts.items()),
    )
