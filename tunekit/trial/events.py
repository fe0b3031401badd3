"""What the agents tell, read as it grows: validated line by line, bounded in size and number."""

import struct
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from tunekit.records.agent_messages import AnyEvent, parse_event

MAX_LINE_BYTES = 1 << 20
MAX_FILE_BYTES = 64 << 20
MAX_FILES = 512
_PULSE = struct.Struct("<3Q")
_MOST_FAULT_BYTES = 500
"""Of a sentence behind the numbers of a pulse."""
_MOST_COUNTED = 1 << 53


@dataclass(frozen=True)
class Pulse:
    """The last thing that a training process did, known however it ended."""

    fetching: bool
    """Whether it was waiting for a batch, rather than training on one."""
    batches: int
    steps: int
    fault: str | None = None
    """Why it could not write its last event, if it could not."""


def read_pulse(folder: Path) -> Pulse | None:
    """Return the pulse of the process that trained most, None when none has a training loop."""
    pulses = [_pulse_in(path) for path in sorted(folder.glob("pulse-*"))[:MAX_FILES]]
    known = [pulse for pulse in pulses if pulse is not None]
    return max(known, key=lambda pulse: (pulse.steps, pulse.batches), default=None)


def _pulse_in(path: Path) -> Pulse | None:
    data = _bytes_from(path, 0, _PULSE.size + _MOST_FAULT_BYTES)
    if len(data) < _PULSE.size:
        return None
    doing, batches, steps = _PULSE.unpack(data[: _PULSE.size])
    fault = data[_PULSE.size :].partition(b"\0")[0].decode("utf-8", "replace")
    return Pulse(doing == 1, batches, steps, fault or None) if max(batches, steps) < _MOST_COUNTED else None


class EventReader:
    """Reads the event files of one trial's folder incrementally.

    Attributes:
        rejected_lines: lines that were no valid event; they are left out.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[Path, int] = {}
        self._partial: dict[Path, bytes] = {}
        self._dropping: set[Path] = set()
        self.rejected_lines = 0

    def read_new(self) -> list[AnyEvent]:
        """Return the events that were completed since the last call, file by file in order."""
        events: list[AnyEvent] = []
        for path in sorted(self._folder.glob("events-*.jsonl"))[:MAX_FILES]:
            events.extend(self._read_file(path))
        return events

    def _read_file(self, path: Path) -> list[AnyEvent]:
        offset = self._offsets.get(path, 0)
        if offset >= MAX_FILE_BYTES:
            return []
        if _size_of(path) < offset:  # the script removed or emptied it, and the agent began anew
            self._offsets[path] = offset = 0
            self._partial.pop(path, None)
        fresh = _bytes_from(path, offset, MAX_FILE_BYTES)
        self._offsets[path] = offset + len(fresh)
        *lines, rest = (self._partial.get(path, b"") + fresh).split(b"\n")
        if path in self._dropping and lines:
            del lines[0]  # the end of a line that was too long
            self._dropping.discard(path)
        if path in self._dropping:
            rest = b""
        elif len(rest) > MAX_LINE_BYTES:
            self.rejected_lines += 1
            self._dropping.add(path)
            rest = b""
        self._partial[path] = rest
        return [event for line in lines if line and (event := self._parse(line)) is not None]

    def _parse(self, line: bytes) -> AnyEvent | None:
        try:
            if len(line) > MAX_LINE_BYTES:
                raise ValueError("line too long")
            return parse_event(line)
        except (ValidationError, ValueError):
            self.rejected_lines += 1
            return None


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _bytes_from(path: Path, offset: int, end: int) -> bytes:
    """Return what a file holds from an offset on; nothing when the script removed or replaced it."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as stream:
            stream.seek(offset)
            return stream.read(end - offset)
    except OSError:
        return b""
