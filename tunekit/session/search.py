"""The life of a search: it prepares, tries configs while one is worth its time, and confirms its choice."""

from collections.abc import Callable, Sequence

from tunekit.records.run import Run, RunStatus
from tunekit.session.confirmation import (
    ablate,
    confirm,
    fill_tiers,
    note_untried,
    report_skipped_work,
    require_result,
    settle_doubts,
)
from tunekit.session.preparation import (
    bind_own_settings,
    check_batch_binding,
    learn_target,
    require_length,
    set_budget,
    set_space,
    trace_other_size,
)
from tunekit.session.search_session import SearchSession
from tunekit.tune.feasibility import LOOK_TRIALS, compute_sweep_sizes
from tunekit.tune.jobs import Job, Work
from tunekit.tune.stopping import Stop, expectation, next_trial

Phase = Callable[[SearchSession], None]

PREPARATION: tuple[Phase, ...] = (
    learn_target,
    bind_own_settings,
    trace_other_size,
    require_length,
    set_space,
    set_budget,
    check_batch_binding,
    SearchSession.begin_study,
)
CONFIRMATION: tuple[Phase, ...] = (
    fill_tiers,
    confirm,
    settle_doubts,
    ablate,
    note_untried,
    report_skipped_work,
    require_result,
)


class Search(SearchSession):
    """One search over one run folder: PREPARATION, search trials, CONFIRMATION."""

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
            self.store.run(self)
        return self.found

    def do(self, job: Job) -> None:
        """Do one job of the search."""
        if job.work is Work.SEARCH:
            self._try_proposed(job)
            return
        if job.work is Work.FINISH and self.has_room_beside(()):
            self.change(why_stopped=job.why_stopped)
            self.ran_out_of_time = job.why_stopped is None
            if job.why_stopped is not None:
                self.say(job.why_stopped)
        for phase in PREPARATION if job.work is Work.PREPARE else CONFIRMATION:
            phase(self)
        if job.work is Work.FINISH:
            self.folder.save_missing(self.records)
            self.save(RunStatus.FINISHED)

    def next_job(self, running: Sequence[Job] = ()) -> Job:
        """Return the next trial, or the end of the search, beside the jobs that other hosts run."""
        assert self.study is not None
        if not self.has_room_beside(running):
            return Job(work=Work.FINISH)
        # A config that was lost with two hosts may be what ended them.
        pending = (*(job.config for job in running if job.config), *self.store.lost_configs())
        coming = next_trial(self.study, self.time.criteria, len(self.trials.searched), pending)
        if isinstance(coming, Stop):
            return Job(work=Work.FINISH, why_stopped=coming.why)
        expected = coming.expected_rate_samples_per_s
        return Job(
            work=Work.SEARCH, config=coming.config, cost_s=coming.cost_s, expected_rate_samples_per_s=expected
        )

    def _try_proposed(self, job: Job) -> None:
        """Run a proposed trial; the first of its mode looks at other batch sizes too."""
        assert self.study is not None and job.config is not None
        run, expected = self.found, job.expected_rate_samples_per_s
        sizes: tuple[int, ...] = ()
        if run.world_size == 1 and self.time.for_a_trial_s >= LOOK_TRIALS * job.cost_s:
            sizes = compute_sweep_sizes(job.config, self.records, run.space, run.rank_host)
        rates = [record.rate_samples_per_s or 0.0 for record in self.trials.candidates]
        purpose = expectation(expected, run.world_size, max(rates, default=None))
        if job.lost_by is not None:
            purpose = f"again: {job.lost_by} did not end it"
        with self.study.running(job.config, expected):
            self.try_candidate(job.config, purpose, sizes)
