"""What a page carries inside itself, and the policy that lets the browser run just that."""

import base64
import gzip
import hashlib
import json
import re
from functools import cache
from importlib.resources import files

_NAMES_STYLE = re.compile(r'getElementById\("([0-9a-f]{64})"\)')
"""Where plotly.js asks whether the style of its maps is there."""

_SPELT_OUT = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)
"""What could end a script or a line of it; JSON reads both spellings alike."""


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
    """Return the content security policy that allows these scripts and styles and nothing from elsewhere.

    Heat maps are images that plotly.js draws and puts in as data.

    Args:
        scripts: their texts, as the page has them.
        styles: likewise.
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
