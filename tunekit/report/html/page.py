"""A run's report as one HTML file."""

from jinja2 import Environment, PackageLoader, StrictUndefined

from tunekit.plain_text import shown_value
from tunekit.report.html.drawings import drawing, drawings_json
from tunekit.report.html.embedded import (
    own_file,
    packed,
    packed_plotly,
    plotly_banner,
    plotly_script,
    plotly_styles,
    policy,
    script_json,
)
from tunekit.report.html.sections import sections
from tunekit.report.html.trial_order import sort_ranks
from tunekit.report.table import Basis
from tunekit.report.trials_table import TrialState
from tunekit.report.view import RunView
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


def page(shown: RunView, raw_json: bytes) -> str:
    """Return the report as a page that needs nothing else: no network, no other file.

    It carries plotly.js once, packed, and the run's record, unless the page would take more than 6 MB with
    it. The same view and bytes give the same page.

    Args:
        shown: what it shows.
        raw_json: the run's own record, for those who want to check a number.
    """
    drawings = tuple(drawing(chart) for chart in shown.charts)
    style, script = own_file("page.css"), own_file("page.js")
    templates = _templates()
    parts = sections(shown, drawings)
    bodies = [
        templates.get_template(f"sections/{part.id}.html").render(shown=shown, part=part) for part in parts
    ]
    charts, ranks = drawings_json(drawings), script_json(sort_ranks(shown.trials))
    carried = (*bodies, charts, ranks, style, script, packed_plotly())
    raw = packed(raw_json)
    fits = sum(len(one.encode("utf-8")) for one in carried) + len(raw) < _MOST_BYTES
    return templates.get_template("page.html").render(
        shown=shown,
        parts=list(zip(parts, bodies, strict=True)),
        # An empty style is where plotly.js puts the rules of its own that it writes one by one.
        policy=policy((plotly_script(), script), (style, "")),
        style=style,
        script=script,
        charts=charts,
        ranks=ranks,
        plotly=packed_plotly(),
        plotly_banner=plotly_banner(),
        plotly_styles=plotly_styles(),
        raw=raw if fits else None,
        raw_size=bytes_text(len(raw_json)),
    )


def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("tunekit.report.html", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown_value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals.update(signs=_SIGNS, predicted=Basis.PREDICTED)
    return templates
