"""The walk of `tunekit scale`: rounds of the script on each count of processes, in turns."""

from typing import NamedTuple

from tunekit.diagnose.scaling import scaling_findings
from tunekit.errors import TargetError
from tunekit.recommend.measured_scaling import trials_of, with_figures
from tunekit.records.config import TrainConfig
from tunekit.records.run import RunStatus
from tunekit.records.scaling import ScalingMode
from tunekit.records.scaling_run import ScalingRun
from tunekit.records.trial import Failure, OutcomeKind, TrialRole
from tunekit.session.session import Session, target_error
from tunekit.trial.executor import KnownTarget, TrialInterrupted, TrialSpec
from tunekit.units import count_text, duration_text


class _Turn(NamedTuple):
    """What a round runs once."""

    processes: int
    no_sync: bool = False

    def __str__(self) -> str:
        apart = ", without summing gradients" if self.no_sync else ""
        return count_text(self.processes, "process", "processes") + apart


class ScaleWalk(Session[ScalingRun]):
    """One measured scaling in one folder."""

    def run(self) -> ScalingRun:
        """Run the rounds and return the whole; scale.json has it too.

        Every trial is on disk before the next begins.

        Raises:
            TargetError: the least count or no other can be measured, or processes don't train together.
            KeyboardInterrupt: Ctrl-C; what is finished is saved.
        """
        self._dropped: set[_Turn] = set()
        with self._saved():
            try:
                self._run_rounds()
            except TrialInterrupted as stopped:
                self._keep(stopped.record)
                raise
            self._require_two()
        return self.found

    def _derived(self, run: ScalingRun) -> ScalingRun:
        run = with_figures(run.changed(scale_time_s=self._spent_s), self.here)
        return run.changed(findings=scaling_findings(run))

    # --- rounds --------------------------------------------------------------------------------

    def _run_rounds(self) -> None:
        rounds = self.found.options.rounds
        for number in self._rounds_in_budget(0, rounds, self._round_s):
            if number and self.found.largest is None:
                return
            for turn in self._turns(number):
                self._take_turn(turn, number)
            if number == 0 and rounds > 1 and self.found.largest is not None:
                predicted_s = (rounds - 1) * self._round_s()
                more = count_text(rounds - 1, "more round")
                self.say(f"{more} at most, about {duration_text(predicted_s)} (predicted)")

    def _turns(self, number: int) -> list[_Turn]:
        """Return what a round runs: every other one backward, so that drift hits all counts alike."""
        counts = self.found.options.processes
        turns = [_Turn(n, no_sync) for n in counts for no_sync in (False, True) if n > 1 or not no_sync]
        return turns if number % 2 == 0 else turns[::-1]

    def _take_turn(self, turn: _Turn, number: int) -> None:
        """Run one trial, unless one of its kind failed before; its shared batch needs a known loader."""
        plain = _Turn(turn.processes)
        if turn in self._dropped or plain in self._dropped:
            return
        rounds = self.found.options.rounds
        ending = f", round {number + 1} of {rounds}" if rounds > 1 else ""
        config = None
        options = self.found.options
        if options.mode is ScalingMode.STRONG and turn.processes != options.processes[0]:
            is_learned = self._learnt(turn.processes) is not None
            if not is_learned and not self._run(plain, ", to learn its loop", None, None):
                return
            try:
                config = self._shared(turn.processes)
            except ValueError as why:
                self.change(left_out={**self.found.left_out, turn.processes: str(why)})
                self.save(RunStatus.RUNNING)
                self._drop(plain, str(why))
                return
        self._run(turn, ending, config, number)

    def _run(self, turn: _Turn, ending: str, config: TrainConfig | None, number: int | None) -> bool:
        """Run one trial, and return whether it was measured."""
        is_first = not self.records
        record = self.trial(
            TrialRole.BASELINE if is_first else TrialRole.CONFIRM,
            config,
            f"{turn}{ending}",
            round=number,
            processes=turn.processes,
            no_sync=turn.no_sync,
        )
        if is_first:
            self._require_learnt(record)
        elif record.failure is not None:
            self._failed(turn, record.failure)
        return record.measurement is not None

    def _known_of(self, spec: TrialSpec) -> KnownTarget | None:
        """Each count learns its loop itself: frameworks build another loader for several processes."""
        return None if spec.config is None or spec.processes is None else self._learnt(spec.processes)

    def _learnt(self, processes: int) -> KnownTarget | None:
        """Return what a trial of a count as the script has it taught; None before there was one."""
        for one in self.records:
            is_own = one.processes == processes and one.is_baseline_config and not one.no_sync
            if is_own and one.measurement and one.discovery and one.config:
                return KnownTarget(one.discovery, one.config)
        return None

    def _shared(self, processes: int) -> TrainConfig | None:
        """Return the script's knobs with a part of the global batch; None where it shares that out itself.

        Raises:
            ValueError: that many processes can't share it.
        """
        least = self.found.options.processes[0]
        whole, here = self._learnt(least), self._learnt(processes)
        if whole is None or here is None:
            raise ValueError("what the agent reported of it can't be read")
        batch, rest = divmod(whole.baseline.batch_size * least, processes)
        if not batch or rest:
            shared = whole.baseline.batch_size * least
            raise ValueError(f"a global batch of {shared} can't be shared by {processes}")
        return None if batch == here.baseline.batch_size else here.baseline.changed(batch_size=batch)

    def _failed(self, turn: _Turn, failure: Failure) -> None:
        if not turn.no_sync and failure.kind is OutcomeKind.KNOB_NOT_APPLIED:
            # Whatever is in the way of two processes is in the way of four.
            raise target_error(failure, f"{turn} can't be measured")
        if not any(one.measurement for one in trials_of(self.found, *turn)):
            self._drop(turn)

    def _drop(self, turn: _Turn, why: str = "") -> None:
        self._dropped.add(turn)
        self.say(f"{turn}: skipped in later rounds" + (f" ({why})" if why else ""))

    def _round_s(self) -> float:
        """Return the seconds of one round, as trials took so far."""
        seconds = {(one.processes, one.no_sync): one.duration_s for one in self.records if one.measurement}
        return sum(seconds.values())

    def _require_two(self) -> None:
        """Refuse a scaling of one count, which says nothing, with why the others have no rate."""
        if self.found.largest is not None:
            return
        least = _Turn(self.found.options.processes[0])
        failures = [one.failure for one in self.records if one.failure is not None]
        if failures:
            raise target_error(failures[0], f"only {least} could be measured")
        left_out = [one for one in self.found.counts if one.why_missing]
        whys = "; ".join(f"{one.processes}: {one.why_missing}" for one in left_out)
        raise TargetError(f"only {least} could be measured ({whys})")
