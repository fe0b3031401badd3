"""What a mistyped name was probably meant to be."""

import difflib
from collections.abc import Iterable

_MOST = 3
"""Names that a hint offers."""
_LEAST_LIKENESS = 0.7
"""By difflib's ratio. Lower, --bugdet is near to --out: the dashes count."""
_LEAST_LETTERS = 2
"""Of a name that is cut short."""


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return a hint such as "did you mean a10 or a10g?", or `otherwise` where no known name is near.

    Of a name that was cut short, what it is the beginning of is near.
    """
    names = list(known)
    begun = [one for one in names if one.startswith(name)] if len(name.lstrip("-")) >= _LEAST_LETTERS else []
    near = begun or difflib.get_close_matches(name, names, n=_MOST, cutoff=_LEAST_LIKENESS)
    return f"did you mean {' or '.join(near[:_MOST])}?" if near else otherwise
