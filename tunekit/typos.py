"""What a mistyped name was probably meant to be."""

import difflib
from collections.abc import Iterable

_MOST = 3
"""Names that a hint offers."""
_LEAST_LIKENESS = 0.7
"""By difflib's ratio. Lower, --bugdet is near to --out: the dashes count."""


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return a hint such as "did you mean a10 or a10g?", or `otherwise` where no known name is near."""
    near = difflib.get_close_matches(name, list(known), n=_MOST, cutoff=_LEAST_LIKENESS)
    return f"did you mean {' or '.join(near)}?" if near else otherwise
