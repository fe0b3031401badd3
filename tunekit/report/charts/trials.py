"""The trials and configs that charts show, and what stands beside a point of theirs. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from tunekit.plain_text import printable
from tunekit.recommend.noise import mean_of_known
from tunekit.records.config import TrainConfig
from tunekit.records.interval import Interval
from tunekit.records.measurement import Measurement
from tunekit.records.recommendation import Recommendation
from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord
from tunekit.report.blocks import Basis, Point, Series, TrialState
from tunekit.report.text import config_text, interval_text, is_too_wide, role_text
from tunekit.report.trials import trial_outcome, trial_state
from tunekit.units import rate_text

BASELINE = "baseline"
_MOST_LETTERS = 200
"""Of a failure's reason: the rest stands in the table of trials."""


# --- the configs that have a name ------------------------------------------------------------


@dataclass(frozen=True)
class Marked:
    """One config and all its names."""

    names: tuple[str, ...]
    """ "baseline", or the tiers that recommend it."""
    config: TrainConfig
    rate: Interval | None
    """Samples/s of its fresh processes; None where nothing of it was measured."""
    records: tuple[TrialRecord, ...]
    """The measured trials that its figures come from."""
    recommendation: Recommendation | None
    """The first that recommends it; None for a baseline that no tier recommends."""

    @property
    def name(self) -> str:
        """All its names."""
        return " = ".join(self.names)

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """Of its trials."""
        return tuple(one.measurement for one in self.records if one.measurement is not None)


def marked_configs(run: Run) -> tuple[Marked, ...]:
    """Return the baseline and then each tier's config, every config once."""
    found: list[Marked] = []
    baseline_config = run.baseline_config
    if baseline_config is not None:
        records = tuple(one.record for one in run.history.evidence(None))
        rate = mean_of_known([one.rate_samples_per_s or 0.0 for one in records], run.noise_floor)
        found.append(Marked((BASELINE,), baseline_config, rate, records, None))
    for tier in run.recommendations:
        place = next((place for place, one in enumerate(found) if one.config == tier.config), None)
        if place is None:
            records = tuple(one.record for one in run.history.evidence(tier))
            rate = tier.rate_samples_per_s
            found.append(Marked((tier.tier.value,), tier.config, rate, records, tier))
            continue
        same = found[place]
        names = tuple(dict.fromkeys((*same.names, tier.tier.value)))
        found[place] = replace(same, names=names, recommendation=same.recommendation or tier)
    return tuple(found)


# --- what stands beside a point --------------------------------------------------------------


def trial_note(record: TrialRecord) -> str:
    """Return which trial it was, and its config."""
    early = ", given up early as too slow" if record.is_abandoned else ""
    return f"trial {record.number}, {role_text(record)}{early}: {config_text(record.config)}"


def _failure_text(record: TrialRecord) -> str:
    assert record.failure is not None
    message = printable(record.failure.message)
    if len(message) > _MOST_LETTERS:
        message = f"{message[: _MOST_LETTERS - 3]}..."
    return f"{trial_outcome(record)}: {message}"


def failure_series(
    records: Iterable[TrialRecord], place_of: Callable[[TrialRecord], float | None]
) -> list[Series]:
    """Return crosses where trials have no figure: failed when they ran, or refused by what was predicted.

    One whose place on the axis is None is left out.
    """
    points: dict[TrialState, list[Point]] = {TrialState.FAILED: [], TrialState.REFUSED: []}
    for record in records:
        place = place_of(record) if record.failure is not None else None
        if place is not None:
            point = Point(x=place, y=0.0, text=_failure_text(record), note=trial_note(record))
            points[trial_state(record)].append(point)
    return [
        Series("failed", Basis.MEASURED, tuple(points[TrialState.FAILED]), "failures"),
        Series("refused", Basis.PREDICTED, tuple(points[TrialState.REFUSED]), "failures"),
    ]


def samples_point(x: float, rate: float, note: str = "") -> Point:
    """Return samples/s without a range."""
    return Point(x=x, y=rate, text=f"{rate_text(rate)} samples/s", note=note)


def rate_point(x: float | str, rate: Interval, note: str = "") -> Point:
    """Return samples/s with their range; a range that says nothing is not drawn."""
    has_range = rate.low < rate.high and not is_too_wide(rate)
    return Point(
        x=x,
        y=rate.value,
        text=interval_text(rate, " samples/s"),
        low=rate.low if has_range else None,
        high=rate.high if has_range else None,
        note=note,
    )
