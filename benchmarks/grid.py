"""A recorded grid: what `record_grid.py` wrote, as trials that a search can be given again."""

import gzip
import math
import random
from collections import defaultdict
from functools import cached_property
from pathlib import Path
from statistics import fmean

from tunekit.recommend.noise import noise_floor
from tunekit.records.base import Record
from tunekit.records.config import TrainConfig
from tunekit.records.host import Host
from tunekit.records.run import KnobSpace
from tunekit.records.trial import TrialRecord, TrialRole

GRIDS_FOLDER = Path(__file__).with_name("grids")


class GridHeader(Record):
    """What was recorded, where and when."""

    target: str
    recorded_at: str
    command: str
    host: Host
    window_s: float
    space: tuple[KnobSpace, ...]


class Grid:
    """One recorded grid, every trial of which can be drawn again.

    Args:
        name: of its target.

    Attributes:
        name: as given.
        header: what was recorded.
        baseline: the trial of the script as it is.
        truth: samples/s of each config that ran, the geometric mean of its trials.
    """

    def __init__(self, name: str) -> None:
        packed = (GRIDS_FOLDER / f"{name}.jsonl.gz").read_bytes()
        lines = gzip.decompress(packed).decode().splitlines()
        self.name = name
        self.header = GridHeader.model_validate_json(lines[0])
        self.baseline = TrialRecord.model_validate_json(lines[1])
        self._trials: dict[TrainConfig, list[TrialRecord]] = defaultdict(list)
        for line in lines[2:]:
            trial = TrialRecord.model_validate_json(line)
            assert trial.config is not None
            self._trials[trial.config].append(trial)
        self.truth = {
            config: math.exp(fmean(math.log(rate) for rate in rates))
            for config, trials in self._trials.items()
            if len(rates := [trial.rate_samples_per_s for trial in trials if trial.rate_samples_per_s])
            == len(trials)
        }

    @property
    def space(self) -> tuple[KnobSpace, ...]:
        """The knobs and their recorded values."""
        return self.header.space

    @property
    def host(self) -> Host:
        """The machine that it was recorded on."""
        return self.header.host

    @property
    def configs(self) -> tuple[TrainConfig, ...]:
        """Every config of the grid."""
        return tuple(self._trials)

    @cached_property
    def floor(self) -> float:
        """How much fresh processes of one config differ, as a share: over all configs of the grid."""
        floors = [
            noise_floor([trial.rate_samples_per_s or 1.0 for trial in self._trials[config]])
            for config in self.truth
        ]
        squares = [math.log1p(one.relative) ** 2 for one in floors if one is not None]
        return math.expm1(math.sqrt(fmean(squares)))

    def trials_of(self, config: TrainConfig) -> tuple[TrialRecord, ...]:
        """Return every trial of a config, in the order in which they ran."""
        return tuple(self._trials[config])

    def draw(self, config: TrainConfig, chance: random.Random, number: int) -> TrialRecord:
        """Return one of a config's trials, by chance; it costs what its first did, compiling included."""
        trials = self._trials[config]
        drawn = chance.choice(trials)
        measurement = drawn.measurement
        if measurement is not None:
            measurement = measurement.model_copy(update={"details": None})
        return drawn.model_copy(
            update={
                "number": number,
                "role": TrialRole.SEARCH,
                "round": None,
                "measurement": measurement,
                "duration_s": trials[0].duration_s,
            }
        )
