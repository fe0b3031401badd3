"""The walk of a loop profile: one look into a config, then rounds of it beside others."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tunekit.diagnose.bottleneck import bottleneck
from tunekit.diagnose.loop import LoopFacts, loop_findings
from tunekit.errors import UsageError
from tunekit.records.config import KNOBS, TrainConfig
from tunekit.records.details import Detail
from tunekit.records.run import LoopProfile
from tunekit.records.target import BindingKind
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.session.ablation import (
    AblationPlan,
    ablation_of,
    contender,
    next_added,
    plan_ablation,
    processes_noise,
)
from tunekit.session.session import Session, target_error
from tunekit.tune.confirm import expected_duration_s, round_order, typical_duration_s
from tunekit.tune.knob_access import SearchContext, access_of, why_inert
from tunekit.tune.space import with_settings
from tunekit.units import count_text, duration_text

AS_IT_IS = "as it is"
_DETAILS = (Detail.QUEUE, Detail.SYNCS, Detail.PEAKS, Detail.FLOORS)


@dataclass(frozen=True)
class Against:
    """The config to compare with."""

    name: str
    config_of: Callable[[TrainConfig, bool], TrainConfig]
    """Given the script's own config and whether it trains on a GPU; raises UsageError."""


class ProfileWalk(Session[LoopProfile]):
    """One loop profile in one folder."""

    def run(self, against: Against | None = None) -> LoopProfile:
        """Look into the loop, run the rounds, and return the whole profile.

        Every trial is on disk before the next begins; profile.json follows.

        Raises:
            TargetError: the config to look into can't be measured.
            UsageError: a knob can't have the value that `--fix` or `--against` gives it.
            KeyboardInterrupt: Ctrl-C; what is finished is saved.
        """
        self._against = against
        self._config: TrainConfig | None = None
        self._other: TrainConfig | None = None
        self._plan: AblationPlan | None = None
        with self._saved():
            self._learn()
            self._look()
            self._plan_rounds()
            self._run_rounds()
        return self.found

    # --- one config ------------------------------------------------------------------------

    @property
    def _details(self) -> tuple[Detail, ...]:
        kernels = (Detail.KERNELS,) if self.found.options.kernels else ()
        return tuple(one for one in Detail if one in (*_DETAILS, *kernels))

    def _learn(self) -> None:
        """Run the script as it is; with `--fix` that is only to learn the loop."""
        fixed = self.found.options.fixed
        details = () if fixed else self._details
        record = self.trial(TrialRole.BASELINE, None, "the script as it is", details=details)
        is_too_large = record.failure is not None and record.failure.kind.is_memory
        if not (fixed and is_too_large and record.config and record.discovery):
            self._require_learnt(record)

    def _look(self) -> None:
        """Settle the config that is looked into, and look into it where the baseline is another."""
        context = self.search_context()
        fixed = self.found.options.fixed
        self._config = with_settings(context.baseline, fixed, context) if fixed else context.baseline
        if not fixed:
            return
        record = self.trial(
            TrialRole.CONFIRM, self._config, "a look at the config", round=0, details=self._details
        )
        if record.failure is not None:
            raise target_error(record.failure, f"{self._name} could not be measured")

    @property
    def _name(self) -> str:
        settings = ", ".join(f"{one.knob} {one.value}" for one in self.found.options.fixed)
        return f"{AS_IT_IS}, {settings}" if settings else AS_IT_IS

    # --- rounds ----------------------------------------------------------------------------

    def _plan_rounds(self) -> None:
        """Settle what the rounds are of."""
        assert self._config is not None
        context = self.search_context()
        if self._against is not None:
            on_gpu = context.discovery.device_type != "cpu"
            wanted = self._against.config_of(context.baseline, on_gpu)
            self._other = self._settable(wanted, context)
            if self._other == self._config:
                self._other = None
                self.say(
                    f"{self._against.name} changes nothing: the config is that already; nothing to compare"
                )
        if self.found.options.ablate:
            self._plan = plan_ablation(self._config, context, self._suggested_workers(context))
            for reason in self._plan.left_out:
                self.say(f"not {reason}")

    def _suggested_workers(self, context: SearchContext) -> int | None:
        """Return how many workers could keep up, as the look at the config shows; None if it can't tell."""
        looks = [r for r in self.records if r.config == self._config and r.measurement]
        if not looks:
            return None
        facts = LoopFacts(looks[0], context.target, context.discovery, context.host, self.here)
        return facts.more_workers if facts.work is not None and facts.work.batches else None

    def _settable(self, wanted: TrainConfig, context: SearchContext) -> TrainConfig:
        """Return the config to compare with; what has no effect here stays as the script has it."""
        assert self._against is not None
        name, own = self._against.name, context.baseline
        changed = [knob for knob in KNOBS if getattr(wanted, knob) != getattr(own, knob)]
        inert = [knob for knob in changed if why_inert(knob, context)]
        for knob in changed:
            access, value = access_of(knob, context), getattr(wanted, knob)
            if knob not in inert and access.kind is BindingKind.FIXED:
                raise UsageError(
                    f"--against {name}: {knob} {value} can't be set ({access.why_fixed}); "
                    f"the script has {getattr(own, knob)}: take it out of the file"
                )
        if inert:
            self.say(f"left out of {name}, without effect here: {', '.join(inert)}")
        return wanted.changed(**{knob: getattr(own, knob) for knob in inert})

    @property
    def _compares(self) -> bool:
        return self._other is not None or (self._plan is not None and bool(self._plan.optimisations))

    def _run_rounds(self) -> None:
        """Run fresh processes of every config, in turn; of one config alone the look was the first."""
        options, planned = self.found.options, self._configs_at_most
        is_looked = any(r.config == self._config and r.measurement for r in self.records)
        first = 0 if self._compares else int(is_looked)
        trials = len(planned) * (options.rounds - first)
        if trials > 1:
            total_s = sum(expected_duration_s(self.records, config) for config in planned)
            # The compiled code is kept from then on.
            total_s += (trials - len(planned)) * typical_duration_s(self.records, None)
            self.say(
                f"{count_text(len(planned), 'config')} x {count_text(options.rounds - first, 'round')}: "
                f"{count_text(trials, 'trial')} at most, about {duration_text(total_s)} (predicted)"
            )
        for done in self._rounds_in_budget(first, options.rounds, self._round_s):
            number = done + int(self._compares and bool(options.fixed))  # then the look was round 0
            self._run_round(number, f"round {done + 1} of {options.rounds}", is_first=done == first)

    def _round_s(self) -> float:
        """Return the seconds of one more round, as trials took so far."""
        return sum(typical_duration_s(self.records, config) for config in self._measured_configs)

    @property
    def _configs_at_most(self) -> frozenset[TrainConfig]:
        """The configs of a round if none fails."""
        assert self._config is not None
        planned = self._plan.configs_at_most(self._config) if self._plan else frozenset({self._config})
        return planned | ({self._other} if self._other is not None else set())

    @property
    def _measured_configs(self) -> tuple[TrainConfig, ...]:
        """Configs that took part in a round, in the order in which they came; others go once they failed."""
        seen = dict.fromkeys(
            record.config for record in self.records if record.round is not None and record.config
        )
        failed = {record.config for record in self.records if record.failure is not None}
        return tuple(config for config in seen if config == self._config or config not in failed)

    def _run_round(self, number: int, purpose: str, is_first: bool) -> None:
        """Run one round; the first finds out what runs at all, so it goes forward."""
        assert self._config is not None
        if not is_first:
            for config in round_order(self._measured_configs, False, number):
                self._run_in_round(config, number, purpose)
            return
        self._run_in_round(self._config, number, purpose)
        if self._other is not None:
            self._run_in_round(self._other, number, purpose, details=self._details)
        if self._plan is None:
            return
        for config in self._plan.alone(self._config):
            self._run_in_round(config, number, purpose)
        while (config := next_added(self._config, self._plan, self._interleaved_trials)) is not None:
            self._run_in_round(config, number, purpose)

    def _run_in_round(
        self, config: TrainConfig | None, number: int, purpose: str, details: tuple[Detail, ...] = ()
    ) -> None:
        if any(record.round == number and record.config == config for record in self.records):
            return  # two optimisations that come to the same config
        own = None if self.known and config == self.known.baseline else config
        self.trial(TrialRole.CONFIRM, own, purpose, round=number, details=details)

    def _interleaved_trials(self, config: TrainConfig) -> Sequence[TrialRecord]:
        """Return the trials of a config that took turns with the others."""
        return [r for r in self.records if r.config == config and r.round is not None]

    # --- what follows ----------------------------------------------------------------------

    def _derived(self, run: LoopProfile) -> LoopProfile:
        profile = run.changed(profile_time_s=self._spent_s)
        first = next(iter(profile.trials), None)
        config = self._config or (first.config if first else None)
        if config is None or (self._config is None and profile.options.fixed):
            return profile
        own = [record for record in profile.trials if record.config == config]
        noise = processes_noise(own)
        rounds = [record for record in own if record.round is not None]
        compared = rounds if self._compares and rounds else own
        contenders = [contender(self._name, config, compared, noise=noise)]
        if self._other is not None and self._against is not None:
            trials = self._interleaved_trials(self._other)
            contenders.append(contender(self._against.name, self._other, trials, compared, noise))
        profile = profile.changed(contenders=tuple(contenders), noise_floor=noise)
        if self._plan is not None:
            ablation = ablation_of(config, self._plan, self._interleaved_trials, noise)
            profile = profile.changed(ablation=ablation)
        if (seen := profile.profiled_trial) is None:
            return profile
        rate = contenders[0].rate_samples_per_s
        facts = LoopFacts(
            seen, profile.target, profile.discovery, profile.rank_host, self.here, rate, profile.trials
        )
        shown = (one for one in loop_findings(facts) if one.code not in profile.options.ignored)
        return profile.changed(bottleneck=bottleneck([seen], rate), findings=tuple(shown))
