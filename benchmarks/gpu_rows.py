"""What a part of gpu_check.py is given, and where its rows go: a Markdown file that grows row by row."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tunekit.records.host import Accelerator, Host

Add = Callable[[str, str, bool | None], None]
"""Adds one row: what is checked, its figure, and whether it holds (None for a figure without a verdict)."""

_VERDICTS = {True: "ok", False: "FAILED", None: ""}


@dataclass(frozen=True)
class Rows:
    """A results file, which any number of calls append to.

    Attributes:
        path: of the file.
        is_simulated: whether the device is a simulation, whose figures never stand among real ones.
    """

    path: Path
    is_simulated: bool

    def begin(self, part: str, device: str) -> None:
        """Begin the table of a part, with the date and the device."""
        when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
        simulated = ", simulated" * self.is_simulated
        self.write(
            f"\n## {part}: {when}, {device}{simulated}\n\n| check{simulated} | figure | |\n|---|---|---|\n"
        )

    def add(self, check: str, figure: str, passed: bool | None) -> None:
        """Write and print one row."""
        cells = [" / ".join(text.replace("|", r"\|").splitlines()) for text in (check, figure)]
        self.write(f"| {' | '.join([*cells, _VERDICTS[passed]])} |\n")

    def write(self, text: str) -> None:
        """Append text to the file and print it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text)
        print(text, end="", flush=True)

    def size_bytes(self) -> int:
        """Return the length of the file, 0 before it is there."""
        return self.path.stat().st_size if self.path.exists() else 0

    def failed_since(self, size_bytes: int) -> int:
        """Return how many rows that were written since the file had this length are failed checks."""
        return self.path.read_bytes()[size_bytes:].count(f" {_VERDICTS[False]} |\n".encode())


@dataclass(frozen=True)
class Job:
    """What a part is given.

    Attributes:
        add: takes its rows.
        host: this machine, which has a GPU.
        folder: for the part's own files; removed afterwards.
        models: to predict the memory of.
        traces_on_cpu: predict as a machine without a GPU does.
        budget: of the search.
    """

    add: Add
    host: Host
    folder: Path
    models: Sequence[str]
    traces_on_cpu: bool
    budget: str

    @property
    def gpu(self) -> Accelerator:
        """The first GPU, which is the one that is checked."""
        return self.host.accelerators[0]
