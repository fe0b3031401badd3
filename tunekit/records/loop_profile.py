"""What `tunekit profile` learned of one training loop: its trials, and what follows from them."""

from pydantic import Field, PositiveFloat, PositiveInt

from tunekit.records.base import Record
from tunekit.records.config import TrainConfig
from tunekit.records.finding import Finding
from tunekit.records.interval import Interval
from tunekit.records.recommendation import NoiseFloor
from tunekit.records.run import FixedKnob, TargetRecord
from tunekit.records.trial import TrialRecord


class ProfileOptions(Record):
    """What the user asked of a loop profile."""

    gpu: str = "auto"
    fixed: tuple[FixedKnob, ...] = ()
    """Knobs to set before looking; the rest is as the script has it."""
    rounds: PositiveInt = 1
    """Fresh processes of each config, interleaved."""
    window_s: PositiveFloat = 5.0
    trial_limit_s: PositiveFloat = 300.0
    no_progress_limit_s: PositiveFloat = 90.0
    budget_s: PositiveFloat | None = None
    """Time for the whole of it; fewer rounds are run where they would not fit."""
    kernels: bool = False
    ablate: bool = False
    against: str | None = None
    """The config file that was compared."""
    ignored: tuple[str, ...] = ()
    """Codes of findings to leave out."""


class Contender(Record):
    """One config of a comparison, measured in fresh processes that took turns with the others."""

    name: str
    """"as it is", a file's name, or what was changed."""
    config: TrainConfig
    trials: tuple[int, ...]
    """Numbers of its trials; those that failed included."""
    rate_samples_per_s: Interval | None = None
    factor: Interval | None = None
    """Its rate over the first contender's, paired by round; None for that one."""
    why_missing: str | None = None
    """Why it has no rate."""


class AblationStep(Record):
    """One optimisation: by itself, and added to those before it."""

    name: str
    changes: tuple[FixedKnob, ...] = Field(min_length=1)
    alone: Contender
    added: Contender | None = None
    """None for the first, which is both, and after one that failed."""
    step_factor: Interval | None = None
    """What adding it brought, beyond those before it."""


class Ablation(Record):
    """What each optimisation brings by itself and in turn."""

    steps: tuple[AblationStep, ...]
    left_out: tuple[str, ...] = ()
    """What was not tried, and why, such as "tf32: no effect on cpu"."""
    product_of_alone: PositiveFloat | None = None
    """What the factors would come to if they multiplied."""
    together: Interval | None = None
    """What they come to."""


class LoopProfile(TargetRecord):
    """Everything one `tunekit profile` learned; rebuilt from its trial records."""

    options: ProfileOptions
    contenders: tuple[Contender, ...] = ()
    """The config that was looked into, and the one it is compared with."""
    noise_floor: NoiseFloor | None = None
    ablation: Ablation | None = None
    findings: tuple[Finding, ...] = ()
    """Of the first contender's loop."""
    profile_time_s: float = Field(default=0.0, ge=0)

    @property
    def looked_into(self) -> TrialRecord | None:
        """The first contender's trial that its figures are of: the first that looked at details, else any."""
        asked = self.contenders[0].config if self.contenders else None
        measured = [
            trial
            for trial in self.trials
            if trial.measurement is not None and (asked is None or trial.config == asked)
        ]
        detailed = (one for one in measured if one.measurement and one.measurement.details is not None)
        return next(detailed, measured[0] if measured else None)
