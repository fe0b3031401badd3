"""Where a run lay, for readers elsewhere: the home folder shortened, the machine's name left out. Pure."""

import re
from collections.abc import Callable
from pathlib import Path

from tunekit.records.base import with_texts
from tunekit.records.run import Run

HIDDEN_NAME = "hidden"
"""Stands for the name of the machine."""

_HOMES = (r"/(?:home|Users)/[^/\s'\":,;()\[\]]+", "/root")
"""Where systems keep them: a run may be shown on another machine than it was made on."""


def shortener(home: Path) -> Callable[[str], str]:
    """Return what writes `~` for a home folder in a text.

    Args:
        home: of the user who writes the report.
    """
    own = (re.escape(str(home)),) if len(home.parts) > 1 else ()
    places = re.compile(rf"(?:(?<![\w/.~-])|(?<=://))(?:{'|'.join((*own, *_HOMES))})(?=[/\s'\":,;()\[\]]|$)")
    return lambda text: places.sub("~", text)


def without_places(run: Run, home: Path) -> Run:
    """Return the run as it is shown to others: without home folders and the name of the machine."""
    host = run.host.changed(hostname=HIDDEN_NAME)
    return with_texts(run.changed(host=host), shortener(home))
