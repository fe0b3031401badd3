"""What takes a GPU's memory, as a bar of letters. Pure."""

from collections.abc import Iterable

from tunekit.records.prediction import OutsideTorch, PredictedFit, Purpose

_FREE = "."
_LEGEND = {
    "P": "parameters and buffers",
    "G": "gradients",
    "O": "optimizer state",
    "B": "batch",
    "A": "activations",
    "W": "workspaces (at most)",
    "H": "held by the script",
    "C": "CUDA context (at most)",
    _FREE: "free or cached",
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
    """Return what takes a GPU's memory at the peak of the largest batch with margin, in so many letters.

    Each stands for a part of it; what takes less than a letter may be left out, and of what lies outside
    torch's tensors the most is shown. A fit without a peak has no bar.
    """
    if fit.peak is None:
        return ""
    sizes = dict.fromkeys(_LEGEND, 0)
    for purpose, size_bytes in fit.peak.by_purpose.items():
        sizes[_LETTERS[purpose]] += size_bytes
    sizes["W"] += outside.workspace.high
    sizes["C"] += outside.context.high
    sizes[_FREE] = max(0, fit.capacity_bytes - sum(sizes.values()))
    total = sum(sizes.values())
    counts = {letter: width * size // total for letter, size in sizes.items()}
    rests = sorted(sizes, key=lambda letter: width * sizes[letter] % total, reverse=True)
    for letter in rests[: width - sum(counts.values())]:  # letters left over go to the largest rests
        counts[letter] += 1
    return "".join(letter * count for letter, count in counts.items())


def legend_text(bars: Iterable[str]) -> str:
    """Return what the letters of bars stand for, such as "P parameters and buffers, A activations"."""
    shown = set("".join(bars))
    return ", ".join(f"{letter} {meaning}" for letter, meaning in _LEGEND.items() if letter in shown)
