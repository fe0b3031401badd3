"""What is wrong with a plan's figures, or worth knowing before money is spent on them."""

from collections.abc import Sequence

from tunekit.plan.offers import NO_TORCH_BUILD
from tunekit.records.finding import Finding, Severity
from tunekit.records.interval import Interval
from tunekit.records.plan import Choice, How, PlanRequest, PlanRow
from tunekit.records.profile import Profile
from tunekit.units import bytes_text, digits_text

_NAMED = 4
"""Machines that a finding names before it only counts them."""


_TOO_WIDE = 5.0
"""A range whose ends are further apart than this factor says too little of what will be paid."""


def findings_of(
    request: PlanRequest,
    rows: Sequence[PlanRow],
    choices: Sequence[Choice],
    measured: Profile | None,
    left_out: int,
) -> tuple[Finding, ...]:
    """Return what to know about these rows, the gravest first.

    Without a choice, what keeps the most machines from being one comes before everything else.

    Args:
        request: the training.
        rows: the machines.
        choices: the machines that stand out.
        measured: the GPU that the rate was measured on, where it has a profile.
        left_out: machines that would need longer than asked for, and are not among the rows.
    """
    found = [
        _rates_unknown(request, rows, measured),
        _memory_unknown(request, rows, measured),
        _too_wide(rows, choices),
        _memory_too_small(request, rows),
        _session_too_short(request, rows),
        _stale_prices(request, rows),
        _loader_not_counted(request, rows),
        _spot_refused(rows),
        _no_torch_build(rows),
        _no_price(rows),
        _left_out(request, left_out),
        _other_precision(request, rows),
        _colab_promises_nothing(rows),
    ]
    findings = [finding for finding in found if finding is not None]
    if not choices:
        prevented = _prevented(rows, left_out)
        findings.sort(key=lambda one: -prevented.get(one.code, 0))
    return tuple(findings)


def _prevented(rows: Sequence[PlanRow], left_out: int) -> dict[str, int]:
    """Return how many machines each finding keeps from being chosen."""
    others = [row for row in rows if not row.is_measured_machine]
    return {
        "rates-unknown": sum(row.how is None for row in others),
        "memory-too-small": sum(row.fits is False for row in others),
        "session-too-short": len(_without_session(others)),
        "no-torch-build": sum(row.obstacle == NO_TORCH_BUILD for row in others),
        "no-price": sum(bool(row.hours) and row.lower_usd is None for row in others),
        "too-slow": left_out,
    }


def _rates_unknown(request: PlanRequest, rows: Sequence[PlanRow], measured: Profile | None) -> Finding | None:
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
        remedy=_remedy_of_unknown(request, measured),
    )


def _remedy_of_unknown(request: PlanRequest, measured: Profile | None) -> str:
    native = [] if measured is None else measured.native_precisions
    if native and request.precision not in native:
        own = [one for one in ("bf16", "fp16", "fp32") if one in native]
        return f"give a rate in {' or '.join(own)}"
    return "fill in the profile in ~/.config/tunekit/profiles, or measure there"


def _memory_unknown(
    request: PlanRequest, rows: Sequence[PlanRow], measured: Profile | None
) -> Finding | None:
    doubted = [row for row in rows if row.fits is None and row.how is not None]
    smaller = [row for row in doubted if row.may_not_fit]
    is_comparable = measured is not None and measured.memory_bytes is not None
    if not (smaller if is_comparable else doubted) or request.peak_reserved_bytes is not None:
        return None
    return Finding(
        code="memory-unknown",
        severity=Severity.WARNING,
        message="Memory need unknown: a GPU with less memory than the measured one may not hold it",
        evidence=f"less than {request.measured_on}: {_gpus(smaller)}"
        if is_comparable
        else f"how much {request.measured_on} has is unknown too",
        remedy="give the peak memory per GPU with --memory-gib",
    )


def _too_wide(rows: Sequence[PlanRow], choices: Sequence[Choice]) -> Finding | None:
    factors = {}
    for choice in choices:
        row = rows[choice.row]
        ranges = (row.spot_hours, row.usd_spot) if choice.on_spot else (row.hours, row.usd_on_demand)
        factors[_name(row)] = max(_factor(one) for one in ranges)
    wide = {name: factor for name, factor in factors.items() if factor > _TOO_WIDE}
    if not wide:
        return None
    return Finding(
        code="range-too-wide",
        severity=Severity.WARNING,
        message=f"Too wide to book by is the range of {_listed([*wide])}",
        evidence="its high end is "
        + ", ".join(f"{digits_text(factor, '.1f')}x" for factor in list(wide.values())[:_NAMED])
        + " its low end",
        remedy="rent for an hour and run tunekit search there before the long training",
    )


def _factor(interval: Interval | None) -> float:
    return 1.0 if interval is None else interval.high / interval.low


def _memory_too_small(request: PlanRequest, rows: Sequence[PlanRow]) -> Finding | None:
    small = [row for row in rows if row.fits is False]
    if not small:
        return None
    return Finding(
        code="memory-too-small",
        severity=Severity.WARNING,
        message=f"The training does not fit the memory of {_gpus(small)}",
        evidence=f"{bytes_text(request.peak_reserved_bytes)} per GPU, as given"
        if request.peak_is_given
        else f"{bytes_text(request.peak_reserved_bytes)} were reserved per GPU where it was measured",
        remedy="a smaller batch may fit: "
        + ("measure its rate" if request.peak_is_given else "search there, or plan with another --tier"),
    )


def _session_too_short(request: PlanRequest, rows: Sequence[PlanRow]) -> Finding | None:
    blocked = _without_session(rows)
    if not blocked:
        return None
    has_checkpoints = request.assumptions.checkpoint_cost_s is not None
    return Finding(
        code="session-too-short",
        severity=Severity.WARNING,
        message=f"The training does not fit into sessions on {_names(blocked)}",
        evidence="; ".join(sorted({row.obstacle for row in blocked if row.obstacle})),
        remedy="give a longer --max-session, or a shorter --restart-cost or --checkpoint-cost"
        if has_checkpoints
        else "let the script write checkpoints and resume from them",
    )


def _without_session(rows: Sequence[PlanRow]) -> list[PlanRow]:
    return [row for row in rows if row.is_without_session and row.fits is not False]


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
    without = [
        row
        for row in rows
        if row.hours and row.lower_usd is None and not row.is_measured_machine and not _is_apple(row)
    ]
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


def _colab_promises_nothing(rows: Sequence[PlanRow]) -> Finding | None:
    if not any(row.provider == "colab" and row.hours is not None for row in rows):
        return None
    return Finding(
        code="colab-promises-nothing",
        severity=Severity.INFO,
        message="Colab promises neither a certain GPU nor that a session lasts",
        remedy="keep the checkpoints where they outlive the session",
    )


def _is_apple(row: PlanRow) -> bool:
    """Whether it is a Mac: nobody rents those by the hour."""
    return row.device_name.startswith("Apple ")


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
