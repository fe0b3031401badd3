"""Finds two sizes' traces that are of the same steps: now and then a step does more, as writing a log."""

from __future__ import annotations

import itertools
from typing import Any

_MOST = 8
"""Traces at one precision, until its steps are taken to differ by their size."""
_ALONE = 3
"""Traces of one size alone: the usual steps are what most of them are."""


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
            return None if made[0] >= _ALONE else next(iter(self._by_size))
        if all(made) and (self.are_found or sum(made) >= _MOST):
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
