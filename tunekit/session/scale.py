"""The walk of `tunekit scale`: rounds of the script on each count of processes, in turns."""

import math
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tunekit.diagnose.scaling import scaling_findings
from tunekit.errors import TargetError
from tunekit.recommend.measured_scaling import (
    APART,
    AS_IT_IS,
    settings_to_try,
    trials_of,
    with_figures,
)
from tunekit.records.config import TrainConfig
from tunekit.records.data_parallel import DdpSettings
from tunekit.records.profile import Profile
from tunekit.records.run import RunStatus
from tunekit.records.scaling import ScalingMode
from tunekit.records.scaling_run import ScalingRun
from tunekit.records.trial import Failure, OutcomeKind, TrialRole
from tunekit.session.folder import RunFolder
from tunekit.session.session import QuietWait, Session, TrialListener, baseline_error, target_error
from tunekit.trial.executor import Executor, KnownTarget, TrialInterrupted, TrialSpec
from tunekit.units import count_text, duration_text

_SHARED = "batch_size"
_HOW_TO_SHARE = (
    "--strong gives each process its part of the batch: say how that reaches the script, as in "
    "--bind 'batch_size=--batch-size {}'"
)


class _Turn(NamedTuple):
    """What a round runs once."""

    processes: int
    ddp: DdpSettings
    what: str
    """Beside the number of processes; empty for the training as it is."""


class ScaleWalk(Session[ScalingRun]):
    """One measured scaling in one folder.

    Args:
        run: target, options and host; its trials are ignored.
        folder: owned by the caller, without trials.
        executor: runs trials.
        here: profile of the device that is here.
        listener: hears what happens.
        clock: returns seconds.
        quiet: what it may wait for the machine to be quiet; None for not at all.
    """

    def __init__(
        self,
        run: ScalingRun,
        folder: RunFolder,
        executor: Executor,
        here: Profile,
        listener: TrialListener,
        clock: Callable[[], float] = time.monotonic,
        quiet: QuietWait | None = None,
    ) -> None:
        super().__init__(run, folder, executor, listener, here, clock=clock, quiet=quiet)
        self._dropped: set[tuple[int, DdpSettings]] = set()

    def run(self) -> ScalingRun:
        """Run the rounds and return the whole; scale.json has it too.

        Every trial is on disk before the next begins.

        Raises:
            TargetError: the least count or no other can be measured, or processes don't train together.
            KeyboardInterrupt: Ctrl-C; what is finished is saved.
        """
        with self._saved():
            try:
                self._run_rounds()
            except TrialInterrupted as stopped:
                self._keep(stopped.record)
                raise
            self._insist_on_two()
        return self.found

    def _derived(self, run: ScalingRun) -> ScalingRun:
        run = with_figures(run.changed(scale_time_s=self._spent_s), self._here)
        return run.changed(findings=scaling_findings(run))

    # --- rounds --------------------------------------------------------------------------------

    def _run_rounds(self) -> None:
        rounds = self.found.options.rounds
        for number in range(rounds):
            if number and self._has_nothing_to_compare:
                return
            if number and self._left_s < self._round_s:
                budget = f"--budget {duration_text(self._budget_s)}"
                self._listener.said(f"{budget} ends after {count_text(number, 'round')} of {rounds}")
                return
            for turn in self._turns(number):
                self._take_turn(turn, number)
            if not number and not self._has_nothing_to_compare:
                self._say_how_long(rounds)

    def _turns(self, number: int) -> Iterator[_Turn]:
        """Yield what a round runs: the first forward, as it finds out what runs, every other backward."""
        counts = self.found.options.processes
        if number % 2 == 0:
            for processes in counts:
                yield from self._turns_of(processes)
            yield from self._knob_turns()
            return
        yield from reversed([*self._knob_turns()])
        for processes in reversed(counts):
            yield from reversed([*self._turns_of(processes)])

    def _turns_of(self, processes: int) -> Iterator[_Turn]:
        yield _Turn(processes, AS_IT_IS, "")
        if processes > 1 or self.found.options.hosts is not None:
            yield _Turn(processes, APART, "without summing gradients")

    def _knob_turns(self) -> Iterator[_Turn]:
        if not self.found.options.tries_knobs or self.found.largest is None:
            return
        tried = (one.processes for one in self._records if one.ddp not in (None, AS_IT_IS, APART))
        processes = next(tried, None) or self.found.largest.processes
        for name, settings in settings_to_try(self.found, processes).items():
            yield _Turn(processes, settings, name)

    def _take_turn(self, turn: _Turn, number: int) -> None:
        """Run one trial, unless one of its kind failed before; its shared batch needs a known loader."""
        if (turn.processes, turn.ddp) in self._dropped or (turn.processes, AS_IT_IS) in self._dropped:
            return
        rounds = self.found.options.rounds
        ending = f", round {number + 1} of {rounds}" if rounds > 1 else ""
        config = None
        if self._shares_batch(turn.processes):
            plain = _Turn(turn.processes, AS_IT_IS, "")
            if self._learnt(turn.processes) is None and not self._run(
                plain, ", to learn its loop", None, None
            ):
                return
            try:
                config = self._shared(turn.processes)
            except ValueError as why:
                self._change(left_out={**self.found.left_out, turn.processes: str(why)})
                self._save(RunStatus.RUNNING)
                self._drop(plain, str(why))
                return
        self._run(turn, ending, config, number)

    def _run(self, turn: _Turn, ending: str, config: TrainConfig | None, number: int | None) -> bool:
        """Run one trial, and return whether it was measured."""
        is_first = not self._records
        purpose = self._processes(turn) + (f", {turn.what}" if turn.what else "")
        record = self._trial(
            TrialRole.BASELINE if is_first else TrialRole.CONFIRM,
            config,
            purpose + ending,
            round=number,
            processes=turn.processes,
            ddp=turn.ddp,
        )
        if record.failure is not None:
            self._failed(turn, record.failure, is_first)
        elif is_first and (record.config is None or record.discovery is None):
            raise TargetError(
                "what the agent reported of the script can't be read; see output.log of trial 0"
            )
        return record.measurement is not None

    def _known_of(self, spec: TrialSpec) -> KnownTarget | None:
        """Each count learns its loop itself: frameworks build another loader for several processes."""
        return None if spec.config is None or spec.processes is None else self._learnt(spec.processes)

    def _learnt(self, processes: int) -> KnownTarget | None:
        """Return what a trial of a count as the script has it taught; None before there was one."""
        for one in self._records:
            is_own = one.processes == processes and one.is_baseline_config and one.ddp is None
            if is_own and one.measurement and one.discovery and one.config:
                return KnownTarget(one.discovery, one.config)
        return None

    def _shares_batch(self, processes: int) -> bool:
        return self.found.options.mode is ScalingMode.STRONG and processes != self.found.options.processes[0]

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
            nodes = self.found.nodes
            shared = whole.baseline.batch_size * least * nodes
            raise ValueError(f"a global batch of {shared} can't be shared by {processes * nodes}")
        return None if batch == here.baseline.batch_size else here.baseline.changed(batch_size=batch)

    def _failed(self, turn: _Turn, failure: Failure, is_first: bool) -> None:
        if is_first:
            raise baseline_error(failure)
        if turn.ddp == AS_IT_IS and failure.kind is OutcomeKind.KNOB_NOT_APPLIED:
            # Whatever is in the way of two processes is in the way of four.
            if _SHARED in failure.message:
                failure = failure.changed(remedy=_HOW_TO_SHARE)
            # Without the script's own last lines, which are those of a training that went well.
            remedy = f"; {failure.remedy}" if failure.remedy else ""
            raise TargetError(f"{self._processes(turn)} can't be measured: {failure.message}{remedy}")
        has_run = any(one.measurement for one in trials_of(self.found, turn.processes, turn.ddp))
        if not has_run:
            self._drop(turn)

    def _drop(self, turn: _Turn, why: str = "") -> None:
        self._dropped.add((turn.processes, turn.ddp))
        what = self._processes(turn) + (f" {turn.what}" if turn.what else "")
        self._listener.said(f"{what}: left out of the rounds from here on" + (f" ({why})" if why else ""))

    def _processes(self, turn: _Turn) -> str:
        nodes = self.found.nodes
        each = f" on each of {nodes} hosts" if nodes > 1 else ""
        return count_text(turn.processes, "process", "processes") + each

    @property
    def _has_nothing_to_compare(self) -> bool:
        """Whether one of several counts was measured: after a round the others are left out for good."""
        return self.found.largest is None and len(self.found.options.processes) > 1

    @property
    def _round_s(self) -> float:
        """Seconds of one round, as trials took so far."""
        seconds = {(one.processes, one.ddp): one.duration_s for one in self._records if one.measurement}
        return sum(seconds.values())

    def _say_how_long(self, rounds: int) -> None:
        more, round_s = rounds - 1, self._round_s
        if round_s and self._left_s != math.inf:
            more = min(more, int(max(0.0, self._left_s) // round_s))
        if more:
            self._listener.said(
                f"{count_text(more, 'more round')}, about {duration_text(more * round_s)} (predicted)"
            )

    def _insist_on_two(self) -> None:
        """Refuse a scaling of one count, which says nothing, with why the others have no rate."""
        if not self._has_nothing_to_compare:
            return
        least = self._processes(_Turn(self.found.options.processes[0], AS_IT_IS, ""))
        failures = [one.failure for one in self._records if one.failure is not None]
        if failures:
            raise target_error(f"only {least} could be measured", failures[0])
        left_out = [one for one in self.found.counts if one.why_missing]
        whys = "; ".join(f"{self.found.world_of(one.processes)}: {one.why_missing}" for one in left_out)
        raise TargetError(f"only {least} could be measured ({whys})")
