"""A real training with tuned knobs: the user's command with the agent in apply mode, and nothing in between.

The command replaces the tunekit process, so that it has its own standard input, signals and exit status.
Nothing is redirected: checkpoints go where the script puts them.
"""

import os
import signal
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from tunekit.errors import RunFolderError, TargetError, UsageError
from tunekit.records.agent_messages import AgentRequest
from tunekit.records.config import TrainConfig
from tunekit.records.target import Binding, Discovery, Target
from tunekit.trial.bindings import Bound, bind, present_values
from tunekit.trial.launch import write_copies
from tunekit.trial.recording import EPOCH_OPTIONS, STEP_OPTIONS, agent_environment


@dataclass(frozen=True)
class Training:
    """A training that is ready to start."""

    command: tuple[str, ...]
    environment: dict[str, str]
    bound: Bound

    def start(self) -> None:
        """Become the command; returns only when it can't be started.

        Raises:
            TargetError: there is no such program.
        """
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and the command would too
            signal.signal(number, signal.SIG_DFL)
        try:
            os.execvpe(self.command[0], self.command, self.environment)
        except OSError as error:
            raise TargetError(f"{self.command[0]} could not be started: {error.strerror}") from error


def bindings_here(searched: Target, target: Target) -> tuple[Binding, ...]:
    """Return a search's bindings for a command that starts in another folder or a copy of the project.

    Args:
        searched: the command that was searched, with its bindings.
        target: the command as it will run.

    Raises:
        UsageError: the searched command names a bound file that this one does not name.
    """
    return tuple(_binding_here(binding, searched, target) for binding in searched.bindings)


def _binding_here(binding: Binding, searched: Target, target: Target) -> Binding:
    if binding.path is None:
        return binding
    before = Path(searched.working_dir) / binding.path
    places = [Path(target.working_dir) / binding.path]
    if any(word.endswith(binding.path) for word in searched.command):
        named = [word.rpartition("=")[2] for word in target.command if word.endswith(before.name)]
        if not named:
            raise UsageError(
                f"{binding.knob} is bound to {binding.path}, which this command does not name, so it would "
                "not be set; name that file, or search with this command"
            )
        alike = sorted(named, key=lambda word: not word.endswith(binding.path or ""))
        places = [Path(target.working_dir) / word for word in alike] + places
    if searched.script is not None and target.script is not None:  # it may read the file next to itself
        beside = os.path.relpath(before, Path(searched.script).parent)
        places.append(Path(target.script).parent / beside)
    found = next((place for place in (*places, before) if place.is_file()), None)
    return binding if found is None else binding.changed(path=str(found))


def prepare_training(
    target: Target,
    config: TrainConfig,
    baseline: TrainConfig,
    discovery: Discovery,
    folder: Path,
    inherited: Mapping[str, str],
    *,
    named: Collection[str] = (),
    lr: float | None = None,
    promised_it_per_s: tuple[float, float] | None = None,
    records: bool = False,
) -> Training:
    """Write what the agent needs into the folder and return the training.

    Args:
        target: the command as it will run, with its bindings.
        config: the knobs to apply.
        baseline: the script's own knobs.
        discovery: what the search learnt about the loop.
        folder: receives the request, rewritten copies of config files, and the agent's events.
        inherited: the user's environment.
        named: knobs that the config names, which are also set if the command's value has changed since.
        lr: learning rate to bind; None to keep the script's own.
        promised_it_per_s: range that the real rate is checked against; None to check nothing.
        records: record the loop in the folder.

    Raises:
        UsageError: a knob that differs can't be set.
        RunFolderError: the folder can't be written.
    """
    bound = bind(
        target, config, baseline, lr, stale=_stale(target, baseline, named), options=discovery.options
    )
    loader = discovery.training_loader
    folder = folder.resolve()
    try:
        folder.mkdir(parents=True)
        request = AgentRequest(
            mode="apply",
            records=records,
            option_names=(*EPOCH_OPTIONS, *STEP_OPTIONS) if records else (),
            trial_folder=str(folder),
            working_dir=target.working_dir,
            scratch_folder=str(folder),
            started_at_s=time.time(),
            knobs=bound.injected,
            loader=loader.address if loader else None,
            roots=discovery.roots,
            redirected=write_copies(bound.file_texts, folder),
            world_size=discovery.world_size,
            promised_it_per_s=promised_it_per_s,
            batches_per_step=config.accumulate_grad_batches,
            window_s=1.0,
        )
        environment = agent_environment(request, folder, {**inherited, **bound.environment})
    except OSError as error:
        raise RunFolderError(f"{folder} can't be written ({error.strerror})") from error
    return Training(bound.command, environment, bound)


def _stale(target: Target, baseline: TrainConfig, named: Collection[str]) -> frozenset[str]:
    """Return the bound knobs whose value in command, files or environment may have changed since the search.

    A knob that was left to the script's default, and still is, has not changed.
    """
    present, then = present_values(target), baseline.model_dump(mode="json")
    defaults = {knob: then[knob] for knob in target.unset_knobs if knob in then}
    bound = (knob for knob in then if knob in named and target.is_bound(knob))
    now = {**defaults, **present}
    return frozenset(knob for knob in bound if knob not in now or now[knob] != then[knob])
