"""Reads a recording's folder: what agent and watcher wrote so far, with its figures and findings."""

import contextlib
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pydantic

from tunekit.diagnose.recording import recording_figures
from tunekit.diagnose.registry import findings_of
from tunekit.errors import UnreadableError
from tunekit.records.agent_messages import OptionsEvent, parse_event
from tunekit.records.codec import read_json
from tunekit.records.recording import AnyInterval, HostInterval, LoopInterval, Recording, RecordingStart
from tunekit.trial.knob_names import plain_name
from tunekit.trial.recording import (
    ENDED_FILE,
    EPOCH_OPTIONS,
    HOST_FILE,
    LOOP_FILES,
    RECORDING_FILE,
    STEP_OPTIONS,
)
from tunekit.untrusted import read_bytes

_MAX_BYTES, _MAX_FILES = 4 << 20, 64
_SILENT_S = 60.0
"""A recording whose last line is older, beyond three intervals, has ended although its watcher can't say."""
_OVERLAP_S = 0.5


def load_recording(folder: Path, usd_per_h: float | None = None) -> Recording:
    """Return a recording as it stands, of a training that ended or goes on.

    Lines that are damaged, such as one that is being written, are left out.

    Args:
        folder: that agent and watcher write into.
        usd_per_h: the machine's price; by default the recorded one.

    Raises:
        RecordError: recording.json is missing, damaged or newer than this tunekit.
    """
    start = read_json(folder / RECORDING_FILE, RecordingStart)
    start = start.changed(usd_per_h=usd_per_h or start.usd_per_h)
    loop: list[LoopInterval] = []
    for one in sorted(_rows(folder, LOOP_FILES, LoopInterval), key=lambda row: row.at_s):
        if not loop or one.at_s >= loop[-1].end_s - _OVERLAP_S:  # a second process may train at the same time
            loop.append(one)
    host = list(_rows(folder, HOST_FILE, HostInterval))
    ended_at_s = None
    with contextlib.suppress(OSError):
        ended_at_s = (folder / ENDED_FILE).stat().st_mtime
    last_s = max((one.end_s for one in (*loop[-1:], *host[-1:])), default=start.started_at_s)
    silent_s = _SILENT_S + 3 * (host[-1].duration_s if host else 0.0)
    now_s = time.time()
    ended_at_s = ended_at_s or (last_s if now_s - last_s >= silent_s else None)
    options = _options(folder)
    recording = Recording(
        start=start,
        loop=tuple(loop),
        host=tuple(host),
        ended_at_s=ended_at_s,
        epochs=next((options[name] for name in EPOCH_OPTIONS if name in options), None),
        max_steps=next((options[name] for name in STEP_OPTIONS if name in options), None),
        figures=recording_figures(start, loop, host, ended_at_s or now_s),
    )
    return recording.changed(findings=tuple(findings_of(recording)))


def holds_recording(path: Path) -> bool:
    """Return whether a folder, or the file in it, is a recording's."""
    return path.name == RECORDING_FILE or (path / RECORDING_FILE).is_file()


def _rows(folder: Path, names: str, kind: type[AnyInterval]) -> Iterator[AnyInterval]:
    for line in _lines(folder, names):
        with contextlib.suppress(pydantic.ValidationError):
            yield kind.model_validate_json(line)


def _lines(folder: Path, names: str) -> Iterable[bytes]:
    for path in sorted(folder.glob(names))[:_MAX_FILES]:
        with contextlib.suppress(UnreadableError):
            yield from filter(None, read_bytes(path, _MAX_BYTES).splitlines())


def _options(folder: Path) -> dict[str, int]:
    """Return the options that tell the training's length, by their plain names."""
    found: dict[str, object] = {}
    for line in _lines(folder, "events-*.jsonl"):
        with contextlib.suppress(pydantic.ValidationError):
            event = parse_event(line)
            if isinstance(event, OptionsEvent):
                found |= {plain_name(one.name): one.value for one in event.options}
    return {
        name: int(value) for name, value in found.items() if isinstance(value, int | float) and value >= 1
    }
