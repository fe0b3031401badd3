"""A config to begin with on a GPU that is not here, as YAML: predicted, and headed so."""

import yaml

from tunekit.export.comments import comment
from tunekit.export.keys import config_keys, nested
from tunekit.recommend.learning_rate import global_batch
from tunekit.records.config import Precision
from tunekit.records.prediction import DevicePrediction, PredictedFit
from tunekit.records.run import Run
from tunekit.units import bytes_text, rate_text


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
    return "\n".join([*_header(run, prediction, fit), "", *dumped]) + "\n"


def predicted_files(run: Run) -> dict[str, str]:
    """Return `<gpu>.predicted.yaml`; nothing where there is none."""
    text = predicted_yaml(run)
    return {} if text is None else {f"{run.profile.id}.predicted.yaml": text}


def _header(run: Run, prediction: DevicePrediction, fit: PredictedFit) -> list[str]:
    name, config = run.profile.id, prediction.config
    assert config is not None
    lines = comment(f"tunekit: to begin with on {name}; every figure is predicted, none was measured on one")
    sizes = " and ".join(str(size) for size in prediction.traced_sizes)
    lines += comment(f"memory: {prediction.path}, at batch sizes {sizes}, replayed through torch's allocator")
    margin = f"a margin of {prediction.margin:.0%} on every byte, and the most outside of torch"
    lines += comment(
        f"largest batch in {fit.precision}: {_largest_text(fit, prediction, margin)}; batch_size is the "
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
    own = run.baseline_config
    if own is not None and global_batch(own) != global_batch(config):
        factor = global_batch(config) / global_batch(own)
        why = f"the global batch is {factor:.4g} times the script's; scale yours with it"
        if run.script_scales_lr:
            why = "the script scales its learning rate itself"
        lines += comment(f"lr is left out: {why}")
    lines += comment("compile and channels_last: as the script has them; nothing was predicted of them")
    lines += comment(f"measure it there before you trust it: tunekit search --gpu {name} -- ...")
    return lines


def _largest_text(fit: PredictedFit, prediction: DevicePrediction, margin: str) -> str:
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
    told = (
        f"{rate_text(fit.rate.value)} samples/s ({rate_text(fit.rate.low)} to {rate_text(fit.rate.high)}), "
        f"bound by {fit.bound_by}"
    )
    if fit.loader is None or fit.instance is None:
        return f"{told}; roofline of each op; the loader there is n/a"
    return (
        f"{told}; roofline of each op; the loader on {fit.instance}: {rate_text(fit.loader.low)} to "
        f"{rate_text(fit.loader.high)}, by what a batch costs here"
    )
