"""Checks a plan's machines: what is wrong with the figures, or worth knowing before renting one."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from tunekit.diagnose.registry import INFO, WARNING, Hit, Hits, check, findings_of
from tunekit.records.finding import Finding
from tunekit.records.plan import Choice, PlanRequest, PlanRow
from tunekit.records.profile import NO_TORCH_BUILD
from tunekit.units import bytes_text, count_text, listed, rate_text

_PROFILES = "~/.config/tunekit/profiles"
_MAX_NAMED = 4
"""Machines that a finding names; it only counts the others."""


PREVENTING: Mapping[str, Callable[[PlanRow], bool]] = {
    "rates-unknown": lambda row: row.how is None and row.fits is not False,
    "memory-too-small": lambda row: row.fits is False,
    "session-too-short": lambda row: row.is_without_session and row.fits is not False,
    "no-torch-build": lambda row: row.how is not None and row.obstacle == NO_TORCH_BUILD,
    "gpus-would-idle": lambda row: row.can_be_chosen and row.is_mostly_idle,
    "stale-price": lambda row: row.can_be_chosen and row.is_outdated,
    # Macs are not rented.
    "no-price": lambda row: (
        not (
            row.is_measured_machine
            or row.lower_usd
            or row.hours is None
            or row.device_name.startswith("Apple ")
        )
    ),
    "too-slow": lambda row: False,  # these are not among the rows
}
"""For each finding that excludes machines from being chosen, whether it excludes a given one."""


@dataclass(frozen=True)
class PlanFacts:
    """A training and the machines that it could run on."""

    request: PlanRequest
    rows: Sequence[PlanRow]
    choices: Sequence[Choice]
    """The chosen machines."""
    left_out: int
    """The number of machines that need longer than --max-hours, which are not among the rows."""

    def prevented(self, code: str) -> list[PlanRow]:
        """Return the machines that the finding with this code excludes."""
        return list(filter(PREVENTING[code], self.rows))


def plan_findings(facts: PlanFacts, ignored: Collection[str] = ()) -> tuple[Finding, ...]:
    """Return the findings about a plan's machines in the order of their checks, without ignored codes.

    If no machine was chosen, the finding that excludes the most machines comes first. It is the plan's
    answer then, and can't be ignored.
    """
    findings, answer = findings_of(facts), None
    if not facts.choices:
        counts = {code: len(facts.prevented(code)) for code in PREVENTING} | {"too-slow": facts.left_out}
        findings.sort(key=lambda one: -counts.get(one.code, 0))
        answer = next((one for one in findings if one.code in counts), None)
    return tuple(one for one in findings if one is answer or one.code not in ignored)


@check("rates-unknown", WARNING, "The rate is unknown on some GPUs")
def _rates_unknown(facts: PlanFacts) -> Hits:
    if unknown := facts.prevented("rates-unknown"):
        reasons = sorted({row.basis for row in unknown})[:_MAX_NAMED]
        yield Hit(
            f"{_gpus(unknown)}: {'; '.join(reasons)}",
            f"plan from tunekit fits, give a rate with --rate, or fill in the profile in {_PROFILES}",
        )


@check("memory-unknown", WARNING, "The training may not fit the memory of some GPUs")
def _memory_unknown(facts: PlanFacts) -> Hits:
    unsure = [row for row in facts.rows if row.may_not_fit and row.how is not None and row.obstacle is None]
    if unsure and facts.request.predicted:
        yield Hit(
            f"the predicted need is close to it: {_gpus(unsure)}", "plan a smaller batch, or search there"
        )
    elif unsure and facts.request.peak_reserved_bytes is None:
        seen = f"need unknown, less memory than {facts.request.measured_on}: {_gpus(unsure)}"
        yield Hit(seen, "give the peak memory per GPU with --memory-gib")


@check("memory-too-small", WARNING, "The training does not fit the memory of some GPUs")
def _memory_too_small(facts: PlanFacts) -> Hits:
    if small := facts.prevented("memory-too-small"):
        peak = f"{bytes_text(facts.request.peak_reserved_bytes)} per GPU: {_gpus(small)}"
        yield Hit(peak, "a smaller batch may fit: search there")


@check("session-too-short", WARNING, "The training does not fit into the sessions of some machines")
def _session_too_short(facts: PlanFacts) -> Hits:
    if blocked := facts.prevented("session-too-short"):
        yield Hit(
            f"{_names(blocked)}: {'; '.join(sorted({row.obstacle for row in blocked if row.obstacle}))}",
            "let the script write checkpoints, raise --max-session, or leave these out with --provider",
        )


@check("stale-price", WARNING, "Some prices are old")
def _stale_price(facts: PlanFacts) -> Hits:
    days = facts.request.assumptions.stale_after_days
    stale = [row.price_as_of or "" for row in facts.rows if row.usd_on_demand is not None and row.is_stale]
    spot = [row.spot_as_of or "" for row in facts.rows if row.usd_spot is not None and row.is_spot_stale]
    if stale or spot:
        count = count_text(len(stale + spot), "price")
        outdated = sum(row.is_outdated for row in facts.rows)
        more = f", {outdated} of them over a year old and not chosen" if outdated else ""
        yield Hit(
            f"{count} older than {days} days, {len(spot)} on spot; the oldest from {min(stale + spot)}{more}",
            f"get newer ones with tunekit gpus --refresh, or correct them in {_PROFILES}",
        )


@check("gpus-would-idle", WARNING, "The loader can't feed the GPUs of some machines")
def _gpus_would_idle(facts: PlanFacts) -> Hits:
    idle, per_cpu = [row for row in facts.rows if row.is_mostly_idle], facts.request.loader_per_cpu
    if idle and per_cpu is not None:
        yield Hit(
            f"{_names(idle)}; one CPU loads {rate_text(per_cpu.value)} samples/s",
            "make the loader faster, or rent for an hour and run tunekit search there",
        )


@check("loader-unknown", WARNING, "Unknown whether the loader keeps up on the chosen machines")
def _loader_unknown(facts: PlanFacts) -> Hits:
    request, chosen = facts.request, {one.row: facts.rows[one.row] for one in facts.choices}
    per_cpu = request.loader_per_cpu
    may_wait = [
        row for row in chosen.values() if row.may_wait_for_loader or (row.is_predicted and not per_cpu)
    ]
    if not may_wait:
        return
    if request.loader_samples_per_s_per_cpu is not None:
        yield Hit(
            f"{_names(may_wait)}; the number of CPUs is unknown", "check that it has enough, or take another"
        )
        return
    low = (
        f"low end assumes {rate_text(per_cpu.value)} samples/s per CPU"
        if per_cpu
        else "range assumes that it does"
    )
    yield Hit(f"{_names(may_wait)}; the {low}", "give the samples/s that one CPU loads with --loader-rate")


@check("no-torch-build", INFO, "Current torch does not run on some GPUs")
def _no_torch_build(facts: PlanFacts) -> Hits:
    if old := facts.prevented("no-torch-build"):
        yield Hit(f"{_gpus(old)}: {NO_TORCH_BUILD}", "take a newer GPU")


@check("no-price", INFO, "The price of some machines is unknown")
def _no_price(facts: PlanFacts) -> Hits:
    if without := facts.prevented("no-price"):
        yield Hit(_names(without), f"add one to its profile in {_PROFILES}")


@check("too-slow", INFO, "Machines that need longer than --max-hours are left out")
def _too_slow(facts: PlanFacts) -> Hits:
    if facts.left_out:
        yield Hit(count_text(facts.left_out, "machine"), "give a higher --max-hours to see them")


def _names(rows: Sequence[PlanRow]) -> str:
    named = (f"{row.provider} {row.instance}" if row.instance else row.profile_id for row in rows)
    return listed(list(named), _MAX_NAMED)


def _gpus(rows: Sequence[PlanRow]) -> str:
    return listed(sorted({row.profile_id for row in rows}), _MAX_NAMED)
