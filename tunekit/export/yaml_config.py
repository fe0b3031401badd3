"""Configs as YAML: knob values that drop into a training config, with a few lines of evidence as comments."""

import textwrap
from collections.abc import Collection, Iterable
from typing import Any

import yaml

from tunekit.export.keys import MATMUL_KEY, config_keys, key_of, nested
from tunekit.recommend.compatibility import loader_only_text
from tunekit.recommend.learning_rate import global_batch, rule_of
from tunekit.recommend.planned_training import planned_training
from tunekit.recommend.scaling import LARGEST_SQRT_FACTOR
from tunekit.recommend.tiers import POLICIES, violations
from tunekit.records.config import Precision
from tunekit.records.recommendation import Candidate, LearningRateRule, MemoryNeed, Recommendation, Tier
from tunekit.records.run import Run
from tunekit.records.target import Target
from tunekit.report.text import gain_text, interval_text
from tunekit.units import bytes_text, count_text, duration_text

MAX_COLUMNS = 100
_MARK = "# "
_MATMUL_PRECISIONS = ("highest", "high", "medium")
_MATMUL_OF_PRECISION = {Precision.FP32: "highest", Precision.TF32: "high"}
_SHORT_COLUMNS = 80
"""After which the short form goes on in the next line."""
_RULE_TEXTS = {
    LearningRateRule.LINEAR: "linear rule, arXiv 1706.02677; warm up over the first 5 epochs",
    LearningRateRule.SQRT: "square-root rule, arXiv 2205.10287; 1-beta1 and 1-beta2 x k, eps / sqrt(k)",
}


def tier_yaml(run: Run, recommendation: Recommendation) -> str:
    """Return the tier's file: the evidence as comments, then the knobs.

    Every line has at most 100 columns. `lr` is left out, with the reason, when it is unknown.
    """
    planned = planned_training(run.options, run.trials)
    meaning = POLICIES[recommendation.tier].meaning.format(best=planned.best_text)
    if recommendation.same_as is not None:
        meaning += f"; same config as {recommendation.same_as.value}"
    elif recommendation.tier is Tier.AGGRESSIVE:
        meaning += "; may run out of memory"
    ratio, speedup = recommendation.speedup, "the baseline's config, " * recommendation.is_baseline
    if ratio is not None and not recommendation.is_baseline:
        verdict = run.outcome.verdicts.get(recommendation.tier)
        speedup = f"{gain_text(ratio)}{f', {verdict}' if verdict else ''}: "
    trials = (recommendation.search_trial, *recommendation.confirm_trials)
    epoch = f"{duration_text(recommendation.epoch_time_s)} per epoch"
    if recommendation.finish_time_s is not None:
        epoch += f", {duration_text(recommendation.finish_time_s)} for the planned training (predicted)"
    lines = [
        f"tunekit {recommendation.tier.value}: {meaning}",
        _measured_text(run, trials),
        f"{speedup}{interval_text(recommendation.rate_samples_per_s, ' samples/s')}, {epoch}",
        _memory_text(run, recommendation),
    ]
    records = [one.record for one in run.history.evidence(recommendation)]
    if passed := [
        one for record in records for one in violations(record, recommendation.tier, run.rank_host)
    ]:
        lines.append(f"passed a limit of the tier in confirmation: {', '.join(dict.fromkeys(passed))}")
    return _file(run, recommendation, lines)


def candidate_yaml(run: Run, candidate: Candidate) -> str:
    """Return the file of a config whose gain is left open."""
    over = count_text(candidate.rounds, "round") if candidate.speedup else "one process"
    lines = [
        "tunekit candidate: not confirmed to be faster than the baseline's config",
        _measured_text(run, (candidate.trial,)),
        f"{gain_text(candidate.speedup or candidate.factor)} over {over}",
        _memory_text(run, candidate.memory),
    ]
    return _file(run, candidate, lines)


def knob_values(recommendation: Recommendation | Candidate, target: Target) -> dict[str, Any]:
    """Return the dotted keys of the file with their values, in order.

    Knobs that the user bound to a file stand under the user's own keys; precision is in Lightning's
    words unless the user's binding spells it.
    """
    config = recommendation.config
    matmul_precision = recommendation.float32_matmul_precision
    if matmul_precision not in _MATMUL_PRECISIONS:
        matmul_precision = _MATMUL_OF_PRECISION.get(config.precision)
    values: dict[str, Any] = {}
    for key, value in config_keys(config, target).items():
        values[key] = value
        if key == key_of("precision", target):
            values[MATMUL_KEY] = matmul_precision
    if recommendation.learning_rate is not None:
        values[key_of("lr", target)] = recommendation.learning_rate.value
    return values


def knobs_yaml(recommendation: Recommendation | Candidate, target: Target, *, is_short: bool = True) -> str:
    """Return the knobs of the tier's file without the evidence: the same keys with the same values.

    Args:
        recommendation: the tier.
        target: whose bindings name the keys.
        is_short: in YAML's short form, a few lines in braces; else a line for each knob.
    """
    dumped: str = yaml.safe_dump(
        nested(knob_values(recommendation, target)),
        sort_keys=False,
        default_flow_style=is_short,
        width=_SHORT_COLUMNS,
    )
    return dumped.rstrip("\n")


def _file(run: Run, one: Recommendation | Candidate, evidence: Iterable[str]) -> str:
    lines = [line for text in evidence for line in comment(text)]
    if one.config.precision is Precision.FP16:
        lines += comment("precision: fp16 needs GradScaler in the training script")
    loader_only = loader_only_text(run, one.config)
    lines += comment(f"batch_size: {loader_only}") if loader_only else []
    lines += comment(_lr_text(run, one))
    return "\n".join([*lines, "", knobs_yaml(one, run.target, is_short=False)]) + "\n"


def _measured_text(run: Run, trials: Collection[int]) -> str:
    """Return where and by which trials a config was measured, and which GPU was asked for instead."""
    ran = (one.measurement for one in run.trials if one.number in trials and one.measurement is not None)
    device = next((one.loop.device.name for one in ran), run.measured_on)
    if run.is_emulated:
        device = f"{run.measured_on}, not {run.profile.id}"
    host, numbers = run.host, ", ".join(map(str, trials))
    machine = f"{host.cpu_name or 'unknown CPU'}, {count_text(host.cpus, 'CPU')}"
    ram = bytes_text(host.ram_limit_bytes)
    return f"measured on {device} ({machine}, {ram} RAM) in trial{'s' if len(trials) > 1 else ''} {numbers}"


def _memory_text(run: Run, need: MemoryNeed) -> str:
    base, buffer, limit = need.base_ram_bytes, need.buffer_bytes, run.rank_host.ram_limit_bytes
    ram = f"RAM {bytes_text(base)} + {bytes_text(buffer)} loader buffer of {bytes_text(limit)}"
    reserved, total = need.peak_reserved_bytes, need.device_memory_bytes
    if reserved is None or total is None:
        return f"VRAM n/a, {ram}"
    return f"VRAM {bytes_text(reserved)} of {bytes_text(total)} at the peak, {ram}"


def _lr_text(run: Run, one: Recommendation | Candidate) -> str:
    rate = one.learning_rate
    if rate is None:
        return f"lr is left out: {_why_no_lr(run, one)}"
    factor = global_batch(one.config, run.world_size) / rate.base_batch
    beyond = ""
    if rate.rule is LearningRateRule.SQRT and factor >= LARGEST_SQRT_FACTOR:
        beyond = f"; at beta1 0.9 the rule ends below k = {LARGEST_SQRT_FACTOR}: check your loss"
    return (
        f"lr: {rate.base_lr:.6g} at global batch {rate.base_batch} ({rate.source}), "
        f"scaled by k = {factor:.4g}, {_RULE_TEXTS[rate.rule]}{beyond}"
    )


def _why_no_lr(run: Run, recommendation: Recommendation | Candidate) -> str:
    config, discovery = run.baseline_config, run.discovery
    if config is not None and global_batch(config) == global_batch(recommendation.config):
        return "the global batch is the baseline's"
    if run.script_scales_lr:
        return "the script scales it"
    names = ", ".join(optimizer.class_name for optimizer in discovery.optimizers) if discovery else ""
    return f"unknown (--lr, --base-batch), or no rule is published for the optimizer ({names or 'unknown'})"


def recommended_rule(run: Run, tier: Tier) -> LearningRateRule | None:
    """Return which learning-rate column the tier goes by, None when the optimizer has no published rule."""
    for recommendation in run.recommendations:
        if recommendation.tier is tier and recommendation.learning_rate is not None:
            return recommendation.learning_rate.rule
    return rule_of(run.discovery)


def predicted_yaml(run: Run) -> str | None:
    """Return the starting config for a GPU that is not here; None where nothing was predicted that fits."""
    prediction = run.prediction
    fit = prediction.start if prediction else None
    if prediction is None or prediction.config is None or fit is None or fit.peak is None:
        return None
    config, name = prediction.config, run.profile.id
    is_all = prediction.has_whole_epoch(fit.largest.low)
    largest = f"a full epoch ({prediction.epoch_samples:,})" if is_all else f"{fit.largest.low:,}"
    reserved, capacity = bytes_text(fit.peak.reserved_bytes), bytes_text(fit.capacity_bytes)
    rate = interval_text(fit.rate, " samples/s") + (f", {fit.bound_by}-bound" if fit.bound_by else "")
    evidence = (
        f"tunekit: starting config for {name}; all figures predicted",
        f"{rate}; largest batch: {largest} with {prediction.margin:.0%} margin",
        f"VRAM {reserved} of {capacity} at batch {fit.peak.batch_size:,}",
        *(f"doubt: {doubt}" for doubt in prediction.doubts),
        "compile and channels_last: not predicted; lr: scale yours with the global batch",
        f"measure it there before you trust it: tunekit search --gpu {name} -- ...",
    )
    keys = config_keys(config, run.target)
    if config.precision is Precision.FP32 and run.target.binding_of("precision") is None:
        keys.pop("precision", None)
    lines = [line for text in evidence for line in comment(text)]
    return "\n".join([*lines, "", yaml.safe_dump(nested(keys), sort_keys=False)])


def comment(text: str) -> list[str]:
    """Return the text as comment lines of at most 100 columns; further lines are indented.

    Line breaks, control characters and whatever else can't be printed become spaces: YAML readers refuse
    them even in comments, and a line break would end the comment.
    """
    plain = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    lines = textwrap.wrap(
        plain, width=MAX_COLUMNS, initial_indent=_MARK, subsequent_indent=_MARK + "  ", break_on_hyphens=False
    )
    return lines or [_MARK.rstrip()]
