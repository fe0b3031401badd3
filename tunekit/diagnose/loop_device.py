"""Checks for training that its device limits: by compute, a late host, copies, clocks or memory."""

from tunekit.diagnose.attribution import (
    Part,
    copies_alone_share,
    drained_share,
    nvml_busy_share,
    ratio,
)
from tunekit.diagnose.gains import copy_gain, data_gain, launch_gain, training_gain
from tunekit.diagnose.gpus import COOLING_REMEDY, OTHERS_REMEDY, POWER_CAP, SLOWDOWNS, processes_text
from tunekit.diagnose.loop import LoopFacts, TrialGpu
from tunekit.diagnose.policy import (
    BUSY_PERCENT,
    FALL_OF_CLOCK,
    RARE_PER_BATCH,
    RISE_C,
    ROOM_SHARE,
)
from tunekit.diagnose.registry import INFO, WARNING, Hit, Hits, check
from tunekit.recommend.compatibility import can_train_in_fp16
from tunekit.records.config import Precision
from tunekit.records.recommendation import Bound
from tunekit.records.trial import TrialRecord
from tunekit.units import bytes_text, count_text, listed, rate_text

# --- what makes training faster -------------------------------------------------------------


def _unused(facts: LoopFacts) -> list[str]:
    """Return ways to make training faster that suit this device and are not in use."""
    return [*_lower_precision(facts), *_compiled(facts), *_channels_last(facts), *_larger_batch(facts)]


def _lower_precision(facts: LoopFacts) -> list[str]:
    config, discovery, loop = facts.record.config, facts.discovery, facts.loop
    if config is None or config.precision in (Precision.BF16, Precision.FP16):
        return []
    if discovery is not None and discovery.autocast_dtype is not None:
        return []
    native = discovery.bf16_native if discovery is not None else None
    if native is None and loop.device.type == "cpu":
        native = facts.host.cpu_bf16_native
    offered = facts.profile.native_precisions if facts.profile is not None and facts.is_cuda else ()
    if native or "bf16" in offered:
        return [facts.set_knob("precision", Precision.BF16)]
    if "tf32" in offered and loop.float32_matmul_precision == "highest":
        return [facts.set_knob("precision", Precision.TF32)]
    return []


def _compiled(facts: LoopFacts) -> list[str]:
    config, discovery = facts.record.config, facts.discovery
    compiles = facts.loop.compile_graphs or (config and config.compile) or (discovery and discovery.compiles)
    can = facts.profile is None or facts.profile.compile_supported is not False
    return [facts.set_knob("compile", True)] if can and not compiles else []


def _channels_last(facts: LoopFacts) -> list[str]:
    config, roots = facts.record.config, facts.discovery.roots if facts.discovery is not None else ()
    suits = any(root.has_4d_weights and not root.channels_last for root in roots)
    return [facts.set_knob("channels_last", True)] if suits and config and not config.channels_last else []


def _larger_batch(facts: LoopFacts) -> list[str]:
    """Return how to double the batch size, if the device's memory certainly holds it."""
    loop = facts.loop
    total, reserved = loop.device.usable_bytes, loop.peak_reserved_bytes
    if not facts.is_cuda or total is None or reserved is None or loop.batch_size is None:
        return []
    return [facts.set_knob("batch_size", 2 * loop.batch_size)] if reserved <= ROOM_SHARE * total else []


# --- training takes the time ----------------------------------------------------------------


@check(
    "compute-bound",
    INFO,
    "training itself takes the time, not its data",
    ("CLEAR_STALL_SHARE", "SMALL_STALL"),
)
def _compute_bound(facts: LoopFacts) -> Hits:
    if facts.bound not in (Bound.COMPUTE, Bound.BALANCED):
        return
    loop, shares, isolated = facts.loop, facts.attribution, facts.measurement.isolated
    seen = (
        f"{shares.trains_share:.0%} of step time is forward, backward and optimizer ({shares.source}), "
        f"{shares.stall_share:.0%} data wait"
    )
    if isolated.loader_step_s is not None:
        alone = ratio(loop.steady_samples / loop.steady_batches, isolated.loader_step_s)
        seen += f"; the loader alone makes {rate_text(alone)} samples/s"
    left = _unused(facts)
    remedy = f"`tunekit search` measures what these bring: {', '.join(left)}"
    yield Hit(seen, remedy if left else "take a smaller model or a faster device", shares.trains_share)


@check("fp16-unscaled", INFO, "fp16, which this GPU is faster in, needs a gradient scaler in the script")
def _fp16_unscaled(facts: LoopFacts) -> Hits:
    """Find a GPU whose fp16 is unused: it needs a gradient scaler, which can't be injected."""
    config, discovery, profile = facts.record.config, facts.discovery, facts.profile
    if config is None or discovery is None or profile is None or discovery.bf16_native is not False:
        return
    if config.precision is not Precision.FP32 or discovery.autocast_dtype is not None:
        return
    if "fp16" not in profile.native_precisions or not facts.is_cuda:
        return
    if can_train_in_fp16(facts.target, discovery, config.precision):
        return
    half, whole = profile.fp16_tflops, profile.fp32_tflops
    times = half / whole if half and whole else 1.0
    yield Hit(
        f"profile {profile.id}: {rate_text(half)} TFLOPS in fp16, {rate_text(whole)} in fp32",
        "use torch.autocast with torch.float16 and torch.amp.GradScaler in the script, then search again",
        gain=training_gain(facts.measurement, times) if times > 1 else None,
    )


@check(
    "no-loader", INFO, "the script makes its own batches, so data time and compute time can't be separated"
)
def _no_loader(facts: LoopFacts) -> Hits:
    share = facts.attribution.of(Part.BATCH_AND_COMPUTE)
    if facts.bound is Bound.NO_LOADER and share is not None:
        remedy = ", or ".join(["time your batch function by itself", *_unused(facts)])
        yield Hit(f"{share.share:.0%} of step time is both together ({share.source})", remedy, share.share)


# --- the GPU waits for its host -------------------------------------------------------------


@check(
    "host-bound",
    WARNING,
    "the GPU waits for the host: kernel launches, Python, or syncs such as .item()",
    ("CLEAR_IDLE_SHARE", "LAUNCHING_SHARE"),
)
def _host_bound(facts: LoopFacts) -> Hits:
    if facts.bound is not Bound.HOST:
        return
    drained, idle = drained_share(facts.loop), facts.attribution.of(Part.DEVICE_IDLE)
    busy_share = nvml_busy_share(facts.loop, facts.record.telemetry)
    seen = (
        f"the GPU had no work left at the end of {drained:.0%} of the batches, "
        f"{facts.attribution.stall_share:.0%} of step time is data wait (CUDA events)"
    )
    if idle is not None:
        seen += f"; it is idle for {idle.share:.0%} of step time ({idle.source})"
    elif busy_share is not None:
        seen += f"; it is busy for at most {busy_share:.0%} of step time (NVML)"
    graphs = "CUDA graphs (mode='reduce-overhead' of torch.compile)"
    ways = [*_compiled(facts), *_larger_batch(facts), graphs]
    yield Hit(seen, f"launch fewer kernels: {'; '.join(ways)}", drained, launch_gain(facts.measurement))


@check("copy-bound", WARNING, "the GPU waits for its batches to be copied", ("COPIES_SHARE",))
def _copy_bound(facts: LoopFacts) -> Hits:
    if facts.bound is not Bound.COPIES:
        return
    share, ways = copies_alone_share(facts.measurement), []
    if not facts.loop.pin_memory:
        ways = [facts.set_knob("pin_memory", True)]
    yield Hit(
        f"it only copies from and to the host for {share:.0%} of step time",
        "; ".join([*ways, "copy with non_blocking=True on a second stream", "send smaller types (uint8)"]),
        share,
        copy_gain(facts.measurement),
    )


@check("sync-points", (WARNING, INFO), "the script synchronizes with the GPU within its steps")
def _sync_points(facts: LoopFacts) -> Hits:
    often = [point for point in facts.details.syncs or () if point.per_batch > RARE_PER_BATCH]
    if not often or not facts.is_cuda:
        return
    seen = sorted(often, key=lambda point: -point.per_batch)
    is_bound = facts.bound is Bound.HOST
    yield Hit(
        listed([f"{one.where} {one.what}, {rate_text(one.per_batch)} per batch" for one in seen], 3, "; "),
        "do it every 50th step only, keep sums as tensors on the GPU, and copy to it with "
        "non_blocking=True from pinned memory",
        len(seen),
        launch_gain(facts.measurement) if is_bound else None,
        severity=WARNING if is_bound else INFO,
    )


# --- what the driver and the allocator say --------------------------------------------------


@check("gpu-underused", WARNING, "the GPU is idle for much of the time")
def _gpu_underused(facts: LoopFacts) -> Hits:
    seen = [(gpu.utilization_percent, gpu) for gpu in facts.gpus if gpu.utilization_percent is not None]
    busy_percent, gpu = min(seen, key=lambda one: one[0], default=(100.0, None))
    if gpu is None or busy_percent >= BUSY_PERCENT:
        return
    gain_of = {Bound.DATA: data_gain, Bound.TURNS: data_gain, Bound.HOST: launch_gain}.get(facts.bound)
    yield Hit(
        f"GPU {gpu.index}: busy for {busy_percent:.0f}% of the time (NVML)",
        "`tunekit profile --trace-kernels` shows what it waits for",
        busy_percent,
        gain_of(facts.measurement) if gain_of else None,
    )


@check("gpu-throttled-in-trial", WARNING, "heat or the power supply slowed {} down while the loop ran")
def _gpu_throttled_in_trial(one: TrialGpu) -> Hits:
    reasons = [reason for reason in one.gpu.throttle_reasons if reason in SLOWDOWNS]
    if reasons:
        known = (gpu.state for gpu in one.facts.host.accelerators if gpu.index == one.gpu.index)
        clock_mhz, best_mhz = one.gpu.sm_clock_mhz, next((at.max_sm_clock_mhz for at in known if at), None)
        slower = max(1.0, best_mhz / clock_mhz) if best_mhz and clock_mhz else None
        yield Hit(
            f"{', '.join(reasons)}; {rate_text(clock_mhz)} of {rate_text(best_mhz)} MHz (NVML)",
            COOLING_REMEDY,
            gain=training_gain(one.facts.measurement, slower) if slower else None,
        )


@check("gpu-unsoaked", WARNING, "{} was still getting warm at its power limit: a long run will be slower")
def _gpu_unsoaked(one: TrialGpu) -> Hits:
    # A GPU draws more power the warmer it is, so at its power limit its clock falls.
    is_warming = (one.fall_of_clock or 0.0) >= FALL_OF_CLOCK or (one.rise_c or 0.0) >= RISE_C
    if POWER_CAP in one.gpu.throttle_reasons and is_warming:
        yield Hit(
            f"{POWER_CAP}; its clock fell by {one.fall_of_clock or 0:.0%}, it became {one.rise_c or 0:.0f} C "
            f"warmer within {one.facts.loop.steady_time_s:.0f} s (NVML)",
            "measure longer, such as --window 120, until clock and temperature are steady",
            one.fall_of_clock,
        )


@check(
    "gpu-neighbours", WARNING, "another process started on the GPU during a trial, so its rate counts little"
)
def _gpu_neighbours(trial: TrialRecord) -> Hits:
    if trial.neighbours:
        yield Hit(f"trial {trial.number}: {processes_text(trial.neighbours)} (NVML)", OTHERS_REMEDY)


@check("allocation-retries", WARNING, "GPU memory ran out: the allocator had to free its cache and retry")
def _allocation_retries(facts: LoopFacts) -> Hits:
    loop = facts.loop
    if loop.allocation_retries:
        yield Hit(
            f"{count_text(loop.allocation_retries, 'time')} (torch's allocator); at most "
            f"{bytes_text(loop.peak_reserved_bytes)} of {bytes_text(loop.device.usable_bytes)} reserved",
            "use a smaller batch, or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
            loop.allocation_retries,
        )
