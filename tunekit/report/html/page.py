"""A report as one HTML file, with its data and a content security policy that allows only that."""

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from itertools import count

from tunekit.report.blocks import (
    Block,
    Drawing,
    Report,
    Section,
    has_content,
)
from tunekit.report.figures import DARK_OF, figure
from tunekit.report.html.drawing import drawn, name_of, templates
from tunekit.units import bytes_text

_MAX_BYTES = 6_000_000
"""The largest size of a page with its raw data."""


def page(report: Report, raw_json: bytes = b"", raw_name: str = "run.json") -> str:
    """Return the report as a page that needs nothing else: no network, no other file.

    Where it has charts it carries plotly.js once, packed; and the record, unless the page would take more
    than 6 MB with it. The same report and bytes give the same page.

    Args:
        report: what it shows.
        raw_json: the record itself, for those who want to check a number; none if empty.
        raw_name: of its file.
    """
    (_, answer), *parts = _by_section(report)
    charts = [block for block in report.blocks if isinstance(block, Drawing)]
    style, script, plotly = own_file("page.css"), own_file("page.js"), packed_plotly() if charts else ""
    environment = templates()
    macros, ids = environment.get_template("blocks.html").module, count()
    places = {name: drawn(macros, blocks, ids) for name, blocks in _by_place(answer).items()}
    bodies = ["".join(drawn(macros, blocks, ids)) for _, blocks in parts]
    figures = _figures_json(charts)
    raw = packed(raw_json)
    carried = (*bodies, figures, style, script, plotly)
    fits = sum(len(one.encode("utf-8")) for one in carried) + len(raw) < _MAX_BYTES
    return environment.get_template("page.html").render(
        title=report.title,
        about=report.about,
        answer=places,
        parts=list(zip((section for section, _ in parts), bodies, strict=True)),
        # plotly.js inserts its own rules into an empty style element.
        policy=policy((*((plotly_script(),) if charts else ()), script), (style, "")),
        style=style,
        script=script,
        charts=figures,
        plotly=plotly,
        plotly_banner=plotly_banner(),
        plotly_styles=plotly_styles() if charts else (),
        raw=raw if fits else None,
        raw_size=bytes_text(len(raw_json)) if raw_json else "",
        raw_name=raw_name,
        has_basis=any(getattr(block, "basis", None) or block in charts for block in report.blocks),
    )


def _by_section(report: Report) -> list[tuple[Section, list[Block]]]:
    parts: list[tuple[Section, list[Block]]] = [(Section("answer", report.title, "Answer"), [])]
    for block in filter(has_content, report.blocks):
        if isinstance(block, Section):
            parts.append((block, []))
        else:
            parts[-1][1].append(block)
    return [part for place, part in enumerate(parts) if part[1] or not place]


def _by_place(answer: Sequence[Block]) -> dict[str, list[Block]]:
    """Return the answer's blocks by place; commands are next to changes, if any."""
    places: dict[str, list[Block]] = {"lead": [], "changes": [], "commands": [], "other": []}
    for block in answer:
        name = name_of(block)
        is_placed = name in ("lead", "changes") or (name == "commands" and bool(places["changes"]))
        places[name if is_placed else "other"].append(block)
    return places


def _figures_json(charts: Sequence[Drawing]) -> str:
    """Return all charts with the colour for dark of each, for the script element that holds them."""
    figures = ",".join(f"{script_json(one.id)}:{escaped_json(figure(one).to_json())}" for one in charts)
    return f'{{"darkOf":{script_json(DARK_OF)},"figures":{{{figures}}}}}'


# --- what the page carries -------------------------------------------------------------------

_NAMES_STYLE = re.compile(r'getElementById\("([0-9a-f]{64})"\)')
"""Where plotly.js asks whether the style of its maps is there."""

_SPELT_OUT = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)
"""Characters that could end a script or a line of it, with an equivalent JSON spelling."""


def own_file(name: str) -> str:
    """Return a file of the page's own, such as "page.css"."""
    return (files("tunekit.report.html") / name).read_text(encoding="utf-8")


@cache
def plotly_script() -> str:
    """Return plotly.js as the installed plotly has it, with the line ends that a browser reads."""
    script = (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
    return script.replace("\r\n", "\n")


@cache
def packed_plotly() -> str:
    """Return plotly.js as gzip in base64: 40% of its size."""
    return packed(plotly_script().encode("utf-8"))


@cache
def plotly_banner() -> str:
    """Return what plotly.js says of its version and licence in its first comment."""
    banner = re.match(r"/\*\*(.*?)\*/", plotly_script(), re.DOTALL)
    lines = banner[1].splitlines() if banner else []
    return ". ".join(text for line in lines if (text := line.strip(" *.")))


@cache
def plotly_styles() -> tuple[str, ...]:
    """Return the ids that plotly.js looks for before it adds a style sheet that the policy forbids."""
    return tuple(sorted(set(_NAMES_STYLE.findall(plotly_script()))))


def packed(content: bytes) -> str:
    """Return bytes as gzip in base64, the same for the same bytes."""
    return base64.b64encode(gzip.compress(content, compresslevel=6, mtime=0)).decode("ascii")


def script_json(value: object) -> str:
    """Return a value as JSON that nothing in it can end the script element of."""
    return escaped_json(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def escaped_json(text: str) -> str:
    """Return JSON with every letter spelled out that a page could read as its own."""
    return text.translate(_SPELT_OUT)


def policy(scripts: tuple[str, ...], styles: tuple[str, ...]) -> str:
    """Return the content security policy that allows scripts and styles of these texts and nothing else.

    Heat maps are images that plotly.js draws and puts in as data.
    """
    return "; ".join((
        "default-src 'none'",
        f"script-src {' '.join(map(_hash, scripts))}",
        f"style-src {' '.join(map(_hash, styles))}",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ))  # fmt: skip


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
