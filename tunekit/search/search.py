"""The walk of a search: baseline, space, proposals, confirmation, recommendation."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from tunekit.errors import TargetError
from tunekit.model.boundary import fit_boundary
from tunekit.model.observation import observations
from tunekit.recommend.loss_guard import Mode, barred_modes, mode_name, modes_due
from tunekit.recommend.planned_training import PlannedTraining, planned_training
from tunekit.recommend.tiers import best_of, made_to_fit
from tunekit.records.config import TrainConfig
from tunekit.records.details import Detail
from tunekit.records.recommendation import Tier
from tunekit.records.run import Run, RunStatus
from tunekit.records.trial import OutcomeKind, TrialRecord, TrialRole
from tunekit.records.trials import Measured, Trials
from tunekit.search.abandon import rate_to_beat
from tunekit.search.assemble import assemble, is_barred
from tunekit.search.budget import budget_s_of
from tunekit.search.confirm import (
    FLOOR_PROCESSES,
    details_to_confirm,
    expected_duration_s,
    least_rounds,
    next_round,
    round_order,
    rounds_done,
    rounds_due,
)
from tunekit.search.folder import RunFolder
from tunekit.search.guided import Proposal
from tunekit.search.predicted import Machine, begun, predicted, second_size, trace_details
from tunekit.search.progress import SearchListener
from tunekit.search.reach import Surroundings
from tunekit.search.refusal import (
    ended_before,
    insist_on_a_result,
    insist_on_length,
    refused_batch,
    refused_record,
    refused_target,
    used_up,
    why_refused,
)
from tunekit.search.sizes import LOOK_TRIALS, sizes_to_look_at
from tunekit.search.space import build_space, is_other_size, nearest
from tunekit.search.study import Study
from tunekit.search.time_left import ANSWERS, TimeLeft
from tunekit.search.trained_on import on_device_of
from tunekit.search.worth import Stop, disturbed_trial, expectation, next_trial, why_again
from tunekit.trial.executor import Executor, KnownTarget, TrialSpec

_CONFIRM_PASSES = 3
_BASELINE_DETAILS = (Detail.QUEUE, Detail.SYNCS, Detail.PEAKS, Detail.FLOORS)
"""What the first trial looks at beyond its rate: predictions for other configs follow from it."""


class Search:
    """One search over one run folder; resumed when the folder already holds trials.

    Args:
        run: target, options, host and profiles; its trials are ignored in favour of the folder's.
        folder: owned by the caller.
        executor: runs trials.
        machine: the device that is here.
        listener: hears what happens.
        clock: returns seconds.
    """

    def __init__(
        self,
        run: Run,
        folder: RunFolder,
        executor: Executor,
        machine: Machine,
        listener: SearchListener,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._folder = folder
        self._executor = executor
        self._machine = machine
        self._listener = listener
        self._clock = clock
        self._records = list(folder.load_trials())
        self._spent_before_s = sum(record.duration_s for record in self._records)
        self._started_at = clock()
        self._ran_out_of_time = False
        self.interrupted_run: Run | None = None
        """What Ctrl-C or a failure left, once it is on disk."""

    def run(self) -> Run:
        """Search until nothing is left or worth a trial, confirm, and return the whole run.

        Every trial is on disk before the next begins; run.json follows.

        Raises:
            TargetError: the baseline fails for a reason that no smaller batch mends, or does not tell how
                long the planned training is, whose finish is looked for.
            BudgetTooSmallError: the budget ends before the baseline is measured.
            EmptySpaceError: there is nothing to search.
            TargetError: nothing ran but the baseline, and no tier could be filled.
            KeyboardInterrupt: Ctrl-C; what is finished is saved, as `interrupted_run`.
        """
        for record in self._records:
            self._take_device(record)
        self._save(RunStatus.RUNNING)
        try:
            known = self._know_target()
            self._trace_other_size(known)
            insist_on_length(self._planned)
            self._build_space(known)
            self._set_budget()
            self._insist_on_batch(known)
            self._explore(known)
            self._fill_tiers(known)
            self._confirm(known)
            self._say_what_was_cut()
            insist_on_a_result(self._run)
        except KeyboardInterrupt:
            self.interrupted_run = self._save(RunStatus.INTERRUPTED)
            raise
        except Exception:
            self.interrupted_run = self._save(RunStatus.FAILED)
            raise
        return self._save(RunStatus.FINISHED)

    @property
    def _budget_s(self) -> float | None:
        return self._run.options.budget_s or self._run.budget_s

    @property
    def _left_s(self) -> float:
        return math.inf if self._budget_s is None else self._budget_s - self._spent_s

    @property
    def _over_budget(self) -> float | None:
        """The budget, once it is used up."""
        return self._budget_s if self._left_s <= 0 else None

    @property
    def _spent_s(self) -> float:
        return self._spent_before_s + self._clock() - self._started_at

    @property
    def _time(self) -> TimeLeft:
        return TimeLeft(self._run, tuple(self._records), self._left_s)

    @property
    def _trials(self) -> Trials:
        return Trials(tuple(self._records))

    @property
    def _planned(self) -> PlannedTraining:
        return planned_training(self._run.options, self._records)

    # --- baseline --------------------------------------------------------------------------

    def _know_target(self) -> KnownTarget:
        """Run the baseline, and smaller batches if it runs out of memory, until the target is known."""
        if self._trials.baseline is None:
            details = (*_BASELINE_DETAILS, *trace_details(self._run, self._machine, ()))
            spec = TrialSpec(self._next_number, TrialRole.BASELINE, None, details=details)
            self._run_trial(spec, None, "the script as it is")
        baseline = self._trials.baseline
        assert baseline is not None
        if baseline.failure is not None and not baseline.failure.kind.is_memory:
            raise refused_target(baseline.failure, self._run.options)
        if baseline.config is None or self._trials.discovery is None:
            if baseline.failure is not None:
                raise refused_target(baseline.failure, self._run.options)
            raise TargetError("what the baseline's agent told can't be read; see output.log of trial 0")
        if (budget_s := self._over_budget) is not None and len(self._records) == 1:
            raise used_up(baseline, budget_s)
        return self._shrink_until_learnt(baseline.config)

    def _shrink_until_learnt(self, config: TrainConfig) -> KnownTarget:
        while True:
            discovery = self._trials.discovery
            assert discovery is not None
            known = KnownTarget(discovery, self._baseline_config())
            if discovery.complete:
                return known
            if config.batch_size == 1:
                last = self._records[-1].failure
                why = f": {last.kind}, {last.message}" if last else ""
                raise TargetError(
                    f"no batch size down to 1 could be measured{why}; see the trials' output.log"
                )
            config = config.changed(batch_size=max(1, config.batch_size // 2))
            if all(record.config != config for record in self._records):
                if (budget_s := self._over_budget) is not None:
                    raise ended_before(config, budget_s)
                self._try(config, known, "the baseline ran out of memory: half its batch")

    def _trace_other_size(self, known: KnownTarget) -> None:
        """Trace a script that makes its batches itself at a second size, if its first was traced."""
        config = second_size(self._run, self._records)
        if config is not None and self._left_s > 0:
            spec = TrialSpec(self._next_number, TrialRole.TRACE, config, details=(Detail.TRACE,))
            self._run_trial(spec, known, "the second size of its steps, for predictions")

    def _baseline_config(self) -> TrainConfig:
        baseline = self._trials.baseline
        assert baseline is not None and baseline.config is not None
        return baseline.config

    # --- space and proposals ---------------------------------------------------------------

    def _build_space(self, known: KnownTarget) -> None:
        # By the first trial alone, so that a resumed search has the same space.
        first = next((record for record in self._records if record.measurement), None)
        around = Surroundings(
            host=self._run.rank_host,
            profile=self._machine.profile,
            native_bf16=self._machine.native_bf16,
            discovery=known.discovery,
            baseline=known.baseline,
            target=self._run.target,
            boundary=fit_boundary(observations([first])) if first else None,
        )
        space = build_space(around, self._run.options)
        self._run = self._run.changed(space=space)
        self._run = begun(self._run, self._records, self._machine, self._folder.trials_folder)
        self._listener.space_known(assemble(self._run, self._records))

    def _insist_on_batch(self, known: KnownTarget) -> None:
        """Run a script that makes its batches itself at another size first: all else rests on what that is.

        Raises:
            TargetError: what batch_size is bound to does not set the samples of the model's input.
        """
        sizes = next(entry for entry in self._run.space if entry.knob == "batch_size")
        own = known.baseline.batch_size
        if known.discovery.training_loader is not None or not sizes.is_searched:
            return
        others = [one for one in self._records if one.config and is_other_size(one.config, known.baseline)]
        if not others and self._may_add and self._left_s > 0:
            other = known.baseline.changed(batch_size=max(1, own // 2) if own > 1 else 2)
            config = nearest(self._run.space, other)
            if config.batch_size != own:
                others = [self._try(config, known, "another batch size, to see that it reaches the loop")]
        for one in others:
            if one.failure is not None and one.failure.kind is OutcomeKind.KNOB_NOT_APPLIED:
                raise refused_batch(one.failure)

    def _explore(self, known: KnownTarget) -> None:
        """Try what the study proposes, while it is worth its time and the budget allows."""
        study = Study(self._run.space, self._run.rank_host, self._folder.journal)
        study.tell(self._records)
        while self._may_add:
            terms = self._time.terms
            disturbed = disturbed_trial(self._trials)
            if (
                disturbed is not None
                and disturbed.config is not None
                and disturbed.duration_s <= terms.most_s
            ):
                study.tell([self._try(disturbed.config, known, why_again(disturbed))])
                continue
            coming = next_trial(study, terms, len(self._trials.searched))
            if isinstance(coming, Stop):
                self._run = self._run.changed(why_stopped=coming.why)
                self._ran_out_of_time = coming.why is None
                if coming.why is not None:
                    self._listener.said(coming.why)
                return
            study.tell([self._try_proposed(coming, known)])

    def _try_proposed(self, proposal: Proposal, known: KnownTarget) -> TrialRecord:
        """Run a proposal; the first of its mode looks at other batch sizes too."""
        sizes: tuple[int, ...] = ()
        if self._run.world_size == 1 and self._time.for_a_trial_s >= LOOK_TRIALS * proposal.cost_s:
            sizes = sizes_to_look_at(proposal.config, self._records, self._run.space, self._run.rank_host)
        rates = [record.rate_samples_per_s or 0.0 for record in self._trials.candidates]
        purpose = expectation(proposal, self._run.world_size, max(rates, default=None))
        return self._try(proposal.config, known, purpose, sizes)

    @property
    def _may_add(self) -> bool:
        """Whether --trials allows another search trial."""
        most = self._run.options.max_trials
        explored = sum(record.role.is_candidate for record in self._records)
        return most is None or explored < most

    # --- the budget ------------------------------------------------------------------------

    def _set_budget(self) -> None:
        """Set the budget that the user left open; say of one that was given what it has no room for."""
        self._run = self._run.changed(budget_s=budget_s_of(self._run, self._records))
        if (said := self._time.said_at_start) is not None:
            self._listener.said(said)

    def _say_what_was_cut(self) -> None:
        """Say what the budget had no room for, if it was too little to trust."""
        if (cut_short := self._time.cut_short(self._ran_out_of_time)) is not None:
            self._run = self._run.changed(cut_short=cut_short)
            self._listener.said(cut_short)

    # --- tiers -----------------------------------------------------------------------------

    def _fill_tiers(self, known: KnownTarget) -> None:
        """Run a config made to fit for each tier that would otherwise have none, or only the baseline.

        It is the best that was measured, in the baseline's own mode where the tier does not take its.
        """
        for tier in ANSWERS:
            best = best_of(self._trials.candidates, self._planned)
            pick = self._time.picks.get(tier)
            if best is None or (pick is not None and (pick is best.record or not pick.is_baseline_config)):
                continue
            config = self._made_to_fit(best, tier, known)
            trial_s = expected_duration_s(self._records, config)
            beside = () if tier is ANSWERS[0] else self._time.to_confirm
            if pick is not None and not self._time.holds_rounds(*beside, config, after_s=trial_s):
                continue
            for _ in range(3):
                # One that was given up is run to its end where it has nothing to beat.
                searched = [r for r in self._records if r.role is not TrialRole.NUMERICS]
                searched = [r for r in searched if pick is not None or not r.is_abandoned]
                record = next((record for record in searched if record.config == config), None)
                if record is None:
                    if not self._may_add or self._left_s <= 0:
                        return
                    record = self._try(config, known, f"made to fit {tier.value}")
                if tier in self._time.picks:
                    break
                if record.failure is not None and not record.failure.kind.is_memory:
                    break
                smaller = config.changed(batch_size=max(1, config.batch_size // 2))
                config = nearest(self._run.space, smaller)

    def _made_to_fit(self, best: Measured, tier: Tier, known: KnownTarget) -> TrainConfig:
        mode = Mode.of(known.baseline) if is_barred(best.record, tier, barred_modes(self._records)) else None
        return nearest(self._run.space, made_to_fit(best, tier, self._run.rank_host, mode))

    # --- numerics --------------------------------------------------------------------------

    def _guard_losses(self, known: KnownTarget) -> None:
        """Run the baseline with each new mode of the picks, and choose again where its losses are worse.

        Confirmation comes first: a run that would leave it less time than its fewest rounds is left out.
        """
        while modes := modes_due(self._records, self._time.picks.values()):
            config = modes[0].applied_to(known.baseline)
            guard_s = expected_duration_s(self._records, config)
            if not self._time.holds_rounds(*self._time.to_confirm, after_s=guard_s):
                return
            purpose = f"losses of {mode_name(modes[0], known.baseline)} against the baseline's"
            self._run_trial(TrialSpec(self._next_number, TrialRole.NUMERICS, config), known, purpose)
            self._fill_tiers(known)

    # --- confirmation ----------------------------------------------------------------------

    def _confirm(self, known: KnownTarget) -> None:
        """Re-run what the tiers chose beside the baseline; again if that changes the choice."""
        baseline = self._trials.baseline
        baseline_runs = baseline is not None and baseline.measurement is not None
        for number in range(_CONFIRM_PASSES):
            self._guard_losses(known)
            chosen = self._time.to_confirm
            if not chosen and not baseline_runs:
                return  # nothing ran that could be run again
            done = {config: rounds_done(self._records, config) for config in chosen}
            wanted = self._run.options.confirm_rounds
            fitting = self._time.rounds_fitting(chosen)
            self._ran_out_of_time |= fitting < least_rounds(wanted)
            if number and not fitting:
                return  # what is confirmed so far has to do
            configs, rounds = rounds_due(done, wanted, fitting)
            if not configs:
                measured = [one for one in self._trials.baseline_confirm if one.measurement]
                lacking = FLOOR_PROCESSES - len(measured)
                if not baseline_runs or lacking <= 0 or not fitting:
                    return
                rounds = min(fitting, max(lacking, wanted) if self._trials.searched else lacking)
            self._run_rounds(configs, baseline_runs, rounds, known)

    def _run_rounds(
        self, configs: Sequence[TrainConfig], baseline_runs: bool, rounds: int, known: KnownTarget
    ) -> None:
        """Run interleaved rounds; a config that fails once is not run again."""
        first = next_round(self._records)
        for number in range(first, first + rounds):
            unfit = {record.config for record in self._trials.confirming if record.failure is not None}
            for config in round_order(configs, baseline_runs, number):
                if config in unfit:
                    continue
                purpose = f"confirming, round {number - first + 1} of {rounds}"
                details = details_to_confirm(self._records, config)
                spec = TrialSpec(self._next_number, TrialRole.CONFIRM, config, number, details)
                self._run_trial(spec, known, purpose)

    # --- one trial -------------------------------------------------------------------------

    @property
    def _next_number(self) -> int:
        return max((record.number for record in self._records), default=-1) + 1

    def _try(
        self, config: TrainConfig, known: KnownTarget, purpose: str, sizes: tuple[int, ...] = ()
    ) -> TrialRecord:
        """Run a candidate; unless it looks at sizes, it is given up early where no tier could choose it."""
        spec = TrialSpec(
            self._next_number,
            TrialRole.SEARCH,
            config,
            details=(Detail.SIZES,) if sizes else trace_details(self._run, self._machine, self._records),
            sizes=sizes,
            rate_to_beat=None
            if sizes
            else rate_to_beat(self._records, self._run.rank_host, self._run.options, config),
        )
        return self._run_trial(spec, known, purpose)

    def _run_trial(self, spec: TrialSpec, known: KnownTarget | None, purpose: str) -> TrialRecord:
        """Run (or refuse) one trial and put its record on disk."""
        left_s = None if self._left_s == math.inf else max(0.0, self._left_s)
        self._listener.trial_started(spec, purpose, left_s)
        refusal = why_refused(spec.config, self._records, self._run.rank_host)
        if refusal is not None:
            record = refused_record(spec, refusal)
        else:
            record = self._executor.run(spec, known, self._listener.trial_moved)
        self._folder.save_trial(record)
        self._take_device(record)
        if Detail.TRACE in spec.details:
            trials = self._folder.trials_folder
            record, self._run = predicted(record, self._records, self._run, self._machine, trials)
            self._folder.save_trial(record)
        self._records.append(record)
        self._save(RunStatus.RUNNING)
        self._listener.trial_ended(record)
        return record

    def _take_device(self, record: TrialRecord) -> None:
        """Search for the device that a trial trained on from now on, where it was thought to be another."""
        self._run, here = on_device_of(self._run, record, self._machine.profile, self._run.options.gpu)
        self._machine = replace(self._machine, profile=here)

    def _save(self, status: RunStatus) -> Run:
        updated = self._run.changed(status=status, search_time_s=self._spent_s)
        self._run = assemble(updated, self._records)
        self._folder.save_run(self._run)
        return self._run
