"""What the machine did while the baseline and the best config trained, as one table. Pure."""

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

from tunekit.records.recommendation import Recommendation
from tunekit.records.run import Run
from tunekit.records.telemetry import GpuTelemetry, HostTelemetry, Telemetry
from tunekit.records.trial import TrialRecord
from tunekit.report.table import Table
from tunekit.units import bytes_text

_NONE = "n/a"


def telemetry_table(run: Run, best: Recommendation | None) -> Table:
    """Return a row for the baseline and one for the best config; no rows without telemetry.

    Figures are means over the steady windows of each config's trials, over the GPUs that it used; a column
    that nobody could fill is left out.
    """
    rows = [("baseline", _of(run.trials, None))]
    if best is not None and not best.is_baseline:
        rows.append((best.tier.value, _of(run.trials, best)))
    told = [(name, each) for name, each in rows if each]
    cpus = run.host.cpus
    figures: list[tuple[str, Callable[[Sequence[Telemetry]], str]]] = [
        (f"CPU cores of {cpus}", lambda each: _mean((one.host.cpu_cores for one in each), "{:.1f}")),
        ("GPU busy", lambda each: _mean(_gpus(each, "utilization_percent"), "{:.0f}%")),
        ("SM active", lambda each: _mean(_gpus(each, "sm_activity_percent"), "{:.0f}%")),
        ("tensor", lambda each: _mean(_gpus(each, "tensor_activity_percent"), "{:.0f}%")),
        ("power", lambda each: _mean(_gpus(each, "power_w"), "{:.0f} W")),
        ("SM clock", _clocks),
        ("GPU memory", _gpu_memory),
        ("storage MB/s", lambda each: _mean((_mb(one.host.read_bytes_per_s) for one in each), "{:.1f}")),
        (
            "not from disk",
            lambda each: _mean((_percent(one.host) for one in each), "{:.0f}%"),
        ),
        ("throttled by", _throttled),
    ]
    filled = [(title, [cell(each) for _, each in told]) for title, cell in figures]
    kept = [(title, cells) for title, cells in filled if any(cell != _NONE for cell in cells)]
    return Table(
        title="While it trained, measured from outside in the steady windows",
        columns=("config", *(title for title, _ in kept)),
        rows=tuple((name, *(cells[place] for _, cells in kept)) for place, (name, _) in enumerate(told)),
        numeric=tuple(range(1, len(kept) + 1)),
    )


def _of(trials: Sequence[TrialRecord], best: Recommendation | None) -> list[Telemetry]:
    """Return the telemetry of a recommendation's trials, of the baseline's for None."""
    if best is None:
        chosen = [trial for trial in trials if trial.is_baseline_config]
    else:
        numbers = {best.search_trial, *best.confirm_trials}
        chosen = [trial for trial in trials if trial.number in numbers]
    return [trial.telemetry for trial in chosen if trial.telemetry and trial.telemetry.is_of_steady_window]


def _gpus(each: Sequence[Telemetry], figure: str) -> list[float | None]:
    return [getattr(gpu, figure) for gpu in _used(each)]


def _used(each: Sequence[Telemetry]) -> list[GpuTelemetry]:
    return [gpu for one in each for gpu in one.gpus if gpu.is_used]


def _mean(values: Iterable[float | None], form: str) -> str:
    known = [value for value in values if value is not None]
    return form.format(fmean(known)) if known else _NONE


def _clocks(each: Sequence[Telemetry]) -> str:
    """Return the clock at the first window's start and at the last one's end: heat lowers it over minutes."""
    firsts = [gpu.first_sm_clock_mhz or gpu.sm_clock_mhz for gpu in _used(each[:1])]
    lasts = [gpu.last_sm_clock_mhz or gpu.sm_clock_mhz for gpu in _used(each[-1:])]
    first, last = _mean(firsts, "{:.0f}"), _mean(lasts, "{:.0f}")
    return _NONE if _NONE in (first, last) else f"{first} to {last} MHz"


def _gpu_memory(each: Sequence[Telemetry]) -> str:
    peaks = [_peak(gpu) for gpu in _used(each)]
    known = [peak for peak in peaks if peak is not None]
    return bytes_text(max(known)) if known else _NONE


def _peak(gpu: GpuTelemetry) -> int | None:
    return gpu.peak_used_bytes if gpu.peak_tree_bytes is None else gpu.peak_tree_bytes


def _throttled(each: Sequence[Telemetry]) -> str:
    """Return why clocks were low; idleness, which every GPU knows, is left out."""
    reasons = {reason for gpu in _used(each) for reason in gpu.throttle_reasons}
    return ", ".join(sorted(reasons - {"gpu_idle"})) or _NONE


def _mb(size_bytes: float | None) -> float | None:
    return None if size_bytes is None else size_bytes / 1e6


def _percent(host: HostTelemetry) -> float | None:
    return None if host.unfetched_share is None else 100 * host.unfetched_share
