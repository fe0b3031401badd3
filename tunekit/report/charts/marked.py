"""The configs that a report speaks of by name: the baseline and the tiers. Pure."""

from dataclasses import dataclass, replace

from tunekit.recommend.noise import mean_of_known
from tunekit.records.config import TrainConfig
from tunekit.records.interval import Interval
from tunekit.records.measurement import Measurement
from tunekit.records.recommendation import Recommendation
from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord
from tunekit.report.text import names_text

BASELINE = "baseline"


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
        return names_text(self.names)

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """Of its trials."""
        return tuple(one.measurement for one in self.records if one.measurement is not None)


def marked_configs(run: Run) -> tuple[Marked, ...]:
    """Return the baseline and then each tier's config, every config once."""
    found: list[Marked] = []
    own = run.baseline_config
    if own is not None:
        records = tuple(one.record for one in run.history.evidence(None))
        rate = mean_of_known([one.rate_samples_per_s or 0.0 for one in records], run.noise_floor)
        found.append(Marked((BASELINE,), own, rate, records, None))
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
