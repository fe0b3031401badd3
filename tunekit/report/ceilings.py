"""What holds the rate of the baseline and of the recommended config, in sentences. Pure."""

from tunekit.records.model_summary import Limit, ModelSummary, PredictedLimits
from tunekit.records.recommendation import Recommendation, Tier
from tunekit.records.run import Run
from tunekit.report.table import Basis, Passage
from tunekit.units import count_text, rate_text, share_text

_WORDS = {
    Limit.LOADER: "loader-bound",
    Limit.TRAINING: "training-bound",
    Limit.CORES: "bound by the cores that loader and training share",
    Limit.BOTH: "loader and training bind alike",
    Limit.TURNS: "no workers, so loading and training wait for each other",
    None: "what binds is n/a",
}
_AS_FAST = 0.05
"""Tiers nearer than this, as a share, are as fast as each other."""


def ceilings_passage(run: Run, best: Recommendation | None) -> Passage:
    """Return what binds, for the baseline and for the config that the answer speaks of; predicted.

    Without lines where the model had too few trials to tell.

    Args:
        run: with its model's summary.
        best: the recommendation that the answer speaks of.
    """
    title = "What holds the rate (predicted)"
    if run.model is None:
        return Passage(title, ())
    by_tier = {one.tier: one for one in run.model.limits}
    shown: list[Tier | None] = [None]
    if best is not None:
        shown = [best.tier] if best.is_baseline else [None, best.tier]
    lines = [_sentence(by_tier[tier]) for tier in shown if tier in by_tier]
    if lines and best is not None and best.tier in by_tier and _is_fastest(best, run):
        mend = _mend(by_tier[best.tier].limit, run)
        lines[-1] += f"; {mend}" if mend else ""
    return Passage(title, (*lines, _trust(run.model)) if lines else (), Basis.PREDICTED)


def _sentence(of: PredictedLimits) -> str:
    """Return what binds in one config, with its figures."""
    figures = [("the loader", of.loader_samples_per_s), ("training", of.training_samples_per_s)]
    verb = "allows"
    if of.limit is Limit.CORES:
        figures.insert(0, ("the cores", of.cores_samples_per_s))
        verb = "allow"
    (first, rate), *others = figures
    told = f"{first} {verb} {rate_text(rate)} samples/s"
    told += "".join(f", {name} {rate_text(rate)}" for name, rate in others)
    return f"{of.tier.value if of.tier else 'baseline'}: {_WORDS[of.limit]}; {told}"


def _is_fastest(best: Recommendation, run: Run) -> bool:
    """Return whether the knobs have given what they can: nothing is left to try, and no tier is faster."""
    if run.why_stopped is None:
        return False
    rates = [one.rate_samples_per_s.value for one in run.recommendations]
    return best.rate_samples_per_s.value >= max(rates) * (1 - _AS_FAST)


def _mend(limit: Limit | None, run: Run) -> str | None:
    """Return what could make a config faster that the search can't better."""
    loop = next((record.measurement.loop for record in run.trials if record.measurement), None)
    on_cpu = loop is not None and loop.device.type == "cpu"
    machine = "a faster machine" if on_cpu else "another GPU"
    cheaper = {
        Limit.LOADER: "less work per sample in the loader, or more CPU cores",
        Limit.TRAINING: f"less training work per sample, or {machine}",
        Limit.CORES: "less work per sample in either, or more CPU cores",
        Limit.BOTH: "less work per sample in both",
    }
    return f"beyond these knobs, faster only with {cheaper[limit]}" if limit in cheaper else None


def _trust(model: ModelSummary) -> str:
    if model.missed_relative is None or model.checked_configs is None:
        return "how far the model misses is n/a: it takes two measured configs"
    configs = count_text(model.checked_configs, "measured config")
    missed = f"{share_text(model.missed_relative, '.1f')} on average"
    return f"the model missed {configs} by {missed}, each predicted from the others"
