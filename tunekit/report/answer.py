"""The answer of a run and how it came about, in sentences. Pure."""

import math

from tunekit.plain_text import printable
from tunekit.recommend.noise import verdict
from tunekit.recommend.recommendation import answer_of
from tunekit.records.config import KNOBS
from tunekit.records.recommendation import Recommendation
from tunekit.records.run import Objective, Run, RunStatus
from tunekit.records.trial import Failure, OutcomeKind, TrialRecord, TrialRole
from tunekit.report.text import change_text, interval_text, is_too_wide, speedup_text
from tunekit.report.tiers_table import baseline_column, ram_text
from tunekit.units import bytes_text, count_text, duration_text, share_text


def best_recommendation(run: Run) -> Recommendation | None:
    """Return the recommendation that the answer speaks of: Balanced, else the nearest tier."""
    return answer_of(run.recommendations)


def answer_text(run: Run, best: Recommendation | None) -> str:
    """Return the result in one or two sentences; it says so where the search did not come to its end."""
    if best is None:
        failed = sum(record.failure is not None for record in run.trials)
        trials = f"{count_text(len(run.trials), 'trial')}, {failed} of them failed"
        if run.cut_short and run.status is RunStatus.FINISHED:
            return f"No recommendation in this budget: {printable(run.cut_short)}."
        return f"No recommendation yet: {trials} (status: {run.status})."
    answer = _answer_of(run, best)
    return answer if run.status is RunStatus.FINISHED else f"{answer} Not final (status: {run.status})."


def _answer_of(run: Run, best: Recommendation) -> str:
    name = best.tier.value.capitalize()
    rate = interval_text(best.rate_samples_per_s, " samples/s")
    if best.is_baseline:
        tried = sum(
            record.role is TrialRole.SEARCH and record.measurement is not None for record in run.trials
        )
        if not tried and any(_searched_and_failed(record) for record in run.trials):
            return f"No other config could be measured: every one that was tried failed. Your own: {rate}."
        if not tried:
            short = printable(run.cut_short) if run.cut_short else "give a longer --budget"
            return f"No other config was measured in this budget: {short}. Your own: {rate}."
        return f"Keep what you have: no measured config beats your own beyond the noise. {name}: {rate}."
    if best.speedup is None:
        if run.baseline is not None and run.baseline.measurement is not None:
            return (
                f"{name}: {rate}; speed-up n/a: too few rounds to compare with your baseline (--confirm 3)."
            )
        return f"{name}: {rate}; speed-up n/a, because the baseline could not be measured here."
    judged = verdict(best.speedup, run.noise_floor)
    if run.options.objective is Objective.FINISH_TIME:
        return _finish_answer(run, best, name, judged)
    if judged == "faster":
        return f"{name} is {speedup_text(best.speedup)} as fast as your baseline: {rate}."
    if judged == "slower":
        return f"{name} is slower than your baseline, {speedup_text(best.speedup)} as fast: {rate}."
    return f"{name}: {judged} from your baseline, {speedup_text(best.speedup)}: {rate}."


def _finish_answer(run: Run, best: Recommendation, name: str, judged: str) -> str:
    """Return the answer of a search for the shortest planned training."""
    assert best.speedup is not None
    after, before = best.finish_time_s, baseline_column(run).finish_time_s
    times = f"{duration_text(after)} instead of {duration_text(before)}, predicted from measured parts"
    factor = speedup_text(best.speedup)
    if judged == "faster":
        return f"{name} finishes the planned training {factor} as fast as your baseline: {times}."
    if judged == "slower":
        return f"{name} finishes the planned training later than your baseline, {factor} as fast: {times}."
    return f"{name}: {judged} from your baseline in the planned training, {factor}: {times}."


def _searched_and_failed(record: TrialRecord) -> bool:
    """Return whether a config of the search was run and failed; one that was refused was not run."""
    refused = record.failure is not None and record.failure.kind is OutcomeKind.REFUSED
    return record.role is TrialRole.SEARCH and record.failure is not None and not refused


def change_lines(run: Run, best: Recommendation | None) -> tuple[str, ...]:
    """Return what to change, "knob: before -> after"."""
    baseline = run.baseline_config
    if best is None or baseline is None:
        return ()
    before, after = baseline.model_dump(), best.config.model_dump()
    return tuple(
        change_text(knob, before[knob], after[knob]) for knob in KNOBS if before[knob] != after[knob]
    )


def how_measured(run: Run, best: Recommendation | None) -> str:
    """Return what the figures rest on, in one sentence."""
    device = printable(run.measured_on)
    noise = run.noise_floor
    floor = (
        f"A/A noise floor {share_text(noise.relative, '.1f')} over {noise.processes} fresh baseline processes"
        if noise
        else "A/A noise floor n/a"
    )
    rounds = count_text(len(best.confirm_trials) if best else 0, "interleaved round")
    trials = count_text(len(run.trials), "trial")
    abandoned = sum(record.is_abandoned for record in run.trials)
    if abandoned:
        trials += f" ({abandoned} abandoned early as too slow)"
    return (
        f"Measured on {device} in {trials}, {duration_text(run.search_time_s)}; rates and speed-ups from "
        f"{rounds} of fresh processes (95% intervals); {floor}."
    )


def missing_lines(run: Run) -> tuple[str, ...]:
    """Return why tiers are missing, a line for each reason; none while no trial is measured."""
    if all(record.measurement is None for record in run.trials):
        return ()
    by_reason: dict[str, list[str]] = {}
    for one in run.missing_tiers:
        by_reason.setdefault(one.reason, []).append(one.tier.value)
    return tuple(printable(f"no {' or '.join(tiers)}: {reason}") for reason, tiers in by_reason.items())


def failure_lines(run: Run) -> tuple[str, ...]:
    """Return what failed, a line for each kind, with its first message and remedy."""
    by_kind: dict[OutcomeKind, list[Failure]] = {}
    for record in run.trials:
        if record.failure is not None and record.failure.kind is not OutcomeKind.REFUSED:
            by_kind.setdefault(record.failure.kind, []).append(record.failure)
    lines = []
    for kind, failures in by_kind.items():
        first = failures[0]
        trials = count_text(len(failures), "trial")
        remedy = f"; {first.remedy}" if first.remedy else ""
        lines.append(printable(f"{trials} of {len(run.trials)} ended as {kind}: {first.message}{remedy}"))
    return tuple(lines)


def headroom_text(run: Run, best: Recommendation | None) -> str:
    """Return what of the memory the recommended config leaves free; empty without one."""
    if best is None:
        return ""
    told = []
    if best.peak_reserved_bytes is not None and best.device_memory_bytes is not None:
        share = 1 - best.peak_reserved_bytes / best.device_memory_bytes
        of = f"{bytes_text(best.peak_reserved_bytes)} of {bytes_text(best.device_memory_bytes)}"
        told.append(f"{share_text(share)} of the device's memory stays free, {of} reserved (measured)")
    host = run.rank_host
    share = 1 - (best.base_ram_bytes + best.buffer_bytes) / host.ram_limit_bytes
    told.append(
        f"{share_text(max(0.0, share))} of {bytes_text(host.ram_limit_bytes)} RAM stays free, "
        f"{bytes_text(best.base_ram_bytes)} for processes (measured) and {ram_text(best, run)} for the "
        "loader's buffer (predicted)"
    )
    return f"Headroom: {'; '.join(told)}."


def price_text(run: Run, best: Recommendation | None) -> str:
    """Return what a speed-up does to the price of a training; empty where none was shown."""
    if best is None or best.is_baseline or best.speedup is None or is_too_wide(best.speedup):
        return ""
    judged = verdict(best.speedup, run.noise_floor)
    if judged == "no significant difference":
        return "Price: no significant difference."
    share, least, most = (1 / one for one in (best.speedup.value, best.speedup.high, best.speedup.low))
    if not math.isfinite(most):
        return ""
    what = "the planned training" if run.options.objective is Objective.FINISH_TIME else "every epoch"
    return (
        f"Price: on a machine that is billed by the hour, {what} costs {share_text(share)} of what it "
        f"costs now ({share_text(least)} to {share_text(most)}; predicted from the speed-up)."
    )
