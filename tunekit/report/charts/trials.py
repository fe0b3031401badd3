"""The trials and configs that charts show, with the text of each point. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from tunekit.records.config import TrainConfig
from tunekit.records.interval import Interval
from tunekit.records.recommendation import Recommendation
from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord
from tunekit.records.trials import Measured
from tunekit.report.blocks import Basis, Point, Series, TrialState
from tunekit.report.text import config_text, interval_text, is_too_wide, role_text
from tunekit.report.trials import trial_state
from tunekit.units import rate_text

BASELINE = "baseline"


@dataclass(frozen=True)
class Marked:
    """One config and all its names."""

    names: tuple[str, ...]
    """ "baseline", or the tiers that recommend it."""
    config: TrainConfig
    rate: Interval | None
    """Samples/s of its fresh processes; None where nothing of it was measured."""
    evidence: tuple[Measured, ...]
    """The trials that its figures come from."""
    recommendation: Recommendation | None = None
    """The first tier that recommends it; None for a baseline that no tier recommends."""

    @property
    def name(self) -> str:
        """All its names."""
        return " = ".join(self.names)


def marked_configs(run: Run) -> tuple[Marked, ...]:
    """Return the baseline and then each tier's config, every config once."""
    found: dict[TrainConfig, Marked] = {}
    if (own := run.baseline_config) is not None:
        evidence = tuple(run.history.evidence(None))
        rate = run.baseline_figures.rate_samples_per_s if run.baseline_figures else None
        found[own] = Marked((BASELINE,), own, rate, evidence)
    for tier in run.recommendations:
        evidence = tuple(run.history.evidence(tier))
        same = found.get(tier.config) or Marked((), tier.config, tier.rate_samples_per_s, evidence)
        names, first = (*same.names, tier.tier.value), same.recommendation or tier
        found[tier.config] = replace(same, names=names, recommendation=first)
    return tuple(found.values())


def trial_note(record: TrialRecord) -> str:
    """Return which trial it was, and its config."""
    early = ", given up early as too slow" if record.is_abandoned else ""
    return f"trial {record.number}, {role_text(record)}{early}: {config_text(record.config)}"


def failure_series(
    records: Iterable[TrialRecord], place_of: Callable[[TrialRecord], float | None]
) -> Iterable[Series]:
    """Yield crosses for trials without a figure: failed, or refused by a prediction.

    Trials whose place on the axis is None are left out.
    """
    for state, basis in ((TrialState.FAILED, Basis.MEASURED), (TrialState.REFUSED, Basis.PREDICTED)):
        points = (
            Point(x=place, y=0.0, text=record.failure.text, note=trial_note(record))
            for record in records
            if record.failure and trial_state(record) is state and (place := place_of(record)) is not None
        )
        yield Series(state.value, basis, tuple(points), "failures")


def samples_point(x: float, rate: float, note: str = "") -> Point:
    """Return samples/s without a range."""
    return Point(x=x, y=rate, text=f"{rate_text(rate)} samples/s", note=note)


def rate_point(x: float | str, rate: Interval, note: str = "") -> Point:
    """Return samples/s with their range; a range that is too wide is not drawn."""
    low, high = (None, None) if rate.low == rate.high or is_too_wide(rate) else (rate.low, rate.high)
    return Point(x=x, y=rate.value, text=interval_text(rate, " samples/s"), low=low, high=high, note=note)
