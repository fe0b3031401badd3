"""Writes down what steps allocate, free and compute, in order."""

from __future__ import annotations

import bisect
import itertools
import weakref
from typing import Any, Iterable

from ...loader.storages import dense
from .allocator import TemporaryBytes
from .dispatch import mode_for, tensors_in
from .op_costs import flop_formulas, full_name, moved_bytes

PURPOSES = (
    "parameters",
    "buffers",
    "gradients",
    "optimizer state",
    "batch",
    "activations",
    "workspace",
    "held by the script",
)
_PARAMETERS, _BATCH, _ACTIVATIONS, _HELD = 0, 4, 5, 7
_OF_A_STEP = (2, 3)
"""Gradients and optimizer state: a training begins without them, and its first step makes them."""
_PRODUCTS = ("mm", "bmm", "matmul")
_MAX_EVENTS = 1_000_000


class Tracer:
    """Sees every op while it is entered; storages of one kind of device, as they come and go.

    It is entered and left over and over: what lies between is not seen, but for what is freed there.

    Args:
        device_type: whose storages are allocated.

    Attributes:
        fault: why what was written down can't be relied on; None if it can.
    """

    def __init__(self, torch: Any, device_type: str = "cuda") -> None:
        self._torch, self._device_type = torch, device_type
        self._mode = mode_for(torch)
        self._formulas = flop_formulas(torch)
        self._events: list = []  # (block, bytes), -1 where it is freed: in one append, as frees come any time
        self._purposes: list = []
        self._before: list = []  # blocks that were there when the first op was seen
        self._size_of: dict = {}  # of those, in bytes
        self._numbers: set = set()  # blocks of one whole number
        self._alive: dict = {}  # by a storage's address: its block
        self._awaited: dict = {}  # by a storage's address: its batch, allocated where it is used first
        self._on_host: dict = {}  # as well, of batches that lie elsewhere
        self._given = 0
        self._used: set = set()  # batches
        self._temporary = None if device_type == "cpu" else TemporaryBytes(torch)
        self._temporaries: dict = {}  # by the block that was last allocated: the most that came and went
        self._sums: dict = {}  # by block: the blocks that may have been added to
        self._products: set = set()  # blocks of matmuls' results
        self._ops: list = []
        self._marks: list = []
        self._optimizer_began: int | None = None  # events before its first step
        self._places: dict = {}  # by block that is alive: its address on the device
        self._task_of_backward = torch._C._current_graph_task_id
        self._is_forward_seen = False  # since the last optimizer step
        self._has_seen_backward = self._has_seen_both = False
        self.fault: str | None = None

    @property
    def batches_used(self) -> int:
        """Batches that were awaited and of which an op took something."""
        return len(self._used)

    @property
    def has_seen(self) -> bool:
        return bool(self._ops)

    @property
    def has_seen_backward_alone(self) -> bool:
        """Whether backward was seen, and never after an op of a forward that took a parameter."""
        return self._has_seen_backward and not self._has_seen_both

    def __enter__(self) -> Tracer:
        """See ops from here on."""
        self._mode.run = self._run_op
        self._mode.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        """See no more of them; a mode of the script's that covers this one stays where it is."""
        if not self._mode.leave():
            self.fault = "the script enters or leaves a TorchDispatchMode, or a thread, between two batches"

    @property
    def places(self) -> set:
        return set(self._places.values())

    def step_begins(self) -> None:
        """An optimizer begins its step: what it holds from then on, it made in its first."""
        if self._optimizer_began is None:
            self._optimizer_began = len(self._events)

    def stepped(self) -> None:
        """An optimizer made its step, whose ops take parameters too but are no forward."""
        self._is_forward_seen = False

    def mark(self) -> None:
        """A step begins: `facts` tells the ops of the last."""
        self._marks.append(len(self._ops))

    def awaits(self, tensors: Iterable) -> None:
        """The script is given these of a batch; those on the device already are allocated by their use."""
        self._given += 1
        for tensor in tensors:
            for part in dense(tensor):
                storage = part.untyped_storage()
                known = self._awaited if self._is_here(part) else self._on_host
                known[storage._cdata] = self._given
                weakref.finalize(storage, known.pop, storage._cdata, None).atexit = False

    def holds(self, purpose: str, tensors: Iterable) -> None:
        """These are there from the beginning."""
        for tensor in tensors:
            self._saw(tensor, PURPOSES.index(purpose), self._before)

    def is_for(self, purpose: str, tensors: Iterable) -> None:
        """Say what the blocks of some tensors are for, from their allocation on."""
        for tensor in tensors:
            for part in dense(tensor):
                block = self._alive.get(part.untyped_storage()._cdata)
                if block is not None:
                    self._purposes[block] = PURPOSES.index(purpose)

    def facts(self) -> dict:
        """Return what was written down, as plain facts of steps from the first on.

        The trace began later: gradients and optimizer state were there. What was freed before the optimizer's
        step is left out, and the rest comes with that step.

        Returns:
            blocks: number of the block of each event, counted from 0 as blocks are allocated; sizes: bytes
            asked for, -1 where it is freed; purposes: of each block, by its place in PURPOSES; temporaries:
            bytes that came and went right after each block did, empty on a CPU; ops: since the
            last mark, each [name, dtype, flops, bytes].
        """
        left_out = self._of_host()
        began, before, made = self._optimizer_began, self._before, []
        if began is not None:
            early = {block for block, size in self._events[:began] if size < 0}
            of_a_step = [block for block in before if self._purposes[block] in _OF_A_STEP]
            left_out |= early.intersection(of_a_step)
            made = [(block, self._size_of[block]) for block in of_a_step]
            before = [block for block in before if self._purposes[block] not in _OF_A_STEP]
        at = began or 0
        events = [*self._events[:at], *made, *self._events[at:]]
        events = _summed_in_place([event for event in events if event[0] not in left_out], self._sums)
        before = [block for block in before if block not in left_out]
        first = before + [block for block, size in events if size >= 0]
        number = {block: place for place, block in enumerate(first)}
        return {
            "blocks": [number[block] for block in before] + [number[block] for block, _ in events],
            "sizes": [self._size_of[block] for block in before] + [size for _, size in events],
            "purposes": [self._purposes[block] for block in first],
            "temporaries": self._temporaries_of(number, first),
            "ops": self._ops[self._marks[-1] if self._marks else 0 :],
        }

    def _temporaries_of(self, number: dict, blocks: list) -> list:
        """Return them for each block; those after one that is left out stand with the one before it."""
        if not self._temporaries:
            return []
        found, kept = [0] * len(blocks), sorted(number)
        for block, size in self._temporaries.items():
            place = bisect.bisect_right(kept, block) - 1
            if place >= 0:
                at = number[kept[place]]
                found[at] = max(found[at], size)
        return found

    def _of_host(self) -> set:
        """Return the blocks of a trace on a CPU that a GPU would never hold: where samples are put together.

        Single whole numbers, such as an index, and what came without an op and went again, such as an
        array's tensor.
        """
        if self._device_type != "cpu":
            return set()
        freed = {block for block, size in self._events if size < 0}
        return self._numbers | {block for block in freed if self._purposes[block] == _HELD}

    def _run_op(self, func: Any, args: tuple, kwargs: dict) -> Any:
        if self._temporary is not None:
            self._temporary.begin()
        made = func(*args, **kwargs)
        if self._mode.run is not None and self.fault is None:
            self._write_down(func, args, kwargs, made)
        return made

    def _write_down(self, func: Any, args: tuple, kwargs: dict, made: Any) -> None:
        try:
            self._saw_op(func, args, kwargs, made)
            self._saw_temporary(func)
        except Exception as error:
            self.fault = f"{func} was not understood: {type(error).__name__}: {str(error)[:200]}"
        if len(self._events) > _MAX_EVENTS:
            self.fault = f"a step allocates and frees more than {_MAX_EVENTS:,} times"

    def _saw_op(self, func: Any, args: tuple, kwargs: dict, made: Any) -> None:
        name = _name_of(func)
        handed = tensors_in((args, kwargs))
        taken = [one for one in handed if self._is_here(one)]
        given = [one for one in tensors_in(made) if self._is_here(one)]
        self._saw_direction(taken)
        takes_host_batch = len(taken) < len(handed) and self._take_host_batch(handed)
        copies_batch = takes_host_batch and name == "_to_copy"
        purpose = _BATCH if copies_batch else _ACTIVATIONS
        if name == "lift_fresh":  # an array, or numbers, that becomes a tensor
            purpose = _HELD
        else:
            for tensor in taken:
                self._saw_taken(tensor)
        is_new = False
        for tensor in reversed(given) if name == "native_dropout" else given:  # the mask comes first
            is_new |= self._saw(tensor, purpose)
        if name in _PRODUCTS and given:
            self._products.add(self._block_of(given[0]))
        if name == "add" and is_new and len(taken) == 2:
            self._saw_sum(given[0], taken)
        if taken or given:
            self._saw_cost(func, args, kwargs, taken, given, is_new, made)

    @property
    def _is_in_backward(self) -> bool:
        return self._task_of_backward() != -1 and not self._torch.is_grad_enabled()

    def _saw_direction(self, taken: list) -> None:
        """Tell ops of a forward that take a parameter, or a part of one, from those of backward."""
        if self._has_seen_both:
            return
        if self._task_of_backward() != -1:
            self._has_seen_backward, self._has_seen_both = True, self._is_forward_seen
        elif not self._is_forward_seen:
            self._is_forward_seen = any(self._is_of_parameter(one) for one in taken)

    def _saw_temporary(self, func: Any) -> None:
        """Take what an op allocated for itself; a convolution's workspace does not grow with its batch."""
        size = 0 if self._temporary is None else self._temporary.end()
        if size and self._purposes and "conv" not in str(func):
            last = len(self._purposes) - 1
            self._temporaries[last] = max(size, self._temporaries.get(last, 0))

    def _saw_sum(self, total: Any, parts: list) -> None:
        """Two gradients were added up, or a bias to a product: perhaps in place, by what comes then."""
        first, other = parts
        if any(part.dtype != total.dtype for part in parts) or first.shape != total.shape:
            return
        if self._is_in_backward and other.shape == total.shape:
            self._sums[self._block_of(total)] = [self._block_of(first), self._block_of(other)]
        elif other.dim() == 1 and self._block_of(first) in self._products:
            self._sums[self._block_of(total)] = [self._block_of(first)]

    def _block_of(self, tensor: Any) -> int | None:
        """Return the block of a tensor; None of one with several, as a sparse one has."""
        parts = dense(tensor)
        return self._alive.get(parts[0].untyped_storage()._cdata) if len(parts) == 1 else None

    def _is_of_parameter(self, tensor: Any) -> bool:
        whole = tensor if tensor._base is None else tensor._base
        if whole.requires_grad and whole.is_leaf:
            return True
        blocks = [self._alive.get(part.untyped_storage()._cdata) for part in dense(tensor)]
        return any(block is not None and self._purposes[block] == _PARAMETERS for block in blocks)

    def _saw_cost(
        self, func: Any, args: tuple, kwargs: dict, taken: list, given: list, is_new: bool, made: Any
    ) -> None:
        name, schema = _name_of(func), getattr(func, "_schema", None)
        is_changing = getattr(schema, "is_mutable", False)
        if is_changing and not given:
            given = [one for one in _written(schema, args) if self._is_here(one)]
        if not is_new and not is_changing:
            return  # a view, or a question such as on which device a fake tensor is
        kinds = [str(one.dtype).replace("torch.", "") for one in (*taken, *given) if one.is_floating_point()]
        formula = self._formulas.get(getattr(func, "_overloadpacket", func))
        try:
            operations = int(formula(*args, **kwargs, out_val=made)) if formula else 0
        except Exception:  # arguments in another form than is known
            operations = 0
        moved = moved_bytes(name, taken, given)
        is_of_host = self._device_type == "cpu" and not kinds  # whole numbers, of samples to come
        if operations or (moved and not is_of_host and name != "_local_scalar_dense"):
            self._ops.append([full_name(name, args), kinds[0] if kinds else "", operations, moved])

    def _is_here(self, tensor: Any) -> bool:
        return bool(tensor.device.type == self._device_type)

    def _take_host_batch(self, tensors: list) -> bool:
        parts = [part for one in tensors if not self._is_here(one) for part in dense(one)]
        known = [self._on_host.get(part.untyped_storage()._cdata) for part in parts]
        used = {batch for batch in known if batch is not None}
        self._used |= used
        return bool(used)

    def _saw_taken(self, tensor: Any) -> None:
        """A storage that nobody saw come: of the batch, or there before."""
        for part in dense(tensor):
            address = part.untyped_storage()._cdata
            if address in self._awaited:
                self._used.add(self._awaited.pop(address))
                self._saw(part, _BATCH)
            elif address not in self._alive:
                # What nobody saw come in a later step came without an op, as an array's tensor does.
                self._saw(part, _HELD, self._before if len(self._marks) < 2 else None)

    def _saw(self, tensor: Any, purpose: int, before: list | None = None) -> bool:
        is_new = False
        for part in dense(tensor):
            storage = part.untyped_storage()
            address, size = storage._cdata, int(storage.nbytes())
            if address in self._alive or size == 0 or not self._is_here(part):
                continue
            is_new = True
            block = self._alive[address] = len(self._purposes)
            if self._device_type != "cpu":
                self._places[block] = storage.data_ptr()
            self._purposes.append(purpose)
            if part.dim() == 0 and not part.is_floating_point():
                self._numbers.add(block)
            if before is not None:
                before.append(block)
                self._size_of[block] = size
            else:
                self._events.append((block, size))
            weakref.finalize(storage, self._gone, address, block).atexit = False
        return is_new

    def _gone(self, address: int, block: int) -> None:
        self._events.append((block, -1))
        self._places.pop(block, None)
        if self._alive.get(address) == block:
            del self._alive[address]


def _summed_in_place(events: list, sums: dict) -> list:
    """Return events as they are without a dispatch mode, under which torch adds nothing in place.

    Autograd adds gradients of one tensor to the one that it alone holds, `linear` its bias to the product.
    What nobody else holds is freed right after the sum was made.

    Args:
        events: (block, bytes), -1 where it is freed.
        sums: by the block of a sum, those that it may lie in.
    """
    stands_for: dict = {}  # the block in which a sum lies
    kept: list = []
    skipped = set()  # frees that don't happen
    for place, (block, size) in enumerate(events):
        if size >= 0 and block in sums:
            held = next((one for one in sums[block] if _is_freed_next(events, place, one)), None)
            if held is not None:
                stands_for[block] = stands_for.get(held, held)
                skipped.add(held)
                continue
        if size < 0 and block in skipped:
            continue
        kept.append((stands_for.get(block, block), size))
    return kept


def _name_of(func: Any) -> str:
    """Return an op's name without namespace and overload, such as "addmm"."""
    return str(getattr(func, "_schema", func)).split("(")[0].split("::")[-1].split(".")[0]


def _is_freed_next(events: list, place: int, block: Any) -> bool:
    for other, size in itertools.islice(events, place + 1, None):
        if size >= 0:
            return False
        if other == block:
            return True
    return False


def _written(schema: Any, args: tuple) -> list:
    """Return the tensors that an op writes to and does not return, as a whole list's step does."""
    aliases = [argument.alias_info for argument in schema.arguments[: len(args)]]
    return tensors_in([args[i] for i, alias in enumerate(aliases) if alias is not None and alias.is_write])
