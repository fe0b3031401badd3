"""A run at a glance, for its page: before and after, the figures looked for first, what there is to gain.

Pure.
"""

from collections.abc import Callable, Iterable
from statistics import fmean
from typing import NamedTuple

from tunekit.diagnose.bottleneck import bottleneck_of
from tunekit.recommend.noise import verdict
from tunekit.records.config import TrainConfig
from tunekit.records.finding import Finding
from tunekit.records.measurement import Telemetry
from tunekit.records.recommendation import Recommendation
from tunekit.records.run import Objective, Run
from tunekit.report.blocks import Table, Tile, Tiles
from tunekit.report.text import UNKNOWN, factor_text, range_text
from tunekit.report.tiers import TierColumn, baseline_column, tier_column
from tunekit.units import bytes_text, duration_text, rate_text, share_text

_LEAST_GAIN = 1.005
"""A smaller factor reads as 1.00x."""


def before_and_after(run: Run, best: Recommendation | None) -> tuple[tuple[str, str], ...]:
    """Return what the baseline and the config that the answer speaks of do; nothing where nothing changes."""
    if best is None or best.is_baseline:
        return ()
    return (("Before", _pace_text(baseline_column(run))), ("After", _pace_text(tier_column(best, run))))


def _pace_text(column: TierColumn) -> str:
    figures = [f"{rate_text(column.samples_per_s)} samples/s", f"{rate_text(column.it_per_s)} it/s"]
    if column.epoch_time_s is not None:
        figures.append(f"an epoch in {duration_text(column.epoch_time_s)}")
    if column.finish_time_s is not None:
        figures.append(f"the planned run in {duration_text(column.finish_time_s)} (predicted)")
    return ", ".join(figures)


# --- tiles -----------------------------------------------------------------------------------


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
        return Tile("speed-up", UNKNOWN)
    planned = "planned run, " if _is_planned(run) else ""
    note = f"{planned}95% range {range_text(best.speedup)}"
    return Tile("speed-up", factor_text(best.speedup.value), note=note)


def _is_planned(run: Run) -> bool:
    """Return whether speed-ups are of the planned training, which is predicted from measured parts."""
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


# --- what there is to gain -------------------------------------------------------------------


def opportunities_table(run: Run, best: Recommendation | None) -> Table:
    """Return by what the baseline could be faster, the largest gain first.

    The tiers as they were measured, each config once, and what mending a finding could bring at most; of
    findings with the same remedy one. No rows where there is nothing beside the answer's own tier.
    """
    found = [*_faster_tiers(run, best), *map(_opportunity, run.findings)]
    ordered = sorted((one for one in found if one.gain >= _LEAST_GAIN), key=lambda one: -one.gain)
    by_remedy: dict[str, _Opportunity] = {}
    for one in ordered:
        by_remedy.setdefault(one.how or one.what, one)
    rows = list(by_remedy.values())
    is_answer_alone = len(rows) == 1 and best is not None and rows[0].tier == best.tier.value
    return Table(
        "Opportunities",
        ("over your baseline", "what", "how"),
        () if is_answer_alone else tuple((one.text, one.what, one.how) for one in rows),
    )


class _Opportunity(NamedTuple):
    """One row."""

    gain: float
    text: str
    what: str
    how: str
    tier: str = ""


def _opportunity(finding: Finding) -> _Opportunity:
    text = f"at most {factor_text(finding.gain)} (predicted)"
    return _Opportunity(finding.gain or 0.0, text, finding.message, finding.remedy or "")


def _faster_tiers(run: Run, best: Recommendation | None) -> Iterable[_Opportunity]:
    """Return the tiers that are faster than the baseline, each config once, and what they take."""
    seen: set[TrainConfig] = set()
    for tier in (*((best,) if best else ()), *run.recommendations):
        if tier.config in seen or tier.speedup is None or verdict(tier.speedup, run.noise_floor) != "faster":
            continue
        seen.add(tier.config)
        name = tier.tier.value
        takes = f"{bytes_text(tier.ram_bytes)} of RAM"
        if tier.peak_reserved_bytes is not None:
            takes = f"{bytes_text(tier.peak_reserved_bytes)} of VRAM"
        recommended = ", recommended" if tier is best else ""
        yield _Opportunity(
            tier.speedup.value,
            f"{factor_text(tier.speedup.value)} ({'predicted' if _is_planned(run) else 'measured'})",
            f"the {name} tier{recommended}",
            f"train with {name}.yaml, which takes {takes}",
            name,
        )
