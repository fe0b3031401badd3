"""Where a script waits for its device, told by warnings that the script itself never sees."""

import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from _tunekit_agent.stages.runner import StageRunner
from _tunekit_agent.stages.sync_points import SyncPoints
from build_loop import loop_of

from tunekit.records.details import SyncPoint

HERE = Path(__file__)
MESSAGE = "called a synchronizing CUDA operation (Triggered internally at CUDAFunctions.cpp:108.)"


@dataclass
class Cuda:
    """Warns as CUDA's debug mode does."""

    mode: int = 0
    modes: list[Any] = field(default_factory=list)

    def get_sync_debug_mode(self) -> int:
        return self.mode

    def set_sync_debug_mode(self, mode: int | str) -> None:
        self.mode = {"default": 0, "warn": 1}.get(mode, mode) if isinstance(mode, str) else mode
        self.modes.append(mode)

    @property
    def wait(self) -> Callable[[], object]:
        """As torch's calls do, it warns from C: the innermost Python frame is the caller's."""
        return partial(warnings.warn, MESSAGE, UserWarning) if self.mode == 1 else partial(int)


def torch_at(folder: str, cuda: Cuda) -> Any:
    return SimpleNamespace(cuda=cuda, __file__=f"{folder}/__init__.py")


def seen_by(torch: Any, on_cuda: bool = True, **known: Any) -> Any:
    device_type = "cuda" if on_cuda else "cpu"
    return loop_of(torch=torch, device_type=device_type, working_dir=str(HERE.parent), **known)


def stage_of(cuda: Cuda, torch_folder: str = "/nowhere/torch", on_cuda: bool = True) -> SyncPoints:
    return SyncPoints(seen_by(torch_at(torch_folder, cuda), on_cuda))


def test_each_place_is_counted_per_batch():
    cuda = Cuda()
    stage = stage_of(cuda)
    for _ in range(4):
        stage.asked(None)
        if stage.is_over:
            break
        for _ in range(2):
            cuda.wait()  # read the loss twice
        cuda.wait()  # and the error once
    stage.leave()
    points = [SyncPoint.model_validate(point) for point in stage.facts() or []]
    assert [(point.what, point.per_batch) for point in points] == [
        ("cuda.wait()  # read the loss twice", 2.0),
        ("cuda.wait()  # and the error once", 1.0),
    ]
    line = 1 + HERE.read_text().splitlines().index("            cuda.wait()  # read the loss twice")
    assert points[0].where == f"{HERE.name}:{line}"


def test_a_wait_inside_of_torch_is_the_line_of_the_script_that_called_it(tmp_path: Path):
    inner = tmp_path / "torch" / "clip.py"
    inner.parent.mkdir()
    inner.write_text("def clip(cuda):\n    cuda.wait()\n")
    names: dict[str, Any] = {"__name__": "torch.clip"}
    exec(compile(inner.read_text(), str(inner), "exec"), names)
    cuda = Cuda()
    stage = stage_of(cuda, str(inner.parent))
    stage.asked(None)
    names["clip"](cuda)
    for _ in range(3):
        stage.asked(None)
    stage.leave()
    (point,) = stage.facts() or []
    assert point["where"].startswith(f"{HERE.name}:")
    assert point["what"] == 'names["clip"](cuda) (in torch.clip.clip)'
    assert point["per_batch"] == pytest.approx(1 / 3)


def run_of(path: Path, source: str, module: str, **names: Any) -> dict[str, Any]:
    """Return what a file defines, as if it had been imported from its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    namespace: dict[str, Any] = {"__name__": module} | names
    exec(compile(source, str(path), "exec"), namespace)
    return namespace


TRAINER = """class Trainer:
    def train(self, loss):
        self.step(loss)

    def step(self, loss):
        loss()
"""


@pytest.mark.parametrize("folder", ["env/lib/python3.12/site-packages", "/usr/lib/python3/dist-packages"])
def test_a_wait_inside_of_a_library_is_the_nearest_line_of_the_users_own(folder: str, tmp_path: Path):
    library = tmp_path / folder.lstrip("/") / "transformers" / "trainer.py"
    trainer = run_of(library, TRAINER, "transformers.trainer")["Trainer"]()
    cuda = Cuda()
    own = run_of(tmp_path / "own" / "loss.py", "def own_loss():\n    wait()\n", "loss", wait=cuda.wait)
    stage = stage_of(cuda)
    stage.asked(None)
    own["wait"] = cuda.wait
    trainer.train(cuda.wait)  # in the library's own step
    trainer.train(own["own_loss"])  # in the user's loss, which it calls
    for _ in range(3):
        stage.asked(None)
    stage.leave()
    by_what = {point["what"]: point["where"] for point in stage.facts() or []}
    step = "Trainer.step" if sys.version_info >= (3, 11) else "step"
    line = 1 + HERE.read_text().splitlines().index(
        "    trainer.train(cuda.wait)  # in the library's own step"
    )
    inside = f"trainer.train(cuda.wait)  # in the library's own step (in transformers.trainer.{step})"
    assert by_what == {inside: f"{HERE.name}:{line}", "wait()": f"{tmp_path}/own/loss.py:2"}


def test_a_wait_with_no_line_of_the_users_own_is_the_librarys(tmp_path: Path):
    library = tmp_path / "site-packages" / "trainer.py"
    train = run_of(library, "def train(wait):\n    wait()\n", "trainer")["train"]
    cuda = Cuda()
    stage = stage_of(cuda)
    stage.asked(None)
    thread = threading.Thread(target=train, args=(cuda.wait,))
    thread.start()
    thread.join()
    for _ in range(3):
        stage.asked(None)
    stage.leave()
    assert [(point["where"], point["what"]) for point in stage.facts() or []] == [(f"{library}:2", "wait()")]


def test_the_script_sees_no_such_warning_and_all_of_its_own():
    cuda = Cuda()
    stage = stage_of(cuda)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        seen: list[str] = []
        warnings.showwarning = lambda message, *_: seen.append(str(message))  # type: ignore[assignment]
        stage.asked(None)
        cuda.wait()
        warnings.warn("mind the gap", UserWarning, stacklevel=1)
        for _ in range(3):
            stage.asked(None)
        stage.leave()
        warnings.warn("after", UserWarning, stacklevel=1)
    assert seen == ["mind the gap", "after"]


def test_everything_is_put_back_when_it_is_cut_short():
    cuda = Cuda(mode=2)
    stage = stage_of(cuda)
    filters, show = list(warnings.filters), warnings.showwarning
    stage.asked(None)
    assert cuda.mode == 1
    assert list(warnings.filters) != filters
    stage.leave()
    assert cuda.mode == 2
    assert list(warnings.filters) == filters
    assert warnings.showwarning is show
    assert stage.facts() is None


@pytest.mark.parametrize("recorded", [True, False])
def test_a_script_that_catches_warnings_while_it_trains_is_told_so(recorded: bool):
    cuda = Cuda()
    details = StageRunner([stage_of(cuda)], 1.0, lambda name: None)
    for _ in range(6):
        details.asked(None)
        with warnings.catch_warnings(record=recorded):
            warnings.simplefilter("ignore")
            cuda.wait()
            details.call("step_began")
            details.call("step_ended")
    assert cuda.mode == 0
    facts = details.facts()
    assert "syncs" not in facts
    assert "catches warnings" in facts["faults"][0]


def test_the_warnings_module_is_no_part_of_the_script_wherever_its_code_lies(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """From Python 3.14 on `warnings` takes its functions from another file."""
    elsewhere = tmp_path / "_py_warnings.py"
    elsewhere.write_text(
        "def _showwarnmsg(msg):\n"
        "    warnings.showwarning(msg.message, msg.category, msg.filename, msg.lineno, msg.file, msg.line)\n"
        "def filterwarnings(*args, **kwargs):\n"
        "    original(*args, **kwargs)\n"
    )
    names: dict[str, Any] = {"warnings": warnings, "original": warnings.filterwarnings}
    exec(compile(elsewhere.read_text(), str(elsewhere), "exec"), names)
    for name in ("_showwarnmsg", "filterwarnings"):
        monkeypatch.setattr(warnings, name, names[name])
    cuda = Cuda()
    stage = stage_of(cuda)
    for _ in range(4):
        stage.asked(None)
        cuda.wait()
    stage.leave()
    (point,) = stage.facts() or []
    assert point["where"].startswith(f"{HERE.name}:")
