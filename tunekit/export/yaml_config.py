"""Configs as YAML: knob values that drop into a training config, their evidence as comments.

One for each tier, and one to begin with on a GPU that is not here, whose figures are all predicted.
"""

import textwrap
from collections.abc import Collection, Sequence
from typing import Any

import yaml

from tunekit.export.keys import MATMUL_KEY, config_keys, key_of, nested
from tunekit.recommend.learning_rate import base_learning_rate, global_batch, rule_of
from tunekit.recommend.memory import batches_text
from tunekit.recommend.noise import verdict
from tunekit.recommend.planned_training import planned_training
from tunekit.recommend.scaling import LARGEST_SQRT_FACTOR
from tunekit.recommend.tiers import POLICIES
from tunekit.records.config import Precision
from tunekit.records.details import LargestSamples
from tunekit.records.interval import Interval
from tunekit.records.prediction import DevicePrediction, PredictedFit
from tunekit.records.recommendation import (
    Candidate,
    LearningRateRule,
    MemoryNeed,
    Recommendation,
    Tier,
)
from tunekit.records.run import Run
from tunekit.records.target import Target
from tunekit.units import bytes_text, count_text, duration_text, rate_text

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
    """Return the tier's file: the evidence as comments, then the knobs, then the multi-GPU table.

    Every line has at most 100 columns. `lr` is left out, with the reason, when it is unknown.
    """
    dumped = yaml.safe_dump(nested(knob_values(recommendation, run.target)), sort_keys=False)
    lines = [*_header(run, recommendation), "", *dumped.splitlines()]
    if recommendation.learning_rate is None:
        lines += comment(_why_no_lr(run, recommendation))
    table = _scaling_table(run, recommendation)
    if table:
        lines += ["", *table]
    return "\n".join(lines) + "\n"


def candidate_yaml(run: Run, candidate: Candidate) -> str:
    """Return the file of a config whose gain is left open: what is known of it, then the knobs."""
    lines = comment("tunekit candidate: not confirmed to be faster than the baseline's own config")
    lines += comment(_device_text(run, (candidate.trial,)))
    lines += comment(f"machine: {_machine_text(run)}")
    compared = planned_training(run.options, run.trials).compared_text
    ratio = candidate.speedup
    told = f"{candidate.factor:.2f}x {compared}, in one process; not confirmed by fresh ones"
    if ratio is not None:
        rounds = count_text(candidate.rounds, "round")
        told = f"{ratio.value:.2f}x ({ratio.low:.2f}x to {ratio.high:.2f}x) {compared}, over {rounds}"
    lines += comment(f"found by trial {candidate.trial}")
    lines += comment(f"speed-up: {told}")
    if candidate.memory is not None:
        lines += _memory_lines(run, candidate.memory)
    lines += _cautions(run, candidate)
    dumped = yaml.safe_dump(nested(knob_values(candidate, run.target)), sort_keys=False)
    lines += ["", *dumped.splitlines()]
    if candidate.learning_rate is None:
        lines += comment(_why_no_lr(run, candidate))
    return "\n".join(lines) + "\n"


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


def knobs_yaml(recommendation: Recommendation, target: Target, *, is_short: bool = True) -> str:
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


def _header(run: Run, recommendation: Recommendation) -> list[str]:
    planned = planned_training(run.options, run.trials)
    meaning = POLICIES[recommendation.tier].meaning.format(best=planned.best_text)
    lines = comment(f"tunekit {recommendation.tier.value}: {meaning}")
    evidence = {*recommendation.confirm_trials, recommendation.search_trial}
    lines += comment(_device_text(run, evidence))
    lines += comment(f"machine: {_machine_text(run)}")
    lines += comment(_trials_text(recommendation))
    lines += comment(f"why: {recommendation.reason}")
    if recommendation.same_as is not None:
        lines += comment(f"same config as {recommendation.same_as.value}")
    elif recommendation.tier is Tier.AGGRESSIVE:
        lines += comment("it may run out of memory: no stricter tier has this config")
    lines += comment(_expected_text(recommendation))
    lines += comment(f"speed-up: {_speedup_text(run, recommendation)}")
    lines += comment(f"time: {_time_text(run, recommendation)}")
    return lines + _memory_lines(run, recommendation) + _cautions(run, recommendation)


def _memory_lines(run: Run, need: MemoryNeed) -> list[str]:
    lines = comment(f"VRAM: {_vram_text(need)}") + comment(f"RAM: {_ram_text(run, need)}")
    return lines + (comment(f"largest samples: {_largest_text(need.largest)}") if need.largest else [])


def _cautions(run: Run, recommendation: Recommendation | Candidate) -> list[str]:
    """Return what to mind in the training script."""
    lines: list[str] = []
    if recommendation.config.precision is Precision.FP16:
        lines += comment("precision: fp16 needs GradScaler in the training script")
    if recommendation.learning_rate is not None:
        lines += comment(f"lr: {_lr_text(run, recommendation)}")
    return lines


def _device_text(run: Run, trials: Collection[int]) -> str:
    """Return where some trials were measured, and which GPU that is not where another was asked for."""
    if run.is_emulated:
        return f"measured on {run.measured_on}; not {run.profile.id}"
    ran = (one.measurement for one in run.trials if one.number in trials and one.measurement is not None)
    return f"measured on {next((one.loop.device.name for one in ran), run.measured_on)}"


def _machine_text(run: Run) -> str:
    host = run.host
    cpus = f"{host.cpus} CPUs" if host.cpus > 1 else "1 CPU"
    return f"{host.cpu_name or 'unknown CPU'}, {cpus}, {bytes_text(host.ram_limit_bytes)} RAM"


def _trials_text(recommendation: Recommendation) -> str:
    found = f"found by trial {recommendation.search_trial}"
    if not recommendation.confirm_trials:
        return f"{found}; not confirmed by fresh processes"
    numbers = ", ".join(str(number) for number in recommendation.confirm_trials)
    return f"{found}; confirmed by trials {numbers}"


def _expected_text(recommendation: Recommendation) -> str:
    samples, batches = recommendation.rate_samples_per_s, recommendation.it_per_s
    return f"expected: {_rate_range(samples, 'samples/s')}, {_rate_range(batches, 'it/s')}; whole epochs"


def _rate_range(rate: Interval, unit: str) -> str:
    if rate.low == rate.high:
        return f"{rate_text(rate.value)} {unit} (range n/a)"
    return f"{rate_text(rate.value)} {unit} ({rate_text(rate.low)} to {rate_text(rate.high)})"


def _speedup_text(run: Run, recommendation: Recommendation) -> str:
    ratio = recommendation.speedup
    if recommendation.is_baseline:
        return "none, this is the baseline's own config"
    if ratio is None:
        return "n/a, there is no baseline rate to compare with"
    planned = planned_training(run.options, run.trials)
    text = f"{ratio.value:.2f}x ({ratio.low:.2f}x to {ratio.high:.2f}x) {planned.compared_text}"
    outcome = verdict(ratio, run.noise_floor)
    return f"{text}; {outcome}"


def _time_text(run: Run, recommendation: Recommendation) -> str:
    epoch_time_s, options = recommendation.epoch_time_s, run.options
    if epoch_time_s is None and recommendation.finish_time_s is None:
        return "n/a, the length of an epoch is unknown"
    parts = [f"{duration_text(epoch_time_s)} per epoch"]
    if recommendation.finish_time_s is not None:
        steps, epochs = options.planned_steps, options.epochs
        length = count_text(epochs, "epoch") if steps is None else f"{steps:,} steps of the baseline's batch"
        parts.append(
            f"{duration_text(recommendation.finish_time_s)} for {length}, start-up included (predicted)"
        )
    elif epoch_time_s is not None:
        length = count_text(options.epochs, "epoch")
        parts.append(f"{duration_text(options.epochs * epoch_time_s)} for {length}")
    return f"{', '.join(parts)} (training only, validation not included)"


def _vram_text(need: MemoryNeed) -> str:
    reserved, total = need.peak_reserved_bytes, need.device_memory_bytes
    if reserved is None or total is None:
        return "n/a"
    return (
        f"{bytes_text(reserved)} reserved at the peak, {reserved / total:.0%} of {bytes_text(total)}; "
        f"{bytes_text(total - reserved)} left"
    )


def _ram_text(run: Run, need: MemoryNeed) -> str:
    base, buffer, limit = need.base_ram_bytes, need.buffer_bytes, run.rank_host.ram_limit_bytes
    return (
        f"{bytes_text(base)} for processes and {bytes_text(buffer)} for the loader's buffer, "
        f"{(base + buffer) / limit:.0%} of {bytes_text(limit)}; {bytes_text(limit - base - buffer)} left"
    )


def _largest_text(seen: LargestSamples) -> str:
    vram = ", VRAM includes it" if seen.peak_reserved_bytes is not None else ""
    trained = "it trained on such a batch" if seen.is_lived_through else "it was not trained on such a batch"
    return f"{batches_text(seen)}; {trained}; the buffer counts such batches{vram}"


def _lr_text(run: Run, recommendation: Recommendation | Candidate) -> str:
    rate = recommendation.learning_rate
    if rate is None:
        return "n/a"
    batch = global_batch(recommendation.config, run.world_size)
    origin = "the baseline's optimizer" if rate.source == "baseline" else "the flags"
    if batch == rate.base_batch:
        return f"{rate.value:.6g} of {origin}, unchanged: the global batch is still {batch}"
    factor = batch / rate.base_batch
    beyond = ""
    if rate.rule is LearningRateRule.SQRT and factor >= LARGEST_SQRT_FACTOR:
        beyond = f"; at beta1 0.9 the rule ends below k = {LARGEST_SQRT_FACTOR}: check your loss"
    return (
        f"{rate.base_lr:.6g} at global batch {rate.base_batch} ({origin}) scaled to batch {batch}, "
        f"k = {factor:.4g}, by the {_RULE_TEXTS[rate.rule]}{beyond}"
    )


def _why_no_lr(run: Run, recommendation: Recommendation | Candidate) -> str:
    config, discovery = run.baseline_config, run.discovery
    if config is not None and global_batch(config) == global_batch(recommendation.config):
        return "lr is left out: keep yours, the global batch is the baseline's"
    if run.script_scales_lr:
        return "lr is left out: the script scales its learning rate itself"
    if base_learning_rate(discovery, run.options, config) is None:
        return (
            "lr is left out: the learning rate or the batch to scale from is unknown; see --lr, --base-batch"
        )
    names = ", ".join(optimizer.class_name for optimizer in discovery.optimizers) if discovery else ""
    return f"lr is left out: no scaling rule is published for the optimizer ({names or 'unknown'})"


def _scaling_table(run: Run, recommendation: Recommendation) -> list[str]:
    scaling = [row for row in run.scaling if row.tier is recommendation.tier]
    if not scaling:
        return []
    rule = recommended_rule(run, recommendation.tier)
    marks = {name: " (use)" if rule is name else "" for name in LearningRateRule}
    header = (
        "GPUs",
        "total batch",
        "total workers",
        "RAM buffer",
        "RAM needed",
        "lr linear" + marks[LearningRateRule.LINEAR],
        "lr sqrt" + marks[LearningRateRule.SQRT],
    )
    rows = [
        (
            str(row.gpus),
            str(row.total_batch),
            str(row.total_workers),
            bytes_text(row.buffer_bytes),
            bytes_text(row.ram_bytes),
            _lr_cell(row.lr_linear),
            _lr_cell(row.lr_sqrt),
        )
        for row in scaling
    ]
    lines = comment("on several GPUs of one host, predicted:") + comment_table(header, rows)
    for row in scaling:
        for warning in row.warnings:
            lines += comment(f"{row.gpus} GPU{'' if row.gpus == 1 else 's'}: {warning}")
    return lines


def _lr_cell(lr: float | None) -> str:
    return "n/a" if lr is None else f"{lr:.4g}"


def recommended_rule(run: Run, tier: Tier) -> LearningRateRule | None:
    """Return which learning-rate column the tier goes by, None when the optimizer has no published rule."""
    for recommendation in run.recommendations:
        if recommendation.tier is tier and recommendation.learning_rate is not None:
            return recommendation.learning_rate.rule
    return rule_of(run.discovery)


# --- a GPU that is not here -------------------------------------------------------------------


def predicted_yaml(run: Run) -> str | None:
    """Return the file's text, every line at most 100 columns; None where nothing was predicted that fits."""
    prediction = run.prediction
    fit = prediction.start if prediction else None
    if prediction is None or prediction.config is None or fit is None:
        return None
    keys = config_keys(prediction.config, run.target)
    if prediction.config.precision is Precision.FP32 and run.target.binding_of("precision") is None:
        keys.pop("precision", None)
    dumped = yaml.safe_dump(nested(keys), sort_keys=False).splitlines()
    return "\n".join([*_predicted_header(run, prediction, fit), "", *dumped]) + "\n"


def _predicted_header(run: Run, prediction: DevicePrediction, fit: PredictedFit) -> list[str]:
    name, config = run.profile.id, prediction.config
    assert config is not None
    lines = comment(f"tunekit: to begin with on {name}; every figure is predicted, none was measured on one")
    sizes = " and ".join(str(size) for size in prediction.traced_sizes)
    lines += comment(f"memory: {prediction.path}, at batch sizes {sizes}, replayed through torch's allocator")
    margin = f"a margin of {prediction.margin:.0%} on every byte, and the most outside of torch"
    lines += comment(
        f"largest batch in {fit.precision}: {_batches_that_fit(fit, prediction, margin)}; batch_size is the "
        "largest of the search's own up to the one with the margin"
    )
    if fit.peak is not None:
        lines += comment(
            f"VRAM at batch {fit.peak.batch_size:,}: {bytes_text(fit.peak.reserved_bytes)} reserved at the "
            f"peak, of {bytes_text(fit.capacity_bytes)}"
        )
    lines += comment(f"speed at that batch: {_speed_text(fit)}")
    if prediction.speed_factor is not None:
        lines += comment(
            f"speed is held against the GPU that is here: {prediction.speed_factor:.2f} of its own roofline"
        )
    for doubt in prediction.doubts:
        lines += comment(f"doubt: {doubt}")
    baseline = run.baseline_config
    if baseline is not None and global_batch(baseline) != global_batch(config):
        factor = global_batch(config) / global_batch(baseline)
        why = f"the global batch is {factor:.4g} times the script's; scale yours with it"
        if run.script_scales_lr:
            why = "the script scales its learning rate itself"
        lines += comment(f"lr is left out: {why}")
    lines += comment("compile and channels_last: as the script has them; nothing was predicted of them")
    lines += comment(f"measure it there before you trust it: tunekit search --gpu {name} -- ...")
    return lines


def _batches_that_fit(fit: PredictedFit, prediction: DevicePrediction, margin: str) -> str:
    """Return the largest batches that fit, none of more samples than an epoch has."""
    low, value, high = (
        f"all {prediction.epoch_samples:,} of an epoch" if prediction.has_whole_epoch(size) else f"{size:,}"
        for size in (fit.largest.low, fit.largest.value, fit.largest.high)
    )
    if prediction.has_whole_epoch(fit.largest.low):
        return f"{low} with {margin}"
    return f"{low} with {margin}; {value} without; {high} at best"


def _speed_text(fit: PredictedFit) -> str:
    if fit.rate is None:
        return f"n/a, rates of {fit.profile_id} are unknown"
    text = (
        f"{rate_text(fit.rate.value)} samples/s ({rate_text(fit.rate.low)} to {rate_text(fit.rate.high)}), "
        f"bound by {fit.bound_by}"
    )
    if fit.loader is None or fit.instance is None:
        return f"{text}; roofline of each op; the loader there is n/a"
    return (
        f"{text}; roofline of each op; the loader on {fit.instance}: {rate_text(fit.loader.low)} to "
        f"{rate_text(fit.loader.high)}, by what a batch costs here"
    )


# --- comments -------------------------------------------------------------------------------


def comment(text: str, indent: str = "") -> list[str]:
    """Return the text as comment lines of at most 100 columns; further lines are indented.

    Line breaks, control characters and whatever else can't be printed become spaces: YAML readers refuse
    them even in comments, and a line break would end the comment.
    """
    plain = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    lines = textwrap.wrap(
        plain,
        width=MAX_COLUMNS,
        initial_indent=_MARK + indent,
        subsequent_indent=_MARK + indent + "  ",
        break_on_hyphens=False,
    )
    return lines or [_MARK.rstrip()]


def comment_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows under a header as right-aligned comment lines, wrapped where 100 columns are too few."""
    table = [tuple(header), *(tuple(row) for row in rows)]
    widths = [max(len(cell) for cell in column) for column in zip(*table, strict=True)]
    lines: list[str] = []
    for row in table:
        line = _MARK + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        lines += [line] if len(line) <= MAX_COLUMNS else comment("  ".join(row))
    return lines
