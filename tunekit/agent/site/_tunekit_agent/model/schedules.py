"""Step numbers of the script's learning-rate schedules, read from its schedulers; nothing is called."""

from __future__ import annotations

import contextlib
import functools
import weakref
from typing import Any, Iterator

from ..options import after

_MAX_SCHEDULERS = 32
_MAX_NUMBERS = 64
_LARGEST = 1 << 53
_OWN_COUNTS = frozenset(("last_epoch", "T_cur", "T_i", "T_mult"))
"""Attributes of torch's schedulers that count, or that are no number of steps."""


class ScheduleWatch:
    """Knows the learning-rate schedulers of the process."""

    def __init__(self) -> None:
        self._schedulers: list = []

    def install(self, module: Any) -> None:
        """Wrap the constructors of `torch.optim.lr_scheduler`; SequentialLR calls no other's."""
        for kind in (module.LRScheduler, module.SequentialLR):
            after(kind, "__init__", self._built)

    def _built(self, _: None, scheduler: Any, *__: Any, **___: Any) -> None:
        with contextlib.suppress(TypeError):  # of a class that takes no reference
            if len(self._schedulers) < _MAX_SCHEDULERS:
                self._schedulers.append(weakref.ref(scheduler))

    def facts(self, steps: int) -> list:
        """Return the plain facts of StepNumber records; none of schedulers that are stepped once an epoch.

        Args:
            steps: that the first optimizer made.
        """
        living = [one for one in (reference() for reference in self._schedulers) if one is not None]
        try:
            moved = max((one.last_epoch for one in living), default=0)
            if moved < max(2, steps // 2):
                return []
            numbers = [
                {"source": type(one).__name__[:80], "name": name[:80], "steps": number}
                for one in living
                for name, number in _numbers_of(one)
            ]
        except Exception:  # schedulers of the script's own answer as they like
            return []
        return numbers[:_MAX_NUMBERS]


def _numbers_of(scheduler: Any) -> Iterator[tuple]:
    for name, value in vars(scheduler).items():
        if name == "lr_lambdas":
            for function in value:
                yield from _numbers_in(function)
        elif name.lstrip("_") == "milestones":
            for step in sorted(value):
                yield from _if_steps("milestones", step)
        elif not name.startswith("_") and name not in _OWN_COUNTS:
            yield from _if_steps(name, value)


def _numbers_in(function: Any) -> Iterator[tuple]:
    """Yield the named numbers that a function or a callable object computes with."""
    if isinstance(function, functools.partial):
        for name, value in function.keywords.items():
            yield from _if_steps(name, value)
        function = function.func
    code = getattr(function, "__code__", None)
    if code is None:
        for name, value in getattr(function, "__dict__", {}).items():
            yield from _if_steps(name, value)
        return
    known = {name: function.__globals__[name] for name in code.co_names if name in function.__globals__}
    for name, cell in zip(code.co_freevars, function.__closure__ or ()):  # noqa: B905 - Python 3.9
        try:
            known[name] = cell.cell_contents
        except ValueError:  # not filled yet
            continue
    defaults = function.__defaults__ or ()
    named = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    known.update({name: defaults[place] for place, name in enumerate(named)})
    for name, value in known.items():
        yield from _if_steps(name, value)
        held = getattr(value, "__dict__", {}) if not isinstance(value, type(functools)) else {}
        for attribute in code.co_names:  # such as args.total_steps
            if attribute in held:
                yield from _if_steps(attribute, held[attribute])


def _if_steps(name: str, value: Any) -> Iterator[tuple]:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 2 <= value < _LARGEST:
        yield name, round(value)
