"""GPUs before training: who else is on them, what holds their clocks down, how they are linked."""

from collections.abc import Sequence

from tunekit.diagnose.machine import Gpu, Machine
from tunekit.diagnose.policy import HOT_C, LOW_POWER_SHARE, NARROW_LANES, TAKEN_SHARE
from tunekit.diagnose.registry import INFO, WARNING, Hit, Hits, check
from tunekit.records.host import GpuProcess
from tunekit.units import bytes_text, count_text, listed

SLOWDOWNS = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
"""Reasons that an idle GPU does not have."""
OTHERS_REMEDY = "wait, stop them, or choose another GPU with CUDA_VISIBLE_DEVICES"
"""Of other processes on a GPU."""
POWER_CAP = "sw_power_cap"
"""The reason of a GPU that computes at its power limit."""


@check("no-gpu", INFO, "there is no GPU: training runs on the CPU")
def _no_gpu(machine: Machine) -> Hits:
    if not machine.host.accelerators:
        asked = (
            "the NVIDIA driver and torch show none" if machine.host.torch else "the NVIDIA driver shows none"
        )
        yield Hit(
            asked, "if there should be one, `nvidia-smi` must list it; start a container with --gpus all"
        )


@check("mixed-gpus", WARNING, "the GPUs are of several models: data-parallel training waits for the slowest")
def _mixed_gpus(machine: Machine) -> Hits:
    names = sorted({gpu.name for gpu in machine.host.accelerators})
    if len(names) > 1:
        yield Hit(
            ", ".join(names),
            "choose one model with CUDA_VISIBLE_DEVICES; CUDA_DEVICE_ORDER=PCI_BUS_ID has nvidia-smi's order",
        )


@check(
    "bf16-emulated", WARNING, "this GPU emulates bf16, which torch calls supported: it is no faster than fp32"
)
def _bf16_emulated(machine: Machine) -> Hits:
    gpu, profile = next(iter(machine.host.accelerators), None), machine.profile
    if gpu is not None and profile is not None and not profile.is_cpu:
        native = profile.native_precisions
        if "fp16" in native and "bf16" not in native:
            yield Hit(
                f"{gpu.name}, compute capability {gpu.compute_capability or 'n/a'}; native: "
                + ", ".join(native),
                "train in fp16 with torch.amp.GradScaler, or in fp32",
            )


@check("unknown-gpu", WARNING, "no profile knows {}: rates, prices and predictions are n/a")
def _unknown_gpu(one: Gpu) -> Hits:
    gpu = one.gpu
    if gpu.profile_id is None:
        yield Hit(
            f"{'the driver' if 'nvml' in gpu.seen_by else 'torch'} calls it {gpu.name!r}",
            "copy a file of `tunekit gpus NAME` to ~/.config/tunekit/profiles and fill in what you know",
        )


@check("pcie-narrow", (WARNING, INFO), "few PCIe lanes link {}: batches take longer to reach it")
def _pcie_narrow(one: Gpu) -> Hits:
    """Find fewer lanes than there could be; in a virtual machine the driver knows nothing of the slot."""
    link, is_virtual = one.gpu.pcie, one.machine.host.is_virtual
    if link is None or link.lanes is None:
        return
    is_below = link.max_lanes is not None and link.lanes < link.max_lanes
    if not is_below and link.lanes > NARROW_LANES:
        return
    yield Hit(
        f"x{link.lanes} now" + (f"; it could do x{link.max_lanes}" if is_below else ""),
        "reseat the card or use another slot; a rented machine's type may be wired so: `tunekit profile` "
        "shows whether copies slow training down",
        link.lanes,
        severity=INFO if is_virtual is True and link.lanes > NARROW_LANES else WARNING,
    )


@check("shared-gpu", WARNING, "{} is in use: less memory and compute are left, and figures will be too low")
def _shared_gpu(one: Gpu) -> Hits:
    gpu, used_bytes, others = one.gpu, one.state.used_bytes, one.state.processes or ()
    if not others and (used_bytes or 0) <= TAKEN_SHARE * (gpu.memory_bytes or 0):
        return
    named = processes_text(others) or "unnamed processes"
    yield Hit(
        f"{bytes_text(used_bytes)} of {bytes_text(gpu.memory_bytes)} taken by {named}",
        OTHERS_REMEDY,
        used_bytes,
    )


def processes_text(processes: Sequence[GpuProcess]) -> str:
    """Return processes by name and number, such as "python 4711"; the first three, and how many more."""
    return listed([f"{one.name or 'process'} {one.pid}" for one in processes], 3)


@check("gpu-throttled", WARNING, "{} is slowed down by heat or by its power supply")
def _gpu_throttled(one: Gpu) -> Hits:
    state = one.state
    reasons = [reason for reason in state.throttle_reasons if reason in SLOWDOWNS]
    if reasons:
        yield Hit(
            f"{', '.join(reasons)}; {_figure(state.sm_clock_mhz, ' MHz')} of "
            f"{_figure(state.max_sm_clock_mhz, ' MHz')}, {_figure(state.temperature_c, ' C')}",
            "check its cooling and power, or use another machine: a long run will be slower still",
        )


def _figure(value: float | None, unit: str) -> str:
    return "n/a" if value is None else f"{value:.0f}{unit}"


@check("gpu-hot", WARNING, "{} is hot before training has started")
def _gpu_hot(one: Gpu) -> Hits:
    heat_c = one.state.temperature_c
    if heat_c is not None and heat_c >= HOT_C:
        yield Hit(f"{heat_c:.0f} C", "let it cool, and check what else runs on it", heat_c)


@check("power-limited", WARNING, "{} has a lower power limit than its model usually has: it will be slower")
def _power_limited(one: Gpu) -> Hits:
    index, limit_w, profile = one.gpu.index, one.state.power_limit_w, one.profile
    if profile is None or profile.tdp_w is None or limit_w is None:
        return
    if limit_w < LOW_POWER_SHARE * profile.tdp_w:
        yield Hit(
            f"limit {limit_w:.0f} W, profile {profile.id} has {profile.tdp_w:.0f} W",
            f"nvidia-smi -i {index} -pl {profile.tdp_w:.0f}, if the machine is yours",
            limit_w,
        )


@check("ecc-errors", WARNING, "{} had memory errors that it could not correct")
def _ecc_errors(one: Gpu) -> Hits:
    errors = one.state.ecc_errors
    if errors:
        yield Hit(
            f"{count_text(errors, 'uncorrected error')} since the driver was loaded",
            "reset it or take another machine: a long run is likely to crash",
            errors,
        )
