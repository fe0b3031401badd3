"""Runs a script's own steps without their arithmetic: every op gives tensors of the right shape, unfilled.

The tensors are the script's own kind, on the CPU, with storages that nobody writes to: the kernel gives them
no memory until somebody does. So autograd, optimizers, hooks and `.item()` work as always, while a step of
any model takes milliseconds. What an op would give is asked of torch's fake tensors, once for each op and
shape. What they can't tell (custom kernels without a fake version, shapes that depend on values) runs for
real.

Real too are ops on whole numbers and masks, since shapes and branches hang on them, and on a few floats, such
as a step counter or a clipping factor. Floats that were never computed read as ones where they are few; for
comparisons each is taken for a one.
"""

from __future__ import annotations

import importlib
import math
from typing import Any, Callable

from .dispatch import mode_for, tensors_in
from .op_costs import WRITES_NOTHING

_FEW_FLOATS = 16
"""Elements of each tensor up to which floats are computed."""
_MAX_WHOLE_NUMBERS = 1 << 24
"""Elements up to which whole numbers and masks are computed, or zeroed."""
_FILLED = 1 << 12
"""Elements up to which floats that nobody computed read as one."""
_REAL = (
    "_local_scalar_dense",
    "lift_fresh",
    "_pin_memory",
    "is_pinned",
    "set_",
    "_resize_output_",
    *WRITES_NOTHING,
)
_AS_ITSELF, _AS_ARGUMENT, _AS_TENSOR = 0, 1, 2


class _IsView(Exception):  # noqa: N818 - says what is the case
    """An op costs nothing, as it computes nothing."""


class DrySteps:
    """Skips the arithmetic of ops on CPU tensors while it is entered.

    Args:
        is_fetching: whether a loader makes a batch in this thread: its ops are the data set's own, and run.
    """

    def __init__(self, torch: Any, is_fetching: Callable[[], bool]) -> None:
        self._torch = torch
        self._is_fetching = is_fetching
        self._mode: Any = None
        self._fakes: Any = None
        self._made: dict = {}  # by op and arguments' shapes: what it gives, None where that is not known
        self._by_op: dict = {}  # what is known of each op

    @property
    def is_entered(self) -> bool:
        return self._mode is not None

    def enter(self) -> None:
        if self._mode is None:
            self._pytree = importlib.import_module(f"{self._torch.__name__}.utils._pytree")
            fakes = importlib.import_module(f"{self._torch.__name__}._subclasses.fake_tensor")
            self._fakes = (fakes.FakeTensorMode(), fakes.FakeTensor)
            self._mode = mode_for(self._torch, self.run)
            self._mode.__enter__()

    def leave(self) -> None:
        """Compute again; where a mode of the script's covers this one, it lets everything through."""
        mode, self._mode = self._mode, None
        if mode is not None:
            mode.leave()

    def run(self, func: Any, args: tuple, kwargs: dict) -> Any:
        """Return what an op gives, without its arithmetic where that is no matter."""
        known = self._by_op.get(func) or self._by_op.setdefault(func, _Op(self._torch, func))
        if known.is_real or self._is_fetching():
            return func(*args, **kwargs)
        tensors = tensors_in((args, kwargs))
        if not all(self._is_plain(one) for one in tensors):
            return func(*args, **kwargs)
        has_floats = any(one.is_floating_point() or one.is_complex() for one in tensors)
        if has_floats and known.gives_nothing and any(one.numel() > _FEW_FLOATS for one in tensors):
            return None
        if has_floats and all(one.numel() <= _FEW_FLOATS for one in tensors):
            return self._computed(func, args, kwargs, tensors)
        forms = None if known.gives_nothing else self._forms(func, args, kwargs, tensors)
        if forms is None or (not has_floats and _is_few_numbers(forms[0])):
            return func(*args, **kwargs)
        return self._given(func, args, kwargs, forms)

    # --- what an op gives ------------------------------------------------------------------

    def _computed(self, func: Any, args: tuple, kwargs: dict, tensors: list) -> Any:
        try:
            return func(*args, **kwargs)
        except Exception:
            forms = self._forms(func, args, kwargs, tensors)
            if forms is None:
                raise
            return self._given(func, args, kwargs, forms)

    def _given(self, func: Any, args: tuple, kwargs: dict, forms: tuple) -> Any:
        leaves, structure = forms
        if all(kind == _AS_TENSOR and what[2] is self._torch.bool for kind, what in leaves):
            return self._compared(func, args, kwargs, leaves, structure)
        arguments = tensors_in((args, kwargs))

        def given(kind: int, what: Any) -> Any:
            if kind == _AS_TENSOR:
                return self._unfilled(*what)
            return arguments[what] if kind == _AS_ARGUMENT else what

        return self._pytree.tree_unflatten([given(*leaf) for leaf in leaves], structure)

    def _unfilled(self, size: tuple, stride: tuple, dtype: Any) -> Any:
        torch = self._torch
        made = torch.empty_strided(size, stride, dtype=dtype)
        is_float = dtype.is_floating_point or dtype.is_complex
        if is_float and made.numel() <= _FILLED:
            made.fill_(1)
        elif not is_float and made.numel() <= _MAX_WHOLE_NUMBERS:
            made.zero_()
        return made

    def _compared(self, func: Any, args: tuple, kwargs: dict, leaves: list, structure: Any) -> Any:
        """Compute masks of floats as if every one of those were one."""
        torch = self._torch

        def as_ones(item: Any) -> Any:
            if not isinstance(item, torch.Tensor) or not item.is_floating_point() or item.dim() == 0:
                return item
            return torch.ones((), dtype=item.dtype).expand(item.shape)

        if all(math.prod(what[0]) <= _MAX_WHOLE_NUMBERS for _, what in leaves):
            try:
                args, kwargs = self._pytree.tree_map(as_ones, (args, kwargs))
                return func(*args, **kwargs)
            except Exception:  # an in-place op, or one of the script's own, may refuse ones: all is true then
                pass
        given = [torch.ones(what[0], dtype=torch.bool) for _, what in leaves]
        return self._pytree.tree_unflatten(given, structure)

    def _forms(self, func: Any, args: tuple, kwargs: dict, tensors: list) -> Any:
        try:
            key = (func, _signature(self._torch, args), _signature(self._torch, kwargs))
            if key in self._made:
                return self._made[key]
        except Exception:  # an argument that has no hash, or does not compare
            key = None
        try:
            forms = self._asked_of_fakes(func, args, kwargs, tensors)
        except Exception:  # no fake version, a shape that depends on values, or a view
            forms = None
        if key is not None:
            self._made[key] = forms
        return forms

    def _asked_of_fakes(self, func: Any, args: tuple, kwargs: dict, tensors: list) -> tuple:
        torch, (mode, fake_class) = self._torch, self._fakes
        metas = [
            torch.empty_strided(one.size(), one.stride(), dtype=one.dtype, device="meta") for one in tensors
        ]
        written = _written(func, args, kwargs, tensors)
        with mode:
            fakes = [fake_class(mode, meta, torch.device("cpu")) for meta in metas]
            by_id = {id(one): fake for one, fake in zip(tensors, fakes)}  # noqa: B905 - Python 3.9

            def faked(item: Any) -> Any:
                return by_id.get(id(item), item) if isinstance(item, torch.Tensor) else item

            args, kwargs = self._pytree.tree_map(faked, (args, kwargs))
            made = func(*args, **kwargs)
        places = {id(fake): place for place, fake in enumerate(fakes)}
        storages = {fake.untyped_storage()._cdata for fake in fakes}
        leaves, structure = self._pytree.tree_flatten(made)
        forms = []
        for number, leaf in enumerate(leaves):
            if not isinstance(leaf, torch.Tensor):
                forms.append((_AS_ITSELF, leaf))
            elif id(leaf) in places or number in written:
                forms.append((_AS_ARGUMENT, places.get(id(leaf), written.get(number))))
            elif leaf.untyped_storage()._cdata in storages:
                raise _IsView(f"{func} gives a part of what it takes, which its schema does not say")
            else:
                size, stride = tuple(map(int, leaf.size())), tuple(map(int, leaf.stride()))
                forms.append((_AS_TENSOR, (size, stride, leaf.dtype)))
        return forms, structure

    def _is_plain(self, tensor: Any) -> bool:
        torch = self._torch
        return (
            type(tensor) in (torch.Tensor, torch.nn.Parameter)
            and tensor.device.type == "cpu"
            and tensor.layout is torch.strided
            and not tensor.is_quantized
            and not getattr(tensor, "is_nested", False)
        )


class _Op:
    """What its schema says of an op.

    Attributes:
        is_real: it costs nothing: a view, an empty tensor, a question.
        gives_nothing: it only writes to what it takes.
    """

    def __init__(self, torch: Any, func: Any) -> None:
        schema = getattr(func, "_schema", None)
        space, _, name = str(getattr(schema, "name", "")).rpartition("::")
        returns = list(getattr(schema, "returns", ()))
        aliases = [one.alias_info for one in returns]
        is_view = any(alias is not None and not alias.is_write for alias in aliases)
        is_inplace_view = torch.Tag.inplace_view in getattr(func, "tags", ())
        takes_tensors = any("Tensor" in str(one.type) for one in getattr(schema, "arguments", ()))
        is_question = not name or (space != "aten" and not takes_tensors)  # as one of torch's profiler
        self.is_real = is_question or is_view or is_inplace_view or name in _REAL
        self.gives_nothing = not returns and bool(getattr(schema, "is_mutable", False))


def _written(func: Any, args: tuple, kwargs: dict, tensors: list) -> dict:
    """Return which tensor each result is that an op writes to and returns, by the result's place."""
    schema = func._schema
    by_name = {}
    for place, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            item = args[place] if place < len(args) else kwargs.get(argument.name)
            by_name[frozenset(argument.alias_info.before_set)] = item
    found = {}
    for number, result in enumerate(schema.returns):
        if result.alias_info is not None and result.alias_info.is_write:
            item = by_name.get(frozenset(result.alias_info.before_set))
            place = next((place for place, one in enumerate(tensors) if one is item), None)
            if place is not None:
                found[number] = place
    return found


def _is_few_numbers(leaves: list) -> bool:
    return all(kind != _AS_TENSOR or math.prod(what[0]) <= _MAX_WHOLE_NUMBERS for kind, what in leaves)


def _signature(torch: Any, item: Any) -> Any:
    if isinstance(item, torch.Tensor):
        return tuple(item.size()), item.stride(), item.dtype
    if isinstance(item, (list, tuple)):
        return tuple(_signature(torch, part) for part in item)
    if isinstance(item, dict):
        return tuple((key, _signature(torch, part)) for key, part in item.items())
    return type(item), item
