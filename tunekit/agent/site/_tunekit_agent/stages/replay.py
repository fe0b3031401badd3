"""One batch that the script is given again and again, perhaps resized, and how long it trains on it."""

from __future__ import annotations

import copy
import operator
import sys
from typing import Any, Callable

from ..loader import batches
from ..loader.source import Replay
from ..loader.storages import dense, is_tensor
from .runner import Missing, Stage, Turns

_MAX_DEPTH = 8
_MAX_TAKEN = 3
"""Batches to take until one is full: an epoch's last may not be."""
WARM_TURNS = 3
"""Before the training is timed: a loop may ask a batch or two ahead."""
_MIN_TIMED, _MIN_TIMED_SLOWLY = 10, 4
CAP_WINDOWS = 2.0
_REFILL_WINDOWS = 1.0
_LOOK_EVERY_S = 0.01
CHANGED_IN_PLACE = "the script changes its batch in place: no batch can be trained on twice"


class ReplayStage(Stage):
    """A stage whose batches replace the loader's, from its first turn to its last."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._replayed: ReplayedBatch | None = None  # what the script trains on
        self._training: TrainingTimer | None = None
        self._turn_count = 0
        self._why_ended: str | None = None

    def asked(self, source: Any) -> Any:
        self._turn(source)
        return None if self.is_over else self._answer()

    def explains(self, error: Exception) -> bool:
        if isinstance(error, Missing):
            self._why_ended = str(error)[:500]
        return isinstance(error, Missing)

    def interrupted(self) -> None:
        if self._training is not None:
            self._training.interrupted()

    def _answer(self) -> Any:
        return None if self._replayed is None else Replay(self._replayed.copy())

    def _turn(self, source: Any) -> None:
        """The loop finished the batch it was given, or starts; raises Missing to end the stage."""

    def _full_batch(self, source: Any) -> tuple:
        """Return a full batch that the script never sees, and its number of samples."""
        declared = source.info.facts.get("batch_size")
        for _ in range(_MAX_TAKEN):
            try:
                batch = source.take()
            except StopIteration:
                raise Missing("the loader has no further epoch") from None
            self._moved()
            size = batches.leading_size(batch)
            if size and declared in (None, size):
                return batch, size
        wanted = "" if declared is None else f", not its loader's batch size, {declared}"
        raise Missing(f"the first dimension of the batch's first tensor is {size or 'n/a'}{wanted}")

    def _train_on(self, batch: Any) -> None:
        """Give the script this batch from now on, and time it."""
        loop = self._loop
        self._replayed, self._turn_count = ReplayedBatch(batch), 0
        self._training = TrainingTimer(
            loop.request.window_s, loop.batches_per_step, loop.synchronize, self._clock
        )

    def _is_timed(self) -> bool:
        """The loop finished the batch; return whether it was timed often enough.

        Raises:
            Missing: something else runs within every batch, or the script has changed its batch.
        """
        assert self._training is not None and self._replayed is not None
        self._turn_count += 1
        is_enough = self._training.asked()
        if (self._turn_count <= WARM_TURNS or is_enough) and self._replayed.was_changed:
            raise Missing(CHANGED_IN_PLACE)
        return is_enough

    def _let_refill(self, source: Any) -> None:
        """Wait until the workers are idle, for a window at most: they would slow the training down."""
        until = self._clock() + _REFILL_WINDOWS * self._loop.request.window_s
        while source.has_all_made is False and self._clock() < until:
            self._moved()
            self._sleep(_LOOK_EVERY_S)

    def _moved(self) -> None:
        self.moved(self.phase)


class TrainingTimer:
    """Times a loop from asking for a batch to asking for the next, with the device drained at both ends.

    Args:
        window_s: half of it is timed; where ten batches take longer, four must do after a whole one.
        group: a multiple of this many batches is timed.
        synchronize: returns when the device has no work left.
    """

    def __init__(
        self, window_s: float, group: int, synchronize: Callable[[], None], clock: Callable[[], float]
    ) -> None:
        self._window_s, self._group = window_s, max(1, group)
        self._synchronize, self._clock = synchronize, clock
        self._warm_turns = 0
        self._turns = Turns()
        self._asked_at: float | None = None
        self.batches = 0
        self.time_s = 0.0

    @property
    def is_enough(self) -> bool:
        """Whether the timed batches are representative."""
        least = _MIN_TIMED if self.time_s < self._window_s else _MIN_TIMED_SLOWLY
        return self.batches >= max(least, self._group)

    @property
    def step_s(self) -> float:
        return self.time_s / self.batches

    def interrupted(self) -> None:
        self._turns.interrupted()

    def asked(self) -> bool:
        """The loop finished a batch; return whether enough are timed.

        Raises:
            Missing: no turn has been whole for a while.
        """
        is_whole = self._turns.asked()
        if self._asked_at is None or not is_whole:
            self._warm_turns += 1
            if self._warm_turns >= WARM_TURNS:
                self._synchronize()
                self._asked_at = self._clock()
            return False
        now = self._clock()
        self.time_s += now - self._asked_at
        self._asked_at = now
        self.batches += 1
        whole = self.batches % self._group == 0 or self.time_s >= CAP_WINDOWS * self._window_s
        if not (self.is_enough and whole and self.time_s >= self._window_s / 2):
            return False
        self._synchronize()
        self.time_s += self._clock() - now
        return True


class ReplayedBatch:
    """A batch, handed out in fresh containers: scripts pop keys and append to lists."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch
        self._versions = [(leaf, _version(leaf)) for _, leaf in batches.walk(batch)]

    def copy(self) -> Any:
        """Return the batch with its own containers around the same tensors."""
        return Rebuilding().of(self._batch)

    @property
    def was_changed(self) -> bool:
        """Whether one of its tensors was written to since."""
        return any(_version(leaf) != version for leaf, version in self._versions)


def _version(leaf: Any) -> int | None:
    try:
        return getattr(leaf, "_version", None)
    except Exception:  # tensors made in inference mode count no changes; a leaf answers as it likes
        return None


class Rebuilding:
    """Rebuilds a batch in new containers, keeping shared and circular references.

    Args:
        stands_for: returns what takes a part's place, or the part itself where it stays; containers that hold
            nothing new then stay too, and objects are looked into. Without it every list, dict and tuple is
            made again, while a container of another kind is copied with what it holds.
    """

    def __init__(self, stands_for: Callable[[Any], Any] | None = None) -> None:
        self._stands_for = stands_for
        self._made: dict = {}  # by id: the part, which keeps its id, and what was made of it

    def of(self, item: Any, depth: int = 0) -> Any:
        """Return the rebuilt item."""
        known = self._made.get(id(item))
        if known is not None:
            return known[1]
        self._made[id(item)] = (item, item)
        made = item if self._stands_for is None else self._stands_for(item)
        if made is item and depth < _MAX_DEPTH:
            made = self._container(item, depth + 1)
        self._made[id(item)] = (item, made)
        return made

    def _container(self, item: Any, depth: int) -> Any:
        parts = batches.parts_of(item)
        if parts is None:
            return item
        kind, held = type(item), parts[1]
        is_plain = kind in (list, dict, tuple) or (isinstance(item, tuple) and hasattr(kind, "_make"))
        if self._stands_for is None and not is_plain:
            return _copied(item)
        made = [(key, part, self.of(part, depth)) for key, part in held]
        changed = [change for change in made if change[2] is not change[1]]
        if self._stands_for is not None and not changed:
            return item
        if not is_plain:
            return _with_parts(item, parts[0].startswith("["), changed)
        if kind is dict:
            return {key: new for key, _, new in made}
        values = [new for _, _, new in made]
        return values if kind is list else kind._make(values) if hasattr(kind, "_make") else tuple(values)


def _copied(item: Any) -> Any:
    """Return a copy of a container, itself where it can't be copied."""
    try:
        return copy.copy(item)
    except Exception:
        return item


def _with_parts(item: Any, has_keys: bool, changed: list) -> Any:
    # A data class may be frozen.
    get, put = (operator.getitem, operator.setitem) if has_keys else (getattr, object.__setattr__)
    try:
        own = copy.copy(item)
        for key, old, new in changed:
            put(own, key, new)
            if get(item, key) is new:
                put(item, key, old)
                raise TypeError("its copy shares what it holds")
    except Exception as error:
        raise Missing(f"a {type(item).__name__} of the batch takes no other parts: {error}") from error
    return own


def resized(batch: Any, own_size: int, size: int) -> Any:
    """Return a batch of another size; the original is not changed.

    Resized is whatever has the batch's size as its first dimension: tensors, arrays, and lists and tuples of
    as many texts, numbers or other parts that have no dimension of their own. A larger batch repeats the
    samples in order. All else stays the very same.

    Args:
        batch: as a loader made it.
        own_size: samples in it.
    """
    resizing = _Resizing(own_size, size)
    made = Rebuilding(resizing.stands_for).of(batch)
    if not resizing.has_resized:
        raise Missing(f"nothing in the batch has its size, {own_size}, as first dimension")
    return made


class _Resizing:
    def __init__(self, own_size: int, size: int) -> None:
        self._own_size, self._size = own_size, size
        self.has_resized = False

    def stands_for(self, part: Any) -> Any:
        if hasattr(type(part), "batch_sizes") and hasattr(type(part), "sorted_indices"):
            raise Missing("the batch holds a packed sequence, which has no dimension of the batch's size")
        if not self._is_of_batch(part):
            self._refuse_listed_samples(part)
            return part
        self.has_resized = True
        if is_tensor(part):
            return _resized_tensor(part, self._own_size, self._size)
        numbers = [i % self._own_size for i in range(self._size)]
        if type(part) in (list, tuple):
            return type(part)([part[i] for i in numbers])
        if isinstance(part, getattr(sys.modules.get("numpy"), "ndarray", ())):
            return part.take(numbers, axis=0)
        raise Missing(f"the batch holds a {type(part).__name__}, which can't be resized")

    def _is_of_batch(self, part: Any) -> bool:
        if type(part) in (list, tuple):
            return len(part) == self._own_size and not any(_is_whole(one) for one in part)
        shape = batches.shape_of(part)
        return bool(shape) and shape[0] == self._own_size

    def _refuse_listed_samples(self, part: Any) -> None:
        """Refuse a list with one differently sized part per sample.

        Loaders of images with boxes return such targets; unresized, it would no longer match the batch.
        """
        if type(part) not in (list, tuple) or len(part) != self._own_size:
            return
        for one in part:
            if _is_whole(one) and _length(one) != self._own_size:
                kind = type(one).__name__
                raise Missing(
                    f"the batch holds {self._own_size} parts of kind {kind}, perhaps one per sample"
                )


def _length(part: Any) -> Any:
    shape = batches.shape_of(part)
    if shape:
        return shape[0]
    return len(part) if type(part) in (list, tuple) else None


def _is_whole(part: Any) -> bool:
    """Return whether a part of a list has parts or dimensions, so that it may be a batch itself."""
    return batches.parts_of(part) is not None or bool(batches.shape_of(part))


def _resized_tensor(tensor: Any, own_size: int, size: int) -> Any:
    if not any(held is tensor for held in dense(tensor)):
        raise Missing(f"the batch holds a {type(tensor).__name__} in a layout that can't be resized")
    torch = sys.modules["torch"]
    with torch.no_grad():
        wholes, rest = divmod(size, own_size)
        pieces = [tensor] * wholes + ([tensor[:rest]] if rest else [])
        made = torch.cat(pieces) if len(pieces) > 1 else pieces[0].clone()
    if tensor.device.type == "cpu" and tensor.is_pinned():
        made = made.pin_memory()  # else its way to the device would be another
    return made.requires_grad_(tensor.requires_grad)
