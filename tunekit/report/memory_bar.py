"""A GPU's memory as a bar of letters. Pure."""

from collections.abc import Iterable, Sequence

from tunekit.records.prediction import OutsideTorch, PredictedFit
from tunekit.records.step_trace import Purpose

FREE = "."

LEGEND = {
    "P": "parameters and buffers",
    "G": "gradients",
    "O": "optimizer state",
    "B": "batch",
    "A": "activations",
    "W": "workspaces (most)",
    "H": "held by the script",
    "C": "outside torch (most)",
    FREE: "free or cached",
}
"""What each letter stands for, in the order of the bar."""

_LETTERS = {
    Purpose.PARAMETERS: "P",
    Purpose.BUFFERS: "P",
    Purpose.GRADIENTS: "G",
    Purpose.OPTIMIZER: "O",
    Purpose.BATCH: "B",
    Purpose.ACTIVATIONS: "A",
    Purpose.WORKSPACE: "W",
    Purpose.HELD: "H",
}


def memory_bar(fit: PredictedFit, outside: OutsideTorch, width: int) -> str:
    """Return what a GPU's memory is taken by at the peak, a letter for each part of it.

    What takes less than a letter may be left out; a fit without a peak has no bar.

    Args:
        fit: of the GPU.
        outside: what its memory holds beside torch's tensors; the most of it is shown.
        width: letters of the whole memory.
    """
    if fit.peak is None:
        return ""
    sizes = dict.fromkeys(LEGEND, 0)
    for purpose, size_bytes in fit.peak.by_purpose.items():
        sizes[_LETTERS[purpose]] += size_bytes
    sizes["W"] += outside.workspace.high
    sizes["C"] += outside.context.high
    sizes[FREE] = max(0, fit.capacity_bytes - sum(sizes.values()))
    return _drawn([*sizes.items()], width)


def legend_text(bars: Iterable[str]) -> str:
    """Return what the letters of bars stand for, such as "P parameters and buffers, A activations"."""
    shown = set("".join(bars))
    return ", ".join(f"{letter} {meaning}" for letter, meaning in LEGEND.items() if letter in shown)


def _drawn(parts: Sequence[tuple[str, int]], width: int) -> str:
    """Return the letters in proportion; those that are left over go to the largest rests."""
    total = sum(size for _, size in parts)
    counts = [width * size // total for _, size in parts]
    rests = sorted(range(len(parts)), key=lambda place: width * parts[place][1] % total, reverse=True)
    for place in rests[: width - sum(counts)]:
        counts[place] += 1
    return "".join(letter * count for (letter, _), count in zip(parts, counts, strict=True))
