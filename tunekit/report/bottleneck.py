"""The bottleneck in words: of a profiled loop, and of a run's configs beside what its model says. Pure."""

from collections.abc import Iterator

from tunekit.diagnose.attribution import (
    Bound,
    attribution,
    closure,
    copies_alone_share,
    drained_share,
    idle_for_host,
)
from tunekit.diagnose.bottleneck import Bottleneck, bottleneck, bottleneck_of
from tunekit.records.interval import Interval
from tunekit.records.recommendation import Limit, ModelSummary, Recommendation
from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord
from tunekit.report.blocks import Basis, Passage
from tunekit.report.loop_time import step_text
from tunekit.units import duration_text, rate_text, share_text

_WORDS = {
    Bound.DATA: "data-bound",
    Bound.TURNS: "not overlapped",
    Bound.COMPUTE: "compute-bound",
    Bound.BALANCED: "balanced",
    Bound.HOST: "host-bound",
    Bound.COPIES: "copy-bound",
    Bound.EPOCHS: "bound by epoch boundaries",
    Bound.NO_LOADER: "no DataLoader",
    Bound.UNCLEAR: "unclear (no GPU times)",
    Bound.UNEXPLAINED: "inconclusive",
    Bound.UNSETTLED: "inconclusive",
}

# --- of a profiled loop ----------------------------------------------------------------------


def verdict_text(record: TrialRecord, rate: Interval | None = None) -> str:
    """Return the bottleneck of one measured loop as a sentence.

    Args:
        record: the loop's trial.
        rate: of the loop, with the range that is shown beside the sentence.
    """
    seen = bottleneck([record], rate=rate)
    if seen is None:
        return "Bottleneck: n/a, the trial was given up before it was measured."
    words = _seen_text(seen)
    step_s = step_text(attribution(seen.measurement).step_ms / 1000)
    return f"{words[0].upper()}{words[1:]}; {step_s} per batch (measured)."


def _seen_text(seen: Bottleneck) -> str:
    why = _why(seen)
    share = seen.wait_share
    wait = "data wait n/a" if share is None else f"{share:.0%} data wait"
    return f"{_WORDS[seen.bound]}{f' ({why})' if why else ''}, {wait}"


def _why(seen: Bottleneck) -> str | None:
    """Return why the verdict is what it is, beside data wait; None where data wait says it all."""
    loop, halves = seen.measurement.loop, closure(seen.measurement)
    if seen.bound is Bound.UNEXPLAINED and halves is not None:
        loader, training, both = (step_text(s) for s in (halves.loader_s, halves.compute_s, halves.step_s))
        return f"loader alone {loader} and training alone {training} do not explain {both} of both together"
    if seen.bound is Bound.UNSETTLED:
        return "the rate is too uncertain for a verdict"
    if seen.bound is Bound.HOST:
        idle = idle_for_host(seen.measurement, seen.telemetry)
        if idle is None:
            return f"the GPU had no work left before {drained_share(loop):.0%} of the batches"
        return f"the GPU is idle for {idle:.0%} of the step, data wait aside"
    if seen.bound in (Bound.DATA, Bound.TURNS) and not loop.num_workers:
        return "no workers, so loading and training take turns"
    if seen.bound is Bound.COPIES:
        return f"for {copies_alone_share(seen.measurement):.0%} of the step the GPU only copies"
    if seen.bound is Bound.EPOCHS:
        boundary, epoch = duration_text(loop.boundary_s), duration_text(loop.epoch_time_s)
        return f"{boundary} of each epoch's {epoch}"
    return None


# --- of a run's configs ----------------------------------------------------------------------


def bottleneck_text(run: Run, best: Recommendation | None) -> str:
    """Return the bottleneck before and after in a line, by what was measured; empty without that."""
    known = [_seen_text(seen) for _, seen in _bottlenecks(run, best) if seen is not None]
    return f"Bottleneck: {' -> '.join(dict.fromkeys(known))} (measured)." if known else ""


def bottleneck_passage(run: Run, best: Recommendation | None) -> Passage:
    """Return the bottleneck of the baseline and of the config that the answer speaks of.

    What was measured comes first, then what the model predicts of each part.
    """
    lines = [f"{name}: {_config_text(seen)}" for name, seen in _bottlenecks(run, best) if seen is not None]
    if lines and run.model is not None:
        lines.append(_model_error_text(run.model))
    return Passage("Bottleneck", tuple(lines), Basis.MEASURED)


def _bottlenecks(run: Run, best: Recommendation | None) -> Iterator[tuple[str, Bottleneck | None]]:
    if best is None or not best.is_baseline:
        yield "baseline", bottleneck_of(run, None)
    if best is not None:
        yield best.tier.value, bottleneck_of(run, best)


def _config_text(seen: Bottleneck) -> str:
    text, of = _seen_text(seen), seen.predicted
    if of is None:
        return text
    parts = {"loader": of.loader_samples_per_s, "training": of.training_samples_per_s}
    if of.limit is Limit.CORES:
        parts["shared CPU cores"] = of.cores_samples_per_s
    rates = " / ".join(f"{name} {rate_text(rate)}" for name, rate in parts.items())
    disagrees = " (contradicted by the measurement)" if seen.is_model_refuted else ""
    return f"{text}; the model predicts {rates} samples/s{disagrees}"


def _model_error_text(model: ModelSummary) -> str:
    if model.missed_relative is None or model.checked_configs is None:
        return "model error n/a: it takes two measured configs"
    error = share_text(model.missed_relative, ".1f")
    return f"model error {error} (leave-one-out, n={model.checked_configs:,})"
