"""The figures of a run that are looked for first, for its page. Pure."""

from collections.abc import Callable, Iterable
from statistics import fmean

from tunekit.diagnose.bottleneck import bottleneck_of
from tunekit.records.measurement import Telemetry
from tunekit.records.recommendation import Recommendation
from tunekit.records.run import Objective, Run
from tunekit.report.blocks import Tile, Tiles
from tunekit.report.text import UNKNOWN, factor_text, range_text
from tunekit.report.tiers import baseline_column, tier_column
from tunekit.units import bytes_text, rate_text, share_text


def tiles(run: Run, best: Recommendation | None) -> Tiles:
    """Return the figures that are looked for first; those that nobody knows are left out."""
    if best is None:
        return Tiles(())
    own, after = baseline_column(run), tier_column(best, run)
    before = "" if best.is_baseline else rate_text(own.it_per_s)
    shown = [
        _speedup_tile(run, best),
        Tile("it/s", rate_text(after.it_per_s), before),
        _headroom_tile(run, best),
        _share_tile("GPU busy", run, best, _gpu_busy),
        _share_tile("data wait", run, best, _data_wait),
    ]
    return Tiles(tuple(tile for tile in shown if tile.value != UNKNOWN))


def _speedup_tile(run: Run, best: Recommendation) -> Tile:
    if best.is_baseline or best.speedup is None:
        return Tile("speedup", UNKNOWN)
    planned = "planned run, " if _is_planned(run) else ""
    note = f"{planned}95% range {range_text(best.speedup)}"
    return Tile("speedup", factor_text(best.speedup.value), note=note)


def _is_planned(run: Run) -> bool:
    """Return whether speedups are of the planned training, which is predicted from measured parts."""
    return run.options.objective is Objective.FINISH_TIME


def _headroom_tile(run: Run, best: Recommendation) -> Tile:
    if (share := best.vram_free_share) is not None:
        return Tile("VRAM free", share_text(share), note=f"of {bytes_text(best.device_memory_bytes)}")
    limit_bytes = run.rank_host.ram_limit_bytes
    buffer = ", buffer predicted" if best.buffer_bytes else ""
    free = share_text(best.ram_free_share(limit_bytes))
    return Tile("RAM free", free, note=f"of {bytes_text(limit_bytes)}{buffer}")


_Share = Callable[[Run, Recommendation | None], float | None]
"""Returns a share of the time for a tier, or for the baseline for None."""


def _share_tile(label: str, run: Run, best: Recommendation, share_of: _Share) -> Tile:
    after, before = share_of(run, best), None if best.is_baseline else share_of(run, None)
    note = "" if label == "GPU busy" else "of step time"
    return Tile(label, _share_text(after), "" if before is None else _share_text(before), note)


def _share_text(share: float | None) -> str:
    return UNKNOWN if share is None else share_text(share)


def _gpu_busy(run: Run, tier: Recommendation | None) -> float | None:
    seen = (one.record.telemetry for one in run.history.evidence(tier))
    known = list(_busy(one for one in seen if one is not None and one.is_of_steady_window))
    return fmean(known) / 100 if known else None


def _busy(each: Iterable[Telemetry]) -> Iterable[float]:
    for one in each:
        for gpu in one.gpus:
            if gpu.is_used and gpu.utilization_percent is not None:
                yield gpu.utilization_percent


def _data_wait(run: Run, tier: Recommendation | None) -> float | None:
    seen = bottleneck_of(run, tier)
    return seen.wait_share if seen is not None else None
