"""What a recording of a training shows, and what is wrong with it. Pure."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from statistics import fmean, median
from typing import Any

from tunekit.diagnose.policy import (
    BLOCKS,
    CHANGE_P,
    CHECKPOINTS_SHARE,
    CREEP_PARTS,
    CREEP_SHARE,
    CREEPS_ON,
    FIRST_WAITS_S,
    GROWS_BYTES,
    LONG_WAITS_SHARE,
    OTHERS_CPUS,
    SETTLING_S,
    SETTLING_SHARE,
    SLOWER,
    SOON_H,
    STAYS_SHARE,
    WAITS_MORE_SHARE,
)
from tunekit.diagnose.registry import ERROR, WARNING, Hit, Hits, check
from tunekit.records.recording import (
    AnyInterval,
    Change,
    Growth,
    HostInterval,
    LoopInterval,
    MonitorReading,
    Recording,
    RecordingFigures,
    RecordingRates,
    RecordingStart,
)
from tunekit.units import bytes_text, count_text, duration_text, share_text

_RECENT_S = 20.0
"""Seconds that the latest figures are a mean of."""
_PARTS = ("step_s", "wait_s", "checkpoint_s", "validation_s", "other_s")
_H = 3600.0


# --- the figures -----------------------------------------------------------------------------


def recording_figures(
    start: RecordingStart, loop: Sequence[LoopInterval], host: Sequence[HostInterval], until_s: float
) -> RecordingFigures:
    """Return what the intervals show of the training from its start until a time."""
    elapsed_s = max(0.0, until_s - start.started_at_s)
    start_s = max(0.0, loop[0].at_s - start.started_at_s) if loop else elapsed_s
    parts = {name: _sum(loop, name) for name in _PARTS}
    parts["other_s"] += max(0.0, elapsed_s - start_s - sum(parts.values()))
    return RecordingFigures(
        elapsed_s=elapsed_s,
        start_s=start_s,
        **parts,
        **{name: int(_sum(loop, name)) for name in ("checkpoints", "steps", "iterations")},
        goodput=parts["step_s"] / elapsed_s if loop and elapsed_s else None,
        rates=_rates(loop, host, _sum(loop, "duration_s")),
        step_change=_change(loop, host, "step_s"),
        wait_change=_change(loop, host, "wait_s"),
        ram=_growth(host, "pss_bytes", start.ram_limit_bytes),
        vram=_growth(host, "vram_bytes", start.vram_limit_bytes),
        usd=None if start.usd_per_h is None else start.usd_per_h * elapsed_s / _H,
    )


def latest_reading(recording: Recording, now_s: float) -> MonitorReading:
    """Return the figures of the last seconds, with the training's progress and cost so far."""
    figures, loop, host = recording.figures, recording.loop, recording.host
    recent = [one for one in loop if one.end_s > loop[-1].end_s - _RECENT_S]
    # A loop that stands still writes no interval: the time since its last one counts.
    silent_s = max(0.0, now_s - loop[-1].end_s - 2 * loop[-1].duration_s) if loop else 0.0
    recent_host = [one for one in host if one.end_s > host[-1].end_s - _RECENT_S]
    return MonitorReading(
        time=datetime.fromtimestamp(now_s, UTC).isoformat(timespec="seconds"),
        pid=recording.start.pid,
        latest=_rates(recent, recent_host, _sum(recent, "duration_s") + silent_s),
        figures=figures,
        epoch=(loop[-1].epoch or None) if loop else None,
        epochs=recording.epochs,
        eta_s=_eta_s(recording),
        findings=recording.findings,
    )


def _sum(intervals: Sequence[Any], name: str) -> float:
    return sum(getattr(one, name) or 0 for one in intervals)


def _rates(loop: Sequence[LoopInterval], host: Sequence[HostInterval], duration_s: float) -> RecordingRates:
    values: dict[str, Any] = {}
    if _sum(loop, "duration_s"):
        ranks = loop[-1].world_size
        values = {
            "it_per_s": _sum(loop, "iterations") / duration_s,
            "samples_per_s": _sum(loop, "samples") * ranks / duration_s or None,
            "tokens_per_s": _sum(loop, "tokens") * ranks / duration_s or None,
            "data_wait_share": _sum(loop, "wait_s") / duration_s,
        }
    if watched_s := _sum(host, "duration_s"):
        values |= {
            "gpu_busy_share": None if host[-1].gpu_busy_s is None else _sum(host, "gpu_busy_s") / watched_s,
            "vram_bytes": max(one.vram_bytes or 0 for one in host) or None,
            "pss_bytes": max(one.pss_bytes for one in host) or None,
            "cpus": _sum(host, "cpu_s") / watched_s,
            "read_bytes_per_s": _sum(host, "read_bytes") / watched_s,
        }
    return RecordingRates(**values)


def _eta_s(recording: Recording) -> float | None:
    """Return the time until the last epoch or step at the mean rate, pauses included; None if unknown."""
    figures, it_per_s = recording.figures, recording.figures.rates.it_per_s
    if not it_per_s:
        return None
    last, left = recording.loop[-1], None
    if recording.max_steps is not None:
        left = (recording.max_steps - figures.steps) * figures.iterations / figures.steps
    elif recording.epochs is not None and last.epoch_batches is not None:
        left = (recording.epochs - last.epoch + 1) * last.epoch_batches - last.epoch_batch
    return None if left is None else max(0.0, left / it_per_s)


# --- what changes over time ------------------------------------------------------------------


def _blocks(intervals: Sequence[AnyInterval], least: int) -> list[Sequence[AnyInterval]]:
    """Return `least` stretches or a few more, of as many intervals each, without the start."""
    if not intervals:
        return []
    whole_s = intervals[-1].end_s - intervals[0].at_s
    from_s = intervals[0].at_s + max(SETTLING_S, SETTLING_SHARE * whole_s)
    settled = [one for one in intervals if one.at_s >= from_s]
    each = max(1, len(settled) // least)
    return [settled[first : first + each] for first in range(len(settled) % each, len(settled), each)]


def _change(loop: Sequence[LoopInterval], host: Sequence[HostInterval], part: str) -> Change | None:
    """Return a rise of a time per iteration that chance doesn't explain and that has not passed."""
    blocks = _blocks([one for one in loop if one.iterations], BLOCKS)
    values = [_sum(block, part) / _sum(block, "iterations") for block in blocks]
    if (at := rises_at(values)) is None:
        return None
    before, after, last = median(values[:at]), median(values[at:]), values[-max(1, (len(values) - at) // 4) :]
    if median(last) < before + STAYS_SHARE * (after - before):
        return None
    at_s, from_s = blocks[at][0].at_s, blocks[0][0].at_s
    others = [0.0, 0.0]
    for is_after in (False, True):
        side = [one for one in host if one.at_s >= from_s and (one.at_s >= at_s) is is_after]
        others[is_after] = _sum(side, "others_cpu_s") / (_sum(side, "duration_s") or 1.0)
    return Change(at_s=at_s, before=before, after=after, others_cpus=others[1] - others[0])


def rises_at(values: Sequence[float]) -> int | None:
    """Return the first value after a lasting rise, by Pettitt's test; None if chance explains it."""
    count = len(values)
    if count < BLOCKS:
        return None
    shifts = [
        sum((later > earlier) - (later < earlier) for earlier in values[:at] for later in values[at:])
        for at in range(1, count)
    ]
    highest = max(shifts)
    p = 2 * math.exp(-6 * highest**2 / (count**3 + count**2))
    return shifts.index(highest) + 1 if highest > 0 and p <= CHANGE_P else None


def _growth(host: Sequence[HostInterval], name: str, limit_bytes: int | None) -> Growth | None:
    """Return growth of memory that each part of the time adds to, with the lowest value of each part.

    The lowest leave out what a checkpoint or a validation takes for a while.
    """
    parts = _blocks([one for one in host if getattr(one, name)], CREEP_PARTS)
    lows = [min(float(getattr(one, name)) for one in part) for part in parts]
    added = [later - earlier for earlier, later in pairwise(lows)]
    if len(added) < CREEP_PARTS - 1 or min(added) <= 0 or added[-1] < CREEPS_ON * fmean(added):
        return None
    bytes_per_h = sum(added) / (parts[-1][0].at_s - parts[0][0].at_s) * _H
    return Growth(
        bytes_per_h=bytes_per_h,
        grown_bytes=sum(added),
        last_bytes=lows[-1],
        hours_left=None if limit_bytes is None else max(0.0, limit_bytes - lows[-1]) / bytes_per_h,
    )


# --- the findings ----------------------------------------------------------------------------


@check("memory-creep", (ERROR, WARNING), "memory grows steadily, as with a leak")
def _memory_creep(recording: Recording) -> Hits:
    for what, growth in (("RAM", recording.figures.ram), ("GPU memory", recording.figures.vram)):
        if growth is None or growth.grown_bytes < max(GROWS_BYTES, CREEP_SHARE * growth.last_bytes):
            continue
        hours = growth.hours_left
        left = "" if hours is None else f", full in {duration_text(hours * _H)}"
        now = bytes_text(growth.last_bytes)
        yield Hit(
            f"{what} grows by {bytes_text(growth.bytes_per_h)} an hour; now {now}{left}",
            "look for tensors kept in lists or logs (use loss.item()) and caches without a limit; until then "
            "checkpoint and restart in time",
            growth.bytes_per_h,
            severity=ERROR if hours is not None and hours < SOON_H else WARNING,
        )


@check("starved", WARNING, "a large part of the training's time is data wait")
def _starved(recording: Recording) -> Hits:
    figures = recording.figures
    looped_s = figures.elapsed_s - figures.start_s
    if looped_s > FIRST_WAITS_S and figures.wait_s > LONG_WAITS_SHARE * looped_s:
        share = figures.wait_s / looped_s
        yield Hit(
            f"{share_text(share)} of the time since the first step",
            "`tunekit profile` shows what the loader waits for; `tunekit search` finds workers that hide it",
            share,
        )


@check("slower-data", WARNING, "waiting for data takes longer than at first", by=("OTHERS_CPUS",))
def _slower_data(recording: Recording) -> Hits:
    change, figures = recording.figures.wait_change, recording.figures
    if change is None or change.others_cpus >= OTHERS_CPUS:
        return
    usual_s = change.before + figures.step_s / figures.iterations
    if change.after - change.before > WAITS_MORE_SHARE * usual_s:
        yield Hit(
            change_text(recording, change),
            "check the storage (a slow or shared disk, throttling, other readers), and whether later samples "
            "are larger; more workers or data on a local disk hide it",
            change.after - change.before,
        )


@check("slowdown", WARNING, "steps take longer than at first")
def _slowdown(recording: Recording) -> Hits:
    change = recording.figures.step_change
    if change is None or change.others_cpus >= OTHERS_CPUS:
        return
    if change.after > (1 + SLOWER) * change.before:
        yield Hit(
            f"{change_text(recording, change)}, without waits and pauses",
            "look for work that grows with time (logging, validation in the step), and at clocks and heat",
            change.after / change.before,
        )


@check("checkpoint-stall", WARNING, "training stands still for checkpoints")
def _checkpoint_stall(recording: Recording) -> Hits:
    figures = recording.figures
    looped_s = figures.elapsed_s - figures.start_s
    if figures.checkpoints >= 2 and figures.checkpoint_s > CHECKPOINTS_SHARE * looped_s:
        share = figures.checkpoint_s / looped_s
        yield Hit(
            f"{checkpoints_text(figures)}: {share_text(share)} of the time",
            "save less often, to a local disk, or in the background: torch.distributed.checkpoint.async_save",
            share,
        )


def checkpoints_text(figures: RecordingFigures) -> str:
    """Return the checkpoints and how long each stopped the training."""
    each = duration_text(figures.checkpoint_s / max(1, figures.checkpoints))
    return f"{count_text(figures.checkpoints, 'checkpoint')} of {each}"


def change_text(recording: Recording, change: Change) -> str:
    """Return what a time per iteration was before and after, and when it changed."""
    at = duration_text(max(0.0, change.at_s - recording.start.started_at_s))
    return (
        f"{duration_text(change.before)} -> {duration_text(change.after)} per iteration {at} after the start"
    )
