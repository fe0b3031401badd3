"""Which parts a page has, in their order; a part without content is left out. Pure."""

from dataclasses import dataclass

from tunekit.report.html.drawings import Drawing
from tunekit.report.view import RunView


@dataclass(frozen=True)
class Section:
    """One part of the page, under a heading that the page's list of contents leads to."""

    id: str
    """Of its element, and its template's name."""
    title: str
    short: str
    """Its name in the list of contents."""
    drawings: tuple[Drawing, ...] = ()


_CHARTS: dict[str, tuple[str, ...]] = {
    "time": ("time_breakdown",),
    "throughput": ("throughput",),
    "loader": ("loader_ram",),
    "memory": ("device_memory", "host_memory"),
    "history": ("history", "knobs"),
}
"""Which charts stand where; others stand last in the history."""


def sections(shown: RunView, drawings: tuple[Drawing, ...]) -> tuple[Section, ...]:
    """Return the parts that there is something for.

    Args:
        shown: what the report shows.
        drawings: its charts.
    """
    placed = _placed(drawings)
    time, memory = placed["time"], placed["memory"]
    listed = (
        (
            shown.tiers.rows or shown.missing_tiers,
            Section("tiers", "The tiers beside your baseline", "Tiers"),
        ),
        (
            time or shown.telemetry.rows or shown.ceilings.lines,
            Section("time", "Where the time goes", "Time", time),
        ),
        _drawn("throughput", "How fast each batch size trains", "Throughput", placed),
        _drawn("loader", "What the loader's buffer takes of the RAM", "Loader", placed),
        (memory or shown.prediction.lines, Section("memory", "What the memory holds", "Memory", memory)),
        (shown.trials.rows, Section("trials", "Every trial", "Trials")),
        _drawn("history", "How the search went", "Search", placed),
        (shown.scaling.rows, Section("gpus", "On several GPUs", "GPUs")),
        (shown.plan is not None, Section("plan", "Where to train, and for how much", "Plan")),
        (shown.findings, Section("findings", "What was found", "Findings")),
        (shown.notes, Section("failures", "What failed", "Failures")),
        (
            shown.environment.rows or shown.method,
            Section("environment", "Where and how it was measured", "Environment"),
        ),
        (shown.reproduce or shown.next_steps, Section("next", "What to do next", "Next")),
    )
    return tuple(section for has_content, section in listed if has_content)


def _drawn(name: str, title: str, short: str, placed: dict[str, tuple[Drawing, ...]]) -> tuple[bool, Section]:
    """Return a part that holds charts alone."""
    return bool(placed[name]), Section(name, title, short, placed[name])


def _placed(drawings: tuple[Drawing, ...]) -> dict[str, tuple[Drawing, ...]]:
    """Return the charts of each part, those that no part names in the history."""
    by_id = {one.id: one for one in drawings}
    placed = {
        name: tuple(by_id.pop(chart) for chart in charts if chart in by_id)
        for name, charts in _CHARTS.items()
    }
    placed["history"] += tuple(by_id.values())
    return placed
