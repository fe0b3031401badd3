"""Where the script waits for the device, from CUDA's synchronisation warnings."""

from __future__ import annotations

import linecache
import os
import sys
import traceback
import warnings
from collections import Counter
from typing import Any

from .runner import Missing, Stage

_BATCHES = 3
_MESSAGE = "called a synchronizing CUDA operation"
_MAX_POINTS = 64
_MAX_TEXT = 300
_LIBRARIES = tuple(f"{os.sep}{folder}{os.sep}" for folder in ("site-packages", "dist-packages"))
_AGENT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class SyncPoints(Stage):
    """Counts, over a few loop batches on a CUDA device, the places that wait for it."""

    name = "syncs"

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._torch = torch = self._loop.torch
        self._working_dir = self._loop.request.working_dir
        self._skipped = (
            os.path.dirname(getattr(torch, "__file__", "") or "?"),
            _AGENT,
            os.path.abspath(warnings.__file__),
            warnings.filterwarnings.__code__.co_filename,  # elsewhere from Python 3.14 on
            "<frozen",
        )
        self._stdlib = os.path.dirname(os.__file__) + os.sep
        self._per_turn = self._loop.batches_per_turn
        self._wanted = -(-_BATCHES // self._per_turn)  # turns
        self._is_on = self._is_complete = False
        self._mode_before: Any = None
        self._filter: Any = None
        self._show_before: Any = None
        self._show: Any = None
        self._counts: Counter = Counter()
        self._in_turn: Counter = Counter()  # of the turn at work, which may prove no batch

    def asked(self, source: Any) -> None:
        """Count until three uninterrupted batches have passed."""
        if not self._loop.on_cuda:
            self.is_over = True
            return
        self._check()
        is_whole = self._turns.asked()
        if not self._is_on:
            self._begin()
        if is_whole:
            self._counts += self._in_turn
        self._in_turn.clear()
        self.is_over = self._is_complete = self._turns.whole >= self._wanted

    def fetched(self, batch: Any) -> None:
        """Check that warnings still reach this stage; raises Missing where they don't."""
        self._check()

    def step_began(self) -> None:
        self._check()

    def step_ended(self) -> None:
        self._check()

    def leave(self) -> None:
        """Restore the debug mode, the filters and `warnings.showwarning`."""
        if not self._is_on:
            return
        self._is_on = False
        self._torch.cuda.set_sync_debug_mode(self._mode_before)
        if warnings.showwarning is self._show:
            warnings.showwarning = self._show_before
        if self._filter in warnings.filters:
            warnings.filters.remove(self._filter)  # type: ignore[attr-defined]

    def facts(self) -> list | None:
        """Return the plain facts of SyncPoint records, those that wait most often first."""
        if not self._is_complete:
            return None
        ranked = sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))
        return [
            {"where": where, "what": what, "per_batch": count / (self._turns.whole * self._per_turn)}
            for (where, what), count in ranked[:_MAX_POINTS]
        ]

    def _begin(self) -> None:
        self._mode_before = self._torch.cuda.get_sync_debug_mode()
        # First of all filters: a script may silence warnings, or raise them.
        warnings.filterwarnings("always", message=_MESSAGE)
        self._filter = warnings.filters[0]
        self._show_before = shown_before = warnings.showwarning

        def show(message, category, filename, lineno, file=None, line=None):  # type: ignore[no-untyped-def]
            if self._is_on and str(message).startswith(_MESSAGE):
                self._saw(filename, lineno)
            else:
                shown_before(message, category, filename, lineno, file, line)

        self._show = warnings.showwarning = show
        self._is_on = True
        self._torch.cuda.set_sync_debug_mode("warn")

    def _saw(self, filename: str, line: int) -> None:
        """Count one wait, by the user's innermost frame; a library's where there is none, or torch's."""
        try:
            point = self._place(filename, line)
        except Exception:  # shown from within the script's own call, which must not fail for it
            return
        if point in self._in_turn or len(self._in_turn) < 4 * _MAX_POINTS:
            self._in_turn[point] += 1

    def _check(self) -> None:
        """Raise Missing where the script catches the warnings itself: this stage would miss them."""
        if self._is_on and not (warnings.showwarning is self._show and self._is_first_filter()):
            raise Missing("the script catches warnings, which tell of the waits, while it trains")

    def _is_first_filter(self) -> bool:
        """Return whether no filter before this stage's matches CUDA's warning."""
        for one in warnings.filters:
            if one is self._filter:
                return True
            _, message, category, module, line = one
            is_meant = message is None or (hasattr(message, "match") and message.match(_MESSAGE))
            if is_meant and module is None and not line and issubclass(UserWarning, category):
                return False
        return False

    def _place(self, filename: str, line: int) -> tuple:
        """Return where the wait is and what is called there: the user's line, and the library's function.

        Where a library's trainer waits, this is the user's line that calls the library.
        """
        within, library = "", None
        for frame, at in traceback.walk_stack(sys._getframe(1)):
            name = frame.f_code.co_filename
            is_library = name.startswith(self._stdlib) or any(folder in name for folder in _LIBRARIES)
            if name.startswith(self._skipped):
                if name.startswith(self._skipped[0]) and not within:  # torch
                    within = _function(frame)
            elif not is_library:
                return self._shown(name, at, within)
            elif library is None:
                library = self._shown(name, at, within)
                within = _function(frame)  # nearer to the user than torch's
        return library or self._shown(filename, line, within)

    def _shown(self, name: str, line: int, within: str) -> tuple:
        is_inside = name.startswith(self._working_dir + os.sep)
        shown = os.path.relpath(name, self._working_dir) if is_inside else name
        source = linecache.getline(name, line).strip()
        if within:
            source = f"{source} (in {within})" if source else within
        return f"{shown}:{line}"[-_MAX_TEXT:], (source or "n/a")[:_MAX_TEXT]


def _function(frame: Any) -> str:
    """Return a function such as "transformers.trainer.Trainer.train"; with its class from Python 3.11 on."""
    code = frame.f_code
    return f"{frame.f_globals.get('__name__', 'n/a')}.{getattr(code, 'co_qualname', code.co_name)}"
