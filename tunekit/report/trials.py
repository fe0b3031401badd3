"""Every trial of a run as a row that can be sorted, and what the machine did meanwhile. Pure."""

from collections.abc import Iterable, Sequence
from statistics import fmean

from tunekit.plain_text import printable
from tunekit.records.config import TrainConfig
from tunekit.records.measurement import GpuTelemetry, Telemetry
from tunekit.records.recommendation import Recommendation
from tunekit.records.run import Run
from tunekit.records.trial import OutcomeKind, TrialRecord
from tunekit.report.blocks import Table, TrialRow, TrialState, TrialTable
from tunekit.report.text import UNKNOWN, role_text, value_text
from tunekit.units import bytes_text, count_text, duration_text, rate_text, share_text

_TEXTS = ("for", "precision", "compile", "other knobs", "outcome")
"""Columns that hold no figures."""

_Cell = tuple[str, float | str | None]
"""A text, and what it is sorted by."""


def trials_table(run: Run) -> TrialTable:
    """Return every trial of a run with its config, its figures (measured) and its outcome."""
    cells = [_cells(record) for record in run.trials]
    states = [trial_state(record) for record in run.trials]
    counts = [f"{states.count(state)} {state}" for state in TrialState if state in states]
    columns = ("trial", "for", *_knobs(None), *_figures(None), "took", "outcome")
    return TrialTable(
        columns=columns,
        numeric=tuple(place for place, name in enumerate(columns) if name not in _TEXTS),
        rows=tuple(
            TrialRow(tuple(text for text, _ in row), tuple(key for _, key in row), state, _reason(record))
            for record, row, state in zip(run.trials, cells, states, strict=True)
        ),
        summary=f"{count_text(len(cells), 'trial')}: {', '.join(counts) or 'none yet'}",
    )


def trial_state(record: TrialRecord) -> TrialState:
    """Return what came of a trial."""
    if record.failure is not None:
        return TrialState.REFUSED if record.failure.kind is OutcomeKind.REFUSED else TrialState.FAILED
    return TrialState.ABANDONED if record.is_abandoned else TrialState.MEASURED


def _cells(record: TrialRecord) -> list[_Cell]:
    role, state = role_text(record), trial_state(record)
    is_failed = record.failure is not None and state is TrialState.FAILED
    return [
        (str(record.number), record.number),
        (role, role),
        *_knobs(record.config).values(),
        *_figures(record).values(),
        (duration_text(record.duration_s), record.duration_s),
        (record.failure.kind.value if record.failure and is_failed else state.value, state.value),
    ]


def _reason(record: TrialRecord) -> str:
    if record.failure is None:
        return ""
    remedy = f"; {record.failure.remedy}" if record.failure.remedy else ""
    return printable(f"{record.failure.message}{remedy}")


def _knobs(config: TrainConfig | None) -> dict[str, _Cell]:
    names = ("batch", "workers", "prefetch", "precision", "compile", "other knobs")
    if config is None:
        return dict.fromkeys(names, (UNKNOWN, None))
    steps = config.accumulate_grad_batches
    words = [word for word in config.switched_on if word != "compile"]
    others = ", ".join([*words, *([f"{steps} accumulated"] if steps > 1 else [])])
    compiles = value_text(config.compile)
    cells: list[_Cell] = [
        (f"{config.batch_size:,}", config.batch_size),
        (str(config.num_workers), config.num_workers),
        (value_text(config.prefetch_factor), config.prefetch_factor),
        (config.precision.value, config.precision.value),
        (compiles, compiles),
        (others or "-", others),
    ]
    return dict(zip(names, cells, strict=True))


def _figures(record: TrialRecord | None) -> dict[str, _Cell]:
    names = ("samples/s", "data wait", "VRAM reserved", "RAM peak")
    if record is None or record.measurement is None:
        return dict.fromkeys(names, (UNKNOWN, None))
    loop, tree = record.measurement.loop, record.measurement.memory
    waits = loop.parts.data_wait_s / loop.steady_time_s if loop.has_loader else None
    cells: list[_Cell] = [
        (rate_text(loop.rate_samples_per_s), loop.rate_samples_per_s),
        (UNKNOWN if waits is None else share_text(waits), waits),
        (bytes_text(loop.peak_reserved_bytes), loop.peak_reserved_bytes),
        (bytes_text(tree.peak_pss_bytes), tree.peak_pss_bytes),
    ]
    return dict(zip(names, cells, strict=True))


# --- telemetry -------------------------------------------------------------------------------


def telemetry_table(run: Run, best: Recommendation | None) -> Table:
    """Return a row for the baseline and one for the best config; no rows without telemetry.

    Figures are means over the steady windows of each config's trials, over the GPUs that it used; a column
    that nobody could fill is left out.
    """
    told = {"baseline": [trial.telemetry for trial in run.trials if trial.is_baseline_config]}
    if best is not None and not best.is_baseline:
        numbers = {best.search_trial, *best.confirm_trials}
        told[best.tier.value] = [trial.telemetry for trial in run.trials if trial.number in numbers]
    steady = {name: [one for one in each if one and one.is_of_steady_window] for name, each in told.items()}
    filled = {name: _telemetry_cells(each, run.host.cpus) for name, each in steady.items() if each}
    every = list(filled.values())
    titles = [title for title in (every or [{}])[0] if any(cells[title] != UNKNOWN for cells in every)]
    return Table(
        title="While it trained, measured from outside in the steady windows",
        columns=("config", *titles),
        rows=tuple((name, *(cells[title] for title in titles)) for name, cells in filled.items()),
        numeric=tuple(range(1, len(titles) + 1)),
    )


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
        "power": _mean((gpu.power_w for gpu in gpus), "{:.0f} W"),
        "SM clock": _clocks(each),
        "GPU memory": bytes_text(max((peak for peak in peaks if peak is not None), default=None)),
        "storage MB/s": _mean((one.read_bytes_per_s for one in hosts), "{:.1f}", 1e-6),
        "not from disk": _mean((one.unfetched_share for one in hosts), "{:.0f}%", 100),
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
