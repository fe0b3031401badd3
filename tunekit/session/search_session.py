"""The trials of a search: candidates with their bindings, and the study that learns of every trial."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tunekit.recommend.planned_training import PlannedTraining, planned_training
from tunekit.records.config import TrainConfig
from tunekit.records.details import Detail
from tunekit.records.profile import Profile
from tunekit.records.run import Run, RunStatus
from tunekit.records.target import Binding, LoaderSeen
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.records.trials import Trials
from tunekit.session.assemble import assemble
from tunekit.session.folder import RunFolder
from tunekit.session.own_settings import binding_in_doubt, is_not_followed, own_settings
from tunekit.session.predicted import Outside, predicted, trace_details
from tunekit.session.session import QuietWait, SearchListener, Session
from tunekit.session.store import TrialStore
from tunekit.trial.binding_syntax import how_text
from tunekit.trial.bindings import bound_target
from tunekit.trial.executor import Executor, TrialSpec
from tunekit.tune.budget import TimeLeft
from tunekit.tune.jobs import Job, Work
from tunekit.tune.stopping import rate_to_beat
from tunekit.tune.study import Study


class SearchSession(Session[Run]):
    """What the phases of a search share; resumed when the folder already holds trials.

    Args:
        run: target, options, host and profiles; its trials are ignored in favour of the folder's.
        folder: owned by the caller.
        executor: runs trials.
        here: profile of the device that is here.
        listener: hears what happens.
        outside: what a GPU's memory holds beside torch's tensors; None to predict nothing of GPUs.
        clock: returns seconds.
        quiet: what it may wait for the machine to be quiet; None for what the options say.
        store: says which job comes next; None for this host alone.

    Attributes:
        study: learns of every trial once the space is known; None before.
        ran_out_of_time: whether the budget ended trials or rounds.
        ablation_left_out: what an ablation that was asked for lacks, in words.
    """

    def __init__(
        self,
        run: Run,
        folder: RunFolder,
        executor: Executor,
        here: Profile,
        listener: SearchListener,
        outside: Outside | None = None,
        clock: Callable[[], float] = time.monotonic,
        quiet: QuietWait | None = None,
        store: TrialStore | None = None,
    ) -> None:
        records, run = folder.load_trials(), run.changed(untried=None, cut_short=None, why_stopped=None)
        super().__init__(run, folder, executor, here, listener, records, clock, quiet, store)
        self._listener: SearchListener = listener
        self.outside = outside
        self.study: Study | None = None
        self.ran_out_of_time = False
        self.ablation_left_out = ""
        self._settled: set[str] = set()
        """Knobs for which no other binding is to be tried."""

    def _derived(self, run: Run) -> Run:
        return assemble(run.changed(search_time_s=self._spent_s), run.trials)

    def _save_at_end(self) -> None:
        self.folder.save(self.found)

    @property
    def trials(self) -> Trials:
        """Every trial so far."""
        return Trials(self.records)

    @property
    def baseline_config(self) -> TrainConfig:
        """The knob values that the user has now."""
        assert self.known is not None
        return self.known.baseline

    @property
    def planned(self) -> PlannedTraining:
        """The training to come."""
        return planned_training(self.found.options, self.records)

    @property
    def _budget_s(self) -> float | None:
        return self.found.known_budget_s

    @property
    def time(self) -> TimeLeft:
        """What there is time for."""
        return TimeLeft(self.found, self.left_s)

    def has_room_beside(self, running: Sequence[Job]) -> bool:
        """Return whether --trials allows another search trial beside those that other hosts run."""
        most = self.found.options.max_trials
        candidates = sum(one.role.is_candidate for one in self.records)
        return most is None or candidates + sum(job.work is Work.SEARCH for job in running) < most

    def show_space(self) -> None:
        """Tell the listener the space, with what follows from the trials so far."""
        self._listener.space_known(assemble(self.found, self.records))

    def begin_study(self) -> None:
        """Have a study learn of all trials, and of every one to come."""
        self.study = Study(self.found.space, self.found.rank_host, self.folder.journal)
        self.study.tell(self.records)

    # --- trials of other hosts -------------------------------------------------------------

    @property
    def is_prepared(self) -> bool:
        """Whether the next trial can be proposed."""
        return self.study is not None

    def take_in(self, record: TrialRecord, host: str, spent_s: float) -> None:
        """Take in another host's trial, and how long the search has run by that host's clock."""
        self.take(record)
        self._began_at = min(self._began_at, self._clock() - spent_s)
        self._listener.trial_of_another_ended(record, host)
        if self.study is not None:
            self.study.tell([record])
        self.save(RunStatus.RUNNING)

    def take_over_space(self, prepared: Run) -> None:
        """Go on with the space and the budget that another host has left."""
        names = ("space", "budget_s", "prediction", "why_not_predicted")
        self.change(**{name: getattr(prepared, name) for name in names})
        self.bind(prepared.target.bindings)
        self.show_space()
        self.begin_study()

    def take_over_answer(self, finished: Run) -> None:
        """Keep the whole run that another host has left."""
        self.found = finished
        self.folder.save_missing(self.records)

    # --- the script's own settings of knobs ------------------------------------------------

    @property
    def loader(self) -> LoaderSeen | None:
        """The DataLoader that the script trains with."""
        return self.found.discovery.training_loader if self.found.discovery else None

    @property
    def can_set_batch(self) -> bool:
        """Whether the agent can set the loader's batch size."""
        return self.loader is not None and self.loader.batch_size_bound

    def bind(self, bindings: Iterable[Binding]) -> None:
        """Train with these bindings from now on."""
        self.change(target=bound_target(self.found.target, bindings))

    def bindings_but(self, knob: str) -> tuple[Binding, ...]:
        """Return the bindings of all knobs but one."""
        return tuple(one for one in self.found.target.bindings if one.knob != knob)

    def _try_other_settings(self, failed: TrialRecord, sizes: tuple[int, ...]) -> TrialRecord:
        """Run a failed trial again with its knob set in other ways, if the way it was may have failed it."""
        doubted = binding_in_doubt(self.found, failed)
        if doubted is None or doubted.knob in self._settled or failed.config is None:
            return failed
        knob, rest = doubted.knob, self.bindings_but(doubted.knob)
        self._settled.add(knob)
        others = own_settings(self.found, self.found.target.changed(bindings=rest)).get(knob, ())
        ways = [(*rest, one) for one in others if one != doubted]
        ways += [rest] if knob == "batch_size" and self.can_set_batch else []
        for bindings in ways:
            self.bind(bindings)
            record = self._try_once(failed.config, f"again, {knob} set in another way", sizes)
            if not is_not_followed(record):
                other = self.found.target.binding_of(knob)
                now = how_text(other) if other else "only the loader is changed"
                self.say(f"{knob}: {how_text(doubted)} did not work; {now}")
                return record
        self.bind((*rest, doubted))
        return failed

    # --- one trial -------------------------------------------------------------------------

    def try_candidate(self, config: TrainConfig, purpose: str, sizes: tuple[int, ...] = ()) -> TrialRecord:
        """Run a candidate, which looks at other batch sizes too where some are given."""
        return self._try_other_settings(self._try_once(config, purpose, sizes), sizes)

    def _try_once(self, config: TrainConfig, purpose: str, sizes: tuple[int, ...]) -> TrialRecord:
        """Run a candidate; unless it looks at sizes, it is given up early where no tier could choose it."""
        run = self.found
        to_beat = None if sizes else rate_to_beat(self.records, run.rank_host, run.options, config)
        details = (Detail.SIZES,) if sizes else trace_details(run, self.outside)
        return self.trial(
            TrialRole.SEARCH, config, purpose, details=details, sizes=sizes, rate_to_beat=to_beat
        )

    def trial(self, role: TrialRole, config: TrainConfig | None, purpose: str, **others: Any) -> TrialRecord:
        """Run (or refuse) one trial and put its record on disk; the study learns of it."""
        record = super().trial(role, config, purpose, **others)
        if self.study is not None:
            self.study.tell([record])
        return record

    def _looked_into(self, record: TrialRecord, spec: TrialSpec) -> TrialRecord:
        """Return a trial's record with what its traced steps predict."""
        if Detail.TRACE not in spec.details or self.outside is None:
            return record
        records = (*self.records, record)
        run = self.found.changed(trials=records)
        record, run = predicted(run, self.here, self.outside, self.folder.trials_folder)
        self.found = run.changed(trials=self.records)
        return record
