"""What is wrong with a plan's figures, or worth knowing before money is spent on them."""

from collections.abc import Sequence

from tunekit.plan.offers import NO_TORCH_BUILD
from tunekit.records.finding import Finding, Severity
from tunekit.records.plan import How, PlanRequest, PlanRow
from tunekit.units import bytes_text

_NAMED = 4
"""Machines that a finding names before it only counts them."""


def findings_of(request: PlanRequest, rows: Sequence[PlanRow], left_out: int) -> tuple[Finding, ...]:
    """Return what to know about these rows, the gravest first.

    Args:
        request: the training.
        rows: the machines.
        left_out: machines that would need longer than asked for, and are not among the rows.
    """
    found = [
        _rates_unknown(request, rows),
        _memory_too_small(request, rows),
        _session_too_short(request, rows),
        _stale_prices(request, rows),
        _loader_not_counted(request, rows),
        _spot_refused(rows),
        _no_torch_build(rows),
        _no_price(rows),
        _left_out(request, left_out),
        _other_precision(request, rows),
    ]
    return tuple(finding for finding in found if finding is not None)


def _rates_unknown(request: PlanRequest, rows: Sequence[PlanRow]) -> Finding | None:
    unknown = [row for row in rows if row.how is None]
    if not unknown:
        return None
    if request.measured_on == "cpu":
        return Finding(
            code="rates-unknown",
            severity=Severity.WARNING,
            message="The rate was measured on a CPU, so the hours on a GPU are unknown",
            remedy=(
                "search on a machine with a GPU and plan from that run, or give a rate that you saw on one: "
                f"tunekit plan --rate R --samples {request.samples_per_epoch} --epochs {request.epochs} "
                "--gpu t4"
            ),
        )
    reasons = sorted({row.basis for row in unknown})
    return Finding(
        code="rates-unknown",
        severity=Severity.WARNING,
        message=f"The rate is unknown on {_gpus(unknown)}",
        evidence="; ".join(reasons[:_NAMED]),
        remedy="fill in the profile in ~/.config/tunekit/profiles, or measure there",
    )


def _memory_too_small(request: PlanRequest, rows: Sequence[PlanRow]) -> Finding | None:
    small = [row for row in rows if row.fits is False]
    if not small:
        return None
    return Finding(
        code="memory-too-small",
        severity=Severity.WARNING,
        message=f"It does not fit the memory of {_gpus(small)}",
        evidence=f"{bytes_text(request.peak_reserved_bytes)} were reserved per GPU where it was measured",
        remedy="a smaller batch may fit: search there, or plan with another --tier",
    )


def _session_too_short(request: PlanRequest, rows: Sequence[PlanRow]) -> Finding | None:
    blocked = [row for row in rows if row.how is not None and row.hours is None and row.fits is not False]
    if not blocked:
        return None
    has_checkpoints = request.assumptions.checkpoint_cost_s is not None
    return Finding(
        code="session-too-short",
        severity=Severity.WARNING,
        message=f"It does not fit the sessions of {_names(blocked)}",
        evidence="; ".join(sorted({row.obstacle for row in blocked if row.obstacle})),
        remedy="give a longer --max-session, or a shorter --restart-cost or --checkpoint-cost"
        if has_checkpoints
        else "let the script write checkpoints and resume from them",
    )


def _stale_prices(request: PlanRequest, rows: Sequence[PlanRow]) -> Finding | None:
    days = request.assumptions.stale_after_days
    stale = [row for row in rows if row.usd_on_demand is not None and row.is_stale]
    stale_spot = [row for row in rows if row.usd_spot is not None and row.is_spot_stale]
    if not stale and not stale_spot:
        return None
    oldest = min([row.price_as_of or "" for row in stale] + [row.spot_as_of or "" for row in stale_spot])
    spot = f", {len(stale_spot)} of them on spot" if stale_spot else ""
    return Finding(
        code="stale-price",
        severity=Severity.WARNING,
        message=(
            f"{_count(stale + stale_spot, 'price')} older than {days} days{spot}, the oldest of {oldest}"
        ),
        remedy="look them up before you book; correct them in ~/.config/tunekit/profiles",
    )


def _loader_not_counted(request: PlanRequest, rows: Sequence[PlanRow]) -> Finding | None:
    predicted = [row for row in rows if row.how is How.PREDICTED]
    if not predicted:
        return None
    short = [row for row in predicted if row.loader_may_limit]
    if short:
        return Finding(
            code="loader-not-counted",
            severity=Severity.WARNING,
            message=(
                f"Predicted rates are those of the GPU; on {_count(short)} the loader may not keep up: "
                f"{_names(short)}"
            ),
            evidence=(
                f"measured with {request.measured_vcpus_per_gpu} CPUs at work per GPU; a GPU that is x times "
                "as fast needs x times as many, and they have fewer"
            ),
            remedy="rent for an hour and run tunekit search there before the long training",
        )
    return Finding(
        code="loader-not-counted",
        severity=Severity.INFO,
        message="Predicted rates are those of the GPU; a loader that can't keep up makes them lower",
        evidence=None
        if request.measured_vcpus_per_gpu
        else "it is unknown how many CPUs fed the measured rate",
        remedy="run tunekit search on the machine before the long training",
    )


def _spot_refused(rows: Sequence[PlanRow]) -> Finding | None:
    refused = [row for row in rows if row.spot_refused is not None]
    if not refused:
        return None
    return Finding(
        code="spot-refused",
        severity=Severity.WARNING,
        message=f"Spot is no option on {_count(refused)}: {_names(refused)}",
        evidence="; ".join(sorted({row.spot_refused for row in refused if row.spot_refused})),
        remedy="let the script write checkpoints and resume from them",
    )


def _no_torch_build(rows: Sequence[PlanRow]) -> Finding | None:
    old = [row for row in rows if row.how is not None and row.obstacle == NO_TORCH_BUILD]
    if not old:
        return None
    return Finding(
        code="no-torch-build",
        severity=Severity.INFO,
        message=f"Current torch does not run on {_gpus(old)}",
        evidence=NO_TORCH_BUILD,
        remedy="take a newer GPU",
    )


def _no_price(rows: Sequence[PlanRow]) -> Finding | None:
    without = [row for row in rows if not row.is_measured_machine and row.hours and row.usd_on_demand is None]
    if not without:
        return None
    return Finding(
        code="no-price",
        severity=Severity.INFO,
        message=f"No price is known of {_count(without)}: {_names(without)}",
        remedy="add one to its profile in ~/.config/tunekit/profiles",
    )


def _left_out(request: PlanRequest, left_out: int) -> Finding | None:
    if not left_out or request.max_hours is None:
        return None
    return Finding(
        code="too-slow",
        severity=Severity.INFO,
        message=(
            f"1 machine that needs more than {request.max_hours:g} h is left out"
            if left_out == 1
            else f"{left_out} machines that need more than {request.max_hours:g} h are left out"
        ),
        remedy="give a higher --max-hours to see them",
    )


def _other_precision(request: PlanRequest, rows: Sequence[PlanRow]) -> Finding | None:
    other = [row for row in rows if row.how is not None and row.precision is not request.precision]
    if not other:
        return None
    return Finding(
        code="other-precision",
        severity=Severity.INFO,
        message=f"Without {request.precision}, these would train in {other[0].precision}: {_gpus(other)}",
        evidence="their memory need in it was not measured",
        remedy="where the script can train in fp16, plan with a rate measured in fp16",
    )


def _count(rows: Sequence[PlanRow], thing: str = "machine") -> str:
    return f"1 {thing}" if len(rows) == 1 else f"{len(rows)} {thing}s"


def _names(rows: Sequence[PlanRow]) -> str:
    return _listed([_name(row) for row in rows])


def _gpus(rows: Sequence[PlanRow]) -> str:
    return _listed(sorted({row.profile_id for row in rows}))


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _name(row: PlanRow) -> str:
    return row.profile_id if row.instance is None else f"{row.provider} {row.instance}"
