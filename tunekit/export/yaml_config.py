"""Writes configs as YAML: knob values for a training config, with the evidence in comments."""

import textwrap
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import yaml

from tunekit.export.keys import MATMUL_KEY, config_keys, key_of, nested
from tunekit.plan.interruptions import daly_interval_s
from tunekit.recommend.compatibility import loader_only_text
from tunekit.recommend.learning_rate import global_batch, rule_of
from tunekit.recommend.planned_training import planned_training
from tunekit.recommend.scaling import batch_warnings
from tunekit.recommend.tiers import POLICIES
from tunekit.records.config import Precision
from tunekit.records.plan import PlanAssumptions
from tunekit.records.recommendation import Candidate, LearningRateRule, MemoryNeed, Recommendation, Tier
from tunekit.records.run import Run
from tunekit.records.target import Target
from tunekit.report.text import checkpoint_text, gain_text, interval_text
from tunekit.units import bytes_text, count_text, duration_text

MAX_COLUMNS = 100
_MARK = "# "
_MATMUL_OF_PRECISION = {Precision.FP32: "highest", Precision.TF32: "high"}
_SHORT_COLUMNS = 80
"""Maximum line width in YAML's short form."""
_RULE_TEXTS = {
    LearningRateRule.LINEAR: "linear rule, arXiv 1706.02677; warm up over the first 5 epochs",
    LearningRateRule.SQRT: "square-root rule, arXiv 2205.10287; 1-beta1 and 1-beta2 x k, eps / sqrt(k)",
}


def tier_yaml(run: Run, recommendation: Recommendation) -> str:
    """Return the tier's file: the evidence as comments, then the knobs.

    Every line has at most 100 columns. If `lr` is unknown, it is left out and the reason is given.
    """
    tier = recommendation.tier
    best = planned_training(run.options, run.trials).best_text
    verdict = run.outcome.verdicts.get(tier, "n/a")
    lines = [
        f"tunekit {tier.value}: {POLICIES[tier].meaning(best)}",
        _measured_text(run, (recommendation.search_trial, *recommendation.confirm_trials)),
        "the baseline's config"
        if recommendation.is_baseline
        else f"{verdict}: {gain_text(recommendation.speedup)}",
        f"{interval_text(recommendation.rate_samples_per_s, ' samples/s')} (measured)",
        _memory_text(run, recommendation),
        *_checkpoint_lines(run, recommendation),
    ]
    return _file(run, recommendation, lines)


def _checkpoint_lines(run: Run, one: Recommendation) -> Iterator[str]:
    """Yield how often to write checkpoints where the training may be interrupted, if it lasts that long."""
    epoch_s, rate = one.epoch_time_s, one.rate_samples_per_s.value
    assumed = PlanAssumptions()
    cost_s, session_s, spot_s = assumed.checkpoint_cost_s, assumed.max_session_s, assumed.interrupted_every_s
    if epoch_s is None or cost_s is None:
        return
    step_s, training_s = global_batch(one.config, run.world_size) / rate, run.options.epochs * epoch_s
    for where, lasts_s in ((f"in sessions of {duration_text(session_s)}", session_s), ("on spot", spot_s)):
        every_s = daly_interval_s(cost_s, lasts_s)
        if every_s < training_s:
            every = checkpoint_text(every_s, step_s, epoch_s)
            yield f"checkpoint {where}: every {every}, at {duration_text(cost_s)} each (assumed)"


def candidate_yaml(run: Run, candidate: Candidate) -> str:
    """Return the file of a config whose gain is unconfirmed."""
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

    Knobs that the user bound to a file have the user's own keys; precision is spelled as in Lightning unless
    the user's binding spells it.
    """
    config = recommendation.config
    matmul_precision = recommendation.float32_matmul_precision or _MATMUL_OF_PRECISION.get(config.precision)
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
        target: the target whose bindings define the keys.
        is_short: whether to use YAML's short form, a few lines in braces, instead of one line per knob.
    """
    dumped: str = yaml.safe_dump(
        nested(knob_values(recommendation, target)),
        sort_keys=False,
        default_flow_style=is_short,
        width=_SHORT_COLUMNS,
    )
    return dumped.rstrip("\n")


def _file(run: Run, one: Recommendation | Candidate, evidence: Iterable[str]) -> str:
    texts = [*evidence]
    if one.config.precision is Precision.FP16:
        texts.append("precision: fp16 needs GradScaler in the training script")
    if loader_only := loader_only_text(run, one.config):
        texts.append(f"batch_size: {loader_only}")
    return _commented([*texts, _lr_text(run, one)], knobs_yaml(one, run.target, is_short=False) + "\n")


def _commented(texts: Iterable[str], body: str) -> str:
    return "\n".join([*(line for text in texts for line in comment(text)), "", body])


def _measured_text(run: Run, trials: Collection[int]) -> str:
    """Return where, when and by which trials a config was measured, and which GPU was requested instead."""
    device = f"{run.measured_on}{f', not {run.profile.id}' * run.is_emulated}"
    return f"measured on {device}, {run.created_at[:10]}, trials {', '.join(map(str, trials))}"


def _memory_text(run: Run, need: MemoryNeed) -> str:
    base, buffer, limit = need.base_ram_bytes, need.buffer_bytes, run.rank_host.ram_limit_bytes
    ram = f"RAM {bytes_text(base)} + {bytes_text(buffer)} loader buffer of {bytes_text(limit)}"
    reserved, total = need.peak_reserved_bytes, need.device_memory_bytes
    if reserved is None or total is None:
        return f"VRAM n/a, {ram}"
    return f"VRAM {bytes_text(reserved)} of {bytes_text(total)} at the peak, {ram}"


def _lr_text(run: Run, one: Recommendation | Candidate) -> str:
    rate, batch = one.learning_rate, global_batch(one.config, run.world_size)
    if rate is None:
        return f"lr is left out: {_why_no_lr(run, one)}"
    warnings = "".join(f"; {one}" for one in batch_warnings(batch, rate.base_batch, rate.rule))
    return (
        f"lr: {rate.base_lr:.6g} at global batch {rate.base_batch} ({rate.source}), "
        f"scaled by k = {batch / rate.base_batch:.4g}, {_RULE_TEXTS[rate.rule]}{warnings}"
    )


def _why_no_lr(run: Run, recommendation: Recommendation | Candidate) -> str:
    config = run.baseline_config
    if config is not None and global_batch(config) == global_batch(recommendation.config):
        return "the global batch is the baseline's"
    if run.script_scales_lr:
        return "the script scales it"
    return "unknown (--lr, --base-batch), or no rule is published for the optimizer"


def recommended_rule(run: Run, tier: Tier) -> LearningRateRule | None:
    """Return the learning-rate rule that applies to the tier; None if none is published for the optimizer."""
    for recommendation in run.recommendations:
        if recommendation.tier is tier and recommendation.learning_rate is not None:
            return recommendation.learning_rate.rule
    return rule_of(run.discovery)


def predicted_yaml(run: Run) -> str | None:
    """Return the starting config for a GPU that is not present; None if no predicted config fits it."""
    prediction = run.prediction
    fit = prediction.start if prediction else None
    if prediction is None or prediction.config is None or fit is None or fit.peak is None:
        return None
    config, name = prediction.config, run.profile.id
    reserved, capacity = bytes_text(fit.peak.reserved_bytes), bytes_text(fit.capacity_bytes)
    evidence = (
        f"tunekit: starting config for {name}; all figures predicted",
        interval_text(fit.rate, " samples/s"),
        f"VRAM {reserved} of {capacity} at batch {fit.peak.batch_size:,}",
        *(f"doubt: {doubt}" for doubt in prediction.doubts),
        "compile and channels_last: not predicted; lr: scale yours with the global batch",
        f"measure it there before you trust it: tunekit search --gpu {name} -- ...",
    )
    keys = config_keys(config, run.target)
    if config.precision is Precision.FP32 and run.target.binding_of("precision") is None:
        keys.pop("precision", None)
    return _commented(evidence, yaml.safe_dump(nested(keys), sort_keys=False))


def comment(text: str) -> list[str]:
    """Return the text as comment lines of at most 100 columns; further lines are indented.

    Line breaks, control characters and other unprintable characters become spaces: YAML readers refuse them
    even in comments, and a line break would end the comment.
    """
    plain = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    lines = textwrap.wrap(
        plain, width=MAX_COLUMNS, initial_indent=_MARK, subsequent_indent=_MARK + "  ", break_on_hyphens=False
    )
    return lines or [_MARK.rstrip()]
