"""The walk of `tunekit fits`: one traced trial of the script as it is, then what it predicts of GPUs.

On a CPU the trial skips the script's arithmetic, and takes seconds for any model. A script that does not live
through that, as one that ends itself on a loss it doesn't expect, is run once more as it is.
"""

import contextlib
from collections.abc import Sequence

from tunekit.errors import TargetError
from tunekit.machine.gpu.calibrate import load_calibrations
from tunekit.predict.fits import Fits
from tunekit.predict.loader_rate import usual_instance
from tunekit.predict.step_traces import Unpredictable, second_trace_config, trace_of
from tunekit.records.agent_messages import Arithmetic
from tunekit.records.details import Detail
from tunekit.records.profile import Profile
from tunekit.records.run import FitsRun, GpuFacts
from tunekit.records.trial import OutcomeKind, TrialRecord, TrialRole
from tunekit.session.predicted import Outside
from tunekit.session.session import Session, target_error
from tunekit.trial.executor import TrialInterrupted
from tunekit.units import count_text

_DETAILS = (Detail.KERNELS, Detail.FLOORS, Detail.TRACE)
_MAY_LIE_IN_NUMBERS = (OutcomeKind.SCRIPT_ERROR, OutcomeKind.KILLED, OutcomeKind.NONFINITE_LOSS)
"""How a script may end on figures that were not computed."""


class FitsWalk(Session[FitsRun]):
    """One prediction in one folder."""

    def run(self, profiles: Sequence[Profile], outside: Outside) -> FitsRun:
        """Run the trial, predict, and return the whole; fits.json has it too.

        Args:
            profiles: of the GPUs to predict for.
            outside: returns what a GPU's memory holds beside torch's tensors.

        Raises:
            TargetError: the script can't be looked at, or its steps can't be traced.
            KeyboardInterrupt: Ctrl-C; what is known by then is saved, as `found`.
        """
        with self._saved():
            try:
                self._trace()
            except TrialInterrupted as stopped:
                self._keep(stopped.record)
                with contextlib.suppress(TargetError):
                    self._predict(profiles, outside)
                raise
            self._predict(profiles, outside)
        return self.found

    def _derived(self, run: FitsRun) -> FitsRun:
        return run.changed(fits_time_s=self._spent_s)

    @property
    def _attempt(self) -> tuple[TrialRecord, ...]:
        """The script at one size or two, all with or without arithmetic: from the last baseline on."""
        starts = [place for place, one in enumerate(self.records) if one.role is TrialRole.BASELINE]
        return self.records[starts[-1] :] if starts else ()

    def _trace(self) -> None:
        """Have the script's steps traced: without their arithmetic, and with it where that may help."""
        record = self._traced(Arithmetic.ALL, "shapes of the script's own steps")
        why = _why_compute(record)
        if why is not None:
            self.say(
                f"without arithmetic {why}; running it as it is instead, for up to "
                f"{self.found.options.trial_limit_s:g} s (--trial-limit)"
            )
            record = self._traced(Arithmetic.NOTHING, "the script as it is")
        if record.failure is not None:
            raise target_error(record.failure)

    def _traced(self, skips: Arithmetic, purpose: str) -> TrialRecord:
        """Run the script, and with another batch size too where it makes its batches itself."""
        record = self.trial(TrialRole.BASELINE, None, purpose, details=_DETAILS, skips=skips)
        config = second_trace_config(record, self.found.target)
        if config is not None and self.known is not None:
            self.trial(TrialRole.TRACE, config, "the second batch size", details=(Detail.TRACE,), skips=skips)
        return record

    def _predict(self, profiles: Sequence[Profile], outside: Outside) -> None:
        trials_folder = self.folder.trials_folder
        facts = {profile.id: self._facts(profile, outside) for profile in profiles}
        by_id = {profile.id: profile for profile in profiles}
        try:
            fits = Fits(
                self._attempt,
                trials_folder,
                self.found.rank_host.cpus,
                self.found.profile,
                load_calibrations(),
            )
        except Unpredictable as why:
            self.change(why_not=str(why))
            raise TargetError(f"nothing can be predicted: {why}; {why.remedy}") from why
        self.say(f"predicting for {count_text(len(profiles), 'GPU')}")
        prediction = fits.for_profiles(profiles, lambda profile: facts[profile.id].outside)
        batch_size = self.found.batch_size
        asked = tuple(
            fits.asked(by_id[one.profile_id], one, facts[one.profile_id].outside, batch_size)
            for one in prediction.fits
            if batch_size is not None
        )
        if not prediction.fits:
            why_not = (
                f"no GPU that was asked for computes in {' or '.join(fits.precisions)}, as the script does"
            )
            self.change(why_not=why_not)
            raise TargetError(f"nothing can be predicted: {why_not}; give another --gpu")
        self.change(prediction=prediction, gpus=tuple(facts.values()), asked=asked)

    def _facts(self, profile: Profile, outside: Outside) -> GpuFacts:
        machine = usual_instance(profile)
        vcpus = machine.vcpus / machine.gpus if machine is not None and machine.vcpus else None
        return GpuFacts(
            profile_id=profile.id,
            outside=outside(profile),
            instance=machine.full_name if machine is not None else None,
            vcpus=vcpus,
        )


def _why_compute(record: TrialRecord) -> str | None:
    """Return what became of a script without its arithmetic that may become otherwise with it; else None."""
    seen = trace_of(record)
    if record.failure is not None:
        is_of_numbers = record.discovery is not None and record.failure.kind in _MAY_LIE_IN_NUMBERS
        return f"the script ended ({record.failure.message})" if is_of_numbers else None
    if record.dry is None or record.dry.is_whole or (seen is not None and seen.steps):
        return None
    return seen.why_ended if seen and seen.why_ended else "the script ended before its steps were traced"
