"""What a plan takes for granted, a line each with the flag that sets it. Pure."""

from tunekit.records.plan import How, Plan
from tunekit.units import bytes_text, duration_text


def assumptions(plan: Plan) -> tuple[str, ...]:
    """Return what these figures rest on and nobody measured; nothing that they don't rest on."""
    asked = plan.request
    lines = []
    if asked.precision_is_assumed:
        lines.append(f"the rate was measured in {asked.precision} (--precision)")
    lines += [*_of_numbers(plan), *plan.model_assumptions, *_of_interruptions(plan)]
    if any(row.usd_on_demand for row in plan.rows):
        lines.append("dollars are for the hours of training: no storage, transfer, set-up or tax")
    if asked.peak_reserved_bytes is not None and any(row.how is How.PREDICTED for row in plan.rows):
        peak = bytes_text(asked.peak_reserved_bytes)
        known = "(--memory-gib)" if asked.peak_is_given else "that were reserved where it was measured"
        lines.append(f"another GPU would need the {peak} of memory {known}")
    return tuple(lines)


def _of_numbers(plan: Plan) -> list[str]:
    """Return what was assumed of another number of GPUs, of fewer, and of as many of another kind."""
    low, high = plan.request.assumptions.scaling_low, plan.request.assumptions.scaling_high
    measured = plan.request.measured_gpus
    numbers = {row.gpus for row in plan.rows if row.scaling}
    shares = []
    if any(gpus > measured for gpus in numbers):
        shares.append(f"on more GPUs each has {low:.0%} to {high:.0%} of its rate")
    if any(gpus < measured for gpus in numbers):
        shares.append(f"on fewer GPUs each has {1 / high:.0%} to {1 / low:.0%} of its rate")
    if measured in numbers:
        shares.append(f"as many GPUs of another kind have {low / high:.0%} to {high / low:.0%} of it")
    if not shares:
        return []
    first, *others = shares
    rest = "".join(f"; {share}" for share in others)
    return [f"{first} (--scaling), with the same batch each, and as many epochs do{rest}"]


def _of_interruptions(plan: Plan) -> list[str]:
    """Return what was assumed of sessions and spot machines, where there are any."""
    assumed = plan.request.assumptions
    has_spot = any(row.usd_spot or row.spot_refused for row in plan.rows)
    has_sessions = any(row.sessions or row.is_without_session for row in plan.rows)
    if not has_spot and not has_sessions:
        return []
    cost_s = assumed.checkpoint_cost_s
    lines = [
        "the script writes no checkpoints (--no-checkpoints)"
        if cost_s is None
        else f"the script resumes from checkpoints of {duration_text(cost_s)} each "
        "(--checkpoint-cost, --no-checkpoints)",
        f"a restart takes {duration_text(assumed.restart_cost_s)} (--restart-cost)",
    ]
    if has_spot:
        every = duration_text(assumed.interrupted_every_s)
        lines.append(f"a spot machine is taken away every {every} on average (--interrupted-every)")
    if has_sessions:
        longest = duration_text(assumed.max_session_s)
        writes = any(row.sessions and row.checkpoint_interval_s for row in plan.rows)
        counted = "; its hours count a checkpoint after every interval" if writes else ""
        lines.append(f"a Colab session lasts {longest} at most (--max-session){counted}")
    return lines
