"""What is shown of a machine: facts, then findings, on a terminal of any width."""

from collections.abc import Callable

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
from hypothesis import given
from hypothesis import strategies as st
from read_report import Read
from read_report import drawn as drawn_blocks

from tunekit.diagnose.machine import machine_findings
from tunekit.records.checkup import Checkup, StorageKind
from tunekit.records.profile import Profile
from tunekit.report.doctor import calibration_blocks, doctor_report

Golden = Callable[[str], object]


def judged(seen: Checkup, profile: Profile | None = H200) -> Checkup:
    return seen.model_copy(update={"findings": machine_findings(seen, profile)})


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


# --- calibration -----------------------------------------------------------------------------


def test_a_healthy_and_an_ill_machine(golden: Golden):
    assert (drawn(healthy(), 80) + drawn(ill(), 80, ("numa",))) == golden("doctor.txt")


NOT_MEASURED = {"sequential_mb_per_s": None, "random_mb_per_s": None}
BARE_GPU = gpu(driver=None, compute_capability=None, profile_id=None, pcie=None, seen_by=("torch",))
CHECKUPS: dict[str, Checkup] = {
    "two GPUs": checkup(accelerators=(gpu(0), gpu(1, state={"temperature_c": None}, pcie=link(8, None)))),
    "bare GPU": checkup(accelerators=(BARE_GPU.changed(state=None),)),
    "no GPU": without_gpu(),
    "limited": checkup(
        cpus=3,
        cpus_affinity=8,
        cpu_quota=3.5,
        numa_nodes=4,
        ram_limit_bytes=8 * GIB,
        ram_available_bytes=None,
        shm_bytes=GIB,
        shm_used_bytes=None,
    ),
    "no cuDNN": checkup(torch=torch_of(cudnn_version=None)),
    "ROCm": checkup(torch=torch_of(cuda_version=None, cudnn_version=None, hip_version="6.4")),
    "no torch": checkup(torch=None, why_no_torch="no torch there"),
    "small storage": checkup(storage=storage_of(files=1, total_bytes=5, filesystem=None)),
    "virtual disk": checkup(storage=storage_of(device="vda", kind=StorageKind.UNKNOWN, random_mb_per_s=None)),
    "unknown storage": checkup(
        storage=storage_of(device=None, kind=StorageKind.UNKNOWN, filesystem="9p", measured_cold=None)
    ),
    "cached": checkup(storage=storage_of(measured_cold=False)),
    "in memory": checkup(
        storage=storage_of(kind=StorageKind.MEMORY, filesystem="tmpfs", device=None, **NOT_MEASURED)
    ),
    "two data sets": checkup(storage=(storage_of(path="/data/train"), storage_of(path="/data/val"))),
    "no workers": checkup(loader=loader_plan(0, taken_from="baseline of reports/train")),
    "eight ranks": checkup(loader=loader_plan(4, prefetch_factor=3, processes=8, batch_bytes=None)),
}


def test_what_is_here(golden: Golden):
    """The facts of each machine that differ from those of a plain one."""
    plain = Read(doctor_report(checkup())).facts
    texts = [
        f"{name}\n" + "".join(f"  {fact}: {text}\n" for fact, text in facts if (fact, text) not in plain)
        for name, seen in CHECKUPS.items()
        for facts in (Read(doctor_report(seen)).facts,)
    ]
    assert "".join(texts) == golden("doctor-facts.txt")


def test_a_calibration(golden: Golden):
    known = calibration()
    unknown = calibration(
        convolutions=(), cudnn_version=None, driver=None, context_seen_by="device", blas_is_kept=False
    )
    several = [(known, "/home/me/h200.json"), (unknown, None)]
    assert "".join(drawn_blocks(calibration_blocks(*one), 80) for one in several) == golden("calibration.txt")
