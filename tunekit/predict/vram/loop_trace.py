"""Reads what a trial's trace of its own loop wrote down."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tunekit.records.codec import read_json
from tunekit.records.details import TraceSeen
from tunekit.records.step_trace import StepTrace

_TRACE_BYTES, _TRACE_VALUES = 64 << 20, 4_000_000
"""Of a trace file: the agent gives up at a million events, each with three figures."""


class TracedPair(NamedTuple):
    """The same steps at two batch sizes."""

    first: StepTrace
    second: StepTrace


def read_traces(traced: Iterable[tuple[TraceSeen, Path]]) -> dict[str | None, TracedPair]:
    """Return what was traced at two sizes, by what the modules ran under: None for the script's precision.

    Args:
        traced: by each trial, and where its files are.

    Raises:
        RecordError: a file is missing or can't be read.
    """
    steps: dict[str | None, dict[int, StepTrace]] = {}
    for seen, trial_folder in traced:
        for one in seen.steps:
            read = read_json(trial_folder / one.file, StepTrace, _TRACE_BYTES, _TRACE_VALUES)
            steps.setdefault(one.precision, {}).setdefault(read.batch_size, read)
    pairs = {precision: [by_size[size] for size in sorted(by_size)] for precision, by_size in steps.items()}
    return {precision: TracedPair(*pair[:2]) for precision, pair in pairs.items() if len(pair) > 1}
