"""DataLoader construction and iteration: sets the loader knobs and observes the fetches of batches."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
import weakref
from typing import Any

from ..faults import kept_from_script
from ..measure.host import shm_used_bytes
from ..model.knobs import LOADER_KNOBS, applying
from ..originals import time
from ..process import Owner
from .info import LoaderInfo, length_of, matches, shards_itself
from .source import Replay, Source

_STACK_FRAMES = 4
_MAX_LOADERS = 512
MAX_WRAPPED = 4
"""How deep batch samplers may be wrapped in each other."""
_AGENT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _user_stack() -> tuple:
    # Frames of accelerate tell no loaders apart: it wraps all in the same lines.
    files = (getattr(sys.modules.get(name), "__file__", None) for name in ("torch", "accelerate"))
    skipped = (*(os.path.dirname(file) for file in files if file), _AGENT)
    frames: list = []
    frame = sys._getframe(2)
    while frame is not None and len(frames) < _STACK_FRAMES:
        name = frame.f_code.co_filename
        if not name.startswith(skipped) and not name.startswith("<frozen"):
            frames.append(f"{_imported_as(frame)}:{frame.f_lineno}+{frame.f_lasti}")
        frame = frame.f_back
    return tuple(frames)


def _imported_as(frame: Any) -> str:
    """Return a frame's file by its import path: "models/net.py" for models.net, a script's plain name.

    It doesn't depend on the folder that the command starts in or on where the project or environment is.
    """
    *folders, file = frame.f_code.co_filename.split(os.sep)
    depth = str(frame.f_globals.get("__name__")).count(".") + (file == "__init__.py")
    return "/".join([*folders[max(0, len(folders) - depth) :], file])


class LoaderWatch:
    """Keeps track of every loader in the process and reports fetches to the observer.

    Args:
        address: the training loader's address as learnt by the baseline; None if unknown.
        knobs: loader knobs to set on the training loader.
        observer: receives loader_built, epoch_started, fetch_started, epoch_ended and fetched.
    """

    def __init__(self, address: dict | None, knobs: dict, observer: Any, owner: Owner) -> None:
        self.address = address
        self.knobs = knobs
        self.observer = observer
        self.infos: list = []
        self.fetching = 0
        self._built: dict = {}
        self._shm_before: dict = {}
        self._owner = owner

    def install(self, module: Any) -> None:
        """Wrap the constructor in `torch.utils.data.dataloader` to set knobs; fetches stay unobserved."""
        self.module = module
        self.wrap_construction(module.DataLoader)

    def wrap_construction(self, loader_class: Any) -> None:
        """Wrap a loader's constructor; torchdata's StatefulDataLoader doesn't call its base class's."""
        original = loader_class.__init__
        signature = inspect.signature(original)
        watch = self

        @functools.wraps(original)
        def __init__(self, *args, **kwargs):  # noqa: N807
            if not watch._owner.is_here:
                return original(self, *args, **kwargs)
            info = watch._register()
            bound = watch._bound_to_knobs(info, signature, (self, *args), kwargs)
            if bound is not None:
                args, kwargs = bound.args[1:], bound.kwargs
            original(self, *args, **kwargs)
            if info is not None:
                watch._built_one(self, info)
            return None

        loader_class.__init__ = __init__

    def failed(self, error: Exception) -> None:
        self.observer.failed(error)

    @kept_from_script
    def _bound_to_knobs(self, info: LoaderInfo | None, signature: Any, args: tuple, kwargs: dict) -> Any:
        """Return a constructor's arguments with the knobs set; None if this loader gets no knobs."""
        wanted = self._knobs_for(info) if info is not None else {}
        if not wanted:
            return None
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:  # the constructor will raise it itself
            return None
        with applying(*wanted):
            self._set_knobs(bound.arguments, wanted)
        return bound

    @kept_from_script
    def _built_one(self, loader: Any, info: LoaderInfo) -> None:
        info.loader = weakref.ref(loader)
        info.origin = self._origin_of(loader)
        info.facts = self._facts(loader, info)
        if len(self.infos) < _MAX_LOADERS:
            self.infos.append(info)
        object.__setattr__(loader, "_tunekit_info", info)
        self.observer.loader_built(info)

    @kept_from_script
    def _register(self) -> LoaderInfo:
        stack = _user_stack()
        ordinal = self._built.get(stack, 0)
        self._built[stack] = ordinal + 1
        return LoaderInfo(stack, ordinal)

    def is_addressed(self, info: LoaderInfo) -> bool:
        return self.address is not None and matches(self.address, info)

    def _knobs_for(self, info: LoaderInfo) -> dict:
        if self.address is None:
            return {}
        origin = self.address.get("origin")
        if matches(self.address, info):
            return {k: v for k, v in self.knobs.items() if origin is None or k != "batch_size"}
        if origin is not None and matches(origin, info):
            return {k: v for k, v in self.knobs.items() if k == "batch_size"}
        return {}

    def _origin_of(self, loader: Any) -> LoaderInfo | None:
        """Return the earlier loader whose batch sampler this loader's wraps; None if there is none."""
        sampler = loader.batch_sampler
        if sampler is None or self._is_plain(sampler):
            return None
        for _ in range(MAX_WRAPPED):
            sampler = getattr(sampler, "batch_sampler", None)
            if sampler is None:
                return None
            for info in self.infos:
                if info.batch_sampler is not None and info.batch_sampler() is sampler:
                    return info.origin or info
        return None

    def address_of(self, info: LoaderInfo) -> dict:
        """Return how a later trial finds this loader: its call stack, and which of its constructions.

        One line may build several loaders (in a loop over splits), again in each epoch: the pattern of the
        loaders that are trained on repeats with a period.
        """
        twins = [other for other in self.infos if other.call_stack == info.call_stack]
        trained = [other.credits > 0 for other in twins]
        while len(twins) > info.ordinal + 1 and not twins[-1].fetches:
            twins.pop()
        flags = trained[: len(twins)] or [True]
        period = next(
            p for p in range(1, len(flags) + 1) if all(flag == flags[i % p] for i, flag in enumerate(flags))
        )
        ordinals = [i for i in range(period) if flags[i]] or [info.ordinal % period]
        origin = self.address_of(info.origin) if info.origin is not None else None
        return {"call_stack": list(info.call_stack), "ordinals": ordinals, "period": period, "origin": origin}

    def _set_knobs(self, arguments: dict, knobs: dict) -> None:
        for name in LOADER_KNOBS:
            if name != "batch_size" and knobs.get(name) is not None:
                arguments[name] = knobs[name]
        if not arguments.get("num_workers"):
            for name in ("prefetch_factor", "persistent_workers", "timeout", "multiprocessing_context"):
                arguments.pop(name, None)
        batch_size = knobs.get("batch_size")
        if batch_size is None:
            return
        sampler = arguments.get("batch_sampler")
        if sampler is None:
            if arguments.get("batch_size", 1) is not None:
                arguments["batch_size"] = batch_size
        elif self._is_plain(sampler):
            arguments["batch_sampler"] = type(sampler)(sampler.sampler, batch_size, sampler.drop_last)

    def _is_plain(self, batch_sampler: object) -> bool:
        return type(batch_sampler) is sys.modules["torch.utils.data.sampler"].BatchSampler

    def _facts(self, loader: Any, info: LoaderInfo) -> dict:
        iterable = loader._dataset_kind == self.module._DatasetKind.Iterable
        sampler = loader.batch_sampler
        batch_size = loader.batch_size
        if info.origin is not None:
            batch_size = info.origin.facts["batch_size"]
        elif batch_size is None and self._is_plain(sampler):
            batch_size = sampler.batch_size
        with contextlib.suppress(TypeError):  # a batch sampler may be a list, which has no weak references
            info.batch_sampler = weakref.ref(sampler) if sampler is not None else None
        return {
            "dataset": type(loader.dataset).__name__,
            "dataset_samples": None if iterable else length_of(loader.dataset),
            "batch_size": batch_size,
            "num_workers": loader.num_workers,
            "prefetch_factor": loader.prefetch_factor if loader.num_workers else None,
            "pin_memory": bool(loader.pin_memory),
            "persistent_workers": bool(loader.persistent_workers),
            "drop_last": bool(getattr(sampler, "drop_last", loader.drop_last)),
            "iterable": iterable,
            "shards_itself": iterable and shards_itself(loader.dataset),
            "batch_size_bound": loader.batch_size is not None
            or info.origin is not None
            or self._is_plain(sampler),
        }

    def install_iteration(self, module: Any) -> None:
        """Wrap the iterators' base class too, to observe fetches."""
        watch, iterator_class = self, module._BaseDataLoaderIter
        original_init, original_reset = iterator_class.__init__, iterator_class._reset
        self.original_next = original_next = iterator_class.__next__

        @functools.wraps(original_init)
        def __init__(self, loader, *args, **kwargs):  # noqa: N807
            watch._iterator_begins(self, loader)
            original_init(self, loader, *args, **kwargs)

        @functools.wraps(original_reset)
        def _reset(self, loader, first_iter=False):
            if not first_iter:
                watch._epoch_started(getattr(self, "_tunekit_info", None), loader.dataset)
            return original_reset(self, loader, first_iter)

        @functools.wraps(original_next)
        def __next__(self):  # noqa: N807
            info = getattr(self, "_tunekit_info", None)
            if info is None or not watch._owner.is_here:
                return original_next(self)
            return watch._next(self, info)

        iterator_class.__init__, iterator_class._reset = __init__, _reset
        iterator_class.__next__ = __next__
        if "next" in vars(iterator_class):  # an old alias for __next__
            iterator_class.next = __next__

    @kept_from_script
    def _iterator_begins(self, iterator: Any, loader: Any) -> None:
        info = iterator._tunekit_info = getattr(loader, "_tunekit_info", None)
        if not loader.persistent_workers:  # those loaders hold their iterator: a cycle would keep them alive
            iterator._tunekit_loader = loader  # `for batch in DataLoader(...)` drops it immediately
        if info is not None and self._owner.is_here:
            info.shm_at_start_bytes = shm_used_bytes()
            info.shm_before_bytes = self._shm_before.setdefault(info.call_stack, info.shm_at_start_bytes)
        self._epoch_started(info, loader.dataset)

    def _epoch_started(self, info: LoaderInfo | None, dataset: Any) -> None:
        if info is not None and self._owner.is_here:
            info.epoch_fetches = 0
            info.attributes.began(dataset, bool(info.facts.get("num_workers")))
            self.observer.epoch_started(info, time.perf_counter())

    def _next(self, iterator: Any, info: LoaderInfo) -> Any:
        source = iterator.__dict__.get("_tunekit_source")
        if source is None:
            source = iterator._tunekit_source = Source(self, iterator, info)
        answer = self.observer.fetch_started(info, source)
        if isinstance(answer, Replay):
            return answer.batch
        cpu_before = time.thread_time()
        asked = time.perf_counter()
        try:
            batch = source.fetch()
        except StopIteration:
            if not self.observer.epoch_ended(info, asked) or not source.restart():
                info.attributes.ended(getattr(iterator, "_dataset", None))
                raise
            batch = source.fetch()
        wait_s = time.perf_counter() - asked
        info.fetches += 1
        info.epoch_fetches += 1
        self.observer.fetched(info, batch, wait_s, time.thread_time() - cpu_before)
        return batch
