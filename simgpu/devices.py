"""The device files: `python -m simgpu devices`, and how they are made from tunekit's profiles.

A file is `devices/NAME.conf`, lines of `key = value  # remark`, keys as the fields of `sim_device` in
src/core.h; all of them with their units stand in devices/FORMAT.md. What a profile says is taken from it;
what it does not say comes from the tables and rules here, each with where it is from.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from simgpu.errors import SimgpuError

FOLDER = Path(__file__).parent / "devices"

_MIB = 2**20
_KIB = 2**10


@dataclass(frozen=True)
class Device:
    """One model, as its file describes it; the fields are the file's keys, in its order."""

    name: str
    major: int
    minor: int
    multiprocessors: int
    driver_bytes: int
    memory_bytes: int
    context_bytes: int
    blas_bytes: int
    module_bytes: int
    fp64_flops_per_s: float
    fp32_flops_per_s: float
    tf32_flops_per_s: float
    fp16_flops_per_s: float
    bf16_flops_per_s: float
    fp8_flops_per_s: float
    int8_flops_per_s: float
    bytes_per_s: float
    pcie_generation: int
    pcie_lanes: int
    pinned_bytes_per_s: float
    pageable_bytes_per_s: float
    kernel_ns: int
    launch_ns: int
    queue_depth: int
    max_sm_clock_mhz: int
    memory_clock_mhz: int
    idle_w: float
    limit_w: float
    soak_s: float
    soaked_clock: float
    ecc: int
    l2_bytes: int
    shared_bytes_per_block: int
    shared_bytes_per_sm: int
    threads_per_sm: int
    blocks_per_sm: int
    nvlinks: int


@dataclass(frozen=True)
class _Capability:
    """What a compute capability fixes."""

    threads_per_sm: int
    blocks_per_sm: int
    shared_kib_per_sm: int
    shared_kib_per_block: int
    fp64_share: float
    """Of the fp32 rate; matrix products in fp64 on the tensor cores where there are such."""
    nvlink_gb_per_s: float | None
    """What one link carries, both directions together."""


# CUDA C++ Programming Guide: "Technical Specifications per Compute Capability" (threads, blocks, shared
# memory) and "Throughput of Native Arithmetic Instructions" (fp64 of fp32; 8.0 and 9.0 have fp64 tensor
# cores, whose rate is that of fp32 by their datasheets). Links: the architectures' datasheets.
_CAPABILITIES: Mapping[tuple[int, int], _Capability] = {
    (3, 7): _Capability(2048, 16, 112, 48, 1 / 3, None),
    (6, 0): _Capability(2048, 32, 64, 48, 1 / 2, 40),
    (7, 0): _Capability(2048, 32, 96, 96, 1 / 2, 50),
    (7, 5): _Capability(1024, 16, 64, 64, 1 / 32, 50),
    (8, 0): _Capability(2048, 32, 164, 163, 1, 50),
    (8, 6): _Capability(1536, 16, 100, 99, 1 / 64, 28.125),
    (8, 9): _Capability(1536, 24, 100, 99, 1 / 64, None),
    (9, 0): _Capability(2048, 32, 228, 227, 1, 50),
    (10, 0): _Capability(2048, 32, 228, 227, 1 / 2, 100),
    (12, 0): _Capability(1536, 24, 100, 99, 1 / 64, None),
}

# SM and memory clock in MHz as `nvidia-smi -q -d CLOCK` has them under "Max Clocks", L2 cache in MiB as
# cudaDeviceProp.l2CacheSize. From common knowledge, none read from a card: no time depends on them.
_CLOCKS_AND_CACHE: Mapping[str, tuple[int, int, float]] = {
    "a10": (1695, 6251, 6),
    "a10g": (1710, 6251, 6),
    "a100-pcie-40": (1410, 1215, 40),
    "a100-pcie-80": (1410, 1512, 40),
    "a100-sxm-40": (1410, 1215, 40),
    "a100-sxm-80": (1410, 1593, 40),
    "a40": (1740, 7251, 6),
    "b200": (1965, 3996, 126),
    "h100-pcie": (1755, 1593, 50),
    "h100-sxm": (1980, 2619, 50),
    "h200": (1980, 3201, 60),
    "k80": (875, 2505, 1.5),
    "l4": (2040, 6251, 48),
    "l40": (2490, 9001, 96),
    "l40s": (2520, 9001, 96),
    "p100-pcie-16": (1328, 715, 4),
    "rtx3060": (2130, 7501, 3),
    "rtx3090": (2100, 9751, 6),
    "rtx4080": (3105, 11201, 64),
    "rtx4090": (3105, 10501, 72),
    "rtx5090": (3090, 14001, 96),
    "rtxa6000": (2100, 8001, 6),
    "t4": (1590, 5001, 4),
    "v100-pcie-16": (1380, 877, 6),
    "v100-sxm-16": (1530, 877, 6),
    "v100-sxm-32": (1530, 877, 6),
}

_USUAL_FRACTION = 0.81
"""Of the dense rate, where a profile has no `achievable_bf16_fraction`: the median of the profiles."""
_BANDWIDTH_SHARE = 0.85
"""Of a memory's bandwidth, as a streaming kernel reaches it: an assumption, one for all kinds of memory."""
_USUAL_CUDA_MEMORY = 0.988
"""Of the driver's memory, where a profile has no `torch_memory_bytes`: the median of the profiles."""
_PCIE_LANE_BYTES_PER_S = {3: 8e9 * 128 / 130 / 8, 4: 16e9 * 128 / 130 / 8, 5: 32e9 * 128 / 130 / 8}
"""One lane, one direction: the transfer rate less the 128b/130b encoding."""
_PCIE_SHARE = 0.8
"""What packet headers and flow control leave, an assumption: 12.6 GB/s on 16 lanes of generation 3."""
_PAGEABLE_SHARE, _PAGEABLE_LIMIT = 0.4, 10e9
"""A pageable copy is staged through a pinned buffer by one core, no faster than that core copies; assumed."""
_CONTEXT_BYTES, _CONTEXT_BYTES_PER_THREAD = 30 * _MIB, 1792
"""A context reserves local memory for every resident thread. 100 MiB on a T4 and 408 MiB on an A100 are
assumptions of the right size: the figures differ by driver and by what is loaded."""
_BLAS_BYTES, _BLAS_BYTES_FROM_HOPPER = 4 * _MIB, 32 * _MIB
"""The workspace that a cuBLAS handle comes with, by the documentation of cublasSetWorkspace."""
_MODULE_BYTES = 64 * _KIB
_KERNEL_NS, _LAUNCH_NS = 2500, 2000
"""The least time of a kernel, and of the driver's part of a launch: assumptions of the usual size."""
_IDLE_SHARE = 0.12
"""Of the power limit, an assumption: 8 W on a T4, 48 W on an A100 SXM."""
_PAGE = 2 * _MIB


def read_profiles(folder: Path) -> dict[str, Device]:
    """The devices of the profiles in a folder whose clocks and cache are known here, by id.

    Raises:
        SimgpuError: There are none, or one of them has a capability that the table here lacks.
    """
    import yaml  # noqa: PLC0415 - only who makes the files anew needs it

    profiles = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.yaml"))]
    devices = {one["id"]: _device(one) for one in profiles if one["id"] in _CLOCKS_AND_CACHE}
    if not devices:
        raise SimgpuError(f"{folder} holds no profile of an NVIDIA GPU")
    return devices


def file_text(identity: str, device: Device) -> str:
    """The content of a device's file."""
    lines = [f"# Made from profiles/{identity}.yaml by `python -m simgpu devices --from profiles`."]
    for field in fields(device):
        value = getattr(device, field.name)
        text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        remark = _remark(field.name, value)
        lines.append(f"{field.name} = {text}" + (f"  # {remark}" if remark else ""))
    return "\n".join([*lines, ""])


def write_files(profiles: Path, folder: Path = FOLDER) -> list[Path]:
    """Write the files of all NVIDIA profiles; the paths."""
    written = []
    for identity, device in read_profiles(profiles).items():
        path = folder / f"{identity}.conf"
        path.write_text(file_text(identity, device), encoding="utf-8")
        written.append(path)
    return written


def known_devices(folder: Path = FOLDER) -> dict[str, Mapping[str, str]]:
    """The devices that there are files of, by the name that SIMGPU gives them."""
    return {path.stem: dict(_assignments(path)) for path in sorted(folder.glob("*.conf"))}


def _assignments(path: Path) -> Iterator[tuple[str, str]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        key, equals, value = line.partition("#")[0].partition("=")
        if equals:
            yield key.strip(), value.strip()


def _device(profile: Mapping[str, Any]) -> Device:
    identity = profile["id"]
    major, minor = (int(number) for number in profile["compute_capability"].split("."))
    capability = _CAPABILITIES.get((major, minor))
    if capability is None:
        raise SimgpuError(f"{identity} has the compute capability {major}.{minor}, which _CAPABILITIES lacks")
    sm_clock, memory_clock, l2_mib = _CLOCKS_AND_CACHE[identity]
    threads = profile["multiprocessors"] * capability.threads_per_sm
    generation, lanes = profile["pcie_generation"], profile["pcie_lanes"]
    pinned = _PCIE_LANE_BYTES_PER_S[generation] * lanes * _PCIE_SHARE
    is_consumer = "GeForce" in profile["device_names"][0]
    return Device(
        name=profile["device_names"][0],
        major=major,
        minor=minor,
        multiprocessors=profile["multiprocessors"],
        driver_bytes=profile["memory_bytes"],
        memory_bytes=profile["torch_memory_bytes"] or _pages(profile["memory_bytes"] * _USUAL_CUDA_MEMORY),
        context_bytes=_pages(_CONTEXT_BYTES + threads * _CONTEXT_BYTES_PER_THREAD),
        blas_bytes=_BLAS_BYTES_FROM_HOPPER if major >= 9 else _BLAS_BYTES,
        module_bytes=_MODULE_BYTES,
        **_rates(profile, capability, is_consumer),
        bytes_per_s=_rounded(profile["bandwidth_gb_per_s"] * 1e9 * _BANDWIDTH_SHARE),
        pcie_generation=generation,
        pcie_lanes=lanes,
        pinned_bytes_per_s=_rounded(pinned),
        pageable_bytes_per_s=_rounded(min(pinned * _PAGEABLE_SHARE, _PAGEABLE_LIMIT)),
        kernel_ns=_KERNEL_NS,
        launch_ns=_LAUNCH_NS,
        queue_depth=1024,
        max_sm_clock_mhz=sm_clock,
        memory_clock_mhz=memory_clock,
        idle_w=round(profile["tdp_w"] * _IDLE_SHARE),
        limit_w=profile["tdp_w"],
        soak_s=0,
        soaked_clock=1,
        ecc=0 if is_consumer else 1,
        l2_bytes=int(l2_mib * _MIB),
        shared_bytes_per_block=capability.shared_kib_per_block * _KIB,
        shared_bytes_per_sm=capability.shared_kib_per_sm * _KIB,
        threads_per_sm=capability.threads_per_sm,
        blocks_per_sm=capability.blocks_per_sm,
        nvlinks=_links(profile["nvlink_gb_per_s"], capability),
    )


def _rates(profile: Mapping[str, Any], capability: _Capability, is_consumer: bool) -> dict[str, float]:
    """Operations a second that are reached, by precision.

    int8 has twice fp16's dense rate on every tensor core from Turing on; GeForce cards halve fp16 with fp32
    accumulation, which profiles state, but not int8, so that it is four times theirs.
    """
    fraction = profile["achievable_bf16_fraction"] or _USUAL_FRACTION
    reached = {
        kind: (profile[f"{kind}_tflops"] or 0) * 1e12 * fraction
        for kind in ("fp32", "tf32", "fp16", "bf16", "fp8")
    }
    major, minor = (int(number) for number in profile["compute_capability"].split("."))
    reached["fp64"] = reached["fp32"] * capability.fp64_share
    reached["int8"] = reached["fp16"] * (4 if is_consumer else 2) if (major, minor) >= (7, 5) else 0
    return {f"{kind}_flops_per_s": _rounded(rate) for kind, rate in reached.items()}


def _links(gb_per_s: float | None, capability: _Capability) -> int:
    if gb_per_s is None or capability.nvlink_gb_per_s is None:
        return 0
    return round(gb_per_s / capability.nvlink_gb_per_s)


def _pages(size: float) -> int:
    return int(size) // _PAGE * _PAGE


def _rounded(rate: float) -> float:
    """To four digits: what is known of a rate, and the same text on every machine."""
    return float(f"{rate:.4g}")


def _remark(key: str, value: object) -> str:
    if not isinstance(value, int | float):
        return ""
    if key.endswith("flops_per_s"):
        return f"{value / 1e12:.4g} TFLOPS reached" if value else "none"
    if key.endswith("bytes_per_s"):
        return f"{value / 1e9:.4g} GB/s reached"
    if "bytes" in key:
        return f"{value / _MIB:.5g} MiB" if value >= _MIB else f"{value / _KIB:.5g} KiB"
    return ""
