"""Blocks as HTML fragments; charts are drawn by the page's script."""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tunekit.plain_text import shown_value
from tunekit.report.blocks import Basis, Block, TrialState, has_content
from tunekit.report.charts import chart_table

_SIGNS = {
    TrialState.FAILED: "\u00d7",
    TrialState.REFUSED: "\u2013",
    TrialState.ABANDONED: "\u25cb",
    TrialState.MEASURED: "\u25cf",
}
"""A sign for each state, so that colour is never the only one."""
_HEADED = ("time_breakdown", "telemetry", "throughput", "history", "Environment")
"""Charts by id and other blocks by title whose title repeats the heading above them."""


def fragment(blocks: Sequence[Block]) -> str:
    """Return blocks as a piece of HTML, without charts, scripts and styles."""
    macros = templates().get_template("blocks.html").module
    return f"<div>{''.join(drawn(macros, [block for block in blocks if has_content(block)], count()))}</div>"


def drawn(macros: Any, blocks: Sequence[Block], ids: Iterator[int]) -> list[str]:
    """Return the HTML of each block."""
    return [
        getattr(macros, name_of(block))(
            block,
            id=f"block-{next(ids)}",
            titled=not {getattr(block, name, None) for name in ("id", "title")}.intersection(_HEADED),
        )
        for block in blocks
    ]


def name_of(block: Block) -> str:
    """Return the name of the macro in blocks.html that draws a block."""
    return type(block).__name__.lower()


def templates() -> Environment:
    """Return the templates, which escape every text."""
    environment = Environment(
        loader=PackageLoader("tunekit.report.html", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown_value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # What is shown of any text has no line breaks, so one that a template writes is marked as safe.
    environment.globals.update(
        newline=Markup("\n"), signs=_SIGNS, predicted=Basis.PREDICTED, chart_table=chart_table
    )
    return environment
