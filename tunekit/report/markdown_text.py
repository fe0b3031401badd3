"""Any text as GitHub's Markdown that reads as that text: no markup, mention, reference or link. Pure."""

import re
from collections.abc import Sequence

from tunekit.plain_text import printable

_APART = "\u200b"
"""A space of no width: GitHub looks for names and references after Markdown's own escapes are gone."""

_MARKUP = re.compile(r"[\\`*\[\]<|~]|&(?=[#\w])|(?<!\S)#|(?<![^\W_])_|_(?![^\W_])")
"""An underscore within a word is none, nor is a # after other letters."""
_LINE_STARTS = re.compile(r"^(?:[>+=-]|\d+(?=[.)](?:\s|$)))")
"""What would begin a quote, a list or a line below a heading."""
_REFERENCES = re.compile(
    r"(?<=@)(?=\w)|(?<=#)(?=\d)|(?<=\bgh-)(?=\d)|(?<=:)(?=//)|(?<=\bwww)(?=\.)|(?<=:)(?=[\w+-]+:)",
    re.IGNORECASE,
)
"""Where a mention, an issue, an address or an emoji is kept apart."""
_DOLLAR = "<span>$</span>"
"""Two plain ones would be a formula to GitHub."""


def as_text(text: str) -> str:
    """Return one line of Markdown that is shown as the text, letter by letter."""
    marked = _MARKUP.sub(r"\\\g<0>", _REFERENCES.sub(_APART, printable(text).strip()))
    start = _LINE_STARTS.match(marked)
    if start is not None:
        at = start.end() if marked[start.end() - 1].isdigit() else start.start()
        marked = f"{marked[:at]}\\{marked[at:]}"
    marked = marked.replace(_APART, f"&#{ord(_APART)};")
    return marked.replace("$", _DOLLAR) if marked.count("$") > 1 else marked


def clipped(text: str, most: int) -> str:
    """Return a text as `as_text` does, of at most so many letters: what is left out is counted."""
    kept = text
    while len(as_text(kept)) > most:
        kept = kept[: min(len(kept) // 2, most)]
    left_out = len(text) - len(kept)
    return as_text(kept) + (f" ... ({left_out:,} letters more)" if left_out else "")


def as_code(text: str) -> str:
    """Return a text as code within a line."""
    plain = printable(text)
    mark = "`" * (_longest_run(plain, "`") + 1)
    space = " " if not plain or plain[0] in "` " or plain[-1] in "` " else ""
    return f"{mark}{space}{plain}{space}{mark}"


def code_block(lines: Sequence[str], language: str = "") -> list[str]:
    """Return lines as a block of code; its fence is longer than any in them."""
    fence = "`" * max(3, 1 + max((_longest_run(line, "`") for line in lines), default=0))
    return [f"{fence}{language}", *(printable(line) for line in lines), fence]


def _longest_run(text: str, letter: str) -> int:
    return max((len(run) for run in re.findall(f"{re.escape(letter)}+", text)), default=0)
