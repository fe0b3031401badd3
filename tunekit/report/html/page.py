"""A report as one HTML file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from tunekit.plain_text import shown_value
from tunekit.report.blocks import (
    Basis,
    Block,
    Changes,
    Chart,
    Commands,
    Facts,
    FoundBlock,
    HeatMap,
    Lead,
    Line,
    Note,
    Passage,
    Report,
    Section,
    Table,
    TrialState,
    TrialTable,
    has_content,
)
from tunekit.report.charts.charts import chart_table
from tunekit.report.figures import DARK_OF, figure
from tunekit.report.html.embedded import (
    escaped_json,
    own_file,
    packed,
    packed_plotly,
    plotly_banner,
    plotly_script,
    plotly_styles,
    policy,
    script_json,
)
from tunekit.units import bytes_text

_MOST_BYTES = 6_000_000
"""What a page may take with its raw data."""
_SIGNS = {
    TrialState.FAILED: "\u00d7",
    TrialState.REFUSED: "\u2013",
    TrialState.ABANDONED: "\u25cb",
    TrialState.MEASURED: "\u25cf",
}
"""Signs of what came of a trial, failures first; colour is never the only sign."""
_MACROS = {
    Lead: "lead",
    Line: "line",
    Changes: "changes",
    Facts: "facts",
    Passage: "passage",
    Table: "table_of",
    Chart: "chart",
    HeatMap: "chart",
    TrialTable: "trials",
    FoundBlock: "found",
    Note: "note",
    Commands: "commands",
}
"""What draws a block, in blocks.html."""
_HEADED = ("time_breakdown", "throughput", "history", "Environment", "Next")
"""Charts by id, and other blocks by title, whose title the heading above them says."""


@dataclass(frozen=True)
class _Part:
    """What stands below one heading of the page."""

    section: Section
    blocks: tuple[Block, ...]


def page(report: Report, raw_json: bytes = b"", raw_name: str = "run.json") -> str:
    """Return the report as a page that needs nothing else: no network, no other file.

    Where it has charts it carries plotly.js once, packed; and the record, unless the page would take more
    than 6 MB with it. The same report and bytes give the same page.

    Args:
        report: what it shows.
        raw_json: the record itself, for those who want to check a number; none if empty.
        raw_name: of its file.
    """
    answer, *parts = _by_section(report)
    charts = [block for block in report.blocks if isinstance(block, Chart | HeatMap)]
    trials = next((block for block in report.blocks if isinstance(block, TrialTable)), None)
    style, script, plotly = own_file("page.css"), own_file("page.js"), packed_plotly() if charts else ""
    templates = _templates()
    macros, ids = templates.get_template("blocks.html").module, count()
    bodies = ["".join(_drawn(macros, part.blocks, ids)) for part in parts]
    kinds = {
        name: _drawn(macros, [block for block in answer.blocks if _kind(block) == name], ids)
        for name in ("changes", "line", "quiet", "other")
    }
    figures, ranks = _figures_json(charts), script_json(sort_ranks(trials) if trials else [])
    raw = packed(raw_json)
    carried = (*bodies, figures, ranks, style, script, plotly)
    fits = sum(len(one.encode("utf-8")) for one in carried) + len(raw) < _MOST_BYTES
    return templates.get_template("page.html").render(
        title=report.title,
        leads=[block.text for block in answer.blocks if isinstance(block, Lead)],
        answer=kinds,
        parts=list(zip((part.section for part in parts), bodies, strict=True)),
        # An empty style is where plotly.js puts the rules of its own that it writes one by one.
        policy=policy((*((plotly_script(),) if charts else ()), script), (style, "")),
        style=style,
        script=script,
        charts=figures,
        ranks=ranks,
        plotly=plotly,
        plotly_banner=plotly_banner(),
        plotly_styles=plotly_styles() if charts else (),
        raw=raw if fits else None,
        raw_size=bytes_text(len(raw_json)) if raw_json else "",
        raw_name=raw_name,
        has_basis=any(getattr(block, "basis", None) or block in charts for block in report.blocks),
        has_trials=trials is not None,
    )


def _by_section(report: Report) -> list[_Part]:
    parts = [_Part(Section("answer", report.title, "Answer"), ())]
    for block in filter(has_content, report.blocks):
        if isinstance(block, Section):
            parts.append(_Part(block, ()))
        else:
            parts[-1] = _Part(parts[-1].section, (*parts[-1].blocks, block))
    return [part for place, part in enumerate(parts) if part.blocks or not place]


def _drawn(macros: Any, blocks: Sequence[Block], ids: Iterator[int]) -> list[str]:
    return [
        getattr(macros, _MACROS[type(block)])(
            block,
            id=f"block-{next(ids)}",
            titled=not {getattr(block, name, None) for name in ("id", "title")}.intersection(_HEADED),
        )
        for block in blocks
    ]


def _kind(block: Block) -> str:
    match block:
        case Line(is_quiet=True):
            return "quiet"
        case Lead() | Line() | Changes():
            return _MACROS[type(block)]
        case _:
            return "other"


def _figures_json(charts: Sequence[Chart | HeatMap]) -> str:
    """Return all charts with the colour for dark of each, for the script element that holds them."""
    figures = ",".join(f"{script_json(one.id)}:{escaped_json(figure(one).to_json())}" for one in charts)
    return f'{{"darkOf":{script_json(DARK_OF)},"figures":{{{figures}}}}}'


def sort_ranks(table: TrialTable) -> list[list[int | None]]:
    """Return for every column the rank of each row's key; equal keys have equal ranks, None has none."""
    return [_ranks([row.keys[place] for row in table.rows]) for place in range(len(table.columns))]


def _ranks(keys: Sequence[float | str | None]) -> list[int | None]:
    known = sorted({key for key in keys if key is not None}, key=_order)
    rank = {key: place for place, key in enumerate(known)}
    return [None if key is None else rank[key] for key in keys]


def _order(key: float | str) -> tuple[bool, float, str]:
    """Numbers stand before words."""
    return (True, 0.0, key.casefold()) if isinstance(key, str) else (False, key, "")


def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("tunekit.report.html", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown_value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals.update(
        signs=_SIGNS, predicted=Basis.PREDICTED, chart_table=chart_table, is_broad=_is_broad
    )
    return templates


def _is_broad(chart: Chart | HeatMap) -> bool:
    """Return whether a chart's texts are cut in less than half a screen's width."""
    return isinstance(chart, HeatMap) or chart.is_horizontal
