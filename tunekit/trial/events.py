"""What the agents tell, read as it grows: validated line by line, bounded in size and number."""

from pathlib import Path

from pydantic import ValidationError

from tunekit.records.agent_messages import AnyEvent, parse_event

MAX_LINE_BYTES = 1 << 20
MAX_FILE_BYTES = 64 << 20
MAX_FILES = 512


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
        fresh = _bytes_from(path, offset)
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


def _bytes_from(path: Path, offset: int) -> bytes:
    """Return what a file holds from an offset on; nothing when the script removed or replaced it."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as stream:
            stream.seek(offset)
            return stream.read(MAX_FILE_BYTES - offset)
    except OSError:
        return b""
