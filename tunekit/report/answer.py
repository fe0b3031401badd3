"""The answer of a run, how it came about, what was predicted and what to do next, in sentences. Pure."""

import math
from collections.abc import Sequence

from tunekit.recommend.compatibility import loader_only_text
from tunekit.recommend.learning_rate import global_batch
from tunekit.recommend.memory import batches_text
from tunekit.records.config import KNOBS, TrainConfig
from tunekit.records.data_check import Sameness
from tunekit.records.prediction import Correction, DevicePrediction, PredictedFit
from tunekit.records.recommendation import (
    AnswerKind,
    Candidate,
    LearningRate,
    LearningRateRule,
    LossCheck,
    LossOutcome,
    OutcomeWord,
    Recommendation,
    SetAside,
    Settling,
    Untried,
)
from tunekit.records.run import Objective, Run, RunStatus
from tunekit.records.trial import Failure, OutcomeKind, TrialRole
from tunekit.report.blocks import Basis, Changes, Lead, Passage, Step, Tone
from tunekit.report.text import (
    PATHS,
    UNKNOWN,
    by_text,
    factor_text,
    gain_text,
    interval_text,
    resume_command,
    search_again,
    value_text,
    values_text,
)
from tunekit.report.tiers import buffer_text, lr_text
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
"""Rounds of the comparison that is advised where a config and the baseline had one process each."""
_WAIT_QUIET_S = 600.0
"""The `--wait-quiet` that is advised on a busy machine."""
_LONGER = 4
"""Factor on `--window` that is advised where the noise floor hides the difference."""
_TONES: dict[OutcomeWord, Tone] = {
    OutcomeWord.CONFIRMED: "good",
    OutcomeWord.SLOWER: "bad",
    OutcomeWord.INCONCLUSIVE: "warn",
    OutcomeWord.NOT_CONFIRMED: "warn",
    OutcomeWord.NOT_ALL_TRIED: "warn",
}
_SETTLED_BY: dict[Settling, str] = {
    Settling.PROFILE: " Re-run both to settle it.",
    Settling.WAIT_QUIET: " Machine is busy: stop other programs, or use --wait-quiet.",
    Settling.ROUNDS: " About {} confirming rounds would settle it.",
    Settling.WINDOW: " The difference is within the noise: use a longer --window or a quieter machine.",
}


def answer_lead(run: Run, best: Recommendation | None) -> Lead:
    """Return the outcome with its badge, in one sentence of its kind and what to do."""
    out, found = run.outcome, run.candidate or (best.set_aside if best else None)
    failed = sum(record.failure is not None for record in run.trials)
    why = run.cut_short or f"{count_text(len(run.trials), 'trial')}, {failed} failed"
    text = f"No recommendation: {why}."
    if best is not None:
        rate = interval_text(best.rate_samples_per_s, " samples/s")
        keep = f"Keep your current settings: {rate} (measured)."
        untried = run.untried if out.untried_factor else None
        left = f" Not tried: {_untried_text(untried, best)}." if untried else ""
        settled = _SETTLED_BY[out.settled_by].format(out.rounds_to_settle) if out.settled_by else ""
        if out.kind is AnswerKind.RECOMMENDED:
            text = f"{tier_text(run, best)}.{_kept_tiers_text(run)}{settled}"
        elif found is not None:
            text = f"{open_gain_text(run, found)}.{settled} {keep}"
        elif out.kind is AnswerKind.NONE_FASTER:
            why = f" ({run.cut_short})" if run.cut_short else ""
            tried = f"{count_text(out.tried, 'config')} tried{why}"
            text = f"{tried}, none with the same training was faster.{left} {keep}"
        else:
            text = f"No other config was measured: {_why_none(run)}.{left} {keep}"
    if run.status is not RunStatus.FINISHED:
        text += f" Not final (status: {run.status})."
    if out.word is None:
        return Lead(text)
    busy = ", machine is busy" if out.is_busy else ""
    sure = f" ({out.confidence} confidence{busy})" if out.confidence else ""
    return Lead(text, f"{out.word}{sure}", "warn" if out.confidence == "low" else _TONES.get(out.word, ""))


def tier_text(run: Run, tier: Recommendation) -> str:
    """Return how a tier's config compares with the baseline."""
    own = run.baseline_figures
    before = rate_text(own.rate_samples_per_s.value if own else None)
    figures = f"{before} -> {interval_text(tier.rate_samples_per_s, ' samples/s')}"
    if run.options.objective is Objective.FINISH_TIME:
        before = duration_text(own.finish_time_s if own else None)
        finish = f"{before} -> {duration_text(tier.finish_time_s)}"
        figures = f"the planned training {finish}"
    return f"{gain_text(tier.speedup)} with {tier.tier.value}: {figures} ({_basis(run)})"


def _kept_tiers_text(run: Run) -> str:
    kept = " and ".join(one.tier.value for one in run.recommendations if one.is_baseline)
    return f" {kept.capitalize()}: keep your current settings." if kept else ""


def _why_none(run: Run) -> str:
    failures = [one.failure.kind for one in run.trials if one.role is TrialRole.SEARCH and one.failure]
    has_failed = any(kind is not OutcomeKind.REFUSED for kind in failures)
    return "every trial failed" if has_failed else run.cut_short or "give a longer --budget"


def open_gain_text(run: Run, found: Candidate | SetAside) -> str:
    """Return the unconfirmed gain of the best config found, and its source."""
    gain, rounds = found.speedup, len(found.confirm_trials) if isinstance(found, SetAside) else found.rounds
    over = count_text(rounds, "round") if gain else "one process"
    factor = gain or (found.factor if isinstance(found, Candidate) else None)
    return f"{gain_text(factor)} with the best config found ({_basis(run)} in {over}; {_floor_text(run)})"


def _floor_text(run: Run) -> str:
    return f"noise floor {share_text(run.noise_floor.relative, '.1f') if run.noise_floor else UNKNOWN}"


def _basis(run: Run) -> str:
    """Return where the search's speedups come from."""
    return "measured" if run.options.objective is Objective.RATE else "predicted from measured parts"


def _settling_command(run: Run, folder: str) -> str:
    """Return the command that would settle an open gain."""
    out, asked = run.outcome, run.options
    if out.settled_by is Settling.ROUNDS:
        words = f"--confirm {out.rounds_to_settle}{missing_command(run.target)}"
        return f"tunekit search --resume {quoted(folder)} {words}"
    if out.settled_by is Settling.PROFILE and run.candidate:
        flags = ("--against", f"{folder}/{run.candidate.name}.yaml", "--rounds", str(_ROUNDS))
        return command_text("profile", run.target, asked.gpu, flags)
    is_quiet = out.settled_by is Settling.WAIT_QUIET
    changes = {"wait_quiet_s": _WAIT_QUIET_S} if is_quiet else {"window_s": _LONGER * asked.window_s}
    return search_again(run.changed(options=asked.changed(**changes)))


def changes_of(run: Run, best: Recommendation | None) -> Changes:
    """Return what to change; the learning rate too where the batch changes."""
    return Changes(()) if best is None else _changes_to(run, best.config, best.learning_rate)


def candidate_text(run: Run, folder: str = "") -> str:
    """Return the config whose gain the answer leaves open, and its file; empty without one."""
    candidate = run.candidate
    if candidate is None:
        return ""
    changes = ", ".join(_changes_to(run, candidate.config, candidate.learning_rate).lines)
    file = quoted(f"{folder}/{candidate.name}.yaml" if folder else f"{candidate.name}.yaml")
    where = f"; in {file}" if run.status is RunStatus.FINISHED else ""  # files are written at the end
    return f"Best config found (trial {candidate.trial}, not confirmed): {changes}{where}"


def _changes_to(run: Run, config: TrainConfig, lr: LearningRate | None) -> Changes:
    if run.baseline_config is None:
        return Changes(())
    changes = _knob_changes(run.baseline_config, config)
    if (loader_only := loader_only_text(run, config)) is not None:
        changes["batch_size"] += f" ({loader_only})"
    before, binding = run.bound_steps, run.target.binding_of(STEPS)
    if before and binding and (steps := scaled_steps(before, config, run.baseline_config)) != before:
        changes[how_text(binding).partition("{")[0].rstrip(" =")] = f"{before:,} -> {steps:,}"
    times = global_batch(config) / global_batch(run.baseline_config)
    if times != 1:
        changes["lr"] = _lr_change(run, times, lr)
    return Changes(tuple(changes.items()))


def _knob_changes(before: TrainConfig, after: TrainConfig) -> dict[str, str]:
    old, new = before.model_dump(), after.model_dump()
    return {knob: values_text(old[knob], new[knob]) for knob in KNOBS if old[knob] != new[knob]}


def _lr_change(run: Run, times: float, lr: LearningRate | None) -> str:
    """Return what to do about the learning rate when the batch grows by a factor."""
    if run.script_scales_lr:
        return "leave it, your script scales it with the batch"
    batches = f"{times:.3g}x the batch"
    if lr is not None:
        warm_up = ", with warm-up" if lr.rule is LearningRateRule.LINEAR and times > 1 else ""
        rule = f"predicted: {lr.rule} rule for {batches}{warm_up}"
        return f"{lr_text(lr.base_lr)} -> {lr_text(lr.value)} ({rule})"
    linear, sqrt = (f"{one:.3g}x" for one in (times, math.sqrt(times)))
    return f"{linear} for SGD, {sqrt} for Adam (predicted for {batches})"


def how_measured(run: Run, best: Recommendation | None) -> str:
    """Return how the figures were measured, in one sentence."""
    again = best.confirm_trials if best else {one.round for one in run.history.confirming}
    rounds = count_text(len(again), "confirming round")
    trials, hosts = count_text(len(run.trials), "trial"), {record.host_name for record in run.trials}
    if len(hosts) > 1:
        trials += f" by {len(hosts)} hosts"
    return (
        f"Measured on {run.measured_on}: {trials} in {duration_text(run.search_time_s)}, "
        f"{rounds}, {_floor_text(run)}.{_data_text(best)}"
    )


def tried_text(run: Run, best: Recommendation | None) -> str:
    """Return what was tried, and the highest predicted rate of an untried config."""
    ran = [record for record in run.trials if record.role.is_candidate and record.measurement]
    tried = {record.config: record.config.model_dump() for record in ran if record.config}
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
    return f"{configs} Fastest untried: {_untried_text(run.untried, best)}."


def _untried_text(untried: Untried, best: Recommendation) -> str:
    changes = Changes(tuple(_knob_changes(best.config, untried.config).items())).lines
    factor = untried.rate_samples_per_s / best.rate_samples_per_s.value
    over = "your baseline" if best.is_baseline else "the answer"
    return f"{', '.join(changes)}, {factor_text(factor)} {over} (predicted)"


def other_tiers_text(run: Run, best: Recommendation | None) -> str:
    """Return the other tiers' speedups in one line; empty where none differs from the answer."""
    others = [
        f"{one.tier.value} {factor_text(one.speedup.value)}, {run.outcome.verdicts[one.tier]}"
        for one in run.recommendations
        if best and one.config != best.config and not one.same_as and not one.is_baseline and one.speedup
    ]
    return f"Other tiers: {'; '.join(others)} ({_basis(run)})." if others else ""


def missing_lines(run: Run) -> tuple[str, ...]:
    """Return why tiers are missing, a line for each reason; none while no trial is measured."""
    if all(record.measurement is None for record in run.trials):
        return ()
    reasons = by_text(((one.tier.value, one.reason) for one in run.missing_tiers), " or ")
    return tuple(f"no {line}" for line in reasons)


def failure_lines(run: Run) -> tuple[str, ...]:
    """Return what failed, a line for each kind, with its first message and remedy."""
    by_kind: dict[OutcomeKind, list[Failure]] = {}
    for record in run.trials:
        if record.failure is not None and record.failure.kind is not OutcomeKind.REFUSED:
            by_kind.setdefault(record.failure.kind, []).append(record.failure)
    lines = []
    for kind, failures in by_kind.items():
        counted = f"{count_text(len(failures), 'trial')} of {len(run.trials)} ended as {kind}"
        lines.append(f"{counted}: {'; '.join(filter(None, (failures[0].message, failures[0].remedy)))}")
    return tuple(lines)


def headroom_text(run: Run, best: Recommendation | None) -> str:
    """Return how much memory the recommended config leaves free; empty without one."""
    if best is None:
        return ""
    free = []
    if (share := best.vram_free_share) is not None:
        of = f"{bytes_text(best.peak_reserved_bytes)} of {bytes_text(best.device_memory_bytes)} reserved"
        free.append(f"{share_text(share)} of VRAM (measured: {of})")
    limit_bytes = run.rank_host.ram_limit_bytes
    basis = f"predicted: loader's buffer {buffer_text(best)}" if best.buffer_bytes else "measured"
    share = max(0.0, 1 - best.ram_bytes / limit_bytes)
    free.append(f"{share_text(share)} of {bytes_text(limit_bytes)} RAM ({basis})")
    warns = best.config.num_workers > (run.host.cpus_affinity or run.host.cpus_total)
    warned = " PyTorch will warn that num_workers exceeds the CPU count." if warns else ""
    return f"Headroom: {', '.join(free)}.{warned}"


def losses_text(checks: Sequence[LossCheck]) -> str:
    """Return what another precision or compile did to the losses, in one line; empty without a check."""
    words = {
        LossOutcome.OK: "trains like the baseline over {} steps (measured)",
        LossOutcome.DIVERGENT: "ends higher than the baseline (measured)",
        LossOutcome.NONFINITE: "is NaN or infinite (measured)",
        LossOutcome.UNKNOWN: "n/a",
    }
    parts = [f"{one.name} {words[one.outcome].format(one.steps)}" for one in checks]
    return f"Losses: {'; '.join(parts)}" if parts else ""


def largest_samples_text(tiers: Sequence[Recommendation]) -> str:
    """Return what the largest samples mean for the tiers in one line; empty where sizes do not vary."""
    seen = [one.largest for one in tiers if one.largest is not None]
    if not seen:
        return ""
    widest = max(seen, key=lambda one: one.times_usual or 0.0)
    trained = [one.tier.value for one in tiers if one.largest and one.largest.survived]
    on_device = any(one.peak_reserved_bytes is not None for one in tiers if one.largest)
    counted = "buffers count such batches" + (", VRAM includes it" if on_device else "")
    who = "every tier" if len(trained) == len(tiers) else ", ".join(trained) or "no tier"
    return f"Largest samples (measured): {batches_text(widest)}; {who} trained on such a batch; {counted}"


def next_steps(run: Run, best: Recommendation | None, folder: str) -> tuple[Step, ...]:
    """Return the next steps for a run in a folder."""
    words = missing_command(run.target)
    if best is None or run.status is not RunStatus.FINISHED:
        return (("", resume_command(run, folder)),)
    steps = list[Step]()
    if run.is_emulated:
        steps.append((f"on a machine with {run.profile.device_names[0]}", search_again(run)))
    elif run.outcome.settled_by:
        steps.append(("to settle it", _settling_command(run, folder)))
    if run.outcome.untried_factor:
        steps.append(("to try more", resume_command(run, folder)))
    if run.target.builtin:
        return (*steps, ("on your own script", "tunekit search -- python train.py"))
    if best.is_baseline:
        return (*steps, ("train as before", target_text(run.target)))
    command, baseline = f"tunekit run {quoted(f'{folder}/{best.tier.value}.yaml')}", run.baseline_config
    same_batch = baseline is None or global_batch(best.config) == global_batch(baseline)
    if same_batch or run.target.is_bound("lr") or run.script_scales_lr:
        return (*steps, ("", f"{command}{words}"))
    lr = "choose an lr"
    if best.learning_rate is not None:
        lr = f"set lr to {lr_text(best.learning_rate.value)} (predicted)"
    by_hand = f"{lr} in your script, or bind it (--bind), then:"
    return (*steps, (by_hand, ""), ("", f"{command} --keep-lr{words}"))


# --- the GPU that was asked for --------------------------------------------------------------


def prediction_passage(run: Run, best: Recommendation | None) -> Passage:
    """Return what fits the requested GPU, and how trials on it compare; no lines if nothing is known.

    The answer's precision comes first: a medium may have room for only one.
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
    low, value, high = fit.largest.low, fit.largest.value, fit.largest.high
    fits = f"batch {low:,} fits ({value:,} without the margin, {high:,} at best)"
    if prediction.has_whole_epoch(low):
        fits = f"even a full-epoch batch ({prediction.epoch_samples:,}) fits"
    reserved = bytes_text(fit.peak.reserved_bytes if fit.peak else None)
    start = prediction.start
    at = start if start and start.precision is fit.precision else fit
    bound = f", {at.bound_by}-bound" if at.bound_by else ""
    size = f" at batch {at.batch_size:,}" if at.batch_size != fit.batch_size else ""
    speed = f"about {interval_text(at.rate, ' samples/s')}{size}{bound}" if at.rate else "speed n/a"
    there = f" on {at.instance}" if at.bound_by == "loader" and at.instance else ""
    return f"{fit.precision}: {fits}, {reserved} of {bytes_text(fit.capacity_bytes)} reserved; {speed}{there}"


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
        f"traced: {PATHS[prediction.path]}, at batch sizes {sizes}, margin {prediction.margin:.0%}; "
        f"speed by a roofline of each op{scaled}{doubts}"
    )


def _data_text(best: Recommendation | None) -> str:
    """Return the result of the data check, after a space; empty for the baseline or without a check."""
    check = best.data_check if best else None
    if check is None:
        return ""
    if check.verdict is Sameness.NOT_CHECKED:
        return f" Data not checked: {check.why_not}."
    dropped = f"the last, incomplete batch ({check.left_out_samples:,}) is dropped"
    left_out = f"; {dropped}, with other samples each epoch" if check.left_out_samples else ""
    contents = f"{check.samples_checked:,} contents compared{f' ({check.why_not})' if check.why_not else ''}"
    return f" Same samples: {check.indices_checked:,} per epoch counted, {contents}{left_out}."
