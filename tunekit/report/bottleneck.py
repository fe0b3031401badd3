"""The bottleneck in words: of a loop, and of a run's configs next to the model's prediction. Pure."""

from tunekit.records.recommendation import Bottleneck, Bound, Limit, ModelSummary, PredictedLimits
from tunekit.records.run import Run
from tunekit.report.blocks import Basis, Passage
from tunekit.units import rate_text, share_text

_WORDS = {
    Bound.DATA: "data-bound",
    Bound.TURNS: "loading not overlapped with training",
    Bound.COMPUTE: "compute-bound",
    Bound.BALANCED: "balanced",
    Bound.HOST: "host-bound",
    Bound.COPIES: "copy-bound",
    Bound.EPOCHS: "bound by epoch boundaries",
    Bound.NO_LOADER: "no DataLoader",
    Bound.UNCLEAR: "unclear (no GPU times)",
    Bound.UNEXPLAINED: "inconclusive (slower than loader plus training alone)",
    Bound.UNSETTLED: "inconclusive (rate too noisy)",
}


def bound_text(seen: Bottleneck | None) -> str:
    """Return the bottleneck of one measured loop, such as "Data-bound, 36% data wait"."""
    words = _seen_text(seen) if seen else "bottleneck n/a"
    return f"{words[0].upper()}{words[1:]}"


def _seen_text(seen: Bottleneck) -> str:
    share = "n/a" if seen.wait_share is None else f"{seen.wait_share:.0%}"
    return f"{_WORDS[seen.bound]}, {share} data wait"


def bottleneck_text(run: Run) -> str:
    """Return the measured bottleneck before and after, in a line; empty where nothing was measured."""
    known = dict.fromkeys(map(_seen_text, run.bottlenecks))
    return f"Bottleneck: {' -> '.join(known)} (measured)." if known else ""


def bottleneck_passage(run: Run) -> Passage:
    """Return the bottleneck of the baseline and of the config that the answer speaks of.

    What was measured comes first, then what the model predicts of each part.
    """
    limits = {one.tier: one for one in run.model.limits} if run.model else {}
    lines = [
        f"{seen.tier or 'baseline'}: {_seen_text(seen)}{_model_text(limits.get(seen.tier), seen)}"
        for seen in run.bottlenecks
    ]
    if lines and run.model is not None:
        lines.append(_model_error_text(run.model))
    return Passage("Bottleneck", tuple(lines), Basis.MEASURED)


def _model_text(of: PredictedLimits | None, seen: Bottleneck) -> str:
    if of is None:
        return ""
    parts = {"loader": of.loader_samples_per_s, "training": of.training_samples_per_s}
    if of.limit is Limit.CORES:
        parts["shared CPU cores"] = of.cores_samples_per_s
    rates = " / ".join(f"{name} {rate_text(rate)}" for name, rate in parts.items())
    disagrees = " (contradicted by the measurement)" if seen.is_model_refuted else ""
    return f"; the model predicts {rates} samples/s{disagrees}"


def _model_error_text(model: ModelSummary) -> str:
    if model.missed_relative is None or model.checked_configs is None:
        return "model error n/a: needs two measured configs"
    error = share_text(model.missed_relative, ".1f")
    return f"model error {error} (leave-one-out, n={model.checked_configs:,})"
