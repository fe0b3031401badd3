"""The walk of `tunekit fits`: one traced trial of the script as it is, then what it predicts of GPUs."""

import time
from collections.abc import Callable, Sequence

from tunekit.errors import TargetError
from tunekit.recommend.fits import Fits
from tunekit.recommend.loader_elsewhere import usual_instance
from tunekit.recommend.traced import Unpredictable, other_size
from tunekit.records.agent_messages import Arithmetic
from tunekit.records.details import Detail
from tunekit.records.fits import FitsRun, GpuFacts
from tunekit.records.prediction import OutsideTorch
from tunekit.records.profile import Profile
from tunekit.records.run import RunStatus
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.search.folder import RunFolder
from tunekit.search.progress import TrialListener
from tunekit.search.refusal import baseline_error
from tunekit.trial.executor import Executor, KnownTarget, TrialSpec
from tunekit.units import count_text

_DETAILS = (Detail.FLOORS, Detail.TRACE)
_PURPOSE = "the script as it is"


class FitsWalk:
    """One prediction in one folder.

    Args:
        run: target, options and host; its trials are ignored.
        folder: owned by the caller, without trials.
        executor: runs trials.
        listener: hears what happens.
        profiles: of the GPUs to tell of.
        outside: returns what a GPU's memory holds beside torch's tensors.
        clock: returns seconds.
    """

    def __init__(
        self,
        run: FitsRun,
        folder: RunFolder,
        executor: Executor,
        listener: TrialListener,
        profiles: Sequence[Profile],
        outside: Callable[[Profile], OutsideTorch],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run.model_copy(update={"trials": ()})
        self._folder = folder
        self._executor = executor
        self._listener = listener
        self._profiles = profiles
        self._outside = outside
        self._clock = clock
        self._started_at = clock()

    def run(self) -> FitsRun:
        """Run the trial, predict, and return the whole; fits.json has it too.

        Raises:
            TargetError: the script can't be measured, or its steps can't be traced.
            KeyboardInterrupt: Ctrl-C; what is finished is saved.
        """
        self._save(RunStatus.RUNNING)
        try:
            record = self._trial(TrialSpec(0, TrialRole.BASELINE, None, details=_DETAILS, skips=Arithmetic.ALL), None, _PURPOSE)
            self._trace_other_size(record)
            self._predict()
        except KeyboardInterrupt:
            self._save(RunStatus.INTERRUPTED)
            raise
        except Exception:
            self._save(RunStatus.FAILED)
            raise
        return self._save(RunStatus.FINISHED)

    def _trace_other_size(self, first: TrialRecord) -> None:
        """Run a script that makes its batches itself once more, with another batch size."""
        config, discovery = other_size(first, self._run.target), self._run.discovery
        if config is None or discovery is None or first.config is None:
            return
        spec = TrialSpec(1, TrialRole.TRACE, config, details=(Detail.TRACE,))
        self._trial(spec, KnownTarget(discovery, first.config), "the second batch size")

    def _trial(self, spec: TrialSpec, known: KnownTarget | None, purpose: str) -> TrialRecord:
        """Run a trial and put its record on disk."""
        self._listener.trial_started(spec, purpose, None)
        record = self._executor.run(spec, known, self._listener.trial_moved)
        self._folder.save_trial(record)
        self._take(trials=(*self._run.trials, record))
        discovery = record.discovery
        if discovery is not None and discovery.device_type == "cpu":
            self._take(measured_on="cpu")
        self._listener.trial_ended(record)
        if record.failure is not None and spec.role is TrialRole.BASELINE:
            raise baseline_error(record.failure)
        return record

    def _predict(self) -> None:
        trials_folder = self._folder.trials_folder
        profiles = {profile.id: profile for profile in self._profiles}
        facts = {name: self._facts(profile) for name, profile in profiles.items()}
        try:
            fits = Fits(self._run.trials, trials_folder, self._run.rank_host.cpus, self._run.profile)
        except Unpredictable as why:
            self._take(why_not=str(why))
            raise TargetError(f"nothing can be predicted: {why}; {why.remedy}") from why
        self._listener.said(f"predicting for {count_text(len(self._profiles), 'GPU')}")
        prediction = fits.for_profiles(self._profiles, lambda profile: facts[profile.id].outside)
        batch_size = self._run.batch_size
        asked = tuple(
            fits.asked(profiles[one.profile_id], one, facts[one.profile_id].outside, batch_size)
            for one in prediction.fits
            if batch_size is not None
        )
        if not prediction.fits:
            traced = " or ".join(fits.precisions)
            self._take(why_not=f"no GPU that was asked for computes in {traced}, as the script does")
            raise TargetError(f"nothing can be predicted: {self._run.why_not}; give another --gpu")
        self._take(prediction=prediction, gpus=tuple(facts.values()), asked=asked)

    def _facts(self, profile: Profile) -> GpuFacts:
        machine = usual_instance(profile)
        vcpus = machine.vcpus / machine.gpus if machine is not None and machine.vcpus else None
        return GpuFacts(
            profile_id=profile.id,
            outside=self._outside(profile),
            instance=machine.name if machine is not None else None,
            vcpus=vcpus,
        )

    def _take(self, **updates: object) -> None:
        self._run = self._run.model_copy(update=updates)

    def _save(self, status: RunStatus) -> FitsRun:
        self._take(status=status, fits_time_s=self._clock() - self._started_at)
        self._folder.save_fits(self._run)
        return self._run
