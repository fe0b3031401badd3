"""GPUs: who else is on them, what holds their clocks down, how they are linked."""

from tunekit.hardware.device import has_less_memory
from tunekit.hardware.gpu.visible import is_order_known
from tunekit.records.checkup import Checkup
from tunekit.records.finding import Finding, Severity
from tunekit.records.host import Accelerator, GpuState, Host
from tunekit.records.profile import Profile
from tunekit.units import bytes_text, count_text

SLOWDOWNS = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
"""Reasons that an idle GPU does not have."""
POWER_CAP = "sw_power_cap"
"""The reason of a GPU that computes at its power limit."""
_HOT_C = 85.0
_NARROW_LANES = 4
_TAKEN_SHARE = 0.05
"""Of the memory; the driver's own share of an idle GPU is below it."""
_LOW_POWER_SHARE = 0.85
_FEW_CPUS_PER_GPU = 4


def device_findings(checkup: Checkup, profile: Profile | None) -> list[Finding]:
    """Return what is wrong with the GPUs, and with precision and compile on the first of them."""
    gpus = checkup.host.accelerators
    if not gpus:
        found = [_no_gpu(checkup), _cpu_bf16(checkup)]
        return [finding for finding in found if finding is not None]
    found = [_mixed(gpus), _order(checkup), _few_cpus(checkup), *_capabilities(gpus[0], profile)]
    for gpu in gpus:
        found += [
            _partition(gpu),
            _unknown(gpu),
            _narrow_link(gpu, checkup.host),
            _less_memory(gpu, gpus[0], profile),
        ]
        if gpu.state is not None:
            found += _state_findings(gpu, gpu.state, profile if gpu.name == gpus[0].name else None)
    return [finding for finding in found if finding is not None]


def _no_gpu(checkup: Checkup) -> Finding:
    return Finding(
        code="no-gpu",
        severity=Severity.INFO,
        message="there is no GPU: training runs on the CPU",
        evidence=(
            "neither the NVIDIA driver nor torch shows one"
            if checkup.host.torch
            else "the NVIDIA driver shows none"
        ),
        remedy="if there should be one, `nvidia-smi` must list it; in a container start it with --gpus all",
    )


def _cpu_bf16(checkup: Checkup) -> Finding | None:
    if checkup.host.cpu_bf16_native is not False:
        return None
    return Finding(
        code="bf16-emulated",
        severity=Severity.INFO,
        message="this CPU has no bf16 arithmetic: bf16 may save memory but is unlikely to be faster",
        evidence="/proc/cpuinfo lists neither avx512_bf16 nor amx_bf16 nor bf16",
        remedy="measure before you train in it: `tunekit search` does",
    )


def _state_findings(gpu: Accelerator, state: GpuState, profile: Profile | None) -> list[Finding | None]:
    return [
        _shared(gpu, state),
        _throttled(gpu, state),
        _hot(gpu, state),
        _power_limited(gpu, state, profile),
        _ecc(gpu, state),
    ]


def _shared(gpu: Accelerator, state: GpuState) -> Finding | None:
    others = state.processes or ()
    if not others and (state.used_bytes or 0) <= _TAKEN_SHARE * (gpu.memory_bytes or 0):
        return None
    named = ", ".join(f"{one.name or 'process'} {one.pid}" for one in others[:3])
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    who = f"computing on it: {named}{more}" if others else "the driver names no process"
    return Finding(
        code="shared-gpu",
        severity=Severity.WARNING,
        message=f"GPU {gpu.index} is in use: memory and time are missing, and figures will be too low",
        evidence=f"{bytes_text(state.used_bytes)} of {bytes_text(gpu.memory_bytes)} taken; {who}",
        remedy="wait, end them, or choose another GPU with CUDA_VISIBLE_DEVICES",
        value=state.used_bytes,
    )


def _throttled(gpu: Accelerator, state: GpuState) -> Finding | None:
    reasons = [reason for reason in state.throttle_reasons if reason in SLOWDOWNS]
    if not reasons:
        return None
    return Finding(
        code="gpu-throttled",
        severity=Severity.WARNING,
        message=f"GPU {gpu.index} is slowed down by heat or by its power supply",
        evidence=(
            f"{', '.join(reasons)}; {_figure(state.sm_clock_mhz, ' MHz')} of "
            f"{_figure(state.max_sm_clock_mhz, ' MHz')}, {_figure(state.temperature_c, ' C')}"
        ),
        remedy="look after its cooling and power, or take another machine: a long run will be slower still",
    )


def _hot(gpu: Accelerator, state: GpuState) -> Finding | None:
    if state.temperature_c is None or state.temperature_c < _HOT_C:
        return None
    return Finding(
        code="gpu-hot",
        severity=Severity.WARNING,
        message=f"GPU {gpu.index} is hot before training has started",
        evidence=f"{state.temperature_c:.0f} C",
        remedy="let it cool, and look who else computes on it",
        value=state.temperature_c,
    )


def _power_limited(gpu: Accelerator, state: GpuState, profile: Profile | None) -> Finding | None:
    tdp_w = profile.tdp_w if profile else None
    if profile is None or tdp_w is None or state.power_limit_w is None:
        return None
    if state.power_limit_w >= _LOW_POWER_SHARE * tdp_w:
        return None
    return Finding(
        code="power-limited",
        severity=Severity.WARNING,
        message=f"GPU {gpu.index} may draw less power than its kind usually does: it will be slower",
        evidence=f"limit {state.power_limit_w:.0f} W, profile {profile.id} has {tdp_w:.0f} W",
        remedy=f"nvidia-smi -i {gpu.index} -pl {tdp_w:.0f}, if the machine is yours",
        value=state.power_limit_w,
    )


def _ecc(gpu: Accelerator, state: GpuState) -> Finding | None:
    if not state.ecc_errors:
        return None
    return Finding(
        code="ecc-errors",
        severity=Severity.WARNING,
        message=f"GPU {gpu.index} had memory errors that it could not correct",
        evidence=f"{count_text(state.ecc_errors, 'uncorrected error')} since the driver was loaded",
        remedy="reset it or take another machine: a long run is likely to crash",
        value=state.ecc_errors,
    )


def _narrow_link(gpu: Accelerator, host: Host) -> Finding | None:
    """Find fewer lanes than there could be; in a virtual machine the driver knows nothing of the slot."""
    link = gpu.pcie
    if link is None or link.lanes is None:
        return None
    is_below = link.max_lanes is not None and link.lanes < link.max_lanes
    if not is_below and link.lanes > _NARROW_LANES:
        return None
    is_rented = host.is_virtual is True and link.lanes > _NARROW_LANES
    who = "the GPU" if host.is_virtual else "the slot and the GPU"
    best = f"; {who} could do x{link.max_lanes}" if is_below else ""
    return Finding(
        code="pcie-narrow",
        severity=Severity.INFO if is_rented else Severity.WARNING,
        message=f"GPU {gpu.index} is linked by {'fewer' if is_below else 'few'} PCIe lanes"
        f"{' than it could be' if is_below else ''}: batches take longer to reach it",
        evidence=f"x{link.lanes} now{best}",
        remedy="all machines of its type may be wired so; `tunekit profile` shows whether copies hold it up"
        if is_rented
        else "reseat the card or use another slot; on a rented machine take another",
        value=link.lanes,
    )


def _partition(gpu: Accelerator) -> Finding | None:
    if not gpu.is_partition:
        return None
    return Finding(
        code="mig-partition",
        severity=Severity.INFO,
        message=f"GPU {gpu.index} is a MIG partition: a part of a GPU, whose figures no profile has",
        evidence=f"{gpu.name}, {bytes_text(gpu.memory_bytes)}",
        remedy="predictions are n/a for it; measure on it",
    )


def _unknown(gpu: Accelerator) -> Finding | None:
    if gpu.profile_id is not None or gpu.is_partition:
        return None
    return Finding(
        code="unknown-gpu",
        severity=Severity.WARNING,
        message=f"no profile knows GPU {gpu.index}: rates, prices and predictions are n/a",
        evidence=f"{'the driver' if 'nvml' in gpu.seen_by else 'torch'} calls it {gpu.name!r}",
        remedy="copy a file of `tunekit gpus NAME` to ~/.config/tunekit/profiles and fill in what you know",
    )


def _less_memory(gpu: Accelerator, first: Accelerator, profile: Profile | None) -> Finding | None:
    if profile is None or gpu.name != first.name or gpu.is_partition or not has_less_memory(gpu, profile):
        return None
    return Finding(
        code="less-gpu-memory",
        severity=Severity.WARNING,
        message=f"GPU {gpu.index} shows less memory than its kind has",
        evidence=(
            f"{bytes_text(gpu.memory_bytes)}, profile {profile.id} has {bytes_text(profile.memory_bytes)}"
        ),
        remedy="it may be a virtual GPU's share; tunekit plans with what is here",
        value=gpu.memory_bytes,
    )


def _mixed(gpus: tuple[Accelerator, ...]) -> Finding | None:
    names = sorted({gpu.name for gpu in gpus})
    if len(names) == 1:
        return None
    return Finding(
        code="mixed-gpus",
        severity=Severity.WARNING,
        message="the GPUs are of several kinds: data-parallel training waits for the slowest",
        evidence=", ".join(names),
        remedy="choose equal ones with CUDA_VISIBLE_DEVICES",
    )


def _order(checkup: Checkup) -> Finding | None:
    models, environment = checkup.host.gpu_models, checkup.environment
    if is_order_known(models, environment):
        return None
    chosen = environment.get("CUDA_VISIBLE_DEVICES")
    return Finding(
        code="device-order",
        severity=Severity.WARNING,
        message="CUDA numbers GPUs of several kinds by speed: its numbers may mean others than nvidia-smi's",
        evidence=f"{', '.join(models)}; CUDA_DEVICE_ORDER is "
        + (environment.get("CUDA_DEVICE_ORDER") or "not set")
        + ("" if chosen is None else f", CUDA_VISIBLE_DEVICES={chosen}"),
        remedy="export CUDA_DEVICE_ORDER=PCI_BUS_ID",
    )


def _few_cpus(checkup: Checkup) -> Finding | None:
    host = checkup.host
    per_gpu = host.cpus / len(host.accelerators)
    if per_gpu >= _FEW_CPUS_PER_GPU:
        return None
    return Finding(
        code="few-cpus-per-gpu",
        severity=Severity.INFO,
        message="few CPUs feed each GPU: decoding and augmenting may hold it back",
        evidence=f"{count_text(host.cpus, 'CPU')} for {count_text(len(host.accelerators), 'GPU')}",
        remedy="`tunekit search` shows whether the loader is the limit; decode on the GPU or rent more vCPUs",
        value=per_gpu,
    )


def _capabilities(gpu: Accelerator, profile: Profile | None) -> list[Finding | None]:
    if profile is None or profile.is_cpu:
        return []
    found: list[Finding | None] = []
    if "bf16" not in profile.native_precisions and "fp16" in profile.native_precisions:
        found.append(
            Finding(
                code="bf16-emulated",
                severity=Severity.WARNING,
                message="this GPU emulates bf16: it gains nothing over fp32, though torch calls it supported",
                evidence=f"{gpu.name}, compute capability {gpu.compute_capability or 'n/a'}; native: "
                + ", ".join(profile.native_precisions),
                remedy="train in fp16 with torch.amp.GradScaler, or in fp32",
            )
        )
    if profile.compile_supported is False:
        found.append(
            Finding(
                code="compile-unsupported",
                severity=Severity.INFO,
                message="torch.compile does not run on this GPU",
                evidence=profile.compile_note or f"compute capability {gpu.compute_capability or 'n/a'}",
                remedy="leave compile off",
            )
        )
    return found


def _figure(value: float | None, unit: str) -> str:
    return "n/a" if value is None else f"{value:.0f}{unit}"
