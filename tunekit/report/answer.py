"""The answer of a run, how it came about, what was predicted and what to do next, in sentences. Pure."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tunekit.recommend.compatibility import loader_only_text
from tunekit.recommend.data_check import data_checks
from tunekit.recommend.learning_rate import global_batch
from tunekit.recommend.noise import (
    BUSY_FLOOR,
    MOST_WORTHWHILE_ROUNDS,
    confidence,
    rounds_to_tell,
    verdict,
)
from tunekit.recommend.tiers import same_training
from tunekit.records.config import KNOBS, TrainConfig
from tunekit.records.data_check import Sameness
from tunekit.records.interval import Interval
from tunekit.records.prediction import Correction, DevicePrediction, PredictedFit
from tunekit.records.recommendation import (
    LearningRate,
    LearningRateRule,
    Recommendation,
    Verdict,
)
from tunekit.records.run import Objective, Run, RunStatus
from tunekit.records.trial import Failure, OutcomeKind, TrialRecord, TrialRole
from tunekit.report.blocks import Basis, Lead, Passage, Tone
from tunekit.report.text import (
    UNKNOWN,
    change_text,
    factor_text,
    gain_text,
    interval_text,
    resume_command,
    search_again,
    value_text,
)
from tunekit.report.tiers import baseline_column, lr_text, tier_column
from tunekit.trial.binding_syntax import how_text
from tunekit.trial.bindings import scaled_steps
from tunekit.trial.knob_names import STEPS
from tunekit.trial.typed_commands import command_text, missing_command, quoted, target_text
from tunekit.units import (
    bytes_text,
    count_text,
    duration_text,
    rate_text,
    share_text,
)

_ROUNDS = 5
"""Of the comparison that is advised where a config and the baseline had one process each."""
_WAIT_QUIET_S = 600.0
"""Wait that is advised on a busy machine."""
_LARGE = 1.5
"""Predicted factor over the answer from which an untried config is named first."""
_LONGER = 4
"""Times the window, where the noise floor hides the difference."""

_BADGES: dict[Verdict, tuple[str, Tone]] = {
    "faster": ("Confirmed", "good"),
    "slower": ("Slower", "bad"),
    "no gain": ("No gain", ""),
    "inconclusive": ("Inconclusive", "warn"),
}


def answer_lead(run: Run, best: Recommendation | None) -> Lead:
    """Return the result with its badge; it says so where the search did not come to its end."""
    if best is None:
        if run.cut_short and run.status is RunStatus.FINISHED:
            return Lead(f"No recommendation within the budget: {run.cut_short}.")
        failed = sum(record.failure is not None for record in run.trials)
        trials = f"{count_text(len(run.trials), 'trial')}, {failed} failed"
        return Lead(f"No recommendation yet: {trials} (status: {run.status}).")
    lead = _kept_lead(run, best) if best.is_baseline else _gain_lead(run, best)
    if run.status is RunStatus.FINISHED:
        return lead
    return replace(lead, text=f"{lead.text} Not final (status: {run.status}).")


def _gain_lead(run: Run, best: Recommendation) -> Lead:
    """Return how a config does beside the baseline."""
    tier, own = best.tier.value, baseline_column(run)
    rate = interval_text(best.rate_samples_per_s, " samples/s")
    if best.speedup is None:
        return Lead(f"{tier.capitalize()}: {rate} (measured); speedup n/a without confirming rounds.")
    figures = f"{rate_text(own.samples_per_s)} -> {rate}"
    if run.options.objective is Objective.FINISH_TIME:
        figures = f"the planned training {duration_text(own.finish_time_s)} -> "
        figures += duration_text(best.finish_time_s)
    text = f"{gain_text(best.speedup)} with {tier}: {figures} ({_basis(run)})."
    kept = " and ".join(one.tier.value for one in run.recommendations if one.is_baseline)
    text += f" Within the limits of {kept} keep your current settings." if kept else ""
    return _judged(run, best.speedup, text + _settled_text(run, best))


def _kept_lead(run: Run, best: Recommendation) -> Lead:
    """Return why the baseline's config stays."""
    rate = f"{interval_text(best.rate_samples_per_s, ' samples/s')} (measured)"
    keep = f"Keep your current settings: {rate}."
    why, candidate = f" ({run.cut_short})" if run.cut_short else "", run.candidate
    if candidate is not None:
        ratio = candidate.speedup
        found = open_gain_text(run, ratio or candidate.factor, candidate.rounds)
        text = f"{found}.{_settled_text(run, best)} {keep}"
        return Lead(text, f"Not confirmed{why}", "warn") if ratio is None else _judged(run, ratio, text)
    if (aside := best.set_aside) is not None:
        found = open_gain_text(run, aside.speedup, len(aside.confirm_trials))
        return _judged(run, aside.speedup, f"{found}. {keep}")
    left = f" Not tried: {_untried_text(run, best)}." if _untried_factor(run, best) >= _LARGE else ""
    searched = [one for one in run.trials if one.role is TrialRole.SEARCH and one.measurement is not None]
    if searched:
        tried = count_text(len({one.config for one in searched}), "config")
        text = f"{tried} tried, {_none_text(run, searched)}{why}.{left} {keep}"
        return Lead(text, "Not all tried", "warn") if left else Lead(text, "No gain")
    return Lead(f"No other config was measured: {_why_none(run)}.{left} {keep}")


def _none_text(run: Run, searched: Sequence[TrialRecord]) -> str:
    """Return that no config beat the baseline, and which were faster but train something else."""
    own, same = run.baseline, same_training(searched, run.history)
    least = (own.rate_samples_per_s if own else None) or 0.0
    faster = {one.config for one in searched if one not in same and (one.rate_samples_per_s or 0.0) > least}
    if not faster:
        return "none beat your baseline"
    found = (one for check in data_checks(run.history).values() for one in check.differences)
    codes = ", ".join(dict.fromkeys(one.code.replace("_", " ") for one in found))
    changed = f"{len(faster)} faster but changed it ({codes}: see other-training)"
    return f"none beat your baseline with the same training, {changed}"


def _why_none(run: Run) -> str:
    failures = [one.failure.kind for one in run.trials if one.role is TrialRole.SEARCH and one.failure]
    has_failed = any(kind is not OutcomeKind.REFUSED for kind in failures)
    return "every trial failed" if has_failed else run.cut_short or "give a longer --budget"


def _judged(run: Run, ratio: Interval, text: str) -> Lead:
    """Return a sentence about a speedup with the badge of its verdict."""
    noise, judged = run.noise_floor, verdict(ratio, run.noise_floor)
    badge, tone = _BADGES[judged]
    if judged == "inconclusive":
        return Lead(text, badge, tone)
    sure = confidence(ratio, noise)
    busy = ", machine is busy" if noise is not None and noise.relative >= BUSY_FLOOR else ""
    return Lead(text, f"{badge} ({sure} confidence{busy})", "warn" if sure == "low" else tone)


def open_gain_text(run: Run, ratio: Interval | float, rounds: int) -> str:
    """Return how fast the config is whose gain is left open, and how that is known."""
    over = "one process" if isinstance(ratio, float) else count_text(rounds, "round")
    return f"{gain_text(ratio)} with the best config found ({_basis(run)} in {over}; {_floor_text(run)})"


def _floor_text(run: Run) -> str:
    return f"noise floor {share_text(run.noise_floor.relative, '.1f') if run.noise_floor else UNKNOWN}"


def _basis(run: Run) -> str:
    """Return where the search's speedups come from."""
    return "measured" if run.options.objective is Objective.RATE else "predicted from measured parts"


class _Settled(NamedTuple):
    """What would settle a gain that is left open."""

    text: str
    command: str


def _settled_text(run: Run, best: Recommendation) -> str:
    settled = _settled_by(run, best)
    return f" {settled.text}." if settled else ""


def _settled_by(run: Run, best: Recommendation, folder: str = "") -> _Settled | None:
    """Return what would settle it; None where nothing is left open."""
    ratio, rounds = best.speedup, len(best.confirm_trials)
    if best.is_baseline:
        candidate = run.candidate
        if candidate is None or candidate.factor <= 1:
            return None
        ratio, rounds = candidate.speedup, candidate.rounds
        if ratio is None:
            flags = ("--against", f"{folder}/{candidate.name}.yaml", "--rounds", str(_ROUNDS))
            beside = command_text("profile", run.target, run.options.gpu, flags)
            return _Settled("Re-run both to settle it", beside)
    if ratio is None or verdict(ratio, run.noise_floor) != "inconclusive":
        return None
    asked, noise = run.options, run.noise_floor
    if noise is not None and noise.relative >= BUSY_FLOOR and asked.wait_quiet_s is None:
        quiet = search_again(run.changed(options=asked.changed(wait_quiet_s=_WAIT_QUIET_S)))
        return _Settled("Machine is busy: stop other programs, or use --wait-quiet", quiet)
    needed = rounds_to_tell(ratio, rounds, noise)
    if needed is not None and needed <= MOST_WORTHWHILE_ROUNDS:
        resume = f"tunekit search --resume {quoted(folder)} --confirm {needed}{missing_command(run.target)}"
        return _Settled(f"About {needed} confirming rounds would settle it", resume)
    longer = search_again(run.changed(options=asked.changed(window_s=_LONGER * asked.window_s)))
    return _Settled("The difference is within the noise: use a longer --window or a quieter machine", longer)


def change_lines(run: Run, best: Recommendation | None) -> tuple[str, ...]:
    """Return what to change, "knob: before -> after"; the learning rate too where the batch changes."""
    return () if best is None else _changes_to(run, best.config, best.learning_rate)


def candidate_text(run: Run, folder: str = "") -> str:
    """Return the config whose gain the answer leaves open, and its file; empty without one."""
    candidate = run.candidate
    if candidate is None:
        return ""
    changes = ", ".join(_changes_to(run, candidate.config, candidate.learning_rate))
    file = quoted(f"{folder}/{candidate.name}.yaml" if folder else f"{candidate.name}.yaml")
    where = f"; in {file}" if run.status is RunStatus.FINISHED else ""  # files are written at the end
    return f"Best config found (trial {candidate.trial}, not confirmed): {changes}{where}"


def _changes_to(run: Run, config: TrainConfig, lr: LearningRate | None) -> tuple[str, ...]:
    if run.baseline_config is None:
        return ()
    changes = _knob_changes(run.baseline_config, config)
    if (loader_only := loader_only_text(run, config)) is not None:
        changes[0] += f" ({loader_only})"  # the batch size comes first
    options = run.discovery.options if run.discovery else ()
    steps = scaled_steps(run.target, config, run.baseline_config, options)
    if steps is not None and steps[0] != steps[1]:
        binding = run.target.binding_of(STEPS)
        name = how_text(binding).partition("{")[0].rstrip(" =") if binding else STEPS
        changes.append(f"{name}: {steps[0]:,} -> {steps[1]:,}")
    times = global_batch(config) / global_batch(run.baseline_config)
    return tuple(changes) if times == 1 else (*changes, _lr_change(run, times, lr))


def _knob_changes(before: TrainConfig, after: TrainConfig) -> list[str]:
    old, new = before.model_dump(), after.model_dump()
    return [change_text(knob, old[knob], new[knob]) for knob in KNOBS if old[knob] != new[knob]]


def _lr_change(run: Run, times: float, lr: LearningRate | None) -> str:
    """Return what to do about the learning rate for so many times the batch."""
    if run.script_scales_lr:
        return "lr: leave it, your script scales it with the batch"
    batches = f"{times:.3g}x the batch"
    if lr is not None:
        warm_up = ", with warm-up" if lr.rule is LearningRateRule.LINEAR and times > 1 else ""
        rule = f"predicted: {lr.rule} rule for {batches}{warm_up}"
        return f"lr: {lr_text(lr.base_lr)} -> {lr_text(lr.value)} ({rule})"
    linear, sqrt = (f"{one:.3g}x" for one in (times, math.sqrt(times)))
    return f"lr: {linear} for SGD, {sqrt} for Adam (predicted for {batches})"


def how_measured(run: Run, best: Recommendation | None) -> str:
    """Return what the figures rest on, in one sentence."""
    rounds = count_text(len(best.confirm_trials) if best else 0, "confirming round")
    trials, hosts = count_text(len(run.trials), "trial"), {record.host_name for record in run.trials}
    if len(hosts) > 1:
        trials += f" by {len(hosts)} hosts"
    return (
        f"Measured on {run.measured_on}: {trials} in {duration_text(run.search_time_s)}, "
        f"{rounds}, {_floor_text(run)}.{_data_text(best)}"
    )


def tried_text(run: Run, best: Recommendation | None) -> str:
    """Return what was tried, and the most that an untried config promises."""
    tried = {r.config: r.config.model_dump() for r in run.trials if r.role.is_candidate and r.config}
    if len(tried) < 2 or best is None or run.untried is None:
        return ""
    varied, same = list[str](), list[str]()
    for knob in (entry.knob for entry in run.space if entry.is_searched):
        values = list(map(value_text, sorted({one[knob] for one in tried.values() if one[knob] is not None})))
        if len(values) < 2:
            same.append(knob)
        else:
            ends = f"{values[0]} to {values[-1]}" if values[0].isdigit() else " and ".join(values)
            varied.append(f"{knob} {ends}")
    not_varied = f"; not varied: {', '.join(same)}" if same else ""
    configs = f"Tried {count_text(len(tried), 'config')}: {', '.join(varied)}{not_varied}."
    return f"{configs} Fastest untried: {_untried_text(run, best)}."


def _untried_factor(run: Run, best: Recommendation) -> float:
    return run.untried.rate_samples_per_s / best.rate_samples_per_s.value if run.untried else 0.0


def _untried_text(run: Run, best: Recommendation) -> str:
    changes = ", ".join(_knob_changes(best.config, run.untried.config)) if run.untried else ""
    over = "your baseline" if best.is_baseline else "the answer"
    return f"{changes}, {factor_text(_untried_factor(run, best))} {over} (predicted)"


def other_tiers_text(run: Run, best: Recommendation | None) -> str:
    """Return what the other tiers bring, in one line; empty where none differs from the answer."""
    others = [
        f"{one.tier.value} {factor_text(one.speedup.value)}, {verdict(one.speedup, run.noise_floor)}"
        for one in run.recommendations
        if best and one.config != best.config and not one.same_as and not one.is_baseline and one.speedup
    ]
    return f"Other tiers: {'; '.join(others)} ({_basis(run)})." if others else ""


def missing_lines(run: Run) -> tuple[str, ...]:
    """Return why tiers are missing, a line for each reason; none while no trial is measured."""
    if all(record.measurement is None for record in run.trials):
        return ()
    by_reason: dict[str, list[str]] = {}
    for one in run.missing_tiers:
        by_reason.setdefault(one.reason, []).append(one.tier.value)
    return tuple(f"no {' or '.join(tiers)}: {reason}" for reason, tiers in by_reason.items())


def failure_lines(run: Run) -> tuple[str, ...]:
    """Return what failed, a line for each kind, with its first message and remedy."""
    by_kind: dict[OutcomeKind, list[Failure]] = {}
    for record in run.trials:
        if record.failure is not None and record.failure.kind is not OutcomeKind.REFUSED:
            by_kind.setdefault(record.failure.kind, []).append(record.failure)
    return tuple(
        (
            f"{count_text(len(failures), 'trial')} of {len(run.trials)} ended as {kind}: "
            f"{failures[0].message}{f'; {failures[0].remedy}' if failures[0].remedy else ''}"
        )
        for kind, failures in by_kind.items()
    )


def headroom_text(run: Run, best: Recommendation | None) -> str:
    """Return what of the memory the recommended config leaves free; empty without one."""
    if best is None:
        return ""
    free = []
    if (share := best.vram_free_share) is not None:
        of = f"{bytes_text(best.peak_reserved_bytes)} of {bytes_text(best.device_memory_bytes)} reserved"
        free.append(f"{share_text(share)} of VRAM (measured: {of})")
    limit_bytes = run.rank_host.ram_limit_bytes
    basis = f"predicted: loader's buffer {tier_column(best, run).buffer}" if best.buffer_bytes else "measured"
    share = max(0.0, 1 - best.ram_bytes / limit_bytes)
    free.append(f"{share_text(share)} of {bytes_text(limit_bytes)} RAM ({basis})")
    warns = best.config.num_workers > (run.host.cpus_affinity or run.host.cpus_total)
    warned = " PyTorch will warn that num_workers exceeds the CPU count." if warns else ""
    return f"Headroom: {', '.join(free)}.{warned}"


def next_steps(run: Run, best: Recommendation | None, folder: str) -> tuple[str, ...]:
    """Return what to do with a run that lies in a folder."""
    words = missing_command(run.target)
    if best is None or run.status is not RunStatus.FINISHED:
        return (resume_command(run, folder),)
    steps = []
    if run.is_emulated:
        steps.append(f"on a machine with {run.profile.device_names[0]}: {search_again(run)}")
    elif (settled := _settled_by(run, best, folder)) is not None:
        steps.append(f"to settle it: {settled.command}")
    if _untried_factor(run, best) >= _LARGE:
        steps.append(f"to try more: {resume_command(run, folder)}")
    if run.target.builtin:
        return (*steps, "on your own script: tunekit search -- python train.py")
    if best.is_baseline:
        return (*steps, f"train as before: {target_text(run.target)}")
    command, baseline = f"tunekit run {quoted(f'{folder}/{best.tier.value}.yaml')}", run.baseline_config
    same_batch = baseline is None or global_batch(best.config) == global_batch(baseline)
    if same_batch or run.target.is_bound("lr") or run.script_scales_lr:
        return (*steps, f"{command}{words}")
    lr = "choose an lr"
    if best.learning_rate is not None:
        lr = f"set lr to {lr_text(best.learning_rate.value)} (predicted)"
    by_hand = f"{lr} in your script, or bind it (--bind), then:"
    return (*steps, by_hand, f"{command} --keep-lr{words}")


# --- the GPU that was asked for --------------------------------------------------------------


def prediction_passage(run: Run, best: Recommendation | None) -> Passage:
    """Return what fits the GPU that was asked for, and what trials on it say of that; no lines if nothing.

    The answer's precision comes first: a medium may have room for no other.
    """
    title = f"{run.profile.id} (predicted)"
    if run.prediction is None:
        reason = run.why_not_predicted
        return Passage(title, (f"VRAM and speed are n/a: {reason}",) if reason else ())
    fits = sorted(run.prediction.fits, key=lambda fit: not best or fit.precision is not best.config.precision)
    lines = [_fit_sentence(fit, run.prediction) for fit in fits]
    if not lines:
        return Passage(title, ("VRAM and speed are n/a: its memory is unknown, or it lacks the precision",))
    device = f" on {run.measured_on}" if run.is_emulated else ""
    lines += [_correction_sentence(one, device) for one in run.prediction.corrections]
    return Passage(title, (*lines, _how(run.prediction)), Basis.PREDICTED)


def _fit_sentence(fit: PredictedFit, prediction: DevicePrediction) -> str:
    low, value, high = (
        f"all {prediction.epoch_samples:,}" if prediction.has_whole_epoch(size) else f"{size:,}"
        for size in (fit.largest.low, fit.largest.value, fit.largest.high)
    )
    reserved = bytes_text(fit.peak.reserved_bytes if fit.peak else None)
    bound = f", {fit.bound_by}-bound" if fit.bound_by else ""
    speed = f"about {interval_text(fit.rate, ' samples/s')}{bound}" if fit.rate else "speed n/a"
    there = f" on {fit.instance}" if fit.bound_by == "loader" and fit.instance else ""
    return (
        f"{fit.precision}: batch {low} fits ({value} without the margin, {high} at best), {reserved} of "
        f"{bytes_text(fit.capacity_bytes)} reserved; {speed}{there}"
    )


def _correction_sentence(one: Correction, device: str) -> str:
    predicted, measured = bytes_text(one.predicted_bytes), bytes_text(one.measured_bytes)
    return (
        f"{one.precision}, batch {one.batch_size:,}{device}: the model predicted {predicted} reserved, "
        f"{measured} measured ({one.factor:.2f}x)"
    )


def _how(prediction: DevicePrediction) -> str:
    sizes = " and ".join(str(size) for size in prediction.traced_sizes)
    doubts = "".join(f"; {doubt}" for doubt in prediction.doubts)
    factor = prediction.speed_factor
    scaled = "" if factor is None else f", times {factor:.2f} as seen on the GPU here"
    return (
        f"by {prediction.path}, at batch sizes {sizes}, with a margin of {prediction.margin:.0%}; speed by a "
        f"roofline of each op, within 30%{scaled}{doubts}"
    )


def _data_text(best: Recommendation | None) -> str:
    """Return what the data check found, after a space; nothing for the baseline or where no check ran."""
    check = best.data_check if best else None
    if check is None:
        return ""
    if check.verdict is Sameness.NOT_CHECKED:
        return f" Data not checked: {check.why_not}."
    contents = f"{check.samples_checked:,} contents compared"
    if not check.samples_checked and check.why_not:
        contents = f"contents not compared ({check.why_not})"
    left_out = f"{check.left_out_samples:,} more left out, different ones each epoch"
    parts = (
        f"{check.indices_checked:,} per epoch counted",
        contents,
        *([left_out] if check.left_out_samples else []),
    )
    return f" Same samples: {', '.join(parts)}."
