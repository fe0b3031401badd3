"""Runs set against the first of them: factors, regressions, what the machines differ by. Pure."""

from collections.abc import Sequence
from statistics import geometric_mean

from tunekit.recommend.across_runs.side import Side, compared_run, is_same_training
from tunekit.recommend.across_runs.unfair import unfair_findings
from tunekit.recommend.noise import larger_noise, unpaired_factor, verdict
from tunekit.recommend.time_breakdown import DEVICE_PARTS, HOST_PARTS, have_device_parts
from tunekit.records.comparison import AgainstReference, ComparedRun, RunComparison, Verdict
from tunekit.records.finding import Finding, Severity
from tunekit.records.interval import Interval
from tunekit.records.recommendation import NoiseFloor
from tunekit.units import bytes_text, percent_text

_ROUNDS = 3
"""Fresh processes of each config that usually tell a difference."""


def compare_runs(sides: Sequence[Side], tolerance: float, tunekit_version: str) -> RunComparison:
    """Return runs side by side, each but the first set against the first.

    A regression is a rate that is significantly lower than the reference's, and by more than the tolerance.
    Where too few processes ran to tell, there is none, and a finding says how to get to know.

    Args:
        sides: the reference first; two at least.
        tolerance: how much slower a run may be, as a share of the reference's rate.
        tunekit_version: of the one that compares.

    Raises:
        ValueError: a side has nothing measured, or there are fewer than two.
    """
    by_device = have_device_parts(one.loop for side in sides for one in side.measured)
    parts = DEVICE_PARTS if by_device else HOST_PARTS
    runs = tuple(compared_run(side, parts) for side in sides)
    reference = sides[0]
    against = tuple(
        _against(reference, side, runs[0], shown, tolerance)
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


def _against(
    reference: Side, other: Side, before: ComparedRun, after: ComparedRun, tolerance: float
) -> AgainstReference:
    noise = larger_noise(reference.run.noise_floor, other.run.noise_floor)
    factor = _factor(reference, other, other.rates, reference.rates)
    judged = _verdict(factor, noise)
    own = relative = None
    if is_same_training(reference, other) and not (before.is_baseline and after.is_baseline):
        own = _factor(reference, other, other.baseline_rates, reference.baseline_rates)
        relative = unpaired_factor(other.speedups_by_round, reference.speedups_by_round)
    own_judged, relative_judged = _verdict(own, noise), _verdict(relative, noise)
    changed = after.config.model_dump()
    reserved = _ratio(before.peak_reserved_bytes, after.peak_reserved_bytes)
    unfair = unfair_findings(reference, other)
    is_copy = any(one.code == "same-run" for one in unfair)
    return AgainstReference(
        name=other.name,
        rate_ratio=geometric_mean(other.rates) / geometric_mean(reference.rates),
        factor=factor,
        verdict=judged,
        baseline_factor=own,
        baseline_verdict=own_judged,
        relative_factor=relative,
        relative_verdict=relative_judged,
        machine_explains=_machine_explains(factor, judged, own, own_judged, relative_judged),
        changed_knobs=tuple(
            knob for knob, value in before.config.model_dump().items() if value != changed[knob]
        ),
        reserved_ratio=reserved,
        is_regression=judged == "slower" and factor is not None and factor.value < 1 - tolerance,
        findings=(
            *(() if is_copy else _undecided(reference, other, factor, judged, tolerance)),
            *_memory_grew(before, after, reserved, tolerance),
            *unfair,
        ),
    )


def _factor(
    reference: Side, other: Side, rates: Sequence[float], reference_rates: Sequence[float]
) -> Interval | None:
    return unpaired_factor(rates, reference_rates, other.run.noise_floor, reference.run.noise_floor)


def _verdict(factor: Interval | None, noise: NoiseFloor | None) -> Verdict | None:
    return None if factor is None else verdict(factor, noise)


def _ratio(before: int | None, after: int | None) -> float | None:
    return after / before if before and after is not None else None


def _machine_explains(
    factor: Interval | None,
    judged: Verdict | None,
    own: Interval | None,
    own_judged: Verdict | None,
    relative_judged: Verdict | None,
) -> bool:
    """Return whether the baselines differ the same way, and the configs beside their baselines do not."""
    if factor is None or own is None or judged != own_judged or judged == "no significant difference":
        return False
    if relative_judged is not None:
        return relative_judged == "no significant difference"
    return factor.low <= own.high and own.low <= factor.high


def _undecided(
    reference: Side, other: Side, factor: Interval | None, judged: Verdict | None, tolerance: float
) -> list[Finding]:
    """Return a finding where a regression can be neither told nor excluded."""
    processes = f"{len(reference.rates)} in {reference.name}, {len(other.rates)} in {other.name}"
    fewest = min(len(reference.rates), len(other.rates))
    remedy = (
        f"search both again with more fresh processes: tunekit search --confirm {max(_ROUNDS, fewest + 2)}"
    )
    if factor is None:
        message = "too few fresh processes to tell whether the rates differ, so no regression is claimed"
        return [_warning("too-few-processes", message, processes, remedy)]
    if judged == "no significant difference" and factor.low < 1 - tolerance:
        message = (
            f"a rate lower by more than the tolerance of {percent_text(tolerance)} can't be excluded: "
            f"the range reaches down to {factor.low:.2f}x"
        )
        return [_warning("undecided", message, f"fresh processes: {processes}", remedy)]
    return []


def _memory_grew(
    before: ComparedRun, after: ComparedRun, reserved: float | None, tolerance: float
) -> list[Finding]:
    if reserved is None or reserved <= 1 + tolerance:
        return []
    evidence = (
        f"{bytes_text(before.peak_reserved_bytes)} in {before.name}, {bytes_text(after.peak_reserved_bytes)} "
        f"of {bytes_text(after.device_memory_bytes)} in {after.name}, {reserved:.2f}x (measured)"
    )
    message = "peak reserved VRAM grew by more than the tolerance; that alone is no regression here"
    remedy = "look at batch size, precision and compile of both; a smaller batch gives the memory back"
    return [_warning("memory-grew", message, evidence, remedy)]


def _warning(code: str, message: str, evidence: str, remedy: str) -> Finding:
    return Finding(code=code, severity=Severity.WARNING, message=message, evidence=evidence, remedy=remedy)
