"""A run with the config of it that is compared, and two of them beside each other. Pure."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath

from tunekit.recommend.memory import peak_reserved_bytes
from tunekit.recommend.noise import difference, larger_noise, unpaired_factor
from tunekit.records.comparison import Difference
from tunekit.records.config import TrainConfig
from tunekit.records.interval import Interval
from tunekit.records.measurement import LoopMeasurement, Measurement
from tunekit.records.recommendation import Recommendation
from tunekit.records.run import Run
from tunekit.records.target import Target

CHANGES: tuple[Difference, ...] = ("faster", "slower")
"""What one run beside another may be called where they differ."""


@dataclass(frozen=True)
class Side:
    """One run of a comparison."""

    name: str
    """"A", "B", ..."""
    folder: str
    """As given."""
    run: Run
    chosen: Recommendation | None
    """The tier whose config is compared; None is the baseline."""

    @cached_property
    def measured(self) -> list[Measurement]:
        """Its fresh processes; none where the baseline could not be measured."""
        return [one.measurement for one in self.run.history.evidence(self.chosen)]

    @property
    def loop(self) -> LoopMeasurement:
        """One of its loops, for what is the same in all of them."""
        return self.measured[0].loop

    @property
    def rates(self) -> list[float]:
        """samples/s of each process."""
        return [one.rate_samples_per_s for one in self.measured]

    @cached_property
    def baseline_rates(self) -> list[float]:
        """samples/s of each process of the run's own baseline."""
        return [one.loop.rate_samples_per_s for one in self.run.history.evidence(None)]

    @property
    def config(self) -> TrainConfig | None:
        """The knobs that are compared; None for a baseline whose knobs are unknown."""
        return self.run.baseline_config if self.chosen is None else self.chosen.config

    @property
    def is_baseline(self) -> bool:
        """Whether that is the run's own baseline."""
        return self.chosen is None or self.chosen.is_baseline

    @property
    def peak_reserved_bytes(self) -> int | None:
        """VRAM at most, of any process; None on a CPU."""
        peaks = (peak_reserved_bytes(one) for one in self.measured)
        return max((peak for peak in peaks if peak is not None), default=None)

    @property
    def speedups_by_round(self) -> list[float]:
        """Its rate over its own baseline's, in each round in which both were measured."""
        chosen = set(self.chosen.confirm_trials) if self.chosen else set()
        rounds = [one for one in self.run.trials if one.round is not None and one.rate_samples_per_s]
        baseline_rates = {one.round: one.rate_samples_per_s for one in rounds if one.is_baseline_config}
        return [
            one.rate_samples_per_s / baseline
            for one in rounds
            if one.number in chosen and one.rate_samples_per_s and (baseline := baseline_rates.get(one.round))
        ]


@dataclass(frozen=True)
class RunPair:
    """A run beside the one that it is set against."""

    reference: Side
    other: Side
    tolerance: float
    """How much slower the other may be, as a share of the reference's rate."""

    def each(self, before: object, after: object) -> str:
        """Return two figures with the names of their runs."""
        return f"{before} in {self.reference.name}, {after} in {self.other.name}"

    @property
    def is_same_run(self) -> bool:
        """Whether both folders hold the same trials."""
        return bool(self.other.run.trials) and self.reference.run.trials == self.other.run.trials

    @property
    def is_same_training(self) -> bool:
        """Whether the baselines are the same script text, words and knobs, as far as is known."""
        mine, theirs = self.reference.run, self.other.run
        return (
            mine.target.script_sha256 == theirs.target.script_sha256
            and command_words(mine.target) == command_words(theirs.target)
            and mine.baseline_config is not None
            and mine.baseline_config == theirs.baseline_config
            and mine.world_size == theirs.world_size
        )

    @cached_property
    def factor(self) -> Interval | None:
        """The other's rate over the reference's; None with too few processes to say."""
        return unpaired_factor(
            self.other.rates,
            self.reference.rates,
            self.other.run.noise_floor,
            self.reference.run.noise_floor,
        )

    @property
    def reserved_ratio(self) -> float | None:
        """Peak reserved VRAM over the reference's."""
        before, after = self.reference.peak_reserved_bytes, self.other.peak_reserved_bytes
        return after / before if before and after is not None else None

    def verdict_on(self, factor: Interval | None) -> Difference | None:
        """Return what a factor between the two may be called, by the larger of their noise floors."""
        noise = larger_noise(self.reference.run.noise_floor, self.other.run.noise_floor)
        return None if factor is None else difference(factor, noise)


def command_words(target: Target) -> tuple[str, ...]:
    """Return a training command without the folders of its interpreter and its script."""
    script = PurePath(target.script).name if target.script else None
    words = list(target.command)
    program = PurePath(words[0]).name
    words[0] = "python" if program.startswith("python") else program
    place = next((at for at, word in enumerate(words) if PurePath(word).name == script), None)
    if place is not None and script is not None:
        words[place] = script
    return tuple(words)
