"""Machines for the tests of `tunekit doctor`: one in good order, of which each test spoils one thing."""

from collections.abc import Mapping
from typing import Any

from any_records import records, texts
from build_records import GIB, MIB
from build_records import host as any_host
from hypothesis import strategies as st

from tunekit.diagnose.machine import machine_findings
from tunekit.diagnose.software import VARIABLES
from tunekit.machine.profiles import load_profiles
from tunekit.records.checkup import Checkup, LoaderPlan, Storage, StorageKind
from tunekit.records.finding import Finding
from tunekit.records.host import Accelerator, GpuProcess, GpuState, Host, PcieLink, TorchBuild, TorchDevice
from tunekit.records.profile import Profile

H200: Profile = load_profiles()["h200"]
T4: Profile = load_profiles()["t4"]
H200_BYTES = 143_771 * MIB

CU126 = ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90")
CU130 = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120")
"""What torch.cuda.get_arch_list() answers in torch 2.13's builds for CUDA 12.6 and 13.0."""


def gpu_state(**overrides: Any) -> GpuState:
    """An idle, cool H200."""
    values: dict[str, Any] = {
        "used_bytes": 4 * MIB,
        "utilization_percent": 0,
        "power_w": 75,
        "power_limit_w": 700,
        "temperature_c": 31,
        "sm_clock_mhz": 345,
        "max_sm_clock_mhz": 1980,
        "throttle_reasons": ("gpu_idle",),
        "ecc_errors": 0,
        "processes": (),
    }
    return GpuState(**(values | overrides))


def link(lanes: int | None = 16, max_lanes: int | None = 16) -> PcieLink:
    return PcieLink(lanes=lanes, max_lanes=max_lanes)


def gpu(index: int = 0, *, state: Mapping[str, Any] | None = None, **overrides: Any) -> Accelerator:
    """An H200 that the driver and torch see; `state` overrides fields of `gpu_state`."""
    values: dict[str, Any] = {
        "index": index,
        "name": "NVIDIA H200",
        "memory_bytes": H200_BYTES,
        "compute_capability": "9.0",
        "driver": "580.65.06",
        "profile_id": "h200",
        "seen_by": ("nvml", "torch"),
        "uuid": f"GPU-{index}",
        "pcie": link(),
        "state": gpu_state(**(state or {})),
    }
    return Accelerator(**(values | overrides))


def seen_device(**overrides: Any) -> TorchDevice:
    values: dict[str, Any] = {
        "type": "cuda",
        "name": "NVIDIA H200",
        "memory_bytes": H200_BYTES,
        "compute_capability": "9.0",
    }
    return TorchDevice(**(values | overrides))


def torch_of(**overrides: Any) -> TorchBuild:
    """Torch for CUDA 13.0 that sees the H200 and multiplies fp32 in TF32."""
    values: dict[str, Any] = {
        "python": "/env/bin/python",
        "python_version": "3.12.1",
        "version": "2.13.0+cu130",
        "cuda_version": "13.0",
        "hip_version": None,
        "cudnn_version": "91002",
        "architectures": CU130,
        "devices": (seen_device(),),
        "threads": 32,
        "float32_matmul_precision": "high",
    }
    return TorchBuild(**(values | overrides))


def storage_of(**overrides: Any) -> Storage:
    """1,000 shards of 140 MB on an NVMe disk, read cold."""
    values: dict[str, Any] = {
        "path": "/data/shards",
        "filesystem": "ext4",
        "mount_point": "/data",
        "device": "nvme0n1",
        "kind": StorageKind.NVME,
        "files": 1000,
        "total_bytes": 140_000_000_000,
        "is_walk_complete": True,
        "sequential_mb_per_s": 3120.0,
        "random_mb_per_s": 412.0,
        "random_read_bytes": 64 << 10,
        "bytes_read": 512 * MIB,
        "measured_cold": True,
    }
    return Storage(**(values | overrides))


def loader_plan(num_workers: int = 8, **overrides: Any) -> LoaderPlan:
    """8 workers, prefetch 2, batches of 147 MiB: 17 of them are 2.4 GiB."""
    return LoaderPlan(num_workers=num_workers, **({"batch_bytes": 147 * MIB} | overrides))


def checkup(
    *,
    environment: Mapping[str, str] | None = None,
    unset: tuple[str, ...] = (),
    compiler: str | None = "/usr/bin/g++",
    loader: LoaderPlan | None = None,
    storage: Storage | tuple[Storage, ...] = (),
    why_no_torch: str | None = None,
    why_no_command: str | None = None,
    **host: Any,
) -> Checkup:
    """A machine in good order: an H200, 32 CPUs, 512 GiB; what is not named here is of its host."""
    values: dict[str, Any] = {
        "cpus": 32,
        "cpus_total": 32,
        "cpus_affinity": 32,
        "cpu_bf16_native": True,
        "numa_nodes": 1,
        "ram_limit_bytes": 512 * GIB,
        "ram_total_bytes": 512 * GIB,
        "ram_available_bytes": 480 * GIB,
        "shm_bytes": 256 * GIB,
        "shm_used_bytes": 0,
        "open_files_limit": 1 << 20,
        "load_average": 0.4,
        "accelerators": (gpu(),),
        "torch": torch_of(),
    }
    variables = {"OMP_NUM_THREADS": "4", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    variables |= environment or {}
    return Checkup(
        tunekit_version="1.0.0",
        created_at="2026-01-02T03:04:05+00:00",
        host=any_host(**(values | host)),
        why_no_torch=why_no_torch,
        why_no_command=why_no_command,
        storage=(storage,) if isinstance(storage, Storage) else storage,
        loader=loader,
        environment={name: text for name, text in variables.items() if name not in unset},
        compiler=compiler,
    )


def without_gpu(**more: Any) -> Checkup:
    """The machine without its GPU, and torch's CPU build."""
    build = torch_of(
        version="2.13.0+cpu",
        cuda_version=None,
        cudnn_version=None,
        architectures=(),
        devices=(),
    )
    return checkup(**({"accelerators": (), "torch": build} | more))


def found(seen: Checkup, profile: Profile | None = H200) -> list[Finding]:
    """Return all that is wrong with the machine, the worst first."""
    return list(machine_findings(seen, profile))


def codes(seen: Checkup, profile: Profile | None = H200) -> list[str]:
    """Return the codes of all that is wrong with the machine, the worst first."""
    return [finding.code for finding in found(seen, profile)]


def only_finding(seen: Checkup, profile: Profile | None = H200) -> Finding:
    """Return the one thing that is wrong with the machine."""
    (finding,) = found(seen, profile)
    return finding


_capabilities = st.none() | st.sampled_from(
    ["3.5", "6.1", "7.5", "8.6", "8.9", "9.0", "10.3", "12.0", "gfx90a"]
)
_VALUES = ["", "0", "1", "4", "64", "off", "9" * 400, "expandable_segments:True"]


def _any_gpus() -> st.SearchStrategy[tuple[Accelerator, ...]]:
    state = records(
        GpuState,
        throttle_reasons=st.lists(st.sampled_from(["gpu_idle", "hw_slowdown", "sw_thermal_slowdown"])).map(
            tuple
        ),
        processes=st.none() | st.lists(records(GpuProcess), max_size=5).map(tuple),
    )
    one = records(
        Accelerator,
        compute_capability=_capabilities,
        profile_id=st.sampled_from([None, "h200", "t4"]),
        pcie=st.none() | records(PcieLink),
        state=st.none() | state,
    )
    return st.lists(one, max_size=3).map(tuple)


def _any_torch() -> st.SearchStrategy[TorchBuild]:
    devices = records(TorchDevice, type=st.sampled_from(["cuda", "mps"]), compute_capability=_capabilities)
    return records(
        TorchBuild,
        cuda_version=st.sampled_from([None, "12.6", "13.0"]),
        architectures=st.sampled_from([(), CU126, CU130]) | st.lists(texts, max_size=3).map(tuple),
        devices=st.lists(devices, max_size=2).map(tuple),
        float32_matmul_precision=st.sampled_from([None, "highest", "high"]),
    )


def checkups() -> st.SearchStrategy[Checkup]:
    """Any machine, in any order or disorder."""
    storage = st.lists(records(Storage), max_size=2, unique_by=lambda one: one.path).map(tuple)
    return records(
        Checkup,
        host=records(Host, accelerators=_any_gpus(), torch=st.none() | _any_torch()),
        storage=storage,
        loader=st.none() | records(LoaderPlan),
        environment=st.dictionaries(st.sampled_from(VARIABLES), st.sampled_from(_VALUES) | texts),
    )
