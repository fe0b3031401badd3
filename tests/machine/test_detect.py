import subprocess
import sys
from pathlib import Path

import pytest
from machine.scripted_nvml import (
    H200,
    L4,
    SLICED,
    SLICES,
    T4,
    ScriptedNvml,
    torch_device,
    torch_with,
)
from machine.shipped import PROFILES

from tunekit.machine.detect import (
    cpu_has_native_bf16,
    detect_host,
    is_virtual_machine,
)
from tunekit.machine.gpu.nvml import NvmlDevice
from tunekit.machine.gpu.visible import visible_devices
from tunekit.records.host import GpuProcess, GpuState, PcieLink
from tunekit.units import GIB

GPUS = (T4, L4, H200)
LINK = PcieLink(lanes=16, max_lanes=16)
STATE = GpuState(
    used_bytes=GIB,
    utilization_percent=98,
    power_w=655,
    temperature_c=64,
    processes=(GpuProcess(pid=7, used_bytes=GIB),),
)


@pytest.fixture(autouse=True)
def no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_a_host_lists_its_gpus_with_their_profiles() -> None:
    nvml = ScriptedNvml([T4, L4])
    host = detect_host(nvml, PROFILES)
    assert [(gpu.index, gpu.name, gpu.profile_id) for gpu in host.accelerators] == [
        (0, "Tesla T4", "t4"),
        (1, "NVIDIA L4", "l4"),
    ]
    assert host.accelerators[0].memory_bytes == 15 * GIB
    assert host.accelerators[0].driver == "550.54.15"
    assert not nvml.is_open


def test_a_gpu_that_does_not_answer_is_left_out() -> None:
    host = detect_host(ScriptedNvml([None, L4], driver=None), PROFILES)
    assert [gpu.name for gpu in host.accelerators] == ["NVIDIA L4"]
    assert host.accelerators[0].driver is None


@pytest.mark.parametrize("chosen", [None, "0,1", "1"])
def test_gpus_come_in_the_order_that_torch_numbers_them_in_where_it_was_asked(
    monkeypatch: pytest.MonkeyPatch, chosen: str | None
) -> None:
    """CUDA puts the fastest first: its 0 is the driver's 1, and its 1 the driver's 0."""
    seen = [torch_device(L4), torch_device(T4)]
    if chosen is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
        seen = [seen[int(number)] for number in chosen.split(",")]
    host = detect_host(ScriptedNvml([T4, L4]), PROFILES, torch=torch_with(*seen))
    found = [(gpu.index, gpu.profile_id, gpu.seen_by) for gpu in host.accelerators]
    both = ("nvml", "torch")
    assert found == ([(0, "t4", both)] if chosen == "1" else [(1, "l4", both), (0, "t4", both)])


def test_a_partition_of_which_torch_tells_its_own_uuid_is_the_one_that_shows() -> None:
    host = detect_host(ScriptedNvml([SLICED]), PROFILES, torch=torch_with(torch_device(SLICES[1])))
    assert [(gpu.uuid, gpu.is_partition) for gpu in host.accelerators] == [("MIG-two", True)]
    # Some versions tell the whole GPU's: then the driver's list says which one shows.
    whole = torch_device(SLICES[0], uuid=SLICED.uuid)
    host = detect_host(ScriptedNvml([SLICED]), PROFILES, torch=torch_with(whole))
    assert [gpu.uuid for gpu in host.accelerators] == ["MIG-one"]


@pytest.mark.parametrize(
    ("chosen", "shown"),
    [
        (None, (T4, L4, H200)),
        ("", ()),
        (" 1 , 0 ", (L4, T4)),
        ("0,-1,1", (T4,)),
        ("1,1", ()),
        ("GPU-3333", (H200,)),
        ("GPU-1111", ()),
        ("GPU-11112222,GPU-33333333", (L4, H200)),
        ("MIG-one", ()),
    ],
)
def test_the_users_choice_of_devices_is_read_as_cuda_reads_it(
    chosen: str | None, shown: tuple[NvmlDevice, ...]
) -> None:
    assert visible_devices(GPUS, chosen) == shown


@pytest.mark.parametrize(
    ("chosen", "shown"),
    [
        (None, (SLICES[0],)),
        (SLICED.uuid, (SLICES[0],)),
        ("MIG-two", (SLICES[1],)),
        ("MIG-t", (SLICES[1],)),
        ("MIG-two,MIG-one", (SLICES[1],)),
    ],
)
def test_of_a_partitioned_gpu_one_partition_shows(chosen: str | None, shown: tuple[NvmlDevice, ...]) -> None:
    assert visible_devices([SLICED], chosen) == shown


def test_a_gpu_comes_with_what_the_driver_says_of_it(tmp_path: Path) -> None:
    for address, node in (("0000:0a:00.0", "0\n"), ("0000:bb:00.0", "1\n")):
        folder = tmp_path / "sys/bus/pci/devices" / address
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(node, encoding="ascii")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 1048576 kB\n", encoding="utf-8")
    nvml = ScriptedNvml(
        [T4, L4],
        states={1: STATE},
        links={1: LINK},
        bus_ids={0: "00000000:0A:00.0", 1: "00000000:BB:00.0"},
    )
    bare, full = detect_host(nvml, PROFILES, tmp_path).accelerators
    assert (bare.uuid, bare.numa_node, bare.pcie, bare.state) == (T4.uuid, 0, None, None)
    assert (full.uuid, full.numa_node, full.pcie, full.state) == (L4.uuid, 1, LINK, STATE)
    assert full.seen_by == ("nvml",)
    assert not full.is_partition


def test_a_partition_is_marked_and_has_its_gpus_heat_but_not_its_load() -> None:
    nvml = ScriptedNvml([SLICED], states={0: STATE}, links={0: LINK})
    partition = detect_host(nvml, PROFILES).accelerators[0]
    assert partition.is_partition
    assert partition.uuid == SLICES[0].uuid
    assert partition.pcie == LINK
    assert partition.state == GpuState(power_w=655, temperature_c=64, used_bytes=1 << 20)
    assert partition.numa_node is None


def test_a_host_reads_limits_from_the_tree_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 1048576 kB\n", encoding="utf-8")
    (tmp_path / "proc/cpuinfo").write_text("model name\t: Some CPU @ 2 GHz\n", encoding="utf-8")
    host = detect_host(ScriptedNvml([]), PROFILES, tmp_path)
    assert host.ram_total_bytes == host.ram_limit_bytes == GIB
    assert host.cpu_name == "Some CPU @ 2 GHz"
    assert (host.shm_bytes, host.shm_used_bytes) == (None, None)
    assert (host.cpu_quota, host.numa_nodes, host.ram_available_bytes) == (None, None, None)
    assert host.accelerators == ()


@pytest.mark.parametrize(
    ("cpuinfo", "has_bf16", "is_virtual"),
    [
        ("processor\t: 0\nflags\t\t: fpu sse2 avx512_bf16 fsrm\n", True, False),
        ("processor\t: 0\nflags\t\t: fpu sse2 avx2 hypervisor lahf_lm\n", False, True),
        ("processor\t: 0\nFeatures\t: fp asimd sve bf16 i8mm\n", True, None),
        ("processor\t: 0\nvmx flags\t: bf16\n", None, None),
        (None, None, None),
    ],
)
def test_a_cpu_tells_native_bf16_and_a_virtual_machine_by_its_features(
    tmp_path: Path, cpuinfo: str | None, has_bf16: bool | None, is_virtual: bool | None
) -> None:
    if cpuinfo is not None:
        (tmp_path / "proc").mkdir()
        (tmp_path / "proc/cpuinfo").write_text(cpuinfo, encoding="utf-8")
    assert (cpu_has_native_bf16(tmp_path), is_virtual_machine(tmp_path)) == (has_bf16, is_virtual)


def test_detection_never_imports_torch() -> None:
    program = (
        "import sys; from tunekit.machine.detect import detect_host; from tunekit.machine import device; "
        "detect_host(); print('torch' in sys.modules)"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "False"
