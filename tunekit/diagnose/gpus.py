"""Checks GPUs before training: other processes on them, what lowers their clocks, how they are linked."""

from collections.abc import Sequence

from tunekit.diagnose.machine import Gpu, Machine
from tunekit.diagnose.policy import LOW_POWER_SHARE, NARROW_LANES, TAKEN_SHARE
from tunekit.diagnose.registry import INFO, WARNING, Hit, Hits, check
from tunekit.records.host import GpuProcess
from tunekit.units import bytes_text, count_text, listed

SLOWDOWNS = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
"""Throttle reasons that an idle GPU never reports."""
OTHERS_REMEDY = "wait, stop them, or choose another GPU with CUDA_VISIBLE_DEVICES"
COOLING_REMEDY = "check its cooling and power, or use another machine: a long run will be slower still"
POWER_CAP = "sw_power_cap"
"""Throttle reason of a GPU that computes at its power limit."""


@check("no-gpu", INFO, "there is no GPU: training runs on the CPU")
def _no_gpu(machine: Machine) -> Hits:
    if not machine.host.accelerators:
        remedy = "if there should be one, `nvidia-smi` must list it; start a container with --gpus all"
        yield Hit("neither the NVIDIA driver nor torch shows one", remedy)


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
            "copy a file shown by `tunekit gpus NAME` to ~/.config/tunekit/profiles and add what you know",
        )


@check("pcie-narrow", (WARNING, INFO), "few PCIe lanes link {}: batches take longer to reach it")
def _pcie_narrow(one: Gpu) -> Hits:
    link = one.gpu.pcie
    lanes = link.lanes if link else None
    if link and lanes is not None and (lanes <= NARROW_LANES or lanes < (link.max_lanes or 0)):
        # In a virtual machine the driver can't see the slot.
        is_unsure = one.machine.host.is_virtual is True and lanes > NARROW_LANES
        yield Hit(
            f"x{lanes} now, x{link.max_lanes or 'n/a'} at most",
            "reseat the card or use another slot; `tunekit profile` shows whether copies slow training down",
            lanes,
            severity=INFO if is_unsure else WARNING,
        )


@check("shared-gpu", WARNING, "{} is in use: less memory and compute are left, and figures will be too low")
def _shared_gpu(one: Gpu) -> Hits:
    gpu, used_bytes, others = one.gpu, one.state.used_bytes, one.state.processes or ()
    if others or (used_bytes or 0) > TAKEN_SHARE * (gpu.memory_bytes or 0):
        named = processes_text(others) or "unnamed processes"
        taken = f"{bytes_text(used_bytes)} of {bytes_text(gpu.memory_bytes)} used by {named}"
        yield Hit(taken, OTHERS_REMEDY, used_bytes)


def processes_text(processes: Sequence[GpuProcess]) -> str:
    """Return the first three processes by name and id, such as "python 4711", and the number of others."""
    return listed([f"{one.name or 'process'} {one.pid}" for one in processes], 3)


@check("gpu-throttled", WARNING, "{} is slowed down by heat or by its power supply")
def _gpu_throttled(one: Gpu) -> Hits:
    state = one.state
    if reasons := [reason for reason in state.throttle_reasons if reason in SLOWDOWNS]:
        yield Hit(", ".join(reasons), COOLING_REMEDY)


@check("power-limited", WARNING, "{} has a lower power limit than its model usually has: it will be slower")
def _power_limited(one: Gpu) -> Hits:
    limit_w, usual_w = one.state.power_limit_w, one.profile.tdp_w if one.profile else None
    if limit_w is not None and usual_w is not None and limit_w < LOW_POWER_SHARE * usual_w:
        yield Hit(
            f"limit {limit_w:.0f} W, usually {usual_w:.0f} W",
            f"nvidia-smi -i {one.gpu.index} -pl {usual_w:.0f}, if the machine is yours",
            limit_w,
        )


@check("ecc-errors", WARNING, "{} had memory errors that it could not correct")
def _ecc_errors(one: Gpu) -> Hits:
    if errors := one.state.ecc_errors:
        seen = f"{count_text(errors, 'uncorrected error')} since the driver was loaded"
        yield Hit(seen, "reset it or take another machine: a long run is likely to crash", errors)
