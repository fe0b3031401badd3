"""The bottleneck in words: of a profiled loop, and of a run's configs beside what its model says. Pure."""

from tunekit.diagnose.attribution import (
    Bound,
    attribution,
    closure,
    copies_alone_share,
    drained_share,
    idle_for_host,
)
from tunekit.diagnose.bottleneck import Bottleneck, bottleneck, bottleneck_of, lowest_samples_per_s
from tunekit.diagnose.policy import DRAINED_SHARE
from tunekit.records.interval import Interval
from tunekit.records.recommendation import Limit, ModelSummary, PredictedLimits, Recommendation
from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord
from tunekit.report.blocks import Basis, Passage
from tunekit.report.loop_time import step_text
from tunekit.units import duration_text, rate_text, share_text

_WORDS = {
    Bound.DATA: "data-bound",
    Bound.COMPUTE: "compute-bound",
    Bound.BALANCED: "balanced, loader and training take about equally long",
    Bound.HOST: "host-bound",
    Bound.COPIES: "copy-bound",
    Bound.EPOCHS: "bound by epoch boundaries",
    Bound.NO_LOADER: "no DataLoader",
    Bound.UNCLEAR: "unclear, for nothing saw the GPU's own time",
    Bound.UNEXPLAINED: "inconclusive",
    Bound.UNSETTLED: "inconclusive",
}
_PREDICTED = {
    Limit.LOADER: "loader-bound",
    Limit.TRAINING: "training-bound",
    Limit.CORES: "bound by the CPU cores that loader and training share",
    Limit.BOTH: "loader and training equally slow",
    Limit.TURNS: "loading and training in turns, for want of workers",
}
_CHEAPER = {
    Bound.DATA: "less work per sample in the loader, or more CPU cores",
    Bound.COMPUTE: "less training work per sample, or {machine}",
    Bound.BALANCED: "less work per sample in both",
}
_ON_SHARED_CORES = "less work per sample in either, or more CPU cores"
_AS_FAST = 0.05
"""Tiers nearer than this, as a share, are as fast as each other."""


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
    step = attribution(seen.measurement)
    step_s = step_text(step.step_ms / 1000)
    if step.stall is None:
        return f"No DataLoader: how much of its {step_s} per batch is making the batch is n/a."
    stall_s = step_text(step.stall.batch_ms / 1000)
    words, why = _WORDS[seen.bound], _why(seen)
    return (
        f"{words[0].upper()}{words[1:]}: {f'{why}, ' if why else ''}{step.stall.share:.0%} of step time is "
        f"data wait, {stall_s} of {step_s} per batch (measured)."
    )


def _why(seen: Bottleneck) -> str | None:
    """Return why the verdict is what it is, beside data wait; None where data wait says it all."""
    loop, halves = seen.measurement.loop, closure(seen.measurement)
    if seen.bound is Bound.UNEXPLAINED and halves is not None:
        loader, training, both = (step_text(s) for s in (halves.loader_s, halves.compute_s, halves.step_s))
        return f"loader alone {loader} and training alone {training} do not explain {both} of both together"
    if seen.bound is Bound.UNSETTLED:
        return "the rate is too uncertain for a verdict"
    if seen.bound is Bound.HOST:
        drained = drained_share(loop)
        if drained >= DRAINED_SHARE:
            return f"the GPU had no work left before {drained:.0%} of the batches"
        idle = idle_for_host(seen.measurement, seen.telemetry) or 0.0
        return f"the GPU is idle for {idle:.0%} of the step, data wait aside"
    if seen.bound is Bound.DATA and not loop.num_workers:
        return "no workers, so loading and training take turns"
    if seen.bound is Bound.COPIES:
        return f"for {copies_alone_share(seen.measurement):.0%} of the step the GPU only copies"
    if seen.bound is Bound.EPOCHS:
        boundary, epoch = duration_text(loop.boundary_s), duration_text(loop.epoch_time_s)
        return f"they take {boundary} of each epoch's {epoch}; within epochs"
    return None


# --- of a run's configs ----------------------------------------------------------------------


def bottleneck_text(run: Run, best: Recommendation | None) -> str:
    """Return the bottleneck before and after in a line, by what was measured; empty without that."""
    shown = [None] if best is None or best.is_baseline else [None, best]
    known = [bottleneck_of(run, each) for each in shown]
    by_bound = {one.bound: one for one in known if one}  # of two that are alike, the later
    texts = [
        f"{_WORDS[bound].partition(',')[0]}, {_wait_text(one, 'data wait')}"
        for bound, one in by_bound.items()
    ]
    return f"Bottleneck: {' -> '.join(texts)} (measured)." if texts else ""


def bottleneck_passage(run: Run, best: Recommendation | None) -> Passage:
    """Return the bottleneck of the baseline and of the config that the answer speaks of.

    Measured parts come first, then the model's limits; where those contradict the parts, that is said.
    """
    shown: list[Recommendation | None] = [None]
    if best is not None:
        shown = [best] if best.is_baseline else [None, best]
    lines = []
    for one in shown:
        seen = bottleneck_of(run, one)
        if seen is None:
            continue
        lines.append(f"{one.tier.value if one is not None else 'baseline'}: {_config_text(seen)}")
        if one is not None and _is_fastest(one, run):
            lines[-1] += _beyond_text(seen)
    if lines and run.model is not None:
        lines.append(_model_error_text(run.model))
    return Passage("Bottleneck", tuple(lines), Basis.MEASURED)


def _wait_text(seen: Bottleneck, words: str) -> str:
    return "data wait n/a" if seen.wait_share is None else f"{seen.wait_share:.0%} {words}"


def _config_text(seen: Bottleneck) -> str:
    waits, why = _wait_text(seen, "of step time is data wait"), _why(seen)
    text = f"{_WORDS[seen.bound]}{f', {why}' if why else ''}, {waits}"
    return text if seen.predicted is None else f"{text}; {_model_text(seen, seen.predicted)}"


def _model_text(seen: Bottleneck, of: PredictedLimits) -> str:
    """Return what each part allows by the model; where the measurement refutes that, how they differ."""
    if seen.is_model_refuted and of.limit is not None:
        lowest, measured = lowest_samples_per_s(of), of.measured_samples_per_s
        return (
            f"the model disagrees ({_PREDICTED[of.limit]} at {rate_text(lowest)} samples/s, "
            f"{rate_text(measured)} measured): the measurement counts"
        )
    figures = [("the loader", of.loader_samples_per_s), ("training", of.training_samples_per_s)]
    verb = "allows"
    if of.limit is Limit.CORES:
        figures.insert(0, ("the CPU cores that both share", of.cores_samples_per_s))
        verb = "allow"
    (first, rate), *others = figures
    rates = f"{first} {verb} {rate_text(rate)} samples/s"
    return rates + "".join(f", {name} {rate_text(rate)}" for name, rate in others) + " (predicted)"


def _is_fastest(best: Recommendation, run: Run) -> bool:
    """Return whether the knobs have given what they can: nothing is left to try, and no tier is faster."""
    rates = [one.rate_samples_per_s.value for one in run.recommendations]
    return run.why_stopped is not None and best.rate_samples_per_s.value >= max(rates) * (1 - _AS_FAST)


def _beyond_text(seen: Bottleneck) -> str:
    shares_cores = seen.predicted is not None and seen.predicted.limit is Limit.CORES
    cheaper = _CHEAPER.get(seen.bound)
    if cheaper is None:
        return ""
    if shares_cores and not seen.is_model_refuted:
        cheaper = _ON_SHARED_CORES
    on_cpu = seen.measurement.loop.device.type == "cpu"
    machine = "a faster machine" if on_cpu else "another GPU"
    return f"; beyond these knobs, faster only with {cheaper.format(machine=machine)}"


def _model_error_text(model: ModelSummary) -> str:
    if model.missed_relative is None or model.checked_configs is None:
        return "model error n/a: it takes two measured configs"
    error = share_text(model.missed_relative, ".1f")
    return f"model error {error} (leave-one-out, n={model.checked_configs:,})"
