"""What is shown of a machine: facts, then findings, on a terminal of any width."""

import re
from typing import Any

import pytest
from build_calibrations import calibration
from build_checkups import (
    H200,
    checkup,
    checkups,
    gpu,
    link,
    loader_plan,
    storage_of,
    torch_of,
    without_gpu,
)
from build_records import GIB, MIB
from hypothesis import given, settings
from hypothesis import strategies as st
from read_report import Read
from read_report import drawn as drawn_blocks

from tunekit.diagnose.machine import machine_findings
from tunekit.records.checkup import Checkup, StorageKind
from tunekit.records.finding import Finding, Severity
from tunekit.records.profile import Profile
from tunekit.report.doctor import calibration_blocks, doctor_report

HEALTHY_AT_80 = """
Nothing stands in the way of training here.

GPU      0: NVIDIA H200, 140.4 GiB, compute capability 9.0, PCIe x16 of 16,
         driver 580.65.06, 31 C, 345 of 1980 MHz, 75 of 700 W, profile h200,
         seen by the driver and torch
CPU      32 of 32 may be used: Intel(R) Xeon(R), load average 0.4
memory   512.0 GiB, 480.0 GiB available
/dev/shm 256.0 GiB, 0 B used
torch    2.13.0+cu130 (CUDA 13.0, cuDNN 91002), Python 3.12.1, /env/bin/python
storage  /data/shards: disk nvme0n1, nvme, ext4; 1,000 files, 130.4 GiB; read
         cold: 3,120 MB/s in sequence, 412 MB/s in random reads of 64.0 KiB
         (before: 25% in the page cache)
loader   8 workers x prefetch 2, batches of 147.0 MiB: buffer 2.3 GiB
         (predicted), less than 1% of the RAM limit
"""

ILL_AT_80 = r"""
Training will fail here, or miss the GPU: 2 errors, 5 warnings.

GPU      0: NVIDIA\x1b[31m H200\nerror, 140.4 GiB, compute capability 9.0, PCIe
         x8 of 16, driver 580.65.06, 88 C, 345 of 1980 MHz, 75 of 700 W, no
         profile, seen by the driver
CPU      6 of 64 may be used (affinity 32, quota 6): Intel(R) Xeon(R), 2 NUMA
         nodes, load average 2.2
memory   192.0 GiB that the cgroup grants of 512.0 GiB, 100.0 GiB available
/dev/shm 64.0 MiB, 0 B used
torch    2.13.0+cpu (CPU build), Python 3.12.1, /env/bin/python
storage  /data/shards: network, nfs4; 200,000 files or more, 130.4 GiB or more;
         read cold: 72.5 MB/s in sequence, 3.12 MB/s in random reads of 109.4
         KiB (before: 25% in the page cache)
loader   3 workers x prefetch 2 in each of 2 processes, batches of 147.0 MiB:
         buffer 1.7 GiB (predicted), less than 1% of the RAM limit

error torch-cpu-build: this torch is built without CUDA: it will train on the
CPU beside an idle GPU
  seen: torch 2.13.0+cpu in /env/bin/python; the driver shows NVIDIA\x1b[31m
  H200\nerror
  do: install the CUDA build for your driver: pytorch.org/get-started

error small-shm: /dev/shm has too little room for the loader's full queue:
workers die with a bus error
  seen: (3 workers x prefetch 2 + 1) x 2 processes batches of 147.0 MiB are 2.0
  GiB (predicted); /dev/shm has 64.0 MiB
  do: start the container with --ipc=host or --shm-size=8g (Kubernetes: an
  emptyDir of medium Memory at /dev/shm), or load with fewer workers or a
  smaller prefetch

warning unknown-gpu: no profile knows GPU 0: rates, prices and predictions are
n/a
  seen: the driver calls it 'NVIDIA\x1b[31m H200\nerror'
  do: copy a file of `tunekit gpus NAME` to ~/.config/tunekit/profiles and fill
  in what you know

warning pcie-narrow: few PCIe lanes link GPU 0: batches take longer to reach it
  seen: x8 now; it could do x16
  do: reseat the card or use another slot; a rented machine's type may be wired
  so: `tunekit profile` shows whether copies slow training down

warning gpu-hot: GPU 0 is hot before training has started
  seen: 88 C
  do: let it cool, and check what else runs on it

warning network-storage: /data/shards is read over a network: every epoch pays
its latency, and others share it
  seen: /data/shards is on nfs4, mounted at /data
  do: copy it to a local disk, or pack it into large shards and read ahead with
  more workers

warning slow-storage: the storage under /data/shards is slow
  seen: 72.5 MB/s in sequence, 3.12 MB/s in random reads of 109.4 KiB; reading
  all 130.4 GiB once at the lower rate takes at least 12h 26m
  do: move the data to faster storage, read ahead with more workers, or keep it
  smaller on disk

not shown: numa
"""


def judged(seen: Checkup, profile: Profile | None = H200) -> Checkup:
    return seen.model_copy(update={"findings": machine_findings(seen, profile)})


def view_checkup(seen: Checkup, silenced: tuple[str, ...] = ()) -> Read:
    return Read(doctor_report(seen, silenced))


def drawn(seen: Checkup, width: int, silenced: tuple[str, ...] = ()) -> str:
    return drawn_blocks(doctor_report(seen, silenced).blocks, width)


def healthy() -> Checkup:
    return judged(checkup(loader=loader_plan(), storage=storage_of()))


def ill() -> Checkup:
    """A container with Docker's /dev/shm, a CPU build beside a GPU with a hostile name, and files far off."""
    card = gpu(
        name="NVIDIA\x1b[31m H200\nerror",
        profile_id=None,
        pcie=link(8),
        seen_by=("nvml",),
        state={"temperature_c": 88},
    )
    build = torch_of(
        version="2.13.0+cpu",
        cuda_version=None,
        cudnn_version=None,
        architectures=(),
        devices=(),
        threads=6,
    )
    far = storage_of(
        kind=StorageKind.NETWORK,
        filesystem="nfs4",
        device=None,
        files=200_000,
        is_walk_complete=False,
        sequential_mb_per_s=72.5,
        random_mb_per_s=3.125,
        random_read_bytes=112_000,
    )
    return judged(
        checkup(
            cpus=6,
            cpus_total=64,
            cpu_quota=6.0,
            numa_nodes=2,
            load_average=2.25,
            ram_limit_bytes=192 * GIB,
            ram_available_bytes=100 * GIB,
            shm_bytes=64 * MIB,
            accelerators=(card,),
            torch=build,
            loader=loader_plan(3, processes=2),
            storage=far,
            environment={"OMP_NUM_THREADS": "1"},
        ),
        None,
    )


def test_a_machine_in_good_order():
    assert drawn(healthy(), 80) == HEALTHY_AT_80


def test_a_machine_that_is_ill():
    assert drawn(ill(), 80, ("numa",)) == ILL_AT_80


@settings(max_examples=60)
@given(checkups(), st.sampled_from([None, H200]), st.sampled_from([80, 100, 120, 200]))
def test_no_line_is_wider_than_the_terminal_nor_ends_in_spaces(
    seen: Checkup, profile: Profile | None, width: int
):
    from rich.cells import cell_len

    for line in drawn(judged(seen, profile), width).split("\n"):
        # A path or a variable's value is never broken: it has to be copied whole.
        label, _, told = line.strip().partition("  ")  # a path is never broken, not even after its label
        assert cell_len(line) <= width or " " not in (told or label)
        assert line == line.rstrip(" ")
        assert line.isprintable()


@settings(max_examples=60)
@given(checkups(), st.sampled_from([None, H200]))
def test_every_finding_begins_a_line_of_its_own(seen: Checkup, profile: Profile | None):
    whole = judged(seen, profile)
    lines = drawn(whole, 10_000).split("\n")
    words = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
    headings = [
        " ".join(line.split(" ")[:2])
        for line in lines
        if re.match(r"(error|warning|note) [a-z0-9-]+: ", line)
    ]
    assert headings == [f"{words[one.severity]} {one.code}:" for one in whole.findings]


@pytest.mark.parametrize("width", [80, 120])
def test_further_lines_begin_below_their_first(width: int):
    lines = drawn(ill(), width).splitlines()
    facts = lines[3 : lines.index("", 3)]
    assert all(line[:9].strip() == "" or line[8] == " " for line in facts)
    assert sum(line.startswith(" " * 9) for line in facts) >= 2


@pytest.mark.parametrize(
    ("severities", "answer"),
    [
        ([], "Nothing stands in the way of training here."),
        (["info"], "Nothing stands in the way of training here: 1 note."),
        (["warning", "info", "info"], "Training will run here, but look at this first: 1 warning, 2 notes."),
        (["error"], "Training will fail here, or miss the GPU: 1 error."),
        (
            ["error", "error", "warning", "info"],
            "Training will fail here, or miss the GPU: 2 errors, 1 warning, 1 note.",
        ),
    ],
)
def test_the_answer_counts_by_severity(severities: list[str], answer: str):
    found = tuple(Finding(code="some", severity=Severity(one), message="some") for one in severities)
    assert view_checkup(checkup().model_copy(update={"findings": found})).answer == answer


def test_what_is_silenced_is_named():
    assert view_checkup(checkup(), ("numa", "tf32-off")).quiet == ("not shown: numa, tf32-off",)
    assert view_checkup(checkup()).quiet == ()
    assert "not shown" not in drawn(checkup(), 80)


def fact(label: str, seen: Checkup) -> list[str]:
    return [text for name, text in view_checkup(seen).facts if name == label]


def test_every_gpu_has_a_line():
    seen = checkup(accelerators=(gpu(0), gpu(1, state={"temperature_c": None}, pcie=link(8, None))))
    first, second = fact("GPU", seen)
    assert first.startswith("0: NVIDIA H200, 140.4 GiB, compute capability 9.0, PCIe x16 of 16, driver 580")
    assert second.startswith("1: NVIDIA H200")
    assert "PCIe x8," in second
    assert " C," not in second
    assert fact("GPU", without_gpu()) == ["none"]


def test_a_gpu_of_which_nothing_is_known():
    bare = gpu(driver=None, compute_capability=None, profile_id=None, pcie=None, seen_by=("torch",))
    bare = bare.model_copy(update={"state": None})
    assert fact("GPU", checkup(accelerators=(bare,))) == [
        "0: NVIDIA H200, 140.4 GiB, no profile, seen by torch"
    ]


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ({"load_average": None, "cpu_name": None}, "32 of 32 may be used: unknown model"),
        (
            {"cpus": 3, "cpus_affinity": 8, "cpu_quota": 3.5, "numa_nodes": 4},
            "3 of 32 may be used (affinity 8, quota 3.5): Intel(R) Xeon(R), 4 NUMA nodes, load average 0.4",
        ),
    ],
)
def test_cpus_with_what_limits_them(host: dict[str, Any], text: str):
    assert fact("CPU", checkup(**host)) == [text]


def test_memory_with_what_limits_it():
    assert fact("memory", checkup(ram_available_bytes=None)) == ["512.0 GiB"]
    limited = checkup(ram_limit_bytes=8 * GIB, ram_available_bytes=GIB)
    assert fact("memory", limited) == ["8.0 GiB that the cgroup grants of 512.0 GiB, 1.0 GiB available"]


@pytest.mark.parametrize(
    ("shm_bytes", "used_bytes", "text"),
    [(None, None, "none"), (GIB, None, "1.0 GiB"), (GIB, 64 * MIB, "1.0 GiB, 64.0 MiB used")],
)
def test_shm_with_what_is_taken(shm_bytes: int | None, used_bytes: int | None, text: str):
    assert fact("/dev/shm", checkup(shm_bytes=shm_bytes, shm_used_bytes=used_bytes)) == [text]


@pytest.mark.parametrize(
    ("build", "made_for"),
    [
        ({}, "CUDA 13.0, cuDNN 91002"),
        ({"cudnn_version": None}, "CUDA 13.0"),
        ({"cuda_version": None, "cudnn_version": None, "hip_version": "6.4"}, "ROCm 6.4"),
        ({"cuda_version": None, "cudnn_version": None}, "CPU build"),
    ],
)
def test_torch_with_what_it_is_built_for(build: dict[str, Any], made_for: str):
    assert fact("torch", checkup(torch=torch_of(**build))) == [
        f"2.13.0+cu130 ({made_for}), Python 3.12.1, /env/bin/python"
    ]


def test_a_torch_that_is_not_known():
    assert fact("torch", checkup(torch=None, why_no_torch="no torch there")) == ["no torch there"]
    assert fact("torch", checkup(torch=None)) == ["not asked"]


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        (
            {"files": 1, "total_bytes": 5, "cached_share_before": None, "filesystem": None},
            "/data/shards: disk nvme0n1, nvme, unknown file system; 1 file, 5 B; read cold: 3,120 MB/s in "
            "sequence, 412 MB/s in random reads of 64.0 KiB",
        ),
        (
            {"device": "vda", "kind": StorageKind.UNKNOWN, "random_mb_per_s": None},
            "/data/shards: disk vda, kind unknown, ext4; 1,000 files, 130.4 GiB; read cold: 3,120 MB/s in "
            "sequence (before: 25% in the page cache); a virtual disk: its host may cache",
        ),
        (
            {"device": None, "kind": StorageKind.UNKNOWN, "filesystem": "9p", "random_mb_per_s": None}
            | {"measured_cold": None, "cached_share_before": None},
            "/data/shards: kind unknown, 9p; 1,000 files, 130.4 GiB; read: 3,120 MB/s in sequence; what "
            "lies below is not known: it may cache",
        ),
        (
            {"random_mb_per_s": None, "measured_cold": False, "cached_share_before": 1.0},
            "/data/shards: disk nvme0n1, nvme, ext4; 1,000 files, 130.4 GiB; read from the page cache: "
            "3,120 MB/s in sequence (before: 100% in the page cache)",
        ),
        (
            {"kind": StorageKind.NONE, "filesystem": "proc", "files": 0, "total_bytes": 0},
            "/data/shards: proc, no storage: the kernel makes up its files",
        ),
        (
            {
                "kind": StorageKind.MEMORY,
                "filesystem": "tmpfs",
                "device": None,
                "sequential_mb_per_s": None,
                "random_mb_per_s": None,
                "cached_share_before": None,
            },
            "/data/shards: memory, tmpfs; 1,000 files, 130.4 GiB; needs no measurement",
        ),
    ],
)
def test_storage_with_what_was_measured(overrides: dict[str, Any], text: str):
    assert fact("storage", checkup(storage=storage_of(**overrides))) == [text]
    assert fact("storage", checkup()) == []


def test_every_data_set_has_a_line():
    seen = checkup(storage=(storage_of(path="/data/train"), storage_of(path="/data/val")))
    assert [text.split(":")[0] for text in fact("storage", seen)] == ["/data/train", "/data/val"]


@pytest.mark.parametrize(
    ("loader", "text"),
    [
        (loader_plan(1, batch_bytes=None), "1 worker x prefetch 2"),
        (loader_plan(0), "0 workers"),
        (
            loader_plan(256),
            "256 workers x prefetch 2, batches of 147.0 MiB: buffer 73.5 GiB (predicted), 14% of the RAM "
            "limit",
        ),
        (
            loader_plan(2, batch_bytes=None, taken_from="balanced of reports/train"),
            "2 workers x prefetch 2 (balanced of reports/train)",
        ),
        (loader_plan(0, taken_from="baseline of reports/train"), "0 workers (baseline of reports/train)"),
        (
            loader_plan(4, prefetch_factor=3, processes=8, batch_bytes=None),
            "4 workers x prefetch 3 in each of 8 processes",
        ),
    ],
)
def test_how_the_data_is_loaded(loader: Any, text: str):
    assert fact("loader", checkup(loader=loader)) == [text]
    assert fact("loader", checkup()) == []


# --- calibration -----------------------------------------------------------------------------


def calibrated(width: int = 80, **overrides: object) -> str:
    return drawn_blocks(calibration_blocks(calibration(**overrides), "/home/me/h200.json", width), width)


def test_every_figure_is_marked_measured_and_says_where_it_was_saved():
    text = calibrated()
    assert "NVIDIA H200: memory beside torch's tensors (measured)" in text
    assert "CUDA context and libraries         500.0 MiB" in text
    assert "cuDNN workspace, at most           100.0 MiB" in text
    assert "with cudnn.benchmark             400.0 MiB" in text
    assert "Convolutions beyond their tensors (measured)" in text
    assert "Saved in /home/me/h200.json; predictions for this GPU go by it" in " ".join(text.split())
    assert max(len(line) for line in text.splitlines()) <= 80


def test_who_told_of_the_context_is_said():
    assert "the driver's figure of the process" in calibrated()
    assert "the driver does not tell of processes here" in " ".join(
        calibrated(context_seen_by="device").split()
    )


def test_workspaces_that_do_not_stay_are_said_to_be_given_back():
    assert "cuBLAS's workspaces stay." in calibrated()
    assert "cuBLAS's workspaces are given back after each matmul." in calibrated(blas_is_kept=False)


def test_what_was_not_measured_is_na():
    text = calibrated(convolutions=(), cudnn_version=None, driver=None)
    assert "cuDNN workspace, at most                 n/a" in text
    assert "torch 2.13.0+cu130, cuDNN n/a, driver n/a." in text
