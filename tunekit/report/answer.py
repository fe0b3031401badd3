"""The answer of a run, how it came about, what was predicted and what to do next, in sentences. Pure."""

import math
from typing import NamedTuple

from tunekit.recommend.learning_rate import global_batch
from tunekit.recommend.noise import (
    BUSY_FLOOR,
    MOST_WORTHWHILE_ROUNDS,
    confidence,
    rounds_to_tell,
    verdict,
)
from tunekit.records.config import KNOBS, TrainConfig
from tunekit.records.interval import Interval
from tunekit.records.prediction import Correction, DevicePrediction, PredictedFit
from tunekit.records.recommendation import (
    Candidate,
    Confidence,
    LearningRate,
    LearningRateRule,
    Recommendation,
    Verdict,
)
from tunekit.records.run import Objective, Run, RunStatus
from tunekit.records.trial import Failure, OutcomeKind, TrialRole
from tunekit.report.blocks import Basis, Passage
from tunekit.report.text import (
    UNKNOWN,
    change_text,
    factor_text,
    interval_text,
    is_too_wide,
    search_again,
    speedup_text,
    to_go_on,
)
from tunekit.report.tiers import baseline_column, lr_text, tier_column
from tunekit.trial.typed_commands import command_text, missing_command, quoted, target_text
from tunekit.units import (
    bytes_text,
    count_text,
    duration_text,
    percent_text,
    rate_text,
    share_text,
    typed_duration_text,
)

_ROUNDS = 5
"""Of the comparison that is advised where a config and the baseline had one process each."""
_WAIT_QUIET_S = 600.0
"""Wait that is advised on a busy machine."""
_LONGER = 4
"""Times the window, where the noise floor hides the difference."""

_WORDS: dict[Verdict, str] = {
    "faster": "Confirmed",
    "slower": "Slower",
    "no gain": "No gain",
    "inconclusive": "Inconclusive",
}


def answer_text(run: Run, best: Recommendation | None) -> str:
    """Return the result in one or two sentences; it says so where the search did not come to its end."""
    if best is None:
        failed = sum(record.failure is not None for record in run.trials)
        trials = f"{count_text(len(run.trials), 'trial')}, {failed} of them failed"
        if run.cut_short and run.status is RunStatus.FINISHED:
            return f"No recommendation in this budget: {run.cut_short}."
        return f"No recommendation yet: {trials} (status: {run.status})."
    answer = _kept_answer(run, best) if best.is_baseline else _faster_answer(run, best)
    return answer if run.status is RunStatus.FINISHED else f"{answer} Not final (status: {run.status})."


class Badge(NamedTuple):
    """The answer in a word, and how far it can be relied on."""

    word: str
    confidence: Confidence | None
    """None where nothing is claimed."""
    is_busy: bool = False
    """Whether the confidence is low because the machine is busy."""

    @property
    def text(self) -> str:
        """Both, as a sentence begins with them."""
        if self.confidence is None:
            return self.word
        return f"{self.word} ({self.confidence} confidence{', machine is busy' if self.is_busy else ''})"


def badge_of(run: Run, best: Recommendation | None) -> Badge | None:
    """Return the badge of the answer; None where nothing was compared with the baseline."""
    if best is None:
        return None
    claim = _claim(run, best)
    ratio = claim.speedup
    if claim.is_baseline:
        ratio = claim.set_aside.speedup if claim.set_aside else None
    if ratio is None:
        return None
    judged, noise = verdict(ratio, run.noise_floor), run.noise_floor
    if judged == "inconclusive":
        return Badge(_WORDS[judged], None)
    is_busy = noise is not None and noise.relative >= BUSY_FLOOR
    return Badge(_WORDS[judged], confidence(ratio, noise), is_busy)


def _claim(run: Run, best: Recommendation) -> Recommendation:
    """Return what the answer speaks of: its own tier, else one whose gain is confirmed."""
    if not best.is_baseline:
        return best
    faster = (
        one
        for one in run.recommendations
        if not one.is_baseline and one.speedup and verdict(one.speedup, run.noise_floor) == "faster"
    )
    return next(faster, best)


def _tried_others(run: Run) -> int:
    """Return how many configs beside the baseline's were measured, or given up as slower."""
    searched = (one for one in run.trials if one.role is TrialRole.SEARCH and one.measurement is not None)
    return len({one.config for one in searched})


def _kept_answer(run: Run, best: Recommendation) -> str:
    rate = f"{interval_text(best.rate_samples_per_s, ' samples/s')} (measured)"
    badge, other = badge_of(run, best), _claim(run, best)
    if other is not best and badge is not None:
        return (
            f"{badge.text} for {other.tier.value.capitalize()} alone: {_faster_text(run, other)}. Within the "
            f"limits of {best.tier.value.capitalize()} keep your own config, {rate}."
        )
    candidate, settled = run.candidate, _settled_by(run, best)
    why = f" ({run.cut_short})" if run.cut_short else ""
    unconfirmed = f"No config was confirmed to be faster than your own{why}"
    if candidate is not None:
        until = f"{settled.text}. Until then keep" if settled else "Keep"
        found = open_gain_text(run, candidate)
        return f"{badge.text if badge else unconfirmed}: {found}. {until} your own: {rate}."
    if badge is not None and (aside := best.set_aside) is not None:
        found = _found_text(run, aside.speedup, len(aside.confirm_trials))
        return f"{badge.text}: {found} ({_speedup_basis(run)}). Keep your own: {rate}."
    if tried := _tried_others(run):
        if run.cut_short:
            return f"{unconfirmed}. Keep it: {rate}."
        none = f"none of {tried} others tried was" if tried > 1 else "the one other config tried was not"
        return f"No gain: {none} faster than your own config in its trial. Keep yours: {rate}."
    failures = [one.failure.kind for one in run.trials if one.role is TrialRole.SEARCH and one.failure]
    if any(kind is not OutcomeKind.REFUSED for kind in failures):
        return f"No other config could be measured: every one that was tried failed. Your own: {rate}."
    if run.options.max_trials == 1:
        return f"No other config was measured: --trials 1 is the baseline alone. Your own: {rate}."
    short = run.cut_short or "give a longer --budget"
    return f"No other config was measured in this budget: {short}. Your own: {rate}."


def open_gain_text(run: Run, candidate: Candidate) -> str:
    """Return how fast the config is whose gain is left open, and how that is known."""
    found = _found_text(run, candidate.speedup or candidate.factor, candidate.rounds)
    return f"{found} ({_speedup_basis(run)}; {_floor_text(run)})"


def _found_text(run: Run, ratio: Interval | float, rounds: int) -> str:
    """Return how fast the best config beside the baseline's is: over rounds, or a factor of one process."""
    if isinstance(ratio, float):
        return f"the best config found is {factor_text(ratio)} {_compared(run)}, in one process"
    rounds_text = count_text(rounds, "round")
    return f"the best config found is {speedup_text(ratio)} {_compared(run)}, over {rounds_text}"


def _floor_text(run: Run) -> str:
    return f"noise floor {share_text(run.noise_floor.relative, '.1f') if run.noise_floor else UNKNOWN}"


class _Settled(NamedTuple):
    """What would tell a gain that is left open from none."""

    text: str
    command: str


def _settled_by(run: Run, best: Recommendation, folder: str = "") -> _Settled | None:
    """Return what would tell; None where nothing is left open."""
    ratio, rounds = best.speedup, len(best.confirm_trials)
    if best.is_baseline:
        candidate = run.candidate
        if candidate is None or candidate.factor <= 1:
            return None
        ratio, rounds = candidate.speedup, candidate.rounds
        if ratio is None:
            flags = ("--against", f"{folder}/{candidate.name}.yaml", "--rounds", str(_ROUNDS))
            beside = command_text("profile", run.target, run.options.gpu, flags)
            return _Settled("Fresh processes of both would tell", beside)
    if ratio is None or verdict(ratio, run.noise_floor) != "inconclusive":
        return None
    return _settled_after(run, ratio, rounds, folder)


def _settled_after(run: Run, ratio: Interval, rounds: int, folder: str) -> _Settled:
    """Return what would tell after rounds that leave it open."""
    asked, noise = run.options, run.noise_floor
    is_busy = noise is not None and noise.relative >= BUSY_FLOOR
    if is_busy and asked.wait_quiet_s is None:
        quiet = search_again(run.changed(options=asked.changed(wait_quiet_s=_WAIT_QUIET_S)))
        return _Settled("Machine is busy: search again while it is quiet, or with --wait-quiet", quiet)
    waited = f"Machine was busy in spite of --wait-quiet {typed_duration_text(asked.wait_quiet_s or 0.0)}"
    needed = rounds_to_tell(ratio, rounds, noise)
    if needed is not None and needed <= MOST_WORTHWHILE_ROUNDS:
        more = f"about {needed} confirming rounds would tell"
        resume = f"tunekit search --resume {quoted(folder)} --confirm {needed}{missing_command(run.target)}"
        return _Settled(f"{waited}: {more}" if is_busy else more.capitalize(), resume)
    longer = search_again(run.changed(options=asked.changed(window_s=_LONGER * asked.window_s)))
    why = waited if is_busy else "The difference is within the noise floor"
    other = "another machine of the same kind" if is_busy else "a quieter machine"
    return _Settled(f"{why}: a longer --window or {other} would tell", longer)


def _faster_answer(run: Run, best: Recommendation) -> str:
    name, badge = best.tier.value.capitalize(), badge_of(run, best)
    if badge is None or best.speedup is None:
        rates = interval_text(best.rate_samples_per_s, " samples/s")
        why = "the baseline could not be measured here"
        if run.baseline is not None and run.baseline.measurement is not None:
            why = "too few rounds to compare with your baseline (--confirm 3)"
        return f"{name}: {rates} (measured); speed-up n/a: {why}."
    settled = _settled_by(run, best)
    tells = f" {settled.text}." if settled else ""
    return f"{badge.text}: {_faster_text(run, best)}.{tells}"


def _faster_text(run: Run, best: Recommendation) -> str:
    """Return how a config does beside the baseline, in the words of its verdict."""
    name, own = best.tier.value.capitalize(), baseline_column(run)
    what = f"{speedup_text(best.speedup)} {_compared(run)}"
    if run.options.objective is Objective.FINISH_TIME:
        after, before = duration_text(best.finish_time_s), duration_text(own.finish_time_s)
        rates = f"{after} instead of {before}"
    else:
        rates = interval_text(best.rate_samples_per_s, " samples/s")
        if own.samples_per_s is not None:
            rates += f" instead of {rate_text(own.samples_per_s)}"
    return f"{name} is {what}: {rates} ({_speedup_basis(run)})"


def _compared(run: Run) -> str:
    planned = " in the planned training" if run.options.objective is Objective.FINISH_TIME else ""
    return f"as fast as your baseline{planned}"


def _speedup_basis(run: Run) -> str:
    """Return where the search's speed-ups come from."""
    return "measured" if run.options.objective is Objective.RATE else "predicted from measured parts"


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
    before, after = run.baseline_config.model_dump(), config.model_dump()
    changes = [change_text(knob, before[knob], after[knob]) for knob in KNOBS if before[knob] != after[knob]]
    times = global_batch(config) / global_batch(run.baseline_config)
    return tuple(changes) if times == 1 else (*changes, _lr_change(run, times, lr))


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
        f"{rounds}, {_floor_text(run)}."
    )


def other_tiers_text(run: Run, best: Recommendation | None) -> str:
    """Return what the other tiers bring, in one line; empty where none differs from the answer."""
    others = [
        f"{one.tier.value} {factor_text(one.speedup.value)}, {verdict(one.speedup, run.noise_floor)}"
        for one in run.recommendations
        if best and one.config != best.config and not one.same_as and not one.is_baseline and one.speedup
    ]
    basis = "measured" if run.options.objective is Objective.RATE else "predicted"
    return f"Other tiers: {'; '.join(others)} ({basis})." if others else ""


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
    free.append(f"{share_text(best.ram_free_share(limit_bytes))} of {bytes_text(limit_bytes)} RAM ({basis})")
    return f"Headroom: {', '.join(free)}."


def price_text(run: Run, best: Recommendation | None) -> str:
    """Return what a speed-up does to the price of a training; empty where none was shown."""
    if best is None or best.is_baseline or best.speedup is None or is_too_wide(best.speedup):
        return ""
    if verdict(best.speedup, run.noise_floor) not in ("faster", "slower"):
        return ""
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
        return (to_go_on(run, folder),)
    steps = []
    if run.is_emulated:
        steps.append(f"on a machine with {run.profile.device_names[0]}: {search_again(run)}")
    elif (settled := _settled_by(run, best, folder)) is not None:
        steps.append(f"to settle it: {settled.command}")
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


def prediction_passage(run: Run) -> Passage:
    """Return what fits the GPU that was asked for, and what trials on it say of that; no lines if nothing."""
    title = f"{run.profile.id} (predicted)"
    if run.prediction is None:
        reason = run.why_not_predicted
        return Passage(title, (f"VRAM and speed are n/a: {reason}",) if reason else ())
    lines = [_fit_sentence(fit, run.prediction) for fit in run.prediction.fits]
    if not lines:
        return Passage(title, (_why_nothing(run),))
    device = f" on {run.measured_on}" if run.is_emulated else ""
    lines += [_correction_sentence(one, device) for one in run.prediction.corrections]
    return Passage(title, (*lines, _how(run.prediction)), Basis.PREDICTED)


def _fit_sentence(fit: PredictedFit, prediction: DevicePrediction) -> str:
    if fit.peak is None:
        high = fit.largest.high
        most = f"; at best a batch of {_size_text(high, prediction)} would" if high else ""
        fits = f"fits {bytes_text(fit.capacity_bytes)} with {percent_text(prediction.margin)} margin"
        return f"{fit.precision}: not even one sample {fits}{most}"
    speed = f"about {interval_text(fit.rate, ' samples/s')}" if fit.rate else "samples/s n/a"
    binds = ""
    if fit.rate and fit.bound_by:
        place = f" on {fit.instance}" if fit.bound_by == "loader" and fit.instance else ""
        binds = f", {fit.bound_by}-bound{place}"
    reserved = f"{bytes_text(fit.peak.reserved_bytes)} of {bytes_text(fit.capacity_bytes)} reserved"
    return f"{fit.precision}: {_largest_text(fit, prediction)}, {reserved}; {speed}{binds}"


def _largest_text(fit: PredictedFit, prediction: DevicePrediction) -> str:
    """Return the largest batches that fit, none of more samples than an epoch has."""
    largest = fit.largest
    if prediction.has_whole_epoch(largest.low):
        return f"all {prediction.epoch_samples:,} samples of an epoch fit in one batch"
    value, high = (_size_text(size, prediction) for size in (largest.value, largest.high))
    return f"batch {largest.low:,} fits ({value} without the margin, {high} at best)"


def _size_text(batch_size: int, prediction: DevicePrediction) -> str:
    if prediction.has_whole_epoch(batch_size):
        return f"all {prediction.epoch_samples:,} of an epoch"
    return f"{batch_size:,}"


def _why_nothing(run: Run) -> str:
    if not run.profile.has_own_memory:
        return f"VRAM is n/a: the memory of {run.profile.id} is unknown"
    return f"VRAM and speed are n/a: {run.profile.id} does not compute in the script's own precision"


def _correction_sentence(one: Correction, device: str) -> str:
    predicted, measured = bytes_text(one.predicted_bytes), bytes_text(one.measured_bytes)
    return (
        f"{one.precision}, batch {one.batch_size:,}{device}: {predicted} reserved was predicted, {measured} "
        f"measured ({one.factor:.2f}x)"
    )


def _how(prediction: DevicePrediction) -> str:
    sizes = " and ".join(str(size) for size in prediction.traced_sizes)
    doubts = "".join(f"; {doubt}" for doubt in prediction.doubts)
    speed = "a roofline of each op, within 30%"
    if prediction.speed_factor is not None:
        own = "what the GPU that is here made of its own with the script's batch"
        speed += f", times {prediction.speed_factor:.2f}: {own}"
    return (
        f"by {prediction.path}, at batch sizes {sizes}, with a margin of {prediction.margin:.0%}; speed by "
        f"{speed}{doubts}"
    )
