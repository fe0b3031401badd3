"""A saved run in Python: what `tunekit.load`, `tunekit.search` and `tunekit.profile` return."""

import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

from rich.console import Console

from tunekit.errors import NoChartError, UsageError
from tunekit.recommend.recommendation import answer_of
from tunekit.records.config import TABLE, Knob
from tunekit.records.run import FitsRun, LoopProfile, Run
from tunekit.records.scaling_run import ScalingRun
from tunekit.records.trial import TrialRecord
from tunekit.report.blocks import Block, Chart, Section
from tunekit.report.charts import charts_of
from tunekit.report.fits import fits_answer
from tunekit.report.html.drawing import fragment
from tunekit.report.loop_profile import profile_report
from tunekit.report.run import on_one_screen
from tunekit.report.scale import scaling_report
from tunekit.report.summary_html import summary_html
from tunekit.report.terminal import draw
from tunekit.report.trials import trial_state
from tunekit.session import folder as run_folder
from tunekit.session.folder import AnyRun

if TYPE_CHECKING:
    import pandas as pd

_WIDTH = 100
"""Columns of the report as text."""


def _data_wait_s(record: TrialRecord) -> float | None:
    loop = record.measurement.loop if record.measurement else None
    return loop.parts.data_wait_s / loop.steady_batches if loop and loop.has_loader else None


def _knob_type(knob: Knob) -> str:
    return "boolean" if knob.is_switch else "string" if knob.choices else "Int64"


_COLUMNS: dict[str, tuple[str, str | Callable[[TrialRecord], Any]]] = {
    "number": ("Int64", "number"),
    "role": ("string", "role"),
    "state": ("string", lambda record: trial_state(record).value),
    "samples_per_s": ("Float64", "measurement.loop.rate_samples_per_s"),
    "rate_interval_relative": ("Float64", "measurement.loop.rate_interval_relative"),
    **{knob.name: (_knob_type(knob), f"config.{knob.name}") for knob in TABLE},
    "it_per_s": ("Float64", "measurement.loop.epoch_it_per_s"),
    "data_wait_s": ("Float64", _data_wait_s),
    "peak_reserved_bytes": ("Int64", "measurement.loop.peak_reserved_bytes"),
    "peak_pss_bytes": ("Int64", "measurement.memory.peak_pss_bytes"),
    "duration_s": ("Float64", "duration_s"),
    "round": ("Int64", "round"),
    "is_baseline_config": ("boolean", "is_baseline_config"),
    "failure_kind": ("string", "failure.kind"),
    "failure_message": ("string", "failure.message"),
}
"""Columns of the trials' table, the most used first: a nullable type, and where a trial's record has the
value."""


class LoadedRun(Generic[AnyRun]):
    """A saved run: shown as its report, with its record, its figures and its trials.

    Args:
        record: the saved record.
        folder: the folder it was saved in, for the next commands.
    """

    def __init__(self, record: AnyRun, folder: Path) -> None:
        self.record: AnyRun = record
        self.folder = folder

    @property
    def figures(self) -> "Figures":
        """The charts of a search as plotly figures, such as `run.figures.time_breakdown()`."""
        run = self.record
        return Figures(charts_of(run, answer_of(run.recommendations)) if isinstance(run, Run) else ())

    def to_dataframe(self) -> "pd.DataFrame":
        """Return a row for each trial: its state, rate, config and other figures.

        `samples_per_s` and `it_per_s` are over whole epochs. `rate_interval_relative` is half the 95%
        interval of the steady rate within this process, as a share of the rate. `data_wait_s` is per batch of
        the steady window, `peak_pss_bytes` is of the whole process tree. Unknown values are missing. Speedups
        need several processes: see `record.recommendations`.

        Raises:
            UsageError: pandas is not installed.
        """
        try:
            import pandas as pd  # noqa: PLC0415 - nothing else needs it
        except ImportError as error:
            raise UsageError(
                "to_dataframe() needs pandas, which is not installed; pip install pandas"
            ) from error
        columns = {
            name: pd.array([_value(record, place) for record in self.record.trials], dtype=kind)
            for name, (kind, place) in _COLUMNS.items()
        }
        return pd.DataFrame(columns)

    def __repr__(self) -> str:
        out = io.StringIO()
        console = Console(width=_WIDTH, file=out, color_system=None, highlight=False, force_jupyter=False)
        draw(console, self._blocks())
        return out.getvalue().strip("\n")

    def _repr_html_(self) -> str:
        if isinstance(self.record, Run):
            return summary_html(self.record)
        return fragment([block for block in self._blocks() if not isinstance(block, Section)])

    def _blocks(self) -> Sequence[Block]:
        match self.record:
            case LoopProfile():
                return profile_report(self.record, str(self.folder)).blocks
            case FitsRun():
                return fits_answer(self.record, str(self.folder))
            case ScalingRun():
                return scaling_report(self.record, str(self.folder)).blocks
            case _:
                return on_one_screen(self.record, self.folder)


class Figures:
    """One method for each chart that the run has figures for; `dir` lists them."""

    def __init__(self, charts: Sequence[Chart]) -> None:
        self._charts = {chart.id: chart for chart in charts}

    def __repr__(self) -> str:
        return f"Figures: {', '.join(dir(self)) or 'none'}"

    def __dir__(self) -> list[str]:
        return list(self._charts)

    def __getattr__(self, name: str) -> Callable[[], Any]:
        """Return the method that draws a chart as a plotly figure.

        Raises:
            NoChartError: the run has no figures for a chart of that name.
        """
        if name.startswith("_"):
            raise AttributeError(name)
        chart = self._charts.get(name)
        if chart is None:
            known = ", ".join(dir(self)) or "none"
            raise NoChartError(f"this run has no figures for a chart {name!r}; its charts: {known}")

        def drawn() -> Any:
            from tunekit.report.figures import figure  # noqa: PLC0415 - plotly is slow to import

            return figure(chart)

        drawn.__name__, drawn.__doc__ = chart.id, f"Draw: {chart.title}. {chart.summary}"
        return drawn


def load_run(path: str | os.PathLike[str]) -> LoadedRun[Any]:
    """Return the run in a folder, or in its run.json.

    Raises:
        RunFolderError: there is no run.
        RecordError: run.json is damaged or newer than this tunekit.
    """
    given = Path(path)
    return LoadedRun(run_folder.load_saved(given), run_folder.folder_of(given))


def _value(record: TrialRecord, place: str | Callable[[TrialRecord], Any]) -> Any:
    if callable(place):
        return place(record)
    value: Any = record
    for name in place.split("."):
        value = getattr(value, name, None)
    return str(value) if isinstance(value, str) else value
