"""The answer of a run, how it came about and what to do next, in sentences. Pure."""

import math

from tunekit.plain_text import printable
from tunekit.recommend.learning_rate import global_batch
from tunekit.recommend.noise import verdict
from tunekit.records.config import KNOBS
from tunekit.records.recommendation import Recommendation
from tunekit.records.run import Objective, Run, RunStatus
from tunekit.records.trial import Failure, OutcomeKind, TrialRole
from tunekit.report.commands import missing_command, search_again
from tunekit.report.text import change_text, interval_text, is_too_wide, quoted, speedup_text, target_text
from tunekit.report.tiers import baseline_column, tier_column
from tunekit.units import bytes_text, count_text, duration_text, share_text


def answer_text(run: Run, best: Recommendation | None) -> str:
    """Return the result in one or two sentences; it says so where the search did not come to its end."""
    if best is None:
        failed = sum(record.failure is not None for record in run.trials)
        trials = f"{count_text(len(run.trials), 'trial')}, {failed} of them failed"
        if run.cut_short and run.status is RunStatus.FINISHED:
            return f"No recommendation in this budget: {printable(run.cut_short)}."
        return f"No recommendation yet: {trials} (status: {run.status})."
    answer = _kept_answer(run, best) if best.is_baseline else _faster_answer(run, best)
    return answer if run.status is RunStatus.FINISHED else f"{answer} Not final (status: {run.status})."


def _kept_answer(run: Run, best: Recommendation) -> str:
    rate = interval_text(best.rate_samples_per_s, " samples/s")
    searched = [record for record in run.trials if record.role is TrialRole.SEARCH]
    if any(record.measurement is not None for record in searched):
        name = best.tier.value.capitalize()
        return f"Keep what you have: no measured config beats your own beyond the noise. {name}: {rate}."
    failures = [record.failure.kind for record in searched if record.failure is not None]
    if any(kind is not OutcomeKind.REFUSED for kind in failures):
        return f"No other config could be measured: every one that was tried failed. Your own: {rate}."
    short = printable(run.cut_short) if run.cut_short else "give a longer --budget"
    return f"No other config was measured in this budget: {short}. Your own: {rate}."


def _faster_answer(run: Run, best: Recommendation) -> str:
    name = best.tier.value.capitalize()
    told = interval_text(best.rate_samples_per_s, " samples/s")
    if best.speedup is None:
        if run.baseline is not None and run.baseline.measurement is not None:
            return (
                f"{name}: {told}; speed-up n/a: too few rounds to compare with your baseline (--confirm 3)."
            )
        return f"{name}: {told}; speed-up n/a, because the baseline could not be measured here."
    is_faster, is_slower, planned = "is", "is slower than", ""
    if run.options.objective is Objective.FINISH_TIME:
        is_faster, is_slower = "finishes the planned training", "finishes the planned training later than"
        planned = " in the planned training"
        after, before = duration_text(best.finish_time_s), duration_text(baseline_column(run).finish_time_s)
        told = f"{after} instead of {before}, predicted from measured parts"
    factor = speedup_text(best.speedup)
    match verdict(best.speedup, run.noise_floor):
        case "faster":
            return f"{name} {is_faster} {factor} as fast as your baseline: {told}."
        case "slower":
            return f"{name} {is_slower} your baseline, {factor} as fast: {told}."
        case judged:
            return f"{name}: {judged} from your baseline{planned}, {factor}: {told}."


def change_lines(run: Run, best: Recommendation | None) -> tuple[str, ...]:
    """Return what to change, "knob: before -> after"."""
    if best is None or run.baseline_config is None:
        return ()
    before, after = run.baseline_config.model_dump(), best.config.model_dump()
    return tuple(
        change_text(knob, before[knob], after[knob]) for knob in KNOBS if before[knob] != after[knob]
    )


def how_measured(run: Run, best: Recommendation | None) -> str:
    """Return what the figures rest on, in one sentence."""
    noise = run.noise_floor
    floor = "n/a"
    if noise:
        floor = f"{share_text(noise.relative, '.1f')} over {noise.processes} fresh baseline processes"
    rounds = count_text(len(best.confirm_trials) if best else 0, "interleaved round")
    trials = count_text(len(run.trials), "trial")
    abandoned = sum(record.is_abandoned for record in run.trials)
    if abandoned:
        trials += f" ({abandoned} abandoned early as too slow)"
    return (
        f"Measured on {printable(run.measured_on)} in {trials}, {duration_text(run.search_time_s)}; rates "
        f"and speed-ups from {rounds} of fresh processes (95% intervals); A/A noise floor {floor}."
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
    return tuple(
        printable(
            f"{count_text(len(failures), 'trial')} of {len(run.trials)} ended as {kind}: "
            f"{failures[0].message}{f'; {failures[0].remedy}' if failures[0].remedy else ''}"
        )
        for kind, failures in by_kind.items()
    )


def headroom_text(run: Run, best: Recommendation | None) -> str:
    """Return what of the memory the recommended config leaves free; empty without one."""
    if best is None:
        return ""
    told = ""
    if best.peak_reserved_bytes is not None and best.device_memory_bytes is not None:
        share = 1 - best.peak_reserved_bytes / best.device_memory_bytes
        of = f"{bytes_text(best.peak_reserved_bytes)} of {bytes_text(best.device_memory_bytes)}"
        told = f"{share_text(share)} of the device's memory stays free, {of} reserved (measured); "
    limit_bytes = run.rank_host.ram_limit_bytes
    share = max(0.0, 1 - (best.base_ram_bytes + best.buffer_bytes) / limit_bytes)
    return (
        f"Headroom: {told}{share_text(share)} of {bytes_text(limit_bytes)} RAM stays free, "
        f"{bytes_text(best.base_ram_bytes)} for processes (measured) and {tier_column(best, run).buffer} for "
        "the loader's buffer (predicted)."
    )


def price_text(run: Run, best: Recommendation | None) -> str:
    """Return what a speed-up does to the price of a training; empty where none was shown."""
    if best is None or best.is_baseline or best.speedup is None or is_too_wide(best.speedup):
        return ""
    if verdict(best.speedup, run.noise_floor) == "no significant difference":
        return "Price: no significant difference."
    share, least, most = (1 / one for one in (best.speedup.value, best.speedup.high, best.speedup.low))
    if not math.isfinite(most):
        return ""
    what = "the planned training" if run.options.objective is Objective.FINISH_TIME else "every epoch"
    return (
        f"Price: on a machine that is billed by the hour, {what} costs {share_text(share)} of what it "
        f"costs now ({share_text(least)} to {share_text(most)}; predicted from the speed-up)."
    )


def next_steps(run: Run, best: Recommendation | None, folder: str) -> tuple[str, ...]:
    """Return what to do with a run that lies in a folder."""
    words = missing_command(run.target)
    if best is None or run.status is not RunStatus.FINISHED:
        return (f"tunekit search --resume {quoted(folder)}{words}",)
    steps = []
    if run.is_emulated:
        steps.append(f"on a machine with {run.profile.device_names[0]}: {search_again(run)}")
    if run.target.builtin:
        return (*steps, "on your own script: tunekit search -- python train.py")
    if best.is_baseline:
        return (*steps, f"train as before: {target_text(run.target)}")
    command, baseline = f"tunekit run {quoted(f'{folder}/{best.tier.value}.yaml')}", run.baseline_config
    same_batch = baseline is None or global_batch(best.config) == global_batch(baseline)
    if same_batch or run.target.is_bound("lr") or run.script_scales_lr:
        return (*steps, f"{command}{words}")
    lr = f"set lr to {best.learning_rate.value:.4g}" if best.learning_rate else "choose an lr"
    by_hand = f"{lr} in your script for the new batch, or bind it (--bind), then:"
    return (*steps, by_hand, f"{command} --keep-lr{words}")
