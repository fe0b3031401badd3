"""The bottleneck in words: of a profiled loop, and of a run's configs beside what its model says. Pure."""

from collections.abc import Iterator

from tunekit.diagnose.attribution import Bound
from tunekit.diagnose.bottleneck import Bottleneck, bottleneck, bottleneck_of
from tunekit.records.interval import Interval
from tunekit.records.recommendation import Limit, ModelSummary, Recommendation
from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord
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


def verdict_text(record: TrialRecord, rate: Interval | None = None) -> str:
    """Return the bottleneck of one measured loop, such as "Data-bound, 36% data wait".

    Args:
        record: the loop's trial.
        rate: of the loop, with the range that is shown beside the sentence.
    """
    seen = bottleneck([record], rate=rate)
    words = "bottleneck n/a" if seen is None else _seen_text(seen)
    return f"{words[0].upper()}{words[1:]}"


def _seen_text(seen: Bottleneck) -> str:
    share = "n/a" if seen.wait_share is None else f"{seen.wait_share:.0%}"
    return f"{_WORDS[seen.bound]}, {share} data wait"


def bottleneck_text(run: Run, best: Recommendation | None) -> str:
    """Return the bottleneck before and after in a line, by what was measured; empty without that."""
    known = [_seen_text(seen) for _, seen in _bottlenecks(run, best)]
    return f"Bottleneck: {' -> '.join(dict.fromkeys(known))} (measured)." if known else ""


def bottleneck_passage(run: Run, best: Recommendation | None) -> Passage:
    """Return the bottleneck of the baseline and of the config that the answer speaks of.

    What was measured comes first, then what the model predicts of each part.
    """
    lines = [f"{name}: {_seen_text(seen)}{_model_text(seen)}" for name, seen in _bottlenecks(run, best)]
    if lines and run.model is not None:
        lines.append(_model_error_text(run.model))
    return Passage("Bottleneck", tuple(lines), Basis.MEASURED)


def _bottlenecks(run: Run, best: Recommendation | None) -> Iterator[tuple[str, Bottleneck]]:
    tiers = [best] if best is not None and best.is_baseline else [None, *([best] if best else [])]
    for tier in tiers:
        if (seen := bottleneck_of(run, tier)) is not None:
            yield "baseline" if tier is None else tier.tier.value, seen


def _model_text(seen: Bottleneck) -> str:
    of = seen.predicted
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
