"""CPUs, memory and /dev/shm: which machine is warned of, and which just not."""

from typing import Any

import pytest
from build_checkups import (
    H200_BYTES,
    checkup,
    codes,
    finding_of,
    gpu,
    loader_plan,
    only_finding,
    without_gpu,
)
from build_records import GIB, MIB

from tunekit.recommend.diagnose.host import host_findings
from tunekit.records.finding import Severity

QUEUE = 17 * 147 * MIB
"""Of `loader_plan()` in /dev/shm: 8 workers x prefetch 2 + 1 batches."""

BUFFER = 16 * 147 * MIB
"""Of `loader_plan()` in memory: 8 workers x prefetch 2 batches."""


def test_a_queue_that_shm_can_not_hold_is_an_error():
    finding = only_finding(checkup(shm_bytes=QUEUE - 1, loader=loader_plan()))
    assert finding.code == "small-shm"
    assert finding.severity is Severity.ERROR
    assert finding.evidence == (
        "(8 workers x prefetch 2 + 1) batches of 147.0 MiB are 2.4 GiB (predicted); /dev/shm has 2.4 GiB"
    )
    assert "--shm-size=8g" in (finding.remedy or "")
    assert finding.value == QUEUE


def test_a_queue_that_shm_just_holds_is_fine():
    assert codes(checkup(shm_bytes=QUEUE, loader=loader_plan())) == []


def test_what_others_keep_in_shm_is_not_there_for_the_queue():
    held = {"shm_bytes": 8 * GIB, "loader": loader_plan()}
    assert "small-shm" not in codes(checkup(shm_used_bytes=8 * GIB - QUEUE, **held))
    finding = finding_of("small-shm", checkup(shm_used_bytes=8 * GIB - QUEUE + 1, **held))
    assert finding.severity is Severity.ERROR
    assert (finding.evidence or "").endswith("are 2.4 GiB (predicted); /dev/shm has 2.4 GiB free of 8.0 GiB")
    assert "--shm-size=9g" in (finding.remedy or "")


def test_every_process_brings_its_queue():
    seen = checkup(shm_bytes=16 * GIB, loader=loader_plan(processes=7), environment={"OMP_NUM_THREADS": "1"})
    finding = finding_of("small-shm", seen)
    assert finding.value == 7 * QUEUE
    assert "(8 workers x prefetch 2 + 1) x 7 processes batches of 147.0 MiB are 17.1 GiB" in (
        finding.evidence or ""
    )
    assert "--shm-size=18g" in (finding.remedy or "")


@pytest.mark.parametrize(
    ("size_bytes", "evidence"),
    [
        (64 * MIB, "/dev/shm has 64.0 MiB, Docker's default"),
        (512 * MIB - 1, "/dev/shm has 512.0 MiB"),
        (0, "/dev/shm has 0 B"),
    ],
)
@pytest.mark.parametrize("loader", [None, loader_plan(batch_bytes=None)])
def test_small_shm_without_a_known_batch_is_a_warning(size_bytes: int, evidence: str, loader: Any):
    finding = only_finding(checkup(shm_bytes=size_bytes, loader=loader))
    assert (finding.code, finding.severity) == ("small-shm", Severity.WARNING)
    assert finding.evidence == evidence
    assert "--ipc=host or --shm-size=8g" in (finding.remedy or "")
    assert finding.value == size_bytes


def test_half_a_gib_of_shm_is_not_small():
    assert codes(checkup(shm_bytes=512 * MIB)) == []


@pytest.mark.parametrize("shm_bytes", [None, 64 * MIB])
def test_without_workers_shm_does_not_matter(shm_bytes: int | None):
    assert codes(checkup(shm_bytes=shm_bytes, loader=loader_plan(0))) == []


@pytest.mark.parametrize(("loader", "severity"), [(None, Severity.WARNING), (loader_plan(), Severity.ERROR)])
def test_workers_need_shm(loader: Any, severity: Severity):
    finding = only_finding(checkup(shm_bytes=None, shm_used_bytes=None, loader=loader))
    assert (finding.code, finding.severity) == ("no-shm", severity)
    assert finding.evidence == "/dev/shm is not mounted"
    assert "num_workers 0" in (finding.remedy or "")


@pytest.mark.parametrize(
    ("ram_bytes", "severity", "evidence"),
    [
        (5 * BUFFER, None, None),
        (5 * BUFFER - 5, Severity.WARNING, "20% of the 11.5 GiB that may be used; safe is up to 20%"),
        (2 * BUFFER, Severity.WARNING, "50% of the 4.6 GiB that may be used"),
        (int(BUFFER / 0.85) + 1, Severity.WARNING, "85% of the 2.7 GiB that may be used"),
        (int(BUFFER / 0.85) - 1, Severity.ERROR, "85% of the 2.7 GiB that may be used"),
    ],
)
def test_the_buffer_is_held_against_memory(ram_bytes: int, severity: Severity | None, evidence: str | None):
    seen = without_gpu(
        ram_limit_bytes=ram_bytes, ram_total_bytes=ram_bytes, ram_available_bytes=None, loader=loader_plan()
    )
    found = [code for code in codes(seen, None) if code != "no-gpu"]
    if severity is None:
        assert found == []
        return
    assert found == ["large-buffer"]
    finding = finding_of("large-buffer", seen, None)
    assert finding.severity is severity
    assert (finding.evidence or "").startswith("2.3 GiB (predicted) are ")
    assert evidence is not None
    assert evidence in (finding.evidence or "")
    assert "smaller batch" in (finding.remedy or "")
    assert finding.value == BUFFER


@pytest.mark.parametrize(("batch_bytes", "severity"), [(17, Severity.WARNING), (18, Severity.ERROR)])
def test_at_the_very_share_of_memory_that_kills_the_buffer_still_fits(batch_bytes: int, severity: Severity):
    seen = without_gpu(
        ram_limit_bytes=1700,
        ram_total_bytes=1700,
        ram_available_bytes=None,
        loader=loader_plan(84, prefetch_factor=1, batch_bytes=batch_bytes),
    )
    assert finding_of("large-buffer", seen, None).severity is severity


def test_shm_that_others_fill_is_a_warning():
    finding = only_finding(checkup(shm_bytes=64 * GIB, shm_used_bytes=32 * GIB + 1))
    assert (finding.code, finding.severity) == ("shm-in-use", Severity.WARNING)
    assert finding.evidence == "32.0 GiB of 64.0 GiB are used"
    assert "torch_*" in (finding.remedy or "")
    assert codes(checkup(shm_bytes=64 * GIB, shm_used_bytes=32 * GIB)) == []
    assert codes(checkup(shm_used_bytes=None)) == []


def test_more_workers_than_cpus_are_a_warning():
    finding = only_finding(checkup(loader=loader_plan(33), environment={"OMP_NUM_THREADS": "0"}))
    assert (finding.code, finding.severity) == ("more-workers-than-cpus", Severity.WARNING)
    assert finding.evidence == "33 workers, 32 CPUs that may be used"
    assert (finding.remedy or "").startswith("use at most 32 workers;")
    assert finding.value == 33
    assert codes(checkup(loader=loader_plan(32), environment={"OMP_NUM_THREADS": "1"})) == []


def test_workers_of_all_processes_share_the_cpus():
    seen = checkup(loader=loader_plan(11, processes=3), environment={"OMP_NUM_THREADS": "0"})
    finding = only_finding(seen)
    assert finding.evidence == "11 workers in each of 3 processes, 32 CPUs that may be used"
    assert (finding.remedy or "").startswith("use at most 10 workers in each of 3 processes;")
    assert finding.value == 33


@pytest.mark.parametrize(
    ("limits", "evidence"),
    [
        ({"cpus": 8, "cpus_affinity": 8}, "affinity allows 8"),
        ({"cpus": 12, "cpu_quota": 12.5}, "the cgroup's quota is 12.5"),
        (
            {"cpus": 6, "cpus_affinity": 16, "cpu_quota": 6.0},
            "affinity allows 16, the cgroup's quota is 6",
        ),
        ({"cpus": 31, "cpus_affinity": None}, None),
        ({"cpus": 31, "cpus_affinity": 32, "cpu_quota": 32.0}, None),
    ],
)
def test_fewer_cpus_than_seen_is_a_note(limits: dict[str, Any], evidence: str | None):
    seen = checkup(**limits)
    seen = seen.model_copy(update={"host": seen.host.model_copy(update={"torch": None})})
    finding = only_finding(seen)
    assert (finding.code, finding.severity) == ("fewer-cpus-than-seen", Severity.INFO)
    assert finding.message.startswith(f"{limits['cpus']} of 32 CPUs may be used")
    assert finding.evidence == evidence
    assert "sched_getaffinity" in (finding.remedy or "")
    assert finding.value == limits["cpus"]


def test_memory_below_the_machines_is_a_note():
    limit_bytes = int(0.98 * 512 * GIB)
    finding = only_finding(checkup(ram_limit_bytes=256 * GIB, ram_available_bytes=200 * GIB))
    assert (finding.code, finding.severity) == ("cgroup-below-host-ram", Severity.INFO)
    assert (finding.evidence or "").startswith("the cgroup grants 256.0 GiB of 512.0 GiB;")
    assert finding.remedy == "plan with the limit: tunekit does"
    assert finding.value == 256 * GIB
    assert codes(checkup(ram_limit_bytes=limit_bytes + 1)) == []
    assert codes(checkup(ram_limit_bytes=limit_bytes - 1)) == ["cgroup-below-host-ram"]
    assert codes(checkup(ram_limit_bytes=490 * GIB, ram_total_bytes=500 * GIB)) == []


def test_little_free_memory_is_a_warning():
    fifth = 100 * GIB
    seen = checkup(ram_limit_bytes=500 * GIB, ram_total_bytes=500 * GIB, ram_available_bytes=fifth - 1)
    finding = only_finding(seen)
    assert (finding.code, finding.severity) == ("low-free-ram", Severity.WARNING)
    assert finding.evidence == "100.0 GiB of 500.0 GiB are available"
    assert "ps aux" in (finding.remedy or "")
    assert finding.value == fifth - 1
    enough = checkup(ram_limit_bytes=500 * GIB, ram_total_bytes=500 * GIB, ram_available_bytes=fifth)
    assert codes(enough) == []
    assert codes(checkup(ram_available_bytes=None)) == []


def test_less_memory_than_the_gpus_have_is_a_note():
    two = (gpu(0), gpu(1))
    limits = {"ram_available_bytes": None, "accelerators": two}
    below, enough = 2 * H200_BYTES - 1, 2 * H200_BYTES
    finding = only_finding(checkup(ram_limit_bytes=below, ram_total_bytes=below, **limits))
    assert (finding.code, finding.severity) == ("ram-below-gpu-memory", Severity.INFO)
    assert finding.evidence == "280.8 GiB RAM, 280.8 GiB on 2 GPUs"
    assert "mmap=True" in (finding.remedy or "")
    assert codes(checkup(ram_limit_bytes=enough, ram_total_bytes=enough, **limits)) == []


def test_a_gpu_that_shares_the_machines_memory_needs_no_memory_beside_it():
    own = gpu(seen_by=("torch",), memory_bytes=600 * GIB)
    assert "ram-below-gpu-memory" not in codes(checkup(accelerators=(own,)))


def test_a_busy_machine_is_a_warning():
    finding = only_finding(checkup(load_average=16.04))
    assert (finding.code, finding.severity) == ("busy-cpus", Severity.WARNING)
    assert finding.evidence == "load average 16.0 over the last minute, 32 CPUs"
    assert "`top`" in (finding.remedy or "")
    assert finding.value == 16.04
    assert codes(checkup(load_average=16.0)) == []
    assert codes(checkup(load_average=None)) == []


@pytest.mark.parametrize(
    ("cpus", "load", "severity"),
    [
        (2, 1.0, None),
        (2, 1.05, Severity.INFO),
        (2, 1.5, Severity.INFO),
        (2, 1.55, Severity.WARNING),
        (1, 0.6, Severity.INFO),
        (8, 4.0, None),
        (8, 4.05, Severity.WARNING),
    ],
)
def test_what_one_process_that_has_just_ended_leaves_is_a_note(
    cpus: int, load: float, severity: Severity | None
):
    few = checkup(cpus=cpus, cpus_total=cpus, cpus_affinity=cpus, load_average=load)
    found = [one.severity for one in host_findings(few, None) if one.code == "busy-cpus"]
    assert found == ([] if severity is None else [severity])


@pytest.mark.parametrize(
    ("cpus", "processes", "remedy"),
    [
        (2, 4, "start at most 2 processes with 1 worker each, or load with workers 0"),
        (1, 2, "start at most 1 process with 1 worker each, or load with workers 0"),
        (4, 4, "use at most 1 worker in each of 4 processes; `tunekit search` finds the best"),
    ],
)
def test_where_one_worker_each_is_too_many_fewer_processes_are_the_remedy(
    cpus: int, processes: int, remedy: str
):
    loader = loader_plan(2, processes=processes)
    seen = checkup(cpus=cpus, cpus_total=cpus, cpus_affinity=cpus, loader=loader)
    assert finding_of("more-workers-than-cpus", seen).remedy == remedy


def test_several_numa_nodes_are_a_note_with_the_gpus_own():
    gpus = (gpu(0, numa_node=1), gpu(1, numa_node=None), gpu(2, numa_node=0))
    finding = only_finding(checkup(numa_nodes=2, accelerators=gpus))
    assert (finding.code, finding.severity) == ("numa", Severity.INFO)
    assert finding.evidence == "2 nodes; GPU 0 on node 1, GPU 2 on node 0"
    assert finding.remedy == "for GPU 0: numactl --cpunodebind=1 --membind=1 python train.py"


def test_one_numa_node_or_none_that_is_known_is_fine():
    assert codes(checkup(numa_nodes=1, accelerators=(gpu(numa_node=0),))) == []
    assert codes(checkup(numa_nodes=2, accelerators=(gpu(numa_node=None),))) == []
    assert codes(checkup(numa_nodes=None, accelerators=(gpu(numa_node=0),))) == []


def test_few_open_files_are_a_note_for_many_workers():
    finding = only_finding(checkup(open_files_limit=1024, loader=loader_plan(8)))
    assert (finding.code, finding.severity) == ("few-open-files", Severity.INFO)
    assert finding.evidence == "ulimit -n is 1024; 8 workers"
    assert finding.remedy == "ulimit -n 65536 before training"
    assert finding.value == 1024
    assert codes(checkup(open_files_limit=1024, loader=loader_plan(7))) == []
    assert codes(checkup(open_files_limit=1025, loader=loader_plan(8))) == []
    assert codes(checkup(open_files_limit=None, loader=loader_plan(8))) == []


def test_nobody_is_said_to_have_workers_that_nobody_named():
    finding = only_finding(checkup(open_files_limit=256))
    assert finding.evidence == "ulimit -n is 256; a worker for each CPU would be 32"


@pytest.mark.parametrize(
    ("governor", "expected"), [("powersave", ["cpu-powersave"]), ("schedutil", []), (None, [])]
)
def test_the_powersave_governor_is_a_note(governor: str | None, expected: list[str]):
    seen = checkup(cpu_governor=governor)
    assert codes(seen) == expected
    if expected:
        finding = only_finding(seen)
        assert finding.severity is Severity.INFO
        assert finding.evidence == "the scaling governor is powersave"
        assert "cpupower" in (finding.remedy or "")
