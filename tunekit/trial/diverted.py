"""The copies of the user's files that a trial wrote to in their place: kept, within limits."""

import os
import shutil
from pathlib import Path

from tunekit.trial.watch import plain
from tunekit.units import bytes_text

DIVERTED = "diverted"
"""In the trial's folder."""

MOST_BYTES = 64 << 20
"""Of all copies of one trial: checkpoints of every trial of a search would fill the disk."""

_MOST_TOLD = 8


def bound_in_size(folder: Path) -> list[str]:
    """Remove the largest copies until the rest is within MOST_BYTES, and return a line that says which.

    Args:
        folder: of the copies; it need not be there.
    """
    sizes = {
        path: _disk_bytes(path) for path in folder.rglob("*") if path.is_file() and not path.is_symlink()
    }
    total_bytes = sum(sizes.values())
    removed = []
    for path in sorted(sizes, key=lambda path: sizes[path], reverse=True):
        if total_bytes <= MOST_BYTES:
            break
        path.unlink(missing_ok=True)
        total_bytes -= sizes[path]
        removed.append(f"{path.relative_to(folder)} ({bytes_text(sizes[path])})")
    if not sizes:
        shutil.rmtree(folder, ignore_errors=True)
    if not removed:
        return []
    told = ", ".join(removed[:_MOST_TOLD]) + (" and others" if len(removed) > _MOST_TOLD else "")
    return [plain(f"copies beyond {bytes_text(MOST_BYTES)} are not kept in {folder.name}/: {told}")[:1000]]


def _disk_bytes(path: Path) -> int:
    try:
        return os.lstat(path).st_blocks * 512
    except OSError:
        return 0
