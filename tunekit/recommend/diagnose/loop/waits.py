"""The host holds its GPU up: work that is handed over late, and places that wait for it."""

from tunekit.recommend.diagnose.loop.attribution import (
    Bound,
    Part,
    copies_alone_share,
    drained_share,
    nvml_busy_share,
)
from tunekit.recommend.diagnose.loop.compute import larger_batch
from tunekit.recommend.diagnose.loop.facts import LoopFacts
from tunekit.recommend.diagnose.loop.gains import copy_gain, launch_gain
from tunekit.records.finding import Finding, Severity
from tunekit.units import rate_text

_RARE_PER_BATCH = 0.1
"""A wait in every tenth batch or less often lets the host get ahead in between."""
_SHOWN = 3


def wait_findings(facts: LoopFacts) -> list[Finding]:
    """Return where the host keeps its GPU waiting."""
    found = [_host_bound(facts), _copy_bound(facts), _sync_points(facts)]
    return [finding for finding in found if finding is not None]


def _host_bound(facts: LoopFacts) -> Finding | None:
    if facts.bound is not Bound.HOST:
        return None
    drained = drained_share(facts.loop)
    told = [
        f"after {drained:.0%} of the batches the GPU had nothing left to do when the next was asked for, "
        f"{facts.attribution.stall_share:.0%} of the step is data stall (CUDA events)"
    ]
    idle = facts.attribution.of(Part.DEVICE_IDLE)
    busy_share = nvml_busy_share(facts.telemetry)
    if idle is not None:
        told.append(f"nothing runs on it in {idle.share:.0%} of the step ({idle.source})")
    elif busy_share is not None:
        told.append(f"a kernel ran in {busy_share:.0%} of the time (NVML)")
    ways = [] if _is_compiled(facts) else [f"{facts.set_knob('compile', True)} makes fewer launches"]
    bigger = larger_batch(facts)
    ways += [f"{bigger} gives each launch more work"] if bigger else []
    ways.append("CUDA graphs (mode='reduce-overhead' of torch.compile) launch a step at once")
    return Finding(
        code="host-bound",
        severity=Severity.WARNING,
        message="the GPU waits for the host: kernel launches, Python, or .item() and the like",
        evidence="; ".join(told),
        remedy="; ".join(ways),
        value=drained,
        gain=launch_gain(facts.measurement),
    )


def _copy_bound(facts: LoopFacts) -> Finding | None:
    if facts.bound is not Bound.COPIES:
        return None
    share, copies = copies_alone_share(facts.measurement), facts.attribution.of(Part.H2D)
    told = f"nothing but copies from and to the host runs on it in {share:.0%} of the step"
    whole = f"; {rate_text(copies.batch_ms)} ms per batch to it ({copies.source})" if copies else ""
    pins = [] if facts.loop.pin_memory else [facts.set_knob("pin_memory", True)]
    ways = [
        *pins,
        "copy with non_blocking=True on a stream of its own while the batch before is trained on",
        "send what is smaller, such as uint8 images, and convert it on the GPU",
    ]
    return Finding(
        code="copy-bound",
        severity=Severity.WARNING,
        message="the GPU waits for its batches to be copied",
        evidence=f"{told}{whole}",
        remedy="; ".join(ways),
        value=share,
        gain=copy_gain(facts.measurement),
    )


def _is_compiled(facts: LoopFacts) -> bool:
    return bool(facts.loop.compile_graphs or (facts.config and facts.config.compile))


def _sync_points(facts: LoopFacts) -> Finding | None:
    seen = [point for point in facts.details.syncs or () if point.per_batch > _RARE_PER_BATCH]
    if not seen or not facts.is_cuda:
        return None
    seen.sort(key=lambda point: -point.per_batch)
    places = [f"{one.where} {one.what}, {rate_text(one.per_batch)} per batch" for one in seen[:_SHOWN]]
    more = f"; and {len(seen) - _SHOWN} more" if len(seen) > _SHOWN else ""
    is_bound = facts.bound is Bound.HOST
    return Finding(
        code="sync-points",
        severity=Severity.WARNING if is_bound else Severity.INFO,
        message="the script waits for the GPU in its steps, so the host can't get ahead of it",
        evidence="; ".join(places) + more,
        remedy=(
            "do it in every 50th step only, keep sums as tensors on the GPU, and copy to it with "
            "non_blocking=True from pinned memory"
        ),
        value=len(seen),
        gain=launch_gain(facts.measurement) if is_bound else None,
    )
