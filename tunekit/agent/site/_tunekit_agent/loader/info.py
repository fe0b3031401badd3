"""Facts about one of the script's DataLoaders, and the address that identifies it in a later trial."""

from __future__ import annotations

import math
import types
from typing import Any

from . import batches
from .samples import AttributeWatch

_SHARDING_CALL = "get_worker_info"
_MAX_DATASETS_WITHIN = 3
_MAX_STAGES = 64
_ENDLESS = 1_000
"""How often a sampler draws from each sample if its length is only a number that training never reaches."""


class LoaderInfo:
    """Facts about one of the script's DataLoaders.

    Attributes:
        call_stack: innermost user frames of its construction, as "file:line+instruction".
        ordinal: how many loaders the same call stack had built before.
        credits: how often an optimizer step followed its batches; 0.5 if another loader came in between.
        fetches, samples: batches that the main process took from it, and the samples in them.
        epoch_fetches: batches taken since its iterator was created or reset.
        thread: the thread that took its latest batch.
        origin: the loader whose batch sampler this one wraps, as sharding launchers do; the batch size is
            set there.
        epoch: the latest known samples and batches of one epoch; None if unknown.
        work: the `work.Slots` that its workers write into; None if they can't.
        batch: plain facts of one inspected batch; has_full_batch says whether it was a full one.
        batch_sizes: dimensions of that batch's parts, as plain facts of InputSeen records.
        shm_before_bytes: use of /dev/shm before any loader of this call stack was iterated.
        shm_at_start_bytes: use of /dev/shm before its current workers were started.
        attributes: what the script changes in its data set between epochs.
    """

    def __init__(self, call_stack: tuple, ordinal: int) -> None:
        self.call_stack = call_stack
        self.ordinal = ordinal
        self.credits = 0.0
        self.fetches = self.epoch_fetches = self.samples = 0
        self.thread = 0
        self.facts: dict = {}
        self.loader: Any = None  # a weak reference: a loader rebuilt every epoch must be freed with it
        self.batch_sampler: Any = None  # a weak reference too
        self.origin: LoaderInfo | None = None
        self.epoch: tuple = (None, None)
        self.work: Any = None
        self.shm_before_bytes: int | None = None
        self.shm_at_start_bytes: int | None = None
        self.batch: dict | None = None
        self.batch_sizes: list = []
        self.has_full_batch = False
        self.attributes = AttributeWatch()
        self._agreed = self._differed = 0
        self._exceeded = False

    def __reduce__(self) -> tuple:
        """Pickle as None: spawned workers get loaders inside a data set, and have no use for these facts."""
        return type(None), ()

    def __deepcopy__(self, memo: dict) -> LoaderInfo:
        """Return itself, since a copy of a loader counts as that loader."""
        return self

    def samples_in(self, batch: object, own_batch: int | None = None) -> int:
        """Return the number of samples in a fetched batch.

        If the declared batch size is 1 and an item has the size of the script's own batches (`own_batch`),
        the data set itself makes the batches.

        A first dimension that differs from the declared batch size is only believed for the last batch of
        an epoch; if the epoch's length is unknown, as long as it mostly agrees and never exceeds the
        declared size. A padded length or a packed sequence agrees only by chance.
        """
        seen = batches.leading_size(batch)
        if seen and self.facts.get("batch_size") == 1 != seen == own_batch:
            self.facts.update(batch_size=seen, batch_size_bound=False)
        declared = self.facts.get("batch_size")
        if declared is None:
            return seen or 1
        if seen is None or seen == declared:
            self._agreed += 1
            return declared
        self._differed += 1
        self._exceeded = self._exceeded or seen > declared
        if self._exceeded:
            return declared
        epoch_batches = epoch_of(self)[1]
        if epoch_batches is not None:
            return seen if self.epoch_fetches % epoch_batches == 0 else declared
        return seen if self._agreed >= self._differed else declared


def matches(address: dict, info: LoaderInfo) -> bool:
    """Return whether an address identifies this loader."""
    same_place = list(address["call_stack"]) == list(info.call_stack)
    return same_place and info.ordinal % address["period"] in address["ordinals"]


def length_of(thing: object) -> int | None:
    """Return an object's length; None if it has none or raises."""
    try:
        return len(thing)  # type: ignore[arg-type]
    except Exception:
        return None


def repeats(info: Any) -> bool:
    """Return whether one iterator serves all epochs: its batch sampler never ends, as in YOLO and timm."""
    loader = info.loader()
    sampler = getattr(loader, "batch_sampler", None)
    return sampler is not None and length_of(sampler) is None and length_of(loader) is not None


def restarts(info: Any) -> bool:
    """Return whether a loader can start another epoch: it still exists, and its iterator isn't endless."""
    return info is not None and info.loader() is not None and not repeats(info)


def epoch_of(info: Any) -> tuple:
    """Return the (samples, batches) that a training loader declares for one epoch; None if unknown.

    A loader that the script keeps no reference to is freed once iterated; then its last answer is returned.
    """
    if info is None or info.facts.get("iterable"):
        return None, None
    loader = info.loader()
    if loader is not None:
        info.epoch = _epoch_of(info, loader)
    return info.epoch


def _epoch_of(info: Any, loader: Any) -> tuple:
    count, batch_size = length_of(loader), info.facts.get("batch_size")
    if batch_size is None or not count:
        return None, (count or None)
    sampler = getattr(loader.batch_sampler, "sampler", None)
    if repeats(info):  # the repeating sampler wraps a batch sampler
        sampler = getattr(sampler, "sampler", None)
    samples = None if loader.batch_size == 1 != batch_size else length_of(sampler)
    if (samples or 0) > _ENDLESS * (length_of(loader.dataset) or math.inf):
        return None, None
    return max(1, min(count * batch_size if samples is None else samples, count * batch_size)), count


def shards_itself(dataset: Any, depth: int = _MAX_DATASETS_WITHIN) -> bool:
    """Return whether an iterable data set, or one inside it, asks which worker it runs in.

    If it does, each worker reads its own share; otherwise every worker repeats every sample.
    """
    try:
        return _shards_itself(dataset, depth)
    except Exception:  # a lazy module or a proxy may raise anything when inspected
        return False


def _shards_itself(dataset: Any, depth: int) -> bool:
    for kind in type(dataset).__mro__:
        for member in vars(kind).values():
            function = getattr(member, "__func__", member)
            if _mentions(getattr(function, "__code__", None), getattr(function, "__globals__", {})):
                return True
    if depth == 0:
        return False
    within = list(getattr(dataset, "__dict__", {}).values())
    for stages in [one for one in within if isinstance(one, list)]:  # a pipeline such as webdataset's
        within += stages[:_MAX_STAGES]
    return any(
        _mentions(one.__code__, one.__globals__)
        if isinstance(one, types.FunctionType)
        else _is_own(one) and _shards_itself(one, depth - 1)
        for one in within
    )


def _mentions(code: Any, names: dict, depth: int = 2) -> bool:
    """Return whether code names the sharding call, directly or in a function that it defines or uses."""
    if code is None:
        return False
    if _SHARDING_CALL in code.co_names:
        return True
    if any(_mentions(nested, names, depth) for nested in code.co_consts if hasattr(nested, "co_names")):
        return True
    if depth == 0:
        return False
    called = [names.get(name) for name in code.co_names]
    for module in [one for one in called if isinstance(one, types.ModuleType)]:
        called += [vars(module).get(name) for name in code.co_names]
    return any(
        _mentions(one.__code__, one.__globals__, depth - 1)
        for one in called
        if hasattr(one, "__code__") and hasattr(one, "__globals__")
    )


def _is_own(thing: Any) -> bool:
    """Return whether an object's class defines `__iter__` in Python, as a nested data set does."""
    return isinstance(getattr(type(thing), "__dict__", {}).get("__iter__"), types.FunctionType)
