"""A run with the config of it that is compared. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath

from tunekit.recommend.largest import peak_reserved_bytes
from tunekit.recommend.noise import mean_interval
from tunekit.recommend.ram_buffer import measured_sample, ram_buffer
from tunekit.recommend.tiers import base_ram_bytes
from tunekit.recommend.time_breakdown import SAMPLES, Seconds, mean_s
from tunekit.records.comparison import ComparedRun, TimePart
from tunekit.records.config import TrainConfig
from tunekit.records.measurement import LoopMeasurement, Measurement
from tunekit.records.recommendation import Recommendation
from tunekit.records.run import Run
from tunekit.records.target import Target

BETWEEN_EPOCHS = "between epochs"
"""The part of the time that is not in the steady window, and is in the rate."""


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
    def speedups_by_round(self) -> list[float]:
        """Its rate over its own baseline's, in each round in which both were measured."""
        chosen = set(self.chosen.confirm_trials) if self.chosen else set()
        rounds = [one for one in self.run.trials if one.round is not None and one.rate_samples_per_s]
        own = {one.round: one.rate_samples_per_s for one in rounds if one.is_baseline_config}
        return [
            one.rate_samples_per_s / baseline
            for one in rounds
            if one.number in chosen and one.rate_samples_per_s and (baseline := own.get(one.round))
        ]


def compared_run(side: Side, parts: Mapping[str, Seconds]) -> ComparedRun:
    """Return what is shown of one run.

    Args:
        side: the run.
        parts: those of the time, by the clock that all runs have.

    Raises:
        ValueError: it has no measured process, or its config is unknown.
    """
    run, config = side.run, side.config
    if not side.measured or config is None:
        raise ValueError(f"{side.folder} has nothing measured to compare; choose another tier")
    rate = mean_interval(side.rates, run.noise_floor)
    base_bytes = max(base_ram_bytes(one) for one in side.measured)
    buffer = ram_buffer(config, measured_sample(config, side.measured), base_bytes, run.rank_host)
    peaks = [peak for one in side.measured if (peak := peak_reserved_bytes(one)) is not None]
    epoch_samples = side.loop.epoch_samples_total
    own = side.baseline_rates
    return ComparedRun(
        name=side.name,
        folder=side.folder,
        created_at=run.created_at,
        measured_on=run.measured_on,
        device=side.loop.device.name,
        tier=side.chosen.tier if side.chosen else None,
        config=config,
        rates_samples_per_s=tuple(side.rates),
        rate_samples_per_s=rate,
        it_per_s=mean_interval([one.loop.epoch_it_per_s for one in side.measured], run.noise_floor),
        epoch_time_s=epoch_samples / rate.value if epoch_samples else None,
        objective=run.options.objective,
        speedup=side.chosen.speedup if side.chosen and not side.is_baseline else None,
        is_baseline=side.is_baseline,
        baseline_rate_samples_per_s=mean_interval(own, run.noise_floor) if own else None,
        noise_floor=run.noise_floor,
        peak_reserved_bytes=max(peaks, default=None),
        device_memory_bytes=side.loop.device.memory_bytes,
        base_ram_bytes=base_bytes,
        buffer_bytes=buffer.size_bytes,
        buffer_verdict=None if buffer.verdict is None else buffer.verdict.value,
        time_parts=_time_parts([one.loop for one in side.measured], parts),
    )


def _time_parts(loops: Sequence[LoopMeasurement], parts: Mapping[str, Seconds]) -> tuple[TimePart, ...]:
    """Return where the time for 1,000 samples goes: the steady window's parts, and what epochs' ends cost."""
    told = [TimePart(name=name, seconds=mean_s(loops, seconds)) for name, seconds in parts.items()]
    if any(loop.boundary_s is not None and loop.epoch_samples is not None for loop in loops):
        told.append(TimePart(name=BETWEEN_EPOCHS, seconds=mean_s(loops, _between_epochs_s)))
    return tuple(told)


def _between_epochs_s(loop: LoopMeasurement) -> float:
    if loop.epoch_samples_total is None:
        return 0.0
    return SAMPLES * (loop.boundary_s or 0.0) / loop.epoch_samples_total


def is_same_training(first: Side, second: Side) -> bool:
    """Return whether two runs' baselines are the same script text, words and knobs, as far as is known."""
    mine, theirs = first.run.target, second.run.target
    return (
        mine.script_sha256 == theirs.script_sha256
        and command_words(mine) == command_words(theirs)
        and first.run.baseline_config is not None
        and first.run.baseline_config == second.run.baseline_config
        and first.run.world_size == second.run.world_size
    )


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
