"""A recorded training in words and charts, and the live figures of `tunekit monitor`. Pure."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from tunekit.diagnose.recording import change_text, checkpoints_text
from tunekit.records.recording import (
    Growth,
    MonitorReading,
    Recording,
    RecordingRates,
    RecordingStart,
)
from tunekit.report.blocks import (
    Basis,
    Block,
    Facts,
    Lead,
    Line,
    Panel,
    Report,
    Table,
    Timeline,
    Trace,
    found_blocks,
)
from tunekit.trial.typed_commands import quoted
from tunekit.units import GIB, bytes_text, duration_text, rate_text, share_text, usd_text

_NAME = "training"
_SHARES = (
    ("start_s", "startup"),
    ("step_s", "training steps"),
    ("wait_s", "data wait"),
    ("checkpoint_s", "checkpoints"),
    ("validation_s", "validation"),
    ("other_s", "other pauses, shutdown"),
)
_Curves = tuple[tuple[str, Callable[[Any], float]], ...]
_OF_LOOP: _Curves = (
    ("samples/s", lambda one: one.samples * one.world_size / one.duration_s),
    ("it/s", lambda one: one.iterations / one.duration_s),
    ("data wait, %", lambda one: 100 * one.wait_s / one.duration_s),
    ("checkpoints, %", lambda one: 100 * one.checkpoint_s / one.duration_s),
)
_OF_HOST: _Curves = (
    ("GPU busy, %", lambda one: 100 * (one.gpu_busy_s or 0.0) / one.duration_s),
    ("GPU memory, GiB", lambda one: (one.vram_bytes or 0) / GIB),
    ("RAM (PSS), GiB", lambda one: one.pss_bytes / GIB),
    ("CPUs", lambda one: one.cpu_s / one.duration_s),
    ("CPUs of other processes", lambda one: one.others_cpu_s / one.duration_s),
    ("storage reads, MB/s", lambda one: one.read_bytes / 1e6 / one.duration_s),
)


# --- the report ------------------------------------------------------------------------------


def recording_report(recording: Recording, folder: str) -> Report:
    """Return everything that is shown of a recording."""
    figures = recording.figures
    shares = tuple(
        (name, duration_text(held), share_text(held / figures.elapsed_s, ".1f"))
        for field, name in _SHARES
        if figures.elapsed_s and (held := getattr(figures, field))
    )
    chart = _timeline(recording)
    return Report(
        f"Recording: {_command_text(recording.start)}",
        (
            *recording_answer(recording),
            *found_blocks(recording.findings),
            Table("Where the time went", ("", "time", "share"), shares, (1, 2), Basis.MEASURED),
            *([chart] if chart.panels else []),
        ),
        about=f"PID {recording.start.pid}, in {folder}",
    )


def recording_answer(recording: Recording) -> tuple[Block, ...]:
    """Return the rate, the goodput and the machine's figures of the whole training."""
    figures, start = recording.figures, recording.start
    goodput = "" if figures.goodput is None else f", goodput {share_text(figures.goodput)}"
    state = "Ran" if recording.ended_at_s else "Running"
    began = datetime.fromtimestamp(start.started_at_s).astimezone()
    return (
        Lead(f"{_rate_text(figures.rates) or _no_rate(start)}{goodput}."),
        Line(f"{state} for {duration_text(figures.elapsed_s)}, since {began:%Y-%m-%d %H:%M %Z}.", True),
        Facts(tuple(_facts(recording))),
    )


def _facts(recording: Recording) -> Iterator[tuple[str, str]]:
    figures = recording.figures
    if figures.steps:
        yield "steps", f"{figures.steps:,}"
        for label, change in (("step time", figures.step_change), ("data wait", figures.wait_change)):
            at = "none seen" if change is None else change_text(recording, change)
            if change is not None and change.others_cpus > 0.1:
                at += f", as other programs took {change.others_cpus:.1f} CPUs more"
            yield f"{label} drift", at
    if figures.checkpoints:
        yield "checkpoints", f"{checkpoints_text(figures)}, {duration_text(figures.checkpoint_s)} in total"
    yield from _load_rows(figures.rates, recording.start, figures.ram, figures.vram)
    if figures.usd is not None:
        yield "cost", usd_text(figures.usd)


def _rate_text(rates: RecordingRates) -> str:
    named = ((rates.samples_per_s, "samples/s"), (rates.tokens_per_s, "tokens/s"), (rates.it_per_s, "it/s"))
    return ", ".join(f"{rate_text(rate)} {unit}" for rate, unit in named if rate is not None)


def _no_rate(start: RecordingStart) -> str:
    return "No step timed yet" if start.has_loop else "Rate n/a: started without tunekit"


def _load_rows(
    rates: RecordingRates, start: RecordingStart, ram: Growth | None = None, vram: Growth | None = None
) -> Iterator[tuple[str, str]]:
    """Yield what GPU, memory, CPUs and disk are used for, where they are known."""
    if rates.gpu_busy_share is not None:
        names = ", ".join(dict.fromkeys(start.gpus.values()))
        yield "GPU", f"{share_text(rates.gpu_busy_share)} busy, {names}"
    if rates.vram_bytes is not None:
        yield "VRAM", _memory_text(rates.vram_bytes, start.vram_limit_bytes, vram)
    if rates.pss_bytes is not None:
        yield "RAM", _memory_text(rates.pss_bytes, start.ram_limit_bytes, ram) + " (PSS)"
    if rates.cpus is not None and rates.read_bytes_per_s is not None:
        yield "CPU", f"{rates.cpus:.1f} of {start.cpus}"
        yield "disk", f"reads {rate_text(rates.read_bytes_per_s / 1e6)} MB/s"


def _memory_text(used: int, limit: int | None, growth: Growth | None) -> str:
    of = "" if limit is None else f" of {bytes_text(limit)}"
    grows = "" if growth is None else f", grows by {bytes_text(growth.bytes_per_h)} an hour"
    return f"{bytes_text(used)}{of}{grows}"


def _timeline(recording: Recording) -> Timeline:
    """Return rate, memory and load over time."""
    began_s = recording.start.started_at_s
    panels, rows = [], []
    for intervals, curves in ((recording.loop, _OF_LOOP), (recording.host, _OF_HOST)):
        shown: Sequence[Any] = [one for one in intervals if one.duration_s]
        times = tuple(max(0.0, one.at_s + one.duration_s / 2 - began_s) for one in shown)
        for title, figure in curves:
            values = tuple(map(figure, shown))
            if any(values):
                panels.append(Panel(title, (Trace(_NAME, times, values),)))
                rows.append((title, *map(rate_text, (values[0], values[-1], min(values), max(values)))))
    columns = ("", "first", "last", "lowest", "highest")
    return Timeline(
        id="recording",
        title="Rate, memory and load over time (measured)",
        summary="Each point is the mean of an interval.",
        names=(_NAME,),
        panels=tuple(panels),
        windows=(),
        of=_NAME,
        table=Table("Over time", columns, tuple(rows), (1, 2, 3, 4), Basis.MEASURED),
    )


# --- live ------------------------------------------------------------------------------------


def reading_rows(reading: MonitorReading, start: RecordingStart) -> tuple[tuple[str, str], ...]:
    """Return the live figures, each with its label; those that are unknown are left out."""
    wait, figures = reading.latest.data_wait_share, reading.figures
    of = f" of {reading.epochs}" if reading.epochs else ""
    rows = (
        ("rate", _rate_text(reading.latest) or _no_rate(start).removeprefix("Rate ")),
        ("data wait", "" if wait is None else share_text(wait)),
        ("step", f"{figures.steps:,}" if figures.steps else ""),
        ("epoch", f"{reading.epoch}{of}" if reading.epoch else ""),
        ("ETA", "" if reading.eta_s is None else duration_text(reading.eta_s)),
        *_load_rows(reading.latest, start),
        ("goodput", "" if figures.goodput is None else share_text(figures.goodput)),
        ("cost", "" if figures.usd is None else usd_text(figures.usd)),
    )
    return tuple((label, text) for label, text in rows if text)


def reading_facts(reading: MonitorReading, start: RecordingStart, output: str) -> Facts:
    """Return the live view.

    Args:
        reading: the latest figures.
        start: of the recording.
        output: the last line that the training printed.
    """
    runs = f"PID {reading.pid}, running for {duration_text(reading.figures.elapsed_s)}"
    rows = (("training", _command_text(start)), ("", runs), *reading_rows(reading, start))
    return Facts((*rows, *([("output", output)] if output else [])))


def reading_line(reading: MonitorReading, start: RecordingStart) -> str:
    """Return the live figures in one plain line."""
    at = datetime.fromisoformat(reading.time).astimezone()
    return f"{at:%H:%M:%S}  " + "; ".join(f"{label} {text}" for label, text in reading_rows(reading, start))


def _command_text(start: RecordingStart) -> str:
    return " ".join(map(quoted, start.command))
