"""The walk of a search: baseline, space, proposals, confirmation, recommendation."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from tunekit.errors import BudgetTooSmallError, TargetError, TunekitError
from tunekit.predict.throughput.boundary import fit_boundary
from tunekit.predict.throughput.observation import observations
from tunekit.recommend.knob_gains import knobs_put_back
from tunekit.recommend.numerics import Mode, excluded_modes, mode_name, modes_due
from tunekit.recommend.planned_training import PlannedTraining, planned_training
from tunekit.recommend.recommendation import FEWEST_ROUNDS, answer_of, comparison_of, speedup_over_baseline
from tunekit.recommend.tiers import best_of, ceiling_of, clamped_to_tier, is_excluded, same_training
from tunekit.records.config import TrainConfig
from tunekit.records.details import Detail
from tunekit.records.recommendation import Recommendation, Untried
from tunekit.records.run import Run, RunStatus, SearchOptions, SecondStage
from tunekit.records.target import Binding, LoaderSeen
from tunekit.records.trial import Failure, OutcomeKind, TrialRecord, TrialRole
from tunekit.records.trials import Trials
from tunekit.session.assemble import assemble
from tunekit.session.folder import RunFolder
from tunekit.session.own_settings import binding_in_doubt, is_not_followed, own_settings
from tunekit.session.predicted import (
    Machine,
    missing_trace_config,
    predicted,
    trace_details,
    with_starting_config,
)
from tunekit.session.session import NOT_READ, QuietWait, SearchListener, Session, target_error
from tunekit.session.store import SharedResult, TrialStore
from tunekit.trial.binding_syntax import how_text
from tunekit.trial.bindings import bound_target
from tunekit.trial.executor import Executor, TrialSpec
from tunekit.tune.acquisition import Proposal
from tunekit.tune.budget import CONFIRM_ORDER, TimeLeft, budget_s_of
from tunekit.tune.confirm import (
    MIN_ROUNDS,
    details_to_confirm,
    expected_duration_s,
    least_rounds,
    next_round,
    round_order,
    rounds_done,
    rounds_due,
    rounds_s,
    second_stage,
)
from tunekit.tune.feasibility import LOOK_TRIALS, compute_sweep_sizes
from tunekit.tune.jobs import Job, Work
from tunekit.tune.space import build_space, is_batch_variant, nearest
from tunekit.tune.stopping import Stop, expectation, next_trial, rate_to_beat
from tunekit.tune.study import Study
from tunekit.units import count_text

_CONFIRM_PASSES = 3
_BASELINE_DETAILS = (Detail.QUEUE, Detail.SYNCS, Detail.PEAKS, Detail.FLOORS)
"""What the first trial looks at beyond its rate: predictions for other configs follow from it."""


class Search(Session[Run]):
    """One search over one run folder; resumed when the folder already holds trials.

    Args:
        run: target, options, host and profiles; its trials are ignored in favour of the folder's.
        folder: owned by the caller.
        executor: runs trials.
        machine: the device that is here.
        listener: hears what happens.
        clock: returns seconds.
        quiet: what it may wait for the machine to be quiet; None for not at all.
        store: of a search that other hosts share; None for this host alone.

    Attributes:
        finisher: what the other host that finishes the search does, or has left; None where this host does.
    """

    def __init__(
        self,
        run: Run,
        folder: RunFolder,
        executor: Executor,
        machine: Machine,
        listener: SearchListener,
        clock: Callable[[], float] = time.monotonic,
        quiet: QuietWait | None = None,
        store: TrialStore | None = None,
    ) -> None:
        records = folder.load_trials()
        super().__init__(
            run.changed(untried=None),
            folder,
            executor,
            listener,
            machine.profile,
            records,
            clock,
            quiet,
            store,
        )
        self.finisher: Job | SharedResult | None = None
        self._at_first = machine
        self._listener: SearchListener = listener
        self._study: Study | None = None
        self._ran_out_of_time = False
        self._coming: Proposal | None = None
        """What this host enqueued last."""
        self._waits_for = ""
        """What this host waits for, as it was said."""
        self._ablation_left_out = ""
        self._settled: set[str] = set()
        """Knobs for which no other binding is to be tried."""

    def _derived(self, run: Run) -> Run:
        return assemble(run.changed(search_time_s=self._spent_s), run.trials)

    def run(self) -> Run:
        """Search until nothing is left or worth a trial, confirm, and return the whole run.

        Every trial is on disk before the next begins; run.json follows. A host that leaves confirmation to
        another one returns what it knows.

        Raises:
            TargetError: the baseline fails for a reason that no smaller batch mends, or does not tell how
                long the planned training is, whose finish is looked for.
            BudgetTooSmallError: the budget ends before the baseline is measured.
            EmptySpaceError: there is nothing to search.
            TargetError: nothing ran but the baseline, and no tier could be filled.
            KeyboardInterrupt: Ctrl-C; what is finished is saved, as `found`.
        """
        with self._saved():
            while not self._is_over():
                self._store.take(self._do)
        return self.found

    def _is_over(self) -> bool:
        """Return whether nothing is left for this host; else a job waits in the queue."""
        confirms_since: dict[int, float] = {}
        while True:
            # In this order, what ends in between is counted twice rather than not at all.
            queue = self._store.jobs()
            if self._has_answer():
                return True
            self._pull()
            self._take_over_space()
            if any(job.host is None for job in queue):
                return False
            finishing = next((job for job in queue if job.work is Work.FINISH), None)
            if finishing is not None:
                self._say_waiting(f"{finishing.host} confirms the answer")
                since = confirms_since.setdefault(finishing.number, self._clock())
                if self._clock() - since > self._store.grace_s:  # its host is alive
                    self.finisher = finishing
                    self._change(status=RunStatus.RUNNING)
                    return True
            elif self._enqueue_next(queue):
                return False
            self._store.wait()

    def _enqueue_next(self, running: Sequence[Job]) -> bool:
        """Enqueue the next job; return False where it depends on those that other hosts run."""
        hosts = ", ".join(dict.fromkeys(job.host for job in running if job.host))
        if self._study is None:
            if running:
                return self._say_waiting(f"waiting for {hosts} to measure the baseline for all hosts")
            self._store.enqueue(Job(work=Work.PREPARE))
            return True
        coming = self._next(self._study, running)
        if not isinstance(coming, Stop):
            self._coming = coming
            self._store.enqueue(Job(work=Work.SEARCH, config=coming.config))
            return True
        if running:
            return self._say_waiting(f"nothing to try until the running trials of {hosts} end")
        if self._may_add and coming.why is not None:
            self._listener.said(coming.why)
        self._store.enqueue(Job(work=Work.FINISH, why_stopped=coming.why))
        return True

    def _say_waiting(self, message: str) -> bool:
        if message != self._waits_for:
            self._waits_for = message
            self._listener.said(message)
        return False

    def _do(self, job: Job) -> None:
        """Do a job of the queue."""
        self._waits_for = ""
        {Work.PREPARE: self._prepare, Work.SEARCH: self._search, Work.FINISH: self._finish}[job.work](job)
        if job.work is not Work.SEARCH:
            self._store.leave(job.work, self.found)

    def _prepare(self, job: Job) -> None:
        """Learn all that the proposals rest on."""
        self._learn_target()
        self._bind_own_settings()
        self._trace_other_size()
        _insist_on_length(self._planned)
        self._build_space()
        self._set_budget()
        self._insist_on_batch()
        self._begin_study()

    def _finish(self, job: Job) -> None:
        """Confirm what is chosen, until the run is whole."""
        if self._may_add:
            self._change(why_stopped=job.why_stopped)
            self._ran_out_of_time = job.why_stopped is None
        self._fill_tiers()
        self._confirm()
        self._settle_doubts()
        self._ablate()
        self._note_untried()
        self._say_what_was_cut()
        _insist_on_a_result(self.found)
        self._folder.save_missing(self._records)
        self._save(RunStatus.FINISHED)

    # --- hosts that share the search -------------------------------------------------------

    def _take_over_space(self) -> None:
        """Go on with the space and the budget that another host has left."""
        if self._study is not None or (left := self._store.left(Work.PREPARE)) is None:
            return
        self._pull()  # what came between the last look and the end of the job
        names = ("space", "budget_s", "prediction", "why_not_predicted")
        self._change(**{name: getattr(left.run, name) for name in names})
        self._bind(left.run.target.bindings)
        self._listener.space_known(assemble(self.found, self._records))
        self._begin_study()

    def _has_answer(self) -> bool:
        """Return whether the run is whole; take it over from the host that has finished it, if one has."""
        if self.found.status is RunStatus.FINISHED:
            return True
        if (left := self._store.left(Work.FINISH)) is None:
            return False
        self.found, self.finisher = left.run, left
        self._folder.save_missing(self._records)
        return True

    def _pull(self) -> None:
        """Take in the trials of other hosts, and how long the search has run by their clocks."""
        pulled = self._store.pull()
        for shared in pulled:
            self._take(shared.record)
            self._began_at = min(self._began_at, self._clock() - shared.spent_s)
            self._listener.trial_of_another_ended(shared.record, shared.host)
            if self._study is not None:
                self._study.tell([shared.record])
        if pulled:
            self._save(RunStatus.RUNNING)

    def _save_at_end(self) -> None:
        self._folder.save(self.found)

    @property
    def _trials(self) -> Trials:
        return Trials(self._records)

    @property
    def _baseline_config(self) -> TrainConfig:
        """The knob values that the user has now."""
        assert self._known is not None
        return self._known.baseline

    @property
    def _planned(self) -> PlannedTraining:
        return planned_training(self.found.options, self._records)

    @property
    def _machine(self) -> Machine:
        return replace(self._at_first, profile=self._here)

    # --- baseline --------------------------------------------------------------------------

    def _learn_target(self) -> None:
        """Run the baseline, and smaller batches if it runs out of memory, until the target is known."""
        if self._trials.baseline is None:
            data = () if self.found.options.skip_data_check else (Detail.DATA,)
            details = (*_BASELINE_DETAILS, *trace_details(self.found, self._machine), *data)
            purpose = "the script as it is"
            self._trial(TrialRole.BASELINE, None, purpose, details=details)
        baseline = self._trials.baseline
        assert baseline is not None
        is_unread = baseline.config is None or self._trials.discovery is None
        if baseline.failure is not None and (is_unread or not baseline.failure.kind.is_memory):
            raise _refused_target(baseline.failure, self.found.options)
        if baseline.config is None or is_unread:
            raise TargetError(NOT_READ)
        if self._left_s <= 0 and len(self._records) == 1:
            raise BudgetTooSmallError(
                f"the baseline alone took {baseline.duration_s:.0f} s of the budget of "
                f"{self._budget_s:.0f} s; use --budget {round(baseline.duration_s * 12)}s or more"
            )
        self._shrink_until_learnt(baseline.config)

    def _shrink_until_learnt(self, config: TrainConfig) -> None:
        while self._known is None or not self._known.discovery.complete:
            if config.batch_size == 1:
                last = self._records[-1].failure
                why = f": {last.kind}, {last.message}" if last else ""
                raise TargetError(
                    f"no batch size down to 1 could be measured{why}; see the trials' output.log"
                )
            config = config.changed(batch_size=max(1, config.batch_size // 2))
            if all(record.config != config for record in self._records):
                if self._left_s <= 0:
                    raise BudgetTooSmallError(
                        f"the baseline ran out of memory, and the budget of {self._budget_s:.0f} s ended "
                        f"before batch_size {config.batch_size} could be tried; use a longer --budget"
                    )
                self._try(config, "the baseline ran out of memory: half its batch")

    def _trace_other_size(self) -> None:
        """Trace a script that makes its batches itself at a second size, if its first was traced."""
        config = missing_trace_config(self.found)
        if config is not None and self._left_s > 0:
            purpose = "the second size of its steps, for predictions"
            self._trial(TrialRole.TRACE, config, purpose, details=(Detail.TRACE,))

    # --- space and proposals ---------------------------------------------------------------

    def _build_space(self) -> None:
        # By the first trial alone, so that a resumed search has the same space.
        first = next((record for record in self._records if record.measurement), None)
        boundary = fit_boundary(observations([first])) if first else None
        context = self._search_context(self._at_first.native_bf16, boundary)
        run = self.found.changed(space=build_space(context, self.found.options))
        self.found = with_starting_config(run, self._machine, self._folder.trials_folder)
        self._listener.space_known(assemble(self.found, self._records))

    def _insist_on_batch(self) -> None:
        """Try another batch size first where only a binding sets it, or other hosts rely on the binding."""
        sizes = next(entry for entry in self.found.space if entry.knob == "batch_size")
        baseline, binding = self._baseline_config, self.found.target.binding_of("batch_size")
        is_found = binding is not None and not binding.is_typed
        rests_on_it = is_found and (self._store.host_name is not None or not self._can_set_batch)
        if not sizes.is_searched or (self._loader is not None and not rests_on_it):
            return
        others = [one for one in self._records if one.config and is_batch_variant(one.config, baseline)]
        if not others and self._may_add and self._left_s > 0:
            other = baseline.changed(
                batch_size=max(1, baseline.batch_size // 2) if baseline.batch_size > 1 else 2
            )
            config = nearest(self.found.space, other)
            if config.batch_size != baseline.batch_size:
                others = [self._try(config, "another batch size, to see that it reaches the loop")]
        for one in others:
            if self._loader is not None and is_not_followed(one) and not self._can_set_batch:
                self._bind(self._bindings_but("batch_size"))
                self._build_space()
            elif self._loader is None and one.failure and one.failure.kind is OutcomeKind.KNOB_NOT_APPLIED:
                raise TargetError(
                    f"another batch size does not reach the loop as it is bound: {one.failure.message}; bind "
                    "another place, or take batch_size out with --bind batch_size=fixed and say "
                    "--samples-per-step N"
                )

    def _begin_study(self) -> None:
        self._study = Study(self.found.space, self.found.rank_host, self._folder.journal)
        self._study.tell(self._records)

    def _next(self, study: Study, running: Sequence[Job]) -> Proposal | Stop:
        """Return what to try next, beside what other hosts run."""
        if not self._has_room_beside(running):
            return Stop()
        criteria = self._time.criteria
        # A config that was lost with two hosts may be what ended them.
        pending = (*[job.config for job in running if job.config is not None], *self._store.lost_configs())
        return next_trial(study, criteria, len(self._trials.searched), pending)

    def _search(self, job: Job) -> None:
        """Run the trial of a job, whichever host has proposed it, if --trials still allows it."""
        self._pull()
        if not self._has_room_beside([one for one in self._store.jobs() if one.number < job.number]):
            return
        assert job.config is not None and self._study is not None
        coming = self._coming
        if coming is not None and coming.config == job.config:
            with self._study.running(coming):
                self._try_proposed(coming)
            return
        purpose = "proposed by another host"
        if job.lost_by is not None:
            purpose = f"again: {job.lost_by} did not end it"
        self._try(job.config, purpose)

    def _try_proposed(self, proposal: Proposal) -> None:
        """Run a proposal; the first of its mode looks at other batch sizes too."""
        run = self.found
        sizes: tuple[int, ...] = ()
        if run.world_size == 1 and self._time.for_a_trial_s >= LOOK_TRIALS * proposal.cost_s:
            sizes = compute_sweep_sizes(proposal.config, self._records, run.space, run.rank_host)
        rates = [record.rate_samples_per_s or 0.0 for record in self._trials.candidates]
        self._try(proposal.config, expectation(proposal, run.world_size, max(rates, default=None)), sizes)

    @property
    def _may_add(self) -> bool:
        """Whether --trials allows another search trial."""
        return self._has_room_beside(())

    def _has_room_beside(self, running: Sequence[Job]) -> bool:
        """Return whether --trials allows another search trial beside those that other hosts run."""
        most = self.found.options.max_trials
        candidates = sum(one.role.is_candidate for one in self._records)
        return most is None or candidates + sum(job.work is Work.SEARCH for job in running) < most

    def _note_untried(self) -> None:
        """Record the untried config with the highest predicted rate."""
        lost, untried = self._store.lost_configs(), None
        left = self._study.fastest_untried(self._planned, lost) if self._study else None
        if left is not None and left.expected_rate_samples_per_s:
            rate = left.expected_rate_samples_per_s * self.found.world_size
            untried = Untried(config=left.config, rate_samples_per_s=rate)
        self._change(untried=untried)

    # --- the budget ------------------------------------------------------------------------

    @property
    def _budget_s(self) -> float | None:
        return self.found.known_budget_s

    @property
    def _time(self) -> TimeLeft:
        return TimeLeft(self.found, self._left_s)

    def _set_budget(self) -> None:
        """Set the budget that the user left open; say of one that was given what it has no room for."""
        self._change(budget_s=budget_s_of(self.found))
        if (said := self._time.said_at_start) is not None:
            self._listener.said(said)

    def _say_what_was_cut(self) -> None:
        """Keep and say what the budget had no room for, if it was too little to trust."""
        cut_short = self._time.cut_short(self._ran_out_of_time, self._ablation_left_out)
        self._change(cut_short=cut_short)
        if cut_short is not None:
            self._listener.said(cut_short)

    # --- tiers -----------------------------------------------------------------------------

    def _fill_tiers(self) -> None:
        """Run a config made to fit for each tier that would otherwise have none, or only the baseline.

        It is the best that was measured, in the baseline's own mode where the tier does not take its.
        """
        for tier in CONFIRM_ORDER:
            best = best_of(same_training(self._trials.candidates, self._trials), self._planned)
            pick = self._time.picks.get(tier)
            if best is None or (pick is not None and (pick is best.record or not pick.is_baseline_config)):
                continue
            excluded = is_excluded(best.record, tier, excluded_modes(self._records))
            mode = Mode.of(self._baseline_config) if excluded else None
            fitted = clamped_to_tier(best, tier, self.found.rank_host, mode)
            most = ceiling_of(tier, self._time.picks, self._baseline_config, self.found.options)
            config = nearest(self.found.space, most.brought_down(fitted))
            trial_s = expected_duration_s(self._records, config)
            beside = () if tier is CONFIRM_ORDER[0] else self._time.to_confirm
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
                    record = self._try(config, f"made to fit {tier.value}")
                if tier in self._time.picks:
                    break
                if record.failure is not None and not record.failure.kind.is_memory:
                    break
                smaller = config.changed(batch_size=max(1, config.batch_size // 2))
                config = nearest(self.found.space, smaller)

    # --- numerics and confirmation ---------------------------------------------------------

    def _guard_losses(self) -> None:
        """Run the baseline with each new mode of the picks, and choose again where its losses are worse.

        Confirmation comes first: a run that would leave it less time than its fewest rounds is left out.
        """
        while modes := modes_due(self._records, self._time.picks.values()):
            config = modes[0].applied_to(self._baseline_config)
            guard_s = expected_duration_s(self._records, config)
            if not self._time.holds_rounds(*self._time.to_confirm[:1], after_s=guard_s):
                return
            purpose = f"losses of {mode_name(modes[0], self._baseline_config)} against the baseline's"
            self._trial(TrialRole.NUMERICS, config, purpose)
            self._fill_tiers()

    def _confirm(self) -> None:
        """Re-run what the tiers chose beside the baseline; again if that changes the choice."""
        baseline = self._trials.baseline
        baseline_runs = baseline is not None and baseline.measurement is not None
        for number in range(_CONFIRM_PASSES):
            self._guard_losses()
            chosen = self._time.to_confirm
            if not chosen and not baseline_runs:
                return  # nothing ran that could be run again
            done = {config: rounds_done(self._records, config) for config in chosen}
            wanted = self.found.options.confirm_rounds
            fitting = self._time.rounds_within_budget(chosen)
            self._ran_out_of_time |= fitting < least_rounds(wanted) - min(done.values(), default=0)
            if number and not fitting:
                return  # what is confirmed so far has to do
            configs, rounds = rounds_due(done, wanted, fitting)
            if not configs:
                measured = [one for one in self._trials.baseline_confirm if one.measurement]
                lacking = FEWEST_ROUNDS - len(measured)
                if not baseline_runs or lacking <= 0 or not fitting:
                    return
                rounds = min(fitting, lacking)
            self._run_rounds(configs, baseline_runs, rounds)

    def _settle_doubts(self) -> None:
        """Run more rounds, once, where it is open whether a finalist is a gain and time is left to tell."""
        stage = self.found.second_stage or self._second_stage()
        if stage is None:
            return
        self._change(second_stage=stage)
        rounds = stage.first_round + stage.rounds - next_round(self._records)
        if rounds > 0:
            more = count_text(rounds, "more confirming round")
            self._listener.said(f"inconclusive so far: {more} should tell whether there is a gain")
            self._run_rounds(stage.configs, with_baseline=True, rounds=rounds)

    def _second_stage(self) -> SecondStage | None:
        """Return the rounds that would tell, as far as the time left has room for them."""
        against = comparison_of(self.found, self._trials)
        confirm = {config: self._trials.confirm_of(config) for config in self._time.to_confirm}
        speedups = {config: speedup_over_baseline(records, against) for config, records in confirm.items()}
        done = {config: rounds_done(self._records, config) for config in confirm}
        due = second_stage({config: one for config, one in speedups.items() if one}, done, against.noise)
        left_s = self._left_s - (self._time.ablation_s if self._tuned_answer else 0.0)
        while due and rounds_s(self._records, tuple(due), max(due.values())) > left_s:
            del due[max(due, key=lambda config: due[config])]
        if not due:
            return None
        first = next_round(self._records)
        return SecondStage(configs=tuple(due), first_round=first, rounds=max(due.values()))

    @property
    def _tuned_answer(self) -> Recommendation | None:
        """What an ablation that is asked for is of: the answer by the rounds so far, unless the baseline."""
        if not self.found.options.ablate:
            return None
        found = assemble(self.found.changed(status=RunStatus.FINISHED), self._records)
        best = answer_of(found.recommendations)
        return None if best is None or best.is_baseline else best

    def _ablate(self) -> None:
        """Run the answer's config beside itself with each knob put back, if that is asked for."""
        best = self._tuned_answer
        if best is None:
            return
        put_back = knobs_put_back(best.config, self._baseline_config)
        purposes = {best.config: "the answer, for what each knob is worth"}
        purposes |= {config: f"the answer without its {knob}" for knob, config in put_back.items()}
        round_s = self._time.ablation_round_s(best.config)
        done = next_round(self._records, TrialRole.ABLATION)
        rounds = min(MIN_ROUNDS - done, int(max(0.0, self._left_s) // round_s) if round_s else 0)
        if done + rounds < MIN_ROUNDS:
            self._ablation_left_out = f"--ablate got {done + rounds} of {count_text(MIN_ROUNDS, 'round')}"
        for number in range(done, done + rounds):
            failed = {record.config for record in self._trials.ablating if record.failure is not None}
            for config in round_order(tuple(purposes), False, number):
                if config is not None and config not in failed:
                    self._trial(TrialRole.ABLATION, config, purposes[config], round=number)

    def _run_rounds(self, configs: Sequence[TrainConfig], with_baseline: bool, rounds: int) -> None:
        """Run interleaved rounds; a config that fails once is not run again."""
        first = next_round(self._records)
        for number in range(first, first + rounds):
            if number > first and not self._time.rounds_within_budget(tuple(configs)):
                self._ran_out_of_time = True
                return
            confirming, checks_data = self._trials.confirming, not self.found.options.skip_data_check
            unfit = {record.config for record in confirming if record.failure is not None}
            unfit |= {one.config for one in confirming if not same_training([one], self._trials)}
            for config in round_order(configs, with_baseline, number):
                if config in unfit:
                    continue
                details = details_to_confirm(self._records, config, checks_data)
                purpose = f"confirming, round {number - first + 1} of {rounds}"
                self._trial(TrialRole.CONFIRM, config, purpose, round=number, details=details)

    # --- the script's own settings of knobs ------------------------------------------------

    @property
    def _loader(self) -> LoaderSeen | None:
        return self.found.discovery.training_loader if self.found.discovery else None

    @property
    def _can_set_batch(self) -> bool:
        return self._loader is not None and self._loader.batch_size_bound

    def _bind(self, bindings: Iterable[Binding]) -> None:
        self._change(target=bound_target(self.found.target, bindings))

    def _bindings_but(self, knob: str) -> tuple[Binding, ...]:
        return tuple(one for one in self.found.target.bindings if one.knob != knob)

    def _bind_own_settings(self) -> None:
        """Bind knobs to the script's own settings of them; the first trial that uses one tests it."""
        if self.found.space:
            return  # it goes on as it began
        target = self.found.target
        found = [places[0] for places in own_settings(self.found, target).values()]
        self._bind((*target.bindings, *found))
        if self._loader is None:
            for one in found:
                self._listener.said(f"no DataLoader: {one.knob} is read and set by {how_text(one)}")

    def _try_other_settings(self, failed: TrialRecord, sizes: tuple[int, ...]) -> TrialRecord:
        """Run a failed trial again with its knob set in other ways, if the way it was may have failed it."""
        doubted = binding_in_doubt(self.found, failed)
        if doubted is None or doubted.knob in self._settled or failed.config is None:
            return failed
        knob, rest = doubted.knob, self._bindings_but(doubted.knob)
        self._settled.add(knob)
        others = own_settings(self.found, self.found.target.changed(bindings=rest)).get(knob, ())
        ways = [(*rest, one) for one in others if one != doubted]
        ways += [rest] if knob == "batch_size" and self._can_set_batch else []
        for bindings in ways:
            self._bind(bindings)
            record = self._try_once(failed.config, f"again, {knob} set in another way", sizes)
            if not is_not_followed(record):
                other = self.found.target.binding_of(knob)
                now = how_text(other) if other else "only the loader is changed"
                self._listener.said(f"{knob}: {how_text(doubted)} did not work; {now}")
                return record
        self._bind((*rest, doubted))
        return failed

    # --- one trial -------------------------------------------------------------------------

    def _try(self, config: TrainConfig, purpose: str, sizes: tuple[int, ...] = ()) -> TrialRecord:
        """Run a candidate."""
        return self._try_other_settings(self._try_once(config, purpose, sizes), sizes)

    def _try_once(self, config: TrainConfig, purpose: str, sizes: tuple[int, ...]) -> TrialRecord:
        """Run a candidate; unless it looks at sizes, it is given up early where no tier could choose it."""
        run, records = self.found, self._records
        to_beat = None if sizes else rate_to_beat(records, run.rank_host, run.options, config)
        details = (Detail.SIZES,) if sizes else trace_details(run, self._machine)
        return self._trial(
            TrialRole.SEARCH, config, purpose, details=details, sizes=sizes, rate_to_beat=to_beat
        )

    def _trial(self, role: TrialRole, config: TrainConfig | None, purpose: str, **others: Any) -> TrialRecord:
        """Run (or refuse) one trial and put its record on disk; the study learns of it."""
        record = super()._trial(role, config, purpose, **others)
        if self._study is not None:
            self._study.tell([record])
        return record

    def _looked_into(self, record: TrialRecord, spec: TrialSpec) -> TrialRecord:
        """Return a trial's record with what its traced steps predict."""
        if Detail.TRACE not in spec.details:
            return record
        records = (*self._records, record)
        run = self.found.changed(trials=records)
        record, run = predicted(run, records, self._machine, self._folder.trials_folder)
        self.found = run.changed(trials=self._records)
        return record


def _refused_target(failure: Failure, options: SearchOptions) -> TunekitError:
    """Return the error that says why a target whose baseline failed can't be tuned."""
    budget_s = options.budget_s
    if failure.kind is OutcomeKind.TIMEOUT and budget_s is not None and budget_s <= options.trial_limit_s:
        return BudgetTooSmallError(
            f"the baseline was not measured within the budget of {budget_s:.0f} s; give --budget 15m or more"
        )
    return target_error(failure)


def _insist_on_length(planned: PlannedTraining) -> None:
    """Refuse to look for the shortest training where the trials do not tell how long it is."""
    if planned.judged_by_finish and planned.samples is None:
        raise TargetError(
            "--objective finish-time needs the samples of the planned training, but an epoch has no known "
            "length here (an IterableDataset, or len() of its loader fails); give --planned-steps instead of "
            "--epochs"
        )


def _insist_on_a_result(run: Run) -> None:
    """Refuse to call a search finished that filled no tier because what it ran failed."""
    after = [record for record in run.trials if record.role is not TrialRole.BASELINE]
    confirming = [record for record in after if record.role is TrialRole.CONFIRM]
    decisive = confirming or after or run.trials
    failures = [record.failure for record in decisive if record.failure is not None]
    if run.recommendations or not failures or len(failures) < len(decisive):
        return
    started = [failure for failure in failures if failure.kind is not OutcomeKind.REFUSED] or failures
    kind, times = Counter(failure.kind for failure in started).most_common(1)[0]
    first = next(failure for failure in started if failure.kind is kind)
    which = " that was to confirm the choice" if confirming else " after the baseline" if after else ""
    raise target_error(
        first, f"nothing can be recommended: every trial{which} failed, {times} of {len(failures)} alike"
    )
