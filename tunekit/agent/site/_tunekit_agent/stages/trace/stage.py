"""Device memory and arithmetic of a step, traced in the script's own loop at two small batch sizes."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
from typing import Any, Callable, NamedTuple

from ...loader import batches
from ...loader.source import Replay
from ...loader.storages import is_tensor
from ...measure.errors import line_of
from ...measure.record import states_of
from ...model import knobs
from ...model.loop import Loop
from ..replay import Rebuilding, ReplayStage, resized
from ..runner import NO_WHOLE_BATCH, Missing
from . import cuda_memory
from .allocator import KeptBlocks
from .checkpointing import Blocks, forwards_kept
from .tracer import Tracer

_SIZES = (2, 4)
"""Never 1: size-1 dimensions take special code paths."""
_UNSEEN_TURNS, _MAX_UNSEEN_TURNS = 2, 16
"""Before they are: a loop may ask a batch or two ahead, one with a queue of its own more."""
_MAX_BROKEN = 4
"""Times that something else runs within the steps at one size, until it is given up."""
_ALLOCATOR_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
_MIN_TORCH = (2, 4)
"""Before, torch does not tell when a storage goes."""
_NO_OP_SEEN = "no op was seen: the loop trains in another thread, or process, than it takes its batches in"
_BATCH_NOT_USED = "the loop does not train on every batch that it is given, or asks for them far ahead"
_STEPS = 4
"""Optimizer steps that are traced: what the first frees of the time before is not known, and torch's
allocator reserves more until the fourth."""
_FORWARD_NOT_SEEN = (
    "backward was seen of a forward that was not: it runs in a thread of its own, which is not traced"
)
_MAX_TRACES = 8
"""Traces at one precision, until its steps are taken to differ by their size."""
_TRACES_ALONE = 3
"""Traces of one size alone: the usual steps are what most of them are."""
_MAX_NAMES = 4
"""Classes of blocks that are named."""
_CHECKPOINTED_DIFFER = "with it, the steps at two sizes differ in more than their size"


class Way(NamedTuple):
    """How the steps run that are traced.

    Attributes:
        precision: "bf16" to run the roots under autocast; None for the script's own.
        is_checkpointed: whether the model's blocks are checkpointed.
    """

    precision: str | None = None
    is_checkpointed: bool = False

    @property
    def name(self) -> str:
        return (self.precision or "own") + ("-checkpointed" if self.is_checkpointed else "")


class LoopTrace(ReplayStage):
    """Gives the script one batch in two small sizes, and writes down what its steps allocate and compute.

    A loop without a loader is traced at its own size alone: it makes its batches itself.

    First as the script is; then, where precision can be set and is float32, once more under bf16 autocast;
    then as it is with gradient checkpointing, where the model has blocks for it, and under bf16 with it too
    where nothing is computed anyway. What is known is reported before each, which the script may not live
    through. Each trace is a file in the trial's folder.
    """

    name = "trace"

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._torch, self._dry = self._loop.torch, self._loop.dry
        self._was_dry = bool(self._loop.is_dry)
        self._batch: Any = None
        self._own_size = 0
        self._at_work: TracedSteps | None = None
        self._way = Way()
        self._waiting: list = []  # ways
        self._blocks: Blocks | None = None
        self._checkpointing: dict | None = None
        self._sizes: tuple = _SIZES
        self._is_own = False  # whether the script makes its batches itself
        self._seen: list = []
        self._kept: list | None = None  # of the first trace
        self._doubts: list = []
        self._open = contextlib.ExitStack()
        self._broken = 0
        self._unseen_turns = _UNSEEN_TURNS

    @property
    def phase(self) -> str:
        """Its name, with the way and the batch size at work."""
        if self._at_work is None:
            return self.name
        return f"{self.name} {self._way.name} {self._at_work.size}"

    def interrupted(self) -> None:
        if self._at_work is not None:
            self._at_work.interrupted()

    def step_began(self) -> None:
        if self._at_work is not None:
            self._at_work.step_began()

    def step_ended(self) -> None:
        if self._at_work is not None:
            self._at_work.step_ended()

    def explains(self, error: Exception) -> bool:
        """Keep what was traced before, whatever went wrong then."""
        if isinstance(error, Missing) or not self._why_ended:
            self._why_ended = line_of(error)
        return True

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
            "checkpointing": self._checkpointing,
            "doubts": sorted(set(self._doubts)),
            "why_ended": self._why_ended and self._why_ended[:500],
        }

    def _answer(self) -> Any:
        if self._at_work is None:
            return None
        if not self._is_own:
            return Replay(self._at_work.batch())
        self._at_work.begin()
        return None  # the script makes its own batch

    def _turn(self, source: Any) -> None:
        """Take a batch at the first call; go on to the next trace where one is through."""
        if self._batch is None:
            self._require_traceable()
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

    def _require_traceable(self) -> None:
        """Refuse a loop whose steps can't be traced, before anything of torch is touched."""
        version = tuple(int(part) for part in str(self._torch.__version__).split(".")[:2])
        if version < _MIN_TORCH:
            needed = ".".join(str(part) for part in _MIN_TORCH)
            raise Missing(
                f"torch {self._torch.__version__} does not tell when memory is freed; {needed} does"
            )
        self._require_one_rank()
        if self._loop.device_type not in ("cpu", "cuda"):
            raise Missing(f"steps on a device of type {self._loop.device_type} are not traced")
        if self._has_inner(self._torch.nn.DataParallel):
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
        if knobs.graphs_captured() or any(knobs.is_compiled(module) for module in self._loop.modules()):
            self._doubts.append("traced without torch.compile, which keeps less")
        if not self._loop.on_cuda:
            if self._dry is not None:
                self._dry.enter()
            cuda_memory.take(self._torch)
            self._open.enter_context(cuda_memory.lists_of_parameters())
            if self._has_inner(self._torch.nn.RNNBase):
                self._doubts.append(
                    "recurrent layers run as one kernel on a GPU, which keeps its own buffers"
                )
        self._waiting = [Way("bf16")] if self._may_set_precision() else []
        if self._may_checkpoint():
            ways = (self._way, *self._waiting) if self._was_dry else (self._way,)
            self._waiting += [Way(way.precision, True) for way in ways]

    def _may_checkpoint(self) -> bool:
        """Look for blocks to checkpoint; a model that can't be looked through is traced without."""
        try:
            blocks = self._blocks = Blocks(self._torch, self._loop.modules())
            count, names, why_not = len(blocks.modules), blocks.names[:_MAX_NAMES], blocks.why_not
        except Exception as error:
            count, names, why_not = 0, [], f"{type(error).__name__}: {error}"[:200]
        self._checkpointing = {"blocks": count, "names": names, "why_not": why_not}
        return why_not is None

    def _is_expandable(self) -> bool:
        """Return whether torch's allocator has expandable segments; on a CPU, what its variables ask for."""
        if self._loop.on_cuda:
            with contextlib.suppress(Exception):  # no such figure in this torch
                settings = self._torch._C._cuda_memorySnapshot(None)["allocator_settings"]
                return bool(settings["expandable_segments"])
        words = ",".join(os.environ.get(name, "") for name in _ALLOCATOR_VARIABLES)
        return "expandable_segments:true" in words.replace(" ", "").lower()

    def _has_inner(self, kind: type) -> bool:
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
            self._unseen_turns = _MAX_UNSEEN_TURNS
        if done.is_broken or done.is_behind:
            self._broken += 1
            if self._broken >= _MAX_BROKEN:
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
        while size is None:
            self._write()
            if not self._waiting:
                self.is_over = True
                return
            self._way, self._matching = self._waiting.pop(0), MatchingTraces(self._sizes)
            size = self._matching.next_size
        self.knows_more()
        made: Any = None
        if not self._is_own:
            made = functools.partial(resized, self._batch, self._own_size, size)
            made()  # else the script would be halfway through when it can't be
        blocks = self._blocks if self._way.is_checkpointed else None
        self._at_work = TracedSteps(self._loop, made, size, self._way.precision, self._unseen_turns, blocks)

    def _write(self) -> None:
        """Write what was traced in one way, a file for each size.

        Where the sizes differ, a way that is not the script's own is left out altogether.
        """
        if not self._matching.are_found:
            if self._way.is_checkpointed and self._checkpointing is not None:
                self._checkpointing["why_not"] = _CHECKPOINTED_DIFFER
            if self._way != Way():
                return
            self._doubts.append("the steps at two sizes differ in more than their size")
        for facts in self._matching.best():
            size = facts["batch_size"]
            name = f"trace-{self._way.name}-{size}.json"
            with open(os.path.join(self._loop.request.trial_folder, name), "w", encoding="utf-8") as file:
                json.dump(facts, file)
            self._seen.append({**self._way._asdict(), "batch_size": size, "file": name})


class TracedSteps:
    """A few steps at one batch size, in one way.

    Args:
        made: returns a batch of that size, of new tensors each time, which the script may free as it does;
            None where the script makes its own.
        precision: "bf16" to run the roots under autocast; None for the script's own.
        unseen_turns: at least so many before steps are traced.
        blocks: of the model, to be checkpointed; None to leave them alone.

    Attributes:
        is_broken: whether something that is no part of a step ran within the traced ones.
        has_seen: whether any op was seen.
        is_behind: whether the loop trained on batches that it had asked for before these.
    """

    def __init__(
        self,
        loop: Loop,
        made: Callable[[], Any] | None,
        size: int,
        precision: str | None,
        unseen_turns: int,
        blocks: Blocks | None = None,
    ) -> None:
        self.size, self.precision = size, precision
        self.is_broken = self.is_behind = self.has_seen = False
        self._made = made
        self._turns = self._steps = 0
        self._per_step = max(1, loop.batches_per_step // loop.batches_per_turn)
        self._unseen = -(-unseen_turns // self._per_step) * self._per_step
        self._loop = loop
        self._has_tensors = False
        self._is_entered = False
        self._seeing = contextlib.ExitStack()
        self._tracer = Tracer(loop.torch, "cuda" if loop.on_cuda else "cpu")
        self._kept = KeptBlocks(loop.torch) if loop.on_cuda else None
        with contextlib.ExitStack() as opened:
            if precision is not None:
                opened.enter_context(forwards_kept(loop.modules()))
                for module in loop.modules():
                    knobs.apply(loop.torch, module, {"precision": precision}, loop.device_type)
            if blocks is not None:
                opened.enter_context(blocks.checkpointed())
            self._open = opened.pop_all()

    def batch(self) -> Any:
        """Return the batch for the script, which it is traced with from here on."""
        assert self._made is not None
        batch = Rebuilding().of(self._made())
        leaves = [leaf for _, leaf in batches.walk(batch) if is_tensor(leaf)]
        self._has_tensors = bool(leaves)
        self._tracer.awaits(leaves)
        self.begin()
        return batch

    def begin(self) -> None:
        """The loop goes on from here: with a batch, or with its next step where it makes its own."""
        traced = self._turns - self._unseen
        self._turns += 1
        if traced >= 0:
            if traced == 0:
                self._hold()
            if traced % self._per_step == 0:
                self._tracer.mark()
            self._seeing.enter_context(self._tracer)
            self._is_entered = True

    def asked(self) -> bool:
        """The loop is through with a batch; returns whether that was the last."""
        self._pause()
        if self._tracer.fault is not None:
            raise Missing(self._tracer.fault)
        if self.is_broken:
            return True
        if self._turns < self._unseen + _STEPS * self._per_step:
            return False
        self._tracer.is_for("gradients", _gradients(self._loop))  # of a step whose end is not traced
        self.has_seen = self._tracer.has_seen
        if self._kept is not None:
            self._kept.end(self._tracer.places)
        if self._tracer.has_seen_backward_alone:
            raise Missing(_FORWARD_NOT_SEEN)
        self.is_broken = self.has_seen and self._steps < _STEPS
        wanted = _STEPS * self._per_step if self._has_tensors else 0
        self.is_behind = not self.has_seen or self._tracer.batches_used < wanted
        return True

    def interrupted(self) -> None:
        """A validation runs, or an epoch begins: that is no part of a step."""
        if self._is_entered:
            self._pause()
            self.is_broken = True

    def leave(self) -> None:
        """Put back what was changed."""
        with self._open:
            self._pause()

    def step_began(self) -> None:
        if self._is_entered:
            self._tracer.step_begins()
            self._tracer.is_for("gradients", _gradients(self._loop))

    def step_ended(self) -> None:
        """An optimizer ended its step; gradients that it made by itself, in a closure, are there too."""
        if self._is_entered:
            self._steps += 1
            self._tracer.stepped()
            self._tracer.is_for("gradients", _gradients(self._loop))
            self._tracer.is_for("optimizer state", states_of(self._loop.optimizers()))

    @property
    def kept(self) -> list | None:
        """Bytes of the blocks that stayed and are of no tensor of these steps; None where not known."""
        return None if self._kept is None else self._kept.sizes

    def facts(self) -> dict:
        """Return the plain facts of a StepTrace record."""
        return {"batch_size": self.size, **self._tracer.facts()}

    def _hold(self) -> None:
        if self._kept is not None:
            self._kept.begin()
        self._tracer.holds("parameters", self._loop.parameters())
        self._tracer.holds("buffers", self._loop.buffers())
        self._tracer.holds("gradients", _gradients(self._loop))
        self._tracer.holds("optimizer state", states_of(self._loop.optimizers()))

    def _pause(self) -> None:
        self._is_entered = False
        self._seeing.close()


def _gradients(loop: Loop) -> list:
    return [one.grad for one in loop.parameters() if one.grad is not None]


class MatchingTraces:
    """Traces at one precision, each size over again until one of each allocates and computes the same.

    One size alone has nothing to agree with: then what is seen most often is taken for the usual.
    """

    def __init__(self, sizes: tuple) -> None:
        self._by_size: dict = {size: [] for size in sizes}  # (form, facts) of each trace

    def add(self, facts: dict) -> None:
        """Take the plain facts of a StepTrace."""
        self._by_size[facts["batch_size"]].append((_form(facts), facts))

    @property
    def next_size(self) -> int | None:
        """The size to trace next, None where there is enough."""
        made = [len(traces) for traces in self._by_size.values()]
        if len(made) == 1:
            return None if made[0] >= _TRACES_ALONE else next(iter(self._by_size))
        if all(made) and (self.are_found or sum(made) >= _MAX_TRACES):
            return None
        return min(self._by_size, key=lambda size: len(self._by_size[size]))

    @property
    def are_found(self) -> bool:
        """Whether a trace of each size allocates and computes the same."""
        return self._common() is not None

    def best(self) -> list:
        """Return the facts of a trace of each size that has any: those that are alike, else the latest."""
        common = self._common()
        kept = []
        for traces in self._by_size.values():
            same = [facts for form, facts in traces if form == common]
            kept += (same or [facts for _, facts in traces])[-1:]
        return kept

    def _common(self) -> int | None:
        forms = [[form for form, _ in traces] for traces in self._by_size.values()]
        if len(forms) == 1:
            return max(forms[0], key=forms[0].count, default=None)
        return next(iter(set.intersection(*map(set, forms))), None)


def _form(facts: dict) -> Any:
    """Return what two traces must have in common; frees that follow one another have no order."""
    events = zip(facts["blocks"], facts["sizes"])  # noqa: B905 - Python 3.9
    runs = itertools.groupby(events, key=lambda event: event[1] < 0)
    order = [tuple(sorted(block for block, _ in run)) if freed else len(list(run)) for freed, run in runs]
    return hash((tuple(order), tuple(facts["purposes"]), tuple(op[0] for op in facts["ops"])))
