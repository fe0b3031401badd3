"""The training itself is the longer half: what is left to make it shorter."""

from tunekit.recommend.applicable import can_train_in_fp16
from tunekit.recommend.diagnose.loop.attribution import Bound, Part, ratio
from tunekit.recommend.diagnose.loop.facts import LoopFacts
from tunekit.recommend.diagnose.loop.gains import capped, compute_cap, without
from tunekit.records.config import Precision
from tunekit.records.finding import Finding, Severity
from tunekit.units import rate_text

_DRAM_PERCENT = 60.0
"""Of the peak; what copies alone reach is 80 to 90%."""
_LITTLE_TENSOR_PERCENT = 25.0
_LITTLE_SM_PERCENT = 50.0
_ROOM_SHARE = 0.45
"""Twice as much, which twice the batch never needs, is still below the 95% that any tier allows."""


def compute_findings(facts: LoopFacts) -> list[Finding]:
    """Return whether the training holds the loop back, and whether its memory does."""
    found = [_compute_bound(facts), _unscaled_fp16(facts), _own_batches(facts), _memory_bound(facts)]
    return [finding for finding in found if finding is not None]


def _compute_bound(facts: LoopFacts) -> Finding | None:
    if facts.bound not in (Bound.COMPUTE, Bound.BALANCED):
        return None
    loop, shares = facts.loop, facts.attribution
    trains = sum(one.share for part in (Part.COMPUTE, Part.OPTIMIZER) if (one := shares.of(part)))
    told = [
        f"{trains:.0%} of each step are forward, backward and optimizer ({shares.source}), "
        f"{shares.stall_share:.0%} data stall"
    ]
    floors = facts.details.floors
    if floors is not None and floors.loader_step_s is not None:
        alone = ratio(loop.steady_samples / loop.steady_batches, floors.loader_step_s)
        cap = compute_cap(facts.measurement)
        told.append(
            f"the loader alone makes {rate_text(alone)} samples/s, so faster training brings "
            f"{rate_text(cap)}x at the very most"
        )
    left = unused(facts)
    is_balanced = facts.bound is Bound.BALANCED
    return Finding(
        code="compute-bound",
        severity=Severity.INFO,
        message="loader and training take the same time: only both together make the loop faster"
        if is_balanced
        else "the training itself takes the time, not its data",
        evidence="; ".join(told),
        remedy=f"not used yet: {', '.join(left)}; `tunekit search` measures what they bring"
        if left
        else "what tunekit sets is in use already: a smaller model, or a faster or another device",
        value=trains,
    )


def _unscaled_fp16(facts: LoopFacts) -> Finding | None:
    """Find that the GPU's half precision lies idle: it takes a gradient scaler, which can't be injected."""
    config, discovery, profile = facts.config, facts.discovery, facts.profile
    if config is None or discovery is None or profile is None or discovery.bf16_native is not False:
        return None
    if config.precision is not Precision.FP32 or discovery.autocast_dtype is not None:
        return None
    if "fp16" not in profile.native_precisions or not facts.is_cuda:
        return None
    if can_train_in_fp16(facts.target, discovery, config.precision):
        return None
    half, whole = profile.fp16_tflops, profile.fp32_tflops
    times = ratio(half, whole) if half is not None and whole is not None else None
    shares = facts.attribution
    trains = sum(one.share for part in (Part.COMPUTE, Part.OPTIMIZER) if (one := shares.of(part)))
    saved_s = trains * facts.loop.step_time_s * (1 - 1 / times) if times and times > 1 else 0.0
    gain = capped(without(facts.measurement, saved_s), compute_cap(facts.measurement)) if saved_s else None
    rates = f"{half:g} TFLOPS in fp16 and {whole:g} in fp32" if times else "rates n/a"
    return Finding(
        code="fp16-unscaled",
        severity=Severity.INFO,
        message="this GPU is faster in fp16, which is not tried: the script has no gradient scaler",
        evidence=f"profile {profile.id}: {rates}; {trains:.0%} of each step are training ({shares.source})",
        remedy=(
            'add to the script `with torch.autocast("cuda", torch.float16):` around forward and loss, and '
            '`scaler = torch.amp.GradScaler("cuda")` with scaler.scale(loss).backward(), '
            "scaler.step(optimizer), scaler.update(); then search again"
        ),
        gain=gain,
    )


def _own_batches(facts: LoopFacts) -> Finding | None:
    if facts.bound is not Bound.NO_LOADER:
        return None
    share = facts.attribution.of(Part.BATCH_AND_COMPUTE)
    assert share is not None, "a loop without a loader has that part"
    left = unused(facts)
    faster = f"; for the training, not used yet: {', '.join(left)}" if left else ""
    return Finding(
        code="no-loader",
        severity=Severity.INFO,
        message="the script makes its batches itself, so making them can't be told from computing",
        evidence=f"{share.share:.0%} of each step are both together ({share.source})",
        remedy=f"time your batch function by itself{faster}; `tunekit search` measures what that brings",
        value=share.share,
    )


def unused(facts: LoopFacts) -> list[str]:
    """Return words for what makes training faster, suits this device and is not in use."""
    words = [_lower_precision(facts), _compiled(facts), _channels_last(facts), larger_batch(facts)]
    return [word for word in words if word is not None]


def _lower_precision(facts: LoopFacts) -> str | None:
    config, discovery, loop = facts.config, facts.discovery, facts.loop
    if config is None or config.precision in (Precision.BF16, Precision.FP16):
        return None
    if discovery is not None and discovery.autocast_dtype is not None:
        return None
    native = discovery.bf16_native if discovery is not None else None
    if native is None and loop.device.type == "cpu":
        native = facts.host.cpu_bf16_native
    offered = facts.profile.native_precisions if facts.profile is not None and facts.is_cuda else ()
    if native or "bf16" in offered:
        return facts.set_knob("precision", Precision.BF16)
    if "tf32" in offered and loop.float32_matmul_precision == "highest":
        return facts.set_knob("precision", Precision.TF32)
    return None


def _compiled(facts: LoopFacts) -> str | None:
    compiles = facts.discovery is not None and facts.discovery.compiles
    is_asked = facts.config is not None and facts.config.compile
    can = facts.profile is None or facts.profile.compile_supported is not False
    if compiles or is_asked or facts.loop.compile_graphs or not can:
        return None
    return facts.set_knob("compile", True)


def _channels_last(facts: LoopFacts) -> str | None:
    roots = facts.discovery.roots if facts.discovery is not None else ()
    suits = any(root.has_4d_weights and not root.channels_last for root in roots)
    if not suits or facts.config is None or facts.config.channels_last:
        return None
    return facts.set_knob("channels_last", True)


def larger_batch(facts: LoopFacts) -> str | None:
    """Return words for twice the batch where the device's memory surely holds it; None where not."""
    loop = facts.loop
    total, reserved = loop.device.memory_bytes, loop.peak_reserved_bytes
    if not facts.is_cuda or total is None or reserved is None or loop.batch_size is None:
        return None
    if reserved > _ROOM_SHARE * total:
        return None
    return facts.set_knob("batch_size", 2 * loop.batch_size)


def _memory_bound(facts: LoopFacts) -> Finding | None:
    if facts.bound is Bound.DATA:
        return None
    for gpu in facts.gpus:
        dram, sm, tensor = gpu.dram_activity_percent, gpu.sm_activity_percent, gpu.tensor_activity_percent
        if dram is None or dram < _DRAM_PERCENT:
            continue
        if tensor is not None and tensor < _LITTLE_TENSOR_PERCENT:
            beside = f"tensor cores {tensor:.0f}%"
        elif tensor is None and sm is not None and sm < _LITTLE_SM_PERCENT:
            beside = f"multiprocessors {sm:.0f}%"
        else:
            continue
        return Finding(
            code="memory-bound",
            severity=Severity.INFO,
            message="the GPU moves data in its memory more than it computes",
            evidence=f"GPU {gpu.index}: memory {dram:.0f}% active, {beside} (NVML GPM)",
            remedy=_fewer_bytes(facts),
            value=dram,
        )
    return None


def _fewer_bytes(facts: LoopFacts) -> str:
    ways = [word for word in (_compiled(facts), _lower_precision(facts), _channels_last(facts)) if word]
    fewer = "fused kernels and smaller numbers move fewer bytes"
    return f"{fewer}: {', '.join(ways)}" if ways else f"{fewer}: fused optimizer and attention kernels"
