"""Device memory and arithmetic of a step, traced in the script's own loop at two small batch sizes."""

from __future__ import annotations

import contextlib
import functools
import json
import os
from typing import Any, Callable

from ...model import knobs
from ..replay import ReplayStage, resized
from ..runner import NO_WHOLE_BATCH, Missing
from . import cuda_memory
from .matching import MatchingTraces
from .step_trace import TracedSteps

_SIZES = (2, 4)
"""Never 1: a dimension of 1 takes ways of its own."""
_UNSEEN_TURNS, _MOST_UNSEEN_TURNS = 2, 16
"""Before they are: a loop may ask a batch or two ahead, one with a queue of its own more."""
_MOST_BROKEN = 4
"""Times that something else runs within the steps at one size, until it is given up."""
_ALLOCATOR_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
_LEAST_TORCH = (2, 4)
"""Before, torch does not tell when a storage goes."""
_NO_OP_SEEN = "no op was seen: the loop trains in another thread, or process, than it takes its batches in"
_BATCH_NOT_USED = "the loop does not train on every batch that it is given, or asks for them far ahead"


def _keeps_what_was_traced(method: Callable) -> Callable:
    """Report a fault of ours as the reason why something is missing: what was traced before stays."""

    @functools.wraps(method)
    def guarded(self: LoopTrace, *arguments: Any) -> Any:
        try:
            return method(self, *arguments)
        except Exception as error:
            self.faulted(error)
            return None

    return guarded


class LoopTrace(ReplayStage):
    """Gives the script one batch in two small sizes, and writes down what its steps allocate and compute.

    A loop without a loader is traced at its own size alone: it makes its batches itself.

    First as the script is; then, where precision can be set and is float32, once more under bf16 autocast.
    What is known is reported before each, which the script may not live through. Each trace is a file in the
    trial's folder.
    """

    name = "trace"

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._torch, self._dry = self._loop.torch, self._loop.dry
        self._batch: Any = None
        self._own_size = 0
        self._at_work: TracedSteps | None = None
        self._precision: str | None = None
        self._waiting: list = []  # precisions
        self._sizes: tuple = _SIZES
        self._is_own = False  # whether the script makes its batches itself
        self._matching = MatchingTraces(_SIZES)
        self._seen: list = []
        self._kept: list | None = None  # of the first trace
        self._doubts: list = []
        self._open = contextlib.ExitStack()
        self._broken = 0
        self._unseen_turns = _UNSEEN_TURNS

    @property
    def phase(self) -> str:
        """Its name, with the precision and the batch size at work."""
        if self._at_work is None:
            return self.name
        return f"{self.name} {self._precision or 'own'} {self._at_work.size}"

    @_keeps_what_was_traced
    def asked(self, source: Any) -> Any:
        return None if self.is_over else super().asked(source)

    @_keeps_what_was_traced
    def interrupted(self) -> None:
        if not self.is_over:
            super().interrupted()

    @_keeps_what_was_traced
    def step_began(self) -> None:
        if self._at_work is not None and not self.is_over:
            self._at_work.step_began()

    @_keeps_what_was_traced
    def step_ended(self) -> None:
        if self._at_work is not None and not self.is_over:
            self._at_work.step_ended()

    def faulted(self, error: Exception) -> None:
        """End at the loop's next turn, for a fault of ours; the first is reported."""
        self._why_ended, self.is_over = self._why_ended or f"{type(error).__name__}: {error}", True

    @_keeps_what_was_traced
    def leave(self) -> None:
        """Put back what was changed; say why a size is missing that was still at work."""
        if self._at_work is not None and not self.is_over:
            self._why_ended = f"batch size {self._at_work.size} was too slow to be traced"
        try:
            with self._open:
                if self._at_work is not None:
                    self._at_work.leave()
        finally:
            if self._dry is not None:
                self._dry.leave()

    def facts(self) -> dict:
        """Return the plain facts of a TraceSeen record."""
        return {
            "device_type": self._loop.device_type,
            "batches_per_step": self._loop.batches_per_step,
            "is_dry": not self._loop.on_cuda and self._dry is not None,
            "is_own_batch": self._is_own,
            "is_expandable": self._is_expandable(),
            "kept": self._kept,
            "steps": list(self._seen),
            "doubts": sorted(set(self._doubts)),
            "why_ended": self._why_ended and self._why_ended[:500],
        }

    def _answer(self) -> Any:
        if not self._is_own:
            return super()._answer()
        self._at_work.begin()
        return None

    def _turn(self, source: Any) -> None:
        """Take a batch at the first call; go on to the next trace where one is through."""
        if self._batch is None:
            self._insist_on_traceable()
            self._is_own = source is None
            if self._is_own:
                self._batch, self._own_size = (), self._loop.own_batch_samples
                self._sizes, self._unseen_turns = (self._own_size,), 0
            else:
                self._batch, self._own_size = self._full_batch(source)
            self._matching = MatchingTraces(self._sizes)
            self._prepare()
            self._begin_next()
        elif self._at_work is not None and self._at_work.asked():
            self._end(self._at_work)
            self._begin_next()

    def _insist_on_traceable(self) -> None:
        """Refuse a loop whose steps can't be traced, before anything of torch is touched."""
        version = tuple(int(part) for part in str(self._torch.__version__).split(".")[:2])
        if version < _LEAST_TORCH:
            needed = ".".join(str(part) for part in _LEAST_TORCH)
            raise Missing(
                f"torch {self._torch.__version__} does not tell when memory is freed; {needed} does"
            )
        self._insist_on_one_rank()
        if self._loop.device_type not in ("cpu", "cuda"):
            raise Missing(f"steps on a device of type {self._loop.device_type} are not traced")
        inner = [one for module in self._loop.modules() for one in module.modules()]
        if any(isinstance(one, self._torch.nn.DataParallel) for one in inner):
            raise Missing("nn.DataParallel spreads a batch over GPUs, in threads of its own: not traced")
        devices = {str(parameter.device) for parameter in self._loop.parameters()}
        on_gpus = [device for device in devices if device.startswith("cuda")]
        spread = [len(getattr(module, "device_ids", None) or ()) for module in self._loop.modules()]
        if max(len(on_gpus), *spread, 1) > 1:
            raise Missing("one process trains on several devices, which are not told apart")

    def _prepare(self) -> None:
        """Have torch take a GPU's ways, and settle what is traced."""
        if knobs.graphs_captured():
            stance = getattr(getattr(self._torch, "compiler", None), "set_stance", None)
            if stance is None:
                raise Missing(f"compiled steps can't be traced with torch {self._torch.__version__}; 2.6 can")
            self._open.enter_context(stance("force_eager"))
        if knobs.graphs_captured() or any(_is_compiled(module) for module in self._loop.modules()):
            self._doubts.append("traced without torch.compile, which keeps less")
        if not self._loop.on_cuda:
            if self._dry is not None:
                self._dry.enter()
            cuda_memory.take(self._torch)
            self._open.enter_context(cuda_memory.lists_of_parameters())
            if self._has_recurrent():
                self._doubts.append(
                    "recurrent layers run as one kernel on a GPU, which keeps its own buffers"
                )
        self._waiting = ["bf16"] if self._may_set_precision() else []

    def _is_expandable(self) -> bool:
        """Return whether torch's allocator has expandable segments; on a CPU, what its variables ask for."""
        if self._loop.on_cuda:
            with contextlib.suppress(Exception):  # no such figure in this torch
                settings = self._torch._C._cuda_memorySnapshot(None)["allocator_settings"]
                return bool(settings["expandable_segments"])
        words = ",".join(os.environ.get(name, "") for name in _ALLOCATOR_VARIABLES)
        return "expandable_segments:true" in words.replace(" ", "").lower()

    def _has_recurrent(self) -> bool:
        kind = self._torch.nn.RNNBase
        return any(isinstance(inner, kind) for module in self._loop.modules() for inner in module.modules())

    def _may_set_precision(self) -> bool:
        parameters = self._loop.parameters()
        are_float32 = all(parameter.dtype is self._torch.float32 for parameter in parameters)
        is_free = self._loop.roots_cover_step and not self._loop.has_own_autocast
        return bool(parameters) and are_float32 and is_free

    def _end(self, done: TracedSteps) -> None:
        """Keep a trace, unless something else ran in it."""
        done.leave()
        if done.is_behind:
            self._unseen_turns = _MOST_UNSEEN_TURNS
        if done.is_broken or done.is_behind:
            self._broken += 1
            if self._broken >= _MOST_BROKEN:
                not_used = _BATCH_NOT_USED if done.has_seen else _NO_OP_SEEN
                raise Missing(NO_WHOLE_BATCH if done.is_broken else not_used)
            return
        self._broken = 0
        self._matching.add(done.facts())
        if self._kept is None:
            self._kept = done.kept

    def _begin_next(self) -> None:
        """Begin with the next trace that is needed."""
        self._at_work = None
        size = self._matching.next_size
        while size is None and self._waiting:
            self._write()
            self._precision, self._matching = self._waiting.pop(0), MatchingTraces(self._sizes)
            size = self._matching.next_size
        if size is None:
            self._write()
            self.is_over = True
            return
        self.knows_more()
        made: Any = None
        if not self._is_own:
            made = functools.partial(resized, self._batch, self._own_size, size)
            made()  # else the script would be halfway through when it can't be
        self._at_work = TracedSteps(self._loop, made, size, self._precision, self._unseen_turns)

    def _write(self) -> None:
        """Write what was traced at a precision, a file for each size.

        Where the sizes differ, a precision that is not the script's own is left out altogether.
        """
        if not self._matching.are_found:
            if self._precision is not None:
                return
            self._doubts.append("the steps at two sizes differ in more than their size")
        for facts in self._matching.best():
            size = facts["batch_size"]
            name = f"trace-{self._precision or 'own'}-{size}.json"
            with open(os.path.join(self._loop.request.trial_folder, name), "w", encoding="utf-8") as file:
                json.dump(facts, file)
            self._seen.append({"precision": self._precision, "batch_size": size, "file": name})


def _is_compiled(module: Any) -> bool:
    """Return whether a module is to be compiled; without arithmetic torch.compile captures nothing."""
    is_wrapped = type(module).__name__ == "OptimizedModule"
    return is_wrapped or getattr(module, "_compiled_call_impl", None) is not None
