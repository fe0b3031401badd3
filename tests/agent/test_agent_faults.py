"""Faults of the agent's own at each of its stages: the script trains on as without it, and all is told.

Real training in a child process under the real agent, of objects that answer torch and the script alone.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from _tunekit_agent import faults
from _tunekit_agent.events import EventLog
from _tunekit_agent.loader.watch import LoaderWatch
from _tunekit_agent.model.knobs import NotApplied
from _tunekit_agent.model.roots import RootFinder
from _tunekit_agent.model.steps import StepWatch, base_learning_rate
from _tunekit_agent.process import Owner
from build_records import root
from real_trials import ZOO

from tunekit.agent import REQUEST_VARIABLE
from tunekit.records.agent_messages import AgentErrorEvent, AgentEvent, AgentRequest, DoneEvent
from tunekit.records.measurement import LoopMeasurement
from tunekit.trial.events import EventReader
from tunekit.trial.launch import agent_path

STEPS, MANY_STEPS = 60, 400
FOREIGN_PACKAGE = """
import runpy, sys
import torchdata.stateful_dataloader.stateful_dataloader
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Imports a package by the name of one that the agent hangs into, and then trains."""
ROOT = root(class_name="__main__.Net", parameters=5370)


@dataclass(frozen=True)
class Trained:
    """What became of a training."""

    printed: str
    errors: str
    events: tuple[AgentEvent, ...]
    folder: Path

    @property
    def faults(self) -> list[AgentErrorEvent]:
        return [event for event in self.events if isinstance(event, AgentErrorEvent)]

    def traceback_of(self, fault: AgentErrorEvent) -> str:
        assert fault.traceback_file is not None
        return (self.folder / fault.traceback_file).read_text()


def trained(folder: Path, kind: str, code: str | None = None, steps: int = STEPS, **asked: Any) -> Trained:
    """Train to the end under the agent, with no tunekit that would end it.

    Args:
        folder: of the trial.
        kind: of the script's objects.
        code: to run in the script's place, which is then its first argument.
        asked: of the agent.
    """
    request = AgentRequest(
        trial_folder=str(folder),
        working_dir=str(folder),
        scratch_folder=str(folder),
        started_at_s=time.time(),
        **{"loader": None, "roots": (), "window_s": 1e6} | asked,
    )
    path = folder / "request.json"
    path.write_text(request.model_dump_json())
    words = [str(ZOO / "odd_objects.py"), "--kind", kind, "--steps", str(steps)]
    if code is not None:
        (folder / "script.py").write_text(code)
        words.insert(0, str(folder / "script.py"))
    environment = {**os.environ, "PYTHONPATH": agent_path({}), REQUEST_VARIABLE: str(path)}
    process = subprocess.run(
        [sys.executable, *words], env=environment, cwd=folder, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    return Trained(process.stdout, process.stderr, tuple(EventReader(folder).read_new()), folder)


@pytest.fixture(scope="module")
def printed_without_agent() -> str:
    words = [str(ZOO / "odd_objects.py"), "--steps", str(STEPS)]
    environment = {name: value for name, value in os.environ.items() if name != REQUEST_VARIABLE}
    done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True)
    assert done.stdout.startswith(f"trained {STEPS} steps")
    return done.stdout


@pytest.mark.real
@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("refuses-parameters", "model/roots.py"),  # at the first forward
        pytest.param("refuses-groups", "model/steps.py", marks=pytest.mark.slow),  # at the first step
    ],
)
def test_a_fault_of_the_agents_is_told_and_the_training_goes_on_as_without_it(
    kind: str, place: str, tmp_path: Path, printed_without_agent: str
) -> None:
    done = trained(tmp_path, kind)
    assert (done.printed, done.errors) == (printed_without_agent, "")
    (fault,) = done.faults
    assert fault.place.startswith(place)
    assert (fault.message, fault.is_over, fault.knobs) == (
        "RuntimeError: this is no business of yours",
        True,
        (),
    )
    assert fault.error is not None
    assert fault.error.types[0] == "builtins.RuntimeError"
    assert done.traceback_of(fault).endswith("RuntimeError: this is no business of yours\n")
    assert f'{place}", line' in done.traceback_of(fault)


@pytest.mark.real
@pytest.mark.slow
def test_a_figure_that_can_not_be_read_is_missing_and_no_other_is(tmp_path: Path) -> None:
    done = trained(tmp_path, "refuses-state", steps=MANY_STEPS, window_s=30.0)
    assert done.printed.startswith(f"trained {MANY_STEPS} steps")
    (fault,) = done.faults
    assert (fault.is_over, fault.place.startswith("measure/record.py")) == (False, True)
    told = [event.loop for event in done.events if isinstance(event, DoneEvent)]
    assert isinstance(told[-1], LoopMeasurement)
    assert (told[-1].model, told[-1].script_steps, told[-1].stop_reason) == (None, MANY_STEPS, "loop_ended")


@pytest.mark.real
@pytest.mark.slow
def test_an_import_goes_on_whatever_the_agent_misses_in_the_module(
    tmp_path: Path, printed_without_agent: str
) -> None:
    package = tmp_path / "torchdata" / "stateful_dataloader"
    package.mkdir(parents=True)
    for file in (package.parent / "__init__.py", package / "__init__.py", package / "stateful_dataloader.py"):
        file.touch()
    done = trained(tmp_path, "plain", FOREIGN_PACKAGE, mode="apply")
    assert done.printed == printed_without_agent
    (fault,) = done.faults
    assert fault.message.startswith("AttributeError: ")
    assert "has no attribute 'StatefulDataLoader'" in fault.message
    assert "without the knobs" in done.errors


@pytest.mark.real
def test_a_knob_that_can_not_be_set_is_named_and_the_training_goes_on_without(
    tmp_path: Path, printed_without_agent: str
) -> None:
    done = trained(tmp_path, "refuses-layout", mode="apply", knobs={"channels_last": True}, roots=(ROOT,))
    assert done.printed == printed_without_agent
    (fault,) = done.faults
    assert (fault.knobs, fault.message) == (("channels_last",), "TypeError: this weight stays as it is")
    assert fault.place.startswith("model/knobs.py")
    assert "The above exception was the direct cause" in done.traceback_of(fault)
    assert "channels_last" in done.errors and str(tmp_path / str(fault.traceback_file)) in done.errors
    lines = [line for file in tmp_path.glob("events-*.jsonl") for line in file.read_text().splitlines()]
    applied = [
        event["not_set"] for event in map(json.loads, filter(None, lines)) if event["event"] == "applied"
    ]
    assert applied == [["channels_last"]]


# --- what is told where hardly anything can be -------------------------------------------------


class Wordless(Exception):  # noqa: N818 - says what is the case
    """An exception that can't be made a text of."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def told_of(error: Exception, folder: Path, **more: Any) -> AgentErrorEvent:
    faults.report(EventLog(str(folder), Owner()), str(folder), error, **more)
    (event,) = EventReader(folder).read_new()
    assert isinstance(event, AgentErrorEvent)
    return event


def test_an_exception_without_words_is_told_by_its_type(tmp_path: Path) -> None:
    event = told_of(Wordless(), tmp_path)
    assert event.message == "Wordless: <Wordless whose str() failed>"


def test_knobs_that_could_not_be_set_are_told_each_with_its_cause_and_traceback(tmp_path: Path) -> None:
    event = told_of(NotApplied({"channels_last": TypeError("one"), "compile": KeyError("two")}), tmp_path)
    assert event.knobs == ("channels_last", "compile")
    assert event.message == "channels_last: TypeError: one; compile: KeyError: 'two'"
    assert event.error is not None
    assert event.error.types[0] == "builtins.TypeError"
    assert event.traceback_file is not None
    kept = (tmp_path / event.traceback_file).read_text()
    assert "TypeError: one\n" in kept
    assert "KeyError: 'two'\n" in kept


def test_a_traceback_that_finds_no_room_is_no_file(tmp_path: Path) -> None:
    (tmp_path / f"agent-error-{os.getpid()}.txt").symlink_to("/dev/full")
    event = told_of(ValueError("one"), tmp_path)
    assert (event.message, event.traceback_file) == ("ValueError: one", None)


# --- nothing of the agent's is raised into torch's own calls -------------------------------------


class Observer:
    """Fails at all that it is told, and hears of that."""

    is_here = True

    def __init__(self) -> None:
        self.heard: list[str] = []

    def failed(self, error: Exception) -> None:
        self.heard.append(str(error))

    def saw_gradients(self, losses: tuple[Any, ...]) -> None:
        raise RuntimeError("gradients")

    def step_began(self, now: float) -> None:
        raise RuntimeError("began")

    def stepped(self, optimizer: Any, now: float) -> None:
        raise RuntimeError("stepped")

    def loader_built(self, info: Any) -> None:
        raise RuntimeError("built")


def test_steps_and_backward_passes_go_on_whatever_hears_of_them() -> None:
    observer: Any = Observer()
    watch = StepWatch(observer, observer, observer)
    hooks: list[Any] = []
    watch.install_optimizer(
        SimpleNamespace(
            register_optimizer_step_pre_hook=hooks.append, register_optimizer_step_post_hook=hooks.append
        )
    )
    autograd = SimpleNamespace(backward=lambda losses: "went back", grad=lambda: "gradients")
    watch.install_autograd(autograd)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    assert (autograd.backward(torch.ones(())), autograd.grad()) == ("went back", "gradients")
    for hook in hooks:
        hook(optimizer, (), {})
    assert observer.heard == ["gradients", "gradients", "began", "stepped"]


@pytest.mark.parametrize(
    "rate",
    [torch.empty((), device="meta"), torch.ones(2), "a schedule", lambda: 0.1],
    ids=["meta", "several", "name", "function"],
)
def test_a_learning_rate_that_is_no_number_is_unknown(rate: object) -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    optimizer.param_groups[0]["initial_lr"] = rate
    assert base_learning_rate(optimizer) is None


def test_a_loader_is_built_whatever_hears_of_it() -> None:
    class Loader(torch.utils.data.DataLoader[Any]):
        """One whose constructor is wrapped, and no other's."""

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)

    observer: Any = Observer()
    module = torch.utils.data.dataloader
    watch = LoaderWatch(None, {}, observer, observer)
    watch.install(SimpleNamespace(DataLoader=Loader, _DatasetKind=module._DatasetKind))
    assert len(list(Loader([1, 2, 3]))) == 3
    assert observer.heard == ["built"]


def test_forwards_go_on_whatever_is_called_after_them() -> None:
    heard: list[str] = []

    def broken(torch: Any) -> None:
        raise RuntimeError("ran")

    finder = RootFinder([], broken, lambda: False, lambda error: heard.append(str(error)), broken)
    finder.install(torch.nn.modules.module)
    try:
        assert torch.nn.Linear(2, 2)(torch.ones(1, 2)).shape == (1, 2)
    finally:
        finder.stop()
    assert heard == ["ran"]
