"""What was predicted of the GPU that a search was asked for, in sentences. Pure."""

from tunekit.records.prediction import Correction, DevicePrediction, PredictedFit
from tunekit.records.run import Run
from tunekit.report.blocks import Basis, Passage
from tunekit.report.text import interval_text
from tunekit.units import bytes_text


def prediction_passage(run: Run) -> Passage:
    """Return what fits the GPU that was asked for, and what trials on it say of that; no lines if nothing.

    Args:
        run: with its prediction.
    """
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
        most = (
            f"; at best a batch of {_size_text(fit.largest.high, prediction)} would"
            if fit.largest.high
            else ""
        )
        return f"{fit.precision}: not even one sample surely fits {bytes_text(fit.capacity_bytes)}{most}"
    speed = f"about {interval_text(fit.rate, ' samples/s')}" if fit.rate else "samples/s n/a"
    binds = ""
    if fit.rate and fit.bound_by:
        place = f" on {fit.instance}" if fit.bound_by == "loader" and fit.instance else ""
        binds = f", bound by {fit.bound_by}{place}"
    bytes_told = f"{bytes_text(fit.peak.reserved_bytes)} of {bytes_text(fit.capacity_bytes)} reserved"
    return f"{fit.precision}: {_largest_text(fit, prediction)}, {bytes_told}; {speed}{binds}"


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
    return (
        f"by {prediction.path}, at batch sizes {sizes}, with a margin of {prediction.margin:.0%}; speed by "
        f"{speed_basis(prediction)}{doubts}"
    )


def speed_basis(prediction: DevicePrediction) -> str:
    """Return what predicted rates go by."""
    if prediction.speed_factor is None:
        return "a roofline of each op, within 30%"
    return (
        f"a roofline of each op, within 30%, times {prediction.speed_factor:.2f}: what the GPU that is here "
        "made of its own with the script's batch"
    )
