"""What the devices of a simulation did, as SIMGPU_TRACE has it written."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from simgpu.errors import SimgpuError

Engine = Literal["compute", "h2d", "d2h"]


@dataclass(frozen=True)
class Work:
    """A kernel or a copy, from its begin on its engine to its end."""

    pid: int
    begin_ns: int
    """On CLOCK_MONOTONIC, which Python has as time.monotonic_ns()."""
    end_ns: int
    device: int
    """Place in the driver's order."""
    stream: int
    """0 is the default stream."""
    engine: Engine
    bytes: int
    name: str

    @property
    def duration_ns(self) -> int:
        """How long its engine was taken."""
        return self.end_ns - self.begin_ns


def read_trace(folder: Path) -> list[Work]:
    """All work of all processes, in the order of its begins; none when nothing was written.

    Raises:
        SimgpuError: A line is not one of a trace. A last line that was cut off with its process is left out.
    """
    work = [one for path in sorted(folder.glob("*.tsv")) for one in _read_file(path)]
    return sorted(work, key=lambda one: (one.begin_ns, one.end_ns))


def busy_ns(work: list[Work]) -> int:
    """How long at least one piece of this work was under way."""
    busy, until = 0, 0
    for one in sorted(work, key=lambda one: one.begin_ns):
        busy += max(0, one.end_ns - max(one.begin_ns, until))
        until = max(until, one.end_ns)
    return busy


def _read_file(path: Path) -> list[Work]:
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
    work = []
    for number, line in enumerate(lines, 1):
        try:
            begin, end, device, stream, engine, size, name = line.split("\t", 6)
            one = Work(
                pid=int(path.stem),
                begin_ns=int(begin),
                end_ns=int(end),
                device=int(device),
                stream=int(stream),
                engine=cast(Engine, engine),
                bytes=int(size),
                name=name,
            )
        except ValueError as error:
            raise SimgpuError(f"{path}:{number} is no line of a trace: '{line[:200]}'") from error
        work.append(one)
    return work
