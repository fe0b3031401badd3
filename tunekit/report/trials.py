"""Every trial of a run as a row, and the machine's load during it. Pure."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from statistics import fmean

from tunekit.records.config import KNOB, TABLE
from tunekit.records.interval import Interval
from tunekit.records.measurement import GpuTelemetry, Telemetry
from tunekit.records.recommendation import Recommendation
from tunekit.records.run import Run
from tunekit.records.trial import OutcomeKind, TrialRecord
from tunekit.report.blocks import Column, Table, TrialRow, TrialState, TrialTable, field_text, table_of
from tunekit.report.text import UNKNOWN, interval_text, role_text, value_text
from tunekit.units import bytes_text, count_text, duration_text, rate_text, share_text


def trials_table(run: Run) -> TrialTable:
    """Return every trial of a run with its config, its figures (measured) and its outcome.

    Empty columns are left out; a knob with the same value in all trials is named once.
    """
    cells = {name: [cell_of(record) for record in run.trials] for name, cell_of in _CELLS.items()}
    filled = {name: each for name, each in cells.items() if any(text not in _NOTHING for text in each)}
    same = {name: text for name in _KNOBS if name in filled and (text := _only(filled[name])) is not None}
    shown = {name: each for name, each in filled.items() if name not in same}
    rows = [
        TrialRow(tuple(each[place] for each in shown.values()), trial_state(record), _reason(record))
        for place, record in enumerate(run.trials)
    ]
    states = [row.state for row in rows]
    counts = [f"{states.count(state)} {state}" for state in TrialState if state in states]
    return TrialTable(
        title="Trials (figures are measured)",
        columns=tuple(shown),
        numeric=tuple(place for place, name in enumerate(shown) if name not in _TEXTS),
        rows=tuple(rows),
        summary=f"{count_text(len(rows), 'trial')}: {', '.join(counts) or 'none yet'}",
        same=", ".join(f"{name} {text}" for name, text in same.items()),
    )


def _only(cells: Sequence[str]) -> str | None:
    """Return the value that all trials with a known one share; None where they differ or only one has it."""
    known = [text for text in cells if text != UNKNOWN]
    return known[0] if len(known) > 1 and len(set(known)) == 1 else None


def trial_state(record: TrialRecord) -> TrialState:
    """Return the state of a trial."""
    if record.failure is not None:
        return TrialState.REFUSED if record.failure.kind is OutcomeKind.REFUSED else TrialState.FAILED
    return TrialState.ABANDONED if record.is_abandoned else TrialState.MEASURED


def _reason(record: TrialRecord) -> str:
    failure = record.failure
    return "; ".join(filter(None, (failure.message, failure.remedy))) if failure else ""


def _of_knob(knob: str) -> Callable[[TrialRecord], str]:
    def cell(record: TrialRecord) -> str:
        if record.config is None:
            return UNKNOWN
        value = getattr(record.config, knob)
        return value_text(value) if value is None or KNOB[knob].least is None else f"{value:,}"

    return cell


def _rate(record: TrialRecord) -> str:
    """Return a trial's rate with the range from its own process."""
    if record.measurement is None:
        return UNKNOWN
    loop = record.measurement.loop
    rate, half = loop.rate_samples_per_s, loop.rate_interval_relative or 0.0
    low, high = rate * max(0.0, 1 - half), rate * (1 + half)
    if not math.isfinite(high):
        return rate_text(rate)
    return interval_text(Interval(value=rate, low=low, high=high))


def _outcome(record: TrialRecord) -> str:
    """Return the state of a trial; of one that failed, the kind of its failure."""
    state = trial_state(record)
    return record.failure.kind.value if record.failure and state is TrialState.FAILED else state.value


_KNOBS = {knob.shown: knob for knob in TABLE}
"""Every knob by the title of its column."""
_CELLS: dict[str, Callable[[TrialRecord], str]] = {
    "trial": lambda record: str(record.number),
    "for": role_text,
    **{name: _of_knob(knob.name) for name, knob in _KNOBS.items()},
    "samples/s (range)": _rate,
    "data wait": field_text("measurement.loop.data_wait_share", share_text),
    "VRAM reserved": field_text("measurement.loop.peak_reserved_bytes", bytes_text),
    "RAM peak": field_text("measurement.memory.peak_pss_bytes", bytes_text),
    "took": lambda record: duration_text(record.duration_s),
    "outcome": _outcome,
}
"""The cell of each column."""
_TEXTS = ("for", "outcome", *(name for name, knob in _KNOBS.items() if knob.least is None))
"""Columns that hold no figures."""
_NOTHING = (UNKNOWN, "-")
"""A cell's text for a trial without such a figure."""


def telemetry_table(run: Run, best: Recommendation | None) -> Table:
    """Return a row for the baseline and one for the best config; no rows without telemetry.

    Figures are means over the steady windows of each config's trials, over the GPUs that it used; a column
    without figures is left out.
    """
    by_config = {"baseline": [trial.telemetry for trial in run.trials if trial.is_baseline_config]}
    if best is not None and not best.is_baseline:
        numbers = {best.search_trial, *best.confirm_trials}
        by_config[best.tier.value] = [trial.telemetry for trial in run.trials if trial.number in numbers]
    steady = {
        name: [one for one in each if one and one.is_of_steady_window] for name, each in by_config.items()
    }
    title = "System during training (measured from outside, in the steady windows)"
    return _telemetry_rows(title, {name: each for name, each in steady.items() if each}, run.host.cpus)


def loop_telemetry_table(telemetry: Telemetry, cpus: int) -> Table:
    """Return the machine's load during one loop, a row for each GPU that was used."""
    each = {f"GPU {gpu.index}": [telemetry.changed(gpus=(gpu,))] for gpu in _used([telemetry])}
    where = "in the steady window" if telemetry.is_of_steady_window else "over the whole trial"
    title = f"System during training (measured {where}, {duration_text(telemetry.window_s)})"
    return _telemetry_rows(title, each or {"host": [telemetry]}, cpus)


def _telemetry_rows(title: str, each: Mapping[str, Sequence[Telemetry]], cpus: int) -> Table:
    rows = [{"": name, **_telemetry_cells(of, cpus)} for name, of in each.items()]
    columns = [
        Column[dict[str, str]](name, itemgetter(name), bool(name), is_optional=bool(name))
        for name in (rows[0] if rows else ())
    ]
    return table_of(title, columns, rows)


def _telemetry_cells(each: Sequence[Telemetry], cpus: int) -> dict[str, str]:
    hosts = [one.host for one in each]
    gpus = _used(each)
    peaks = [gpu.peak_used_bytes if gpu.peak_tree_bytes is None else gpu.peak_tree_bytes for gpu in gpus]
    reasons = {reason for gpu in gpus for reason in gpu.throttle_reasons} - {"gpu_idle"}
    return {
        f"CPU cores of {cpus}": _mean((one.cpu_cores for one in hosts), "{:.1f}"),
        "GPU busy": _mean((gpu.utilization_percent for gpu in gpus), "{:.0f}%"),
        "SM active": _mean((gpu.sm_activity_percent for gpu in gpus), "{:.0f}%"),
        "tensor": _mean((gpu.tensor_activity_percent for gpu in gpus), "{:.0f}%"),
        "DRAM": _mean((gpu.dram_activity_percent for gpu in gpus), "{:.0f}%"),
        "power": _mean((gpu.power_w for gpu in gpus), "{:.0f} W"),
        "SM clock": _clocks(each),
        "GPU memory": bytes_text(max((peak for peak in peaks if peak is not None), default=None)),
        "storage MB/s": _mean((one.read_bytes_per_s for one in hosts), "{:.1f}", 1e-6),
        "page-cache hits": _mean((one.unfetched_share for one in hosts), "{:.0f}%", 100),
        "throttled by": ", ".join(sorted(reasons)) or UNKNOWN,
    }


def _used(each: Sequence[Telemetry]) -> list[GpuTelemetry]:
    return [gpu for one in each for gpu in one.gpus if gpu.is_used]


def _mean(values: Iterable[float | None], form: str, scale: float = 1) -> str:
    known = [scale * value for value in values if value is not None]
    return form.format(fmean(known)) if known else UNKNOWN


def _clocks(each: Sequence[Telemetry]) -> str:
    """Return the clock at the first window's start and at the last one's end: heat lowers it over minutes."""
    first = _mean((gpu.first_sm_clock_mhz or gpu.sm_clock_mhz for gpu in _used(each[:1])), "{:.0f}")
    last = _mean((gpu.last_sm_clock_mhz or gpu.sm_clock_mhz for gpu in _used(each[-1:])), "{:.0f}")
    return UNKNOWN if UNKNOWN in (first, last) else f"{first} to {last} MHz"
