"""What a mistyped name was probably meant to be."""

import difflib
from collections.abc import Iterable

_MAX_NAMES = 3
"""Names that a hint offers."""
_MIN_LIKENESS = 0.65
"""By difflib's ratio, dashes left out."""
_MIN_LETTERS = 2
"""Of a name that is cut short."""


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return a hint such as "did you mean a10 or a10g?", or `otherwise` where no known name is near.

    Of a name that was cut short, what it is the beginning of is near.
    """
    names = list(known)
    begun = [one for one in names if one.startswith(name)] if len(name.lstrip("-")) >= _MIN_LETTERS else []
    plain = {one.lstrip("-"): one for one in names}  # or the dashes make --windwo like --bind
    alike = difflib.get_close_matches(name.lstrip("-"), plain, n=_MAX_NAMES, cutoff=_MIN_LIKENESS)
    near = begun or [plain[one] for one in alike]
    return f"did you mean {' or '.join(near[:_MAX_NAMES])}?" if near else otherwise
