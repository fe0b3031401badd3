"""How the learning rate scales with the global batch, by the published rule for the optimizer.

Linear: Goyal et al. 2017, arXiv 1706.02677. Square root: Malladi et al. 2022, arXiv 2205.10287.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tunekit.records.config import TrainConfig
from tunekit.records.recommendation import LearningRate, LearningRateRule
from tunekit.records.run import SearchOptions
from tunekit.records.target import Discovery
from tunekit.records.trial import TrialRecord
from tunekit.records.trials import measured

_RULES = {
    "sgd": LearningRateRule.LINEAR,
    "adam": LearningRateRule.SQRT,
    "adamw": LearningRateRule.SQRT,
    "rmsprop": LearningRateRule.SQRT,
}
_NAMESAKE = re.compile(
    r"_?(?:fused|paged|momentum|nesterov|deepspeedcpu)?(sgd|adamw|adam|rmsprop)(?:4bit|8bit|32bit|fp8)?",
    re.IGNORECASE,
)
"""Implementations of the same update under other names, as in apex, bitsandbytes, torchao, DeepSpeed."""


@dataclass(frozen=True)
class BaseLearningRate:
    """The learning rate that scaling starts from."""

    lr: float
    batch: int
    """Global batch that the learning rate belongs to."""
    source: Literal["baseline", "flags"]

    def scaled(self, new_batch: int, rule: LearningRateRule) -> float | None:
        """Return the learning rate for another global batch; None if it under- or overflows."""
        ratio = new_batch / self.batch
        lr = self.lr * (ratio if rule is LearningRateRule.LINEAR else math.sqrt(ratio))
        return lr if math.isfinite(lr) and lr > 0 else None


def rule_for(optimizer_class_name: str) -> LearningRateRule | None:
    """Return the scaling rule published for an optimizer, or None.

    Only optimizers in the sources have one: SGD with or without momentum, and Adam, AdamW and RMSprop with
    their fused, paged and low-bit implementations. LARS and LAMB adapt on their own; NAdam, RAdam,
    Adagrad, Lion and others are not covered.
    """
    match = _NAMESAKE.fullmatch(optimizer_class_name.strip())
    return _RULES[match.group(1).lower()] if match else None


def rule_of(discovery: Discovery | None) -> LearningRateRule | None:
    """Return the rule shared by all of the target's optimizers; None if they differ or are unknown."""
    rules = {rule_for(optimizer.class_name) for optimizer in discovery.optimizers} if discovery else set()
    return rules.pop() if len(rules) == 1 else None


def global_batch(config: TrainConfig, gpus: int = 1) -> int:
    """Return the samples per optimizer step: batch per device x devices x accumulation."""
    return config.batch_size * gpus * config.accumulate_grad_batches


def follows_batch(trials: Sequence[TrialRecord]) -> bool:
    """Return whether the script scales its learning rate itself, judged from two global batches."""
    known = [(one.config, one.record.learning_rate) for one in measured(trials) if one.record.learning_rate]
    if not known:
        return False
    config, lr = known[0]
    return any(
        global_batch(other) != global_batch(config) and not math.isclose(rate, lr, rel_tol=1e-6)
        for other, rate in known
    )


def base_learning_rate(
    discovery: Discovery | None, options: SearchOptions, baseline: TrainConfig | None
) -> BaseLearningRate | None:
    """Return the learning rate that scaling starts from: the user's flags, else the baseline optimizer's.

    A missing flag is filled in from the baseline. Several optimizers with different learning rates have no
    common base; then it has to be given by flag.

    Args:
        discovery: what the baseline learned about the target, None if nothing.
        options: holds --lr and --base-batch.
        baseline: the user's current knob values, None if unknown.
    """
    seen = discovery.learning_rate if discovery else None
    lr = options.base_lr if options.base_lr is not None else seen
    batch = options.base_batch
    if batch is None and baseline is not None:
        batch = global_batch(baseline, discovery.world_size if discovery else 1)
    if not lr or batch is None:
        return None
    given = options.base_lr is not None or options.base_batch is not None
    return BaseLearningRate(lr=lr, batch=batch, source="flags" if given else "baseline")


def recommended(
    discovery: Discovery | None, options: SearchOptions, baseline: TrainConfig | None, new_batch: int
) -> LearningRate | None:
    """Return the learning rate for a new global batch by the rule for the script's optimizer.

    Args:
        discovery: what the baseline learned about the target.
        options: holds --lr and --base-batch.
        baseline: the user's current knob values.
        new_batch: global batch of the recommended config.

    Returns:
        The learning rate with 12 significant digits: 0.1 at six times the batch is 0.6, not
        0.6000000000000001. None if the base or the rule is unknown.
    """
    base, rule = base_learning_rate(discovery, options, baseline), rule_of(discovery)
    value = base.scaled(new_batch, rule) if base and rule else None
    if base is None or rule is None or value is None:
        return None
    rounded = float(f"{value:.12g}")
    return LearningRate(value=rounded, rule=rule, base_lr=base.lr, base_batch=base.batch, source=base.source)
