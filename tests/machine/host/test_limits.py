import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunekit.machine.host import limits
from tunekit.units import GIB, MIB

V1_NONE = "9223372036854771712"
HOST_RAM = 64 * GIB


class Tree:
    """A copied /proc and /sys, small enough to read."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("proc/meminfo", f"MemTotal:       {HOST_RAM // 1024} kB\nMemFree:   1 kB\n")

    def write(self, path: str, text: str) -> None:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")

    def v2(self, process: str = "/", shown: str = "/") -> None:
        self.write("proc/self/cgroup", f"0::{process}\n")
        self.write(
            "proc/self/mountinfo",
            "22 1 0:20 / /proc rw - proc proc rw\n"
            f"29 23 0:26 {shown} /sys/fs/cgroup ro,nosuid shared:4 - cgroup2 cgroup rw,nsdelegate\n",
        )

    def v1(self, process: str = "/", shown: str = "/") -> None:
        self.write("proc/self/cgroup", f"5:memory:{process}\n3:cpu,cpuacct:{process}\n1:name=systemd:/\n")
        self.write(
            "proc/self/mountinfo",
            f"31 30 0:27 {shown} /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
            f"32 30 0:28 {shown} /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
            "33 30 0:29 / /sys/fs/cgroup/systemd ro - cgroup cgroup rw,name=systemd\n",
        )


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_without_cgroups_the_machine_is_the_limit(tree: Tree) -> None:
    assert limits.cgroup_cpu_quota(tree.root) is None
    assert limits.cgroup_memory_limit_bytes(tree.root) is None
    assert limits.ram_limit_bytes(tree.root) == HOST_RAM
    assert limits.cpus_allowed(tree.root) == len(os.sched_getaffinity(0))


def test_v2_limits_of_a_container_with_its_own_namespace(tree: Tree) -> None:
    tree.v2()
    tree.write("sys/fs/cgroup/memory.max", f"{8 * GIB}\n")
    tree.write("sys/fs/cgroup/cpu.max", "250000 100000\n")
    assert limits.ram_limit_bytes(tree.root) == 8 * GIB
    assert limits.cgroup_cpu_quota(tree.root) == 2.5


def test_v2_takes_the_least_over_the_ancestors(tree: Tree) -> None:
    tree.v2("/pod/container/step")
    for folder, memory, cpu in (
        ("pod", f"{4 * GIB}", "300000 100000"),
        ("pod/container", f"{6 * GIB}", "150000 100000"),
        ("pod/container/step", "max", "max 100000"),
    ):
        tree.write(f"sys/fs/cgroup/{folder}/memory.max", memory)
        tree.write(f"sys/fs/cgroup/{folder}/cpu.max", cpu)
    assert limits.ram_limit_bytes(tree.root) == 4 * GIB
    assert limits.cgroup_cpu_quota(tree.root) == 1.5


def test_v1_limits_of_a_nested_group(tree: Tree) -> None:
    tree.v1("/docker/abc")
    tree.write("sys/fs/cgroup/memory/memory.limit_in_bytes", V1_NONE)
    tree.write("sys/fs/cgroup/memory/docker/memory.limit_in_bytes", f"{3 * GIB}")
    tree.write("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", f"{5 * GIB}")
    tree.write("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "50000")
    tree.write("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000")
    tree.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1")
    tree.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000")
    assert limits.ram_limit_bytes(tree.root) == 3 * GIB
    assert limits.cgroup_cpu_quota(tree.root) == 0.5


@pytest.mark.parametrize("unlimited", [V1_NONE, "-1"])
def test_the_huge_v1_value_is_no_limit(tree: Tree, unlimited: str) -> None:
    tree.v1()
    tree.write("sys/fs/cgroup/memory/memory.limit_in_bytes", unlimited)
    assert limits.cgroup_memory_limit_bytes(tree.root) is None
    assert limits.ram_limit_bytes(tree.root) == HOST_RAM


@pytest.mark.parametrize(
    ("process", "shown"),
    [("/docker/abc", "/docker/abc"), ("/kubepods/x", "/docker/abc"), ("/../other", "/")],
    ids=["mounted at its own group", "mounted at another group", "outside the namespace"],
)
def test_a_container_finds_its_group_at_the_mount_point(tree: Tree, process: str, shown: str) -> None:
    tree.v1(process, shown)
    tree.write("sys/fs/cgroup/memory/memory.limit_in_bytes", f"{2 * GIB}")
    tree.write("sys/fs/cgroup/other/memory.limit_in_bytes", f"{MIB}")
    assert limits.ram_limit_bytes(tree.root) == 2 * GIB


def test_a_hybrid_machine_reads_both_versions(tree: Tree) -> None:
    tree.write("proc/self/cgroup", "4:memory:/job\n3:cpuset:/\n1:cpu:/\n0::/\n")
    tree.write(
        "proc/self/mountinfo",
        "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n",
    )
    tree.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", f"{7 * GIB}")
    tree.write("sys/fs/cgroup/unified/cpu.max", "400000 100000")
    tree.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1")
    assert limits.ram_limit_bytes(tree.root) == 7 * GIB
    assert limits.cgroup_cpu_quota(tree.root) == 4


@pytest.mark.parametrize(
    ("cpu_max", "cpus"), [("10000 100000", 1), ("100000 100000", 1), ("199000 100000", 1)]
)
def test_a_quota_rounds_down_to_one_cpu_at_the_least(tree: Tree, cpu_max: str, cpus: int) -> None:
    tree.v2()
    tree.write("sys/fs/cgroup/cpu.max", cpu_max)
    assert limits.cpus_allowed(tree.root) == cpus


@given(cgroup=st.text(), mountinfo=st.text(), meminfo=st.text())
def test_no_text_of_the_kernel_stops_detection(
    tmp_path_factory: pytest.TempPathFactory, cgroup: str, mountinfo: str, meminfo: str
) -> None:
    tree = Tree(tmp_path_factory.mktemp("root"))
    for name, text in (("self/cgroup", cgroup), ("self/mountinfo", mountinfo), ("meminfo", meminfo)):
        (tree.root / "proc" / name).parent.mkdir(exist_ok=True)
        (tree.root / "proc" / name).write_bytes(text.encode("utf-8", "replace"))
    assert limits.ram_limit_bytes(tree.root) > 0
    assert limits.cpus_allowed(tree.root) >= 1


@given(st.lists(st.integers(1, 128 * GIB) | st.none(), min_size=1, max_size=5))
def test_the_limit_is_the_least_of_any_chain_of_groups(
    tmp_path_factory: pytest.TempPathFactory, chain: list[int | None]
) -> None:
    tree = Tree(tmp_path_factory.mktemp("root"))
    groups = ["/".join(f"g{level}" for level in range(depth)) for depth in range(len(chain))]
    tree.v2("/" + groups[-1])
    for group, limit in zip(groups, chain, strict=True):
        tree.write(f"sys/fs/cgroup/{group}/memory.max", "max" if limit is None else str(limit))
    assert limits.ram_limit_bytes(tree.root) == min(
        [HOST_RAM, *(limit for limit in chain if limit is not None)]
    )


PRINT_HOST = """
from tunekit.machine.detect import detect_host
host = detect_host(profiles={})
print(host.cpus, host.cpus_affinity, host.cpu_quota)
"""


def test_a_host_obeys_the_affinity_that_a_process_gives_itself() -> None:
    program = f"import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\n{PRINT_HOST}"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout.split()[:2] == ["1", "1"]


def test_memory_that_is_free_is_the_machines_without_a_limit(tree: Tree) -> None:
    assert limits.ram_available_bytes(tree.root) is None
    tree.write("proc/meminfo", "MemTotal: 64 kB\nMemFree: 1 kB\nMemAvailable:   32 kB\n")
    assert limits.ram_available_bytes(tree.root) == 32 * 1024


def test_v2_page_cache_that_is_not_in_use_counts_as_free(tree: Tree) -> None:
    tree.v2("/job")
    tree.write("sys/fs/cgroup/job/memory.max", f"{8 * GIB}")
    tree.write("sys/fs/cgroup/job/memory.current", f"{7 * GIB}\n")
    assert limits.ram_available_bytes(tree.root) == GIB
    tree.write("sys/fs/cgroup/job/memory.stat", f"anon {GIB}\ninactive_file {5 * GIB}\nactive_file {GIB}\n")
    assert limits.ram_available_bytes(tree.root) == 6 * GIB


def test_v1_page_cache_that_is_not_in_use_counts_as_free(tree: Tree) -> None:
    tree.v1("/job")
    group = "sys/fs/cgroup/memory/job"
    tree.write(f"{group}/memory.limit_in_bytes", f"{8 * GIB}")
    tree.write(f"{group}/memory.usage_in_bytes", f"{7 * GIB}")
    tree.write(f"{group}/memory.stat", f"inactive_file 1\ntotal_inactive_file {2 * GIB}\n")
    assert limits.ram_available_bytes(tree.root) == 3 * GIB


def test_what_is_free_is_the_least_over_the_ancestors_and_the_machine(tree: Tree) -> None:
    tree.v2("/pod/step")
    for folder, limit, used in (("pod", 10, 9), ("pod/step", 4, 1)):
        tree.write(f"sys/fs/cgroup/{folder}/memory.max", f"{limit * GIB}")
        tree.write(f"sys/fs/cgroup/{folder}/memory.current", f"{used * GIB}")
    assert limits.ram_available_bytes(tree.root) == GIB
    tree.write("proc/meminfo", f"MemTotal: {HOST_RAM // 1024} kB\nMemAvailable: {MIB // 1024} kB\n")
    assert limits.ram_available_bytes(tree.root) == MIB


@pytest.mark.parametrize(
    ("high", "limit"), [(f"{3 * GIB}", 3 * GIB), ("max", 8 * GIB), (f"{9 * GIB}", 8 * GIB)]
)
def test_v2_the_soft_limit_counts_because_the_kernel_holds_back_above_it(
    tree: Tree, high: str, limit: int
) -> None:
    tree.v2()
    tree.write("sys/fs/cgroup/memory.max", f"{8 * GIB}")
    tree.write("sys/fs/cgroup/memory.high", high)
    assert limits.ram_limit_bytes(tree.root) == limit


@pytest.mark.parametrize(
    ("has_cpu", "nodes"), [("0\n", 1), ("0-1\n", 2), ("0,2-4\n", 4), ("\n", None), (None, None)]
)
def test_numa_nodes_with_cpus_are_counted(tree: Tree, has_cpu: str | None, nodes: int | None) -> None:
    if has_cpu is not None:
        tree.write("sys/devices/system/node/has_cpu", has_cpu)
        tree.write("sys/devices/system/node/has_memory", "0-15\n")
    assert limits.numa_nodes(tree.root) == nodes


def test_what_is_taken_of_shm_is_that_of_its_file_system(tree: Tree) -> None:
    assert limits.shm_used_bytes(tree.root) is None
    shm = tree.root / "dev/shm"
    shm.mkdir(parents=True)
    used_bytes = limits.shm_used_bytes(tree.root)
    assert used_bytes is not None
    assert 0 <= used_bytes <= shutil.disk_usage(shm).total


def test_v2_counts_the_kernels_kills(tree: Tree) -> None:
    tree.v2("/job")
    tree.write("sys/fs/cgroup/job/memory.events", "low 0\nmax 9\noom 2\noom_kill 3\noom_group_kill 0\n")
    assert limits.oom_kills(tree.root) == 3


def test_without_cgroups_the_machine_counts_the_kernels_kills(tree: Tree) -> None:
    assert limits.oom_kills(tree.root) is None
    tree.write("proc/vmstat", "pgfault 12\noom_kill 7\n")
    assert limits.oom_kills(tree.root) == 7


# --- how busy the CPUs are, on this very machine ---------------------------------------------

SPIN = "print(flush=True)\nwhile True: pass"


@pytest.fixture
def hog() -> Iterator[None]:
    """One CPU for this test, and a process on it that does nothing but compute, already running."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    spinning = subprocess.Popen([sys.executable, "-c", SPIN], stdout=subprocess.PIPE)
    try:
        assert spinning.stdout is not None
        spinning.stdout.readline()
        yield
    finally:
        spinning.kill()
        spinning.communicate()
        os.sched_setaffinity(0, before)


@pytest.mark.usefixtures("hog")
def test_what_other_programs_compute_is_seen() -> None:
    assert limits.busy_share() > 0.5


def test_a_core_with_two_threads_is_one_and_no_more_are_used_than_cpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "cpus_allowed", lambda: 6)
    for cores, usable in ((4, 4), (8, 6), (None, 6)):
        monkeypatch.setattr(
            limits.psutil, "cpu_count", lambda logical, cores=cores: None if logical else cores
        )
        assert limits.cpu_cores() == usable
