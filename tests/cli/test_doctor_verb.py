"""`tunekit doctor`: what it asks, what it shows, and its exit codes."""

import json
import os
import re
import resource
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from build_checkups import checkup, gpu, gpu_state, link, torch_of
from build_records import MIB, baseline_record, config, recommendation, run, trial_record
from json_schemas import valid

from tunekit.cli.main import main
from tunekit.diagnose.software import VARIABLES
from tunekit.machine import detect
from tunekit.machine.host import torch_build as torch_room
from tunekit.machine.host.torch_build import TorchAbsent
from tunekit.records.attribution import BatchSeen, LeafSeen
from tunekit.records.checkup import Checkup, LoaderPlan, StorageKind
from tunekit.records.codec import from_json
from tunekit.records.host import Host, TorchBuild
from tunekit.records.recommendation import Tier
from tunekit.session.folder import RunFolder

WARNED, FAILED = 11, 12

Captured = pytest.CaptureFixture[str]
Machine = Callable[..., None]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine in good order to look over; called with fields of its host, it has these instead."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("TUNEKIT_PROFILES", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    monkeypatch.setattr("tunekit.cli.doctor.load_average", lambda: 0.25)
    monkeypatch.setattr(detect, "c_compiler", lambda environment: "/usr/bin/gcc")
    monkeypatch.setattr(detect, "cpp_compiler", lambda environment: "/usr/bin/g++")
    monkeypatch.setattr(torch_room, "torch_build", lambda python: torch_of(python=python))

    def here(seen: Checkup | None = None, **host: Any) -> None:
        offered = (seen or checkup(**host)).host

        def detect_host(torch: TorchBuild | None = None) -> Host:
            return offered.model_copy(update={"torch": torch})

        monkeypatch.setattr(detect, "detect_host", detect_host)

    here()
    return here


def printed(capsys: Captured) -> Checkup:
    return from_json(valid("doctor", capsys.readouterr().out), Checkup)


def fake_python(folder: Path, body: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{textwrap.dedent(body)}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_a_machine_in_good_order_is_0(machine: Machine, capsys: Captured):
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert "Ready to train.\n" in shown
    assert "NVIDIA H200, 140.4 GiB" in shown
    assert "load average  0.2" in shown


def test_its_report_is_written_as_a_page_and_as_markdown(machine: Machine, capsys: Captured, tmp_path: Path):
    page = tmp_path / "machine.html"
    assert main(["doctor", "--html", str(page), "--markdown"]) == 0
    printed = capsys.readouterr().out
    for text in (page.read_text(), printed):
        assert "Ready to train." in text
        assert "NVIDIA H200, 140.4 GiB" in text
    assert printed.startswith("## This machine\n")
    assert main(["doctor", "--json", "--markdown"]) == 2


@pytest.mark.parametrize(
    ("host", "code", "answer"),
    [
        ({"open_files_limit": 256}, 0, "Ready to train: 1 note."),
        ({"shm_bytes": 64 * MIB}, WARNED, "Ready to train: 1 warning."),
        (
            {"accelerators": (gpu(compute_capability="5.0"),), "open_files_limit": 256},
            FAILED,
            "Training will fail or miss the GPU: 1 error, 1 note.",
        ),
    ],
)
def test_the_exit_code_is_that_of_the_worst(
    machine: Machine, capsys: Captured, host: dict[str, Any], code: int, answer: str
):
    machine(**host)
    assert main(["doctor"]) == code
    assert answer in capsys.readouterr().out


def test_what_is_ignored_does_not_count(machine: Machine, capsys: Captured):
    machine(shm_bytes=64 * MIB, open_files_limit=256)
    assert main(["doctor", "--ignore", "small-shm"]) == 0
    shown = capsys.readouterr().out
    assert "warning small-shm" not in shown
    assert "note few-open-files" in shown
    assert "not shown: small-shm\n" in shown


def test_json_is_a_whole_checkup(machine: Machine, capsys: Captured, monkeypatch: pytest.MonkeyPatch):
    machine(accelerators=(gpu(pcie=link(8), state={"ecc_errors": 2}),), open_files_limit=256)
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    monkeypatch.setenv("HOME_OF_NOTHING", "secret")
    code = main(["doctor", "--json", "--workers", "4", "--batch-mib", "1.5", "--ignore", "few-open-files"])
    assert code == WARNED
    seen = printed(capsys)
    assert [finding.code for finding in seen.findings] == ["pcie-narrow", "ecc-errors"]
    assert seen.loader == LoaderPlan(num_workers=4, batch_bytes=3 * MIB // 2)
    assert seen.environment == {
        "NCCL_DEBUG": "INFO",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    }
    assert seen.host.accelerators[0].state == gpu_state(ecc_errors=2)
    assert seen.host.torch == torch_of(python=sys.executable)
    assert seen.compiler == "/usr/bin/gcc"


def test_a_variable_that_is_no_text_is_shown_as_escapes(
    machine: Machine, capsys: Captured, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("NCCL_DEBUG", os.fsdecode(b"\xffINFO"))
    assert main(["doctor", "--json"]) == 0
    assert printed(capsys).environment["NCCL_DEBUG"] == r"\xffINFO"


def saved(folder: Path, **overrides: Any) -> Path:
    with RunFolder(folder) as owned:
        owned.save(run(**overrides))
    return folder


def test_a_run_that_pins_its_batches_is_held_against_memory_by_what_they_take(
    machine: Machine, capsys: Captured, tmp_path: Path
):
    batch = BatchSeen(
        samples=256,
        total_bytes=150 * MIB,
        shared_bytes=150 * MIB,
        piped_bytes=0,
        leaves=(LeafSeen(path="[0]", kind="tensor", bytes=150 * MIB),),
    )
    pinned = config(batch_size=256, num_workers=6, prefetch_factor=4, pin_memory=True)
    loads = baseline_record(of=pinned, batch=batch, batch_bytes=batch.total_bytes)
    folder = saved(tmp_path / "run", trials=(loads,))
    assert main(["doctor", "--json", "--run", str(folder)]) == 0
    plan = printed(capsys).loader
    assert plan is not None
    assert (plan.batch_bytes, plan.held_batch_bytes) == (150 * MIB, 256 * MIB)
    assert main(["doctor", "--run", str(folder)]) in (0, 1)
    shown = " ".join(capsys.readouterr().out.split())
    assert "batches of 150.0 MiB, buffer 6.0 GiB (1.17% of RAM) (predicted)" in shown


def test_the_data_set_is_looked_at(machine: Machine, capsys: Captured, tmp_path: Path):
    data = tmp_path / "data"
    (data / "deep").mkdir(parents=True)
    for number in range(3):
        (data / "deep" / f"{number}.bin").write_bytes(b"x" * 5000)
    main(["doctor", "--json", "--data", str(data), "--data", str(data)])
    (storage,) = printed(capsys).storage
    assert storage.path == os.path.realpath(data)
    assert (storage.files, storage.total_bytes, storage.is_walk_complete) == (3, 15_000, True)
    assert storage.kind in StorageKind


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, machine: Machine, tmp_path: Path) -> None:
    """The real question after torch, instead of the answer that `machine` has ready; there is a train.py."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("", encoding="utf-8")
    monkeypatch.setattr(torch_room, "torch_build", ASK)


ASK = torch_room.torch_build


@pytest.mark.usefixtures("asked")
def test_a_commands_own_python_is_asked(capsys: Captured, tmp_path: Path):
    build = torch_of(threads=40)
    reply = json.dumps(build.model_dump(mode="json", exclude={"python"}))
    python = fake_python(tmp_path / "env" / "bin", f"echo '{reply}'")
    assert main(["doctor", "--json", "--", python, "train.py", "--json"]) == WARNED
    seen = printed(capsys)
    assert seen.host.torch == build.model_copy(update={"python": python})
    assert [finding.code for finding in seen.findings] == ["threads-above-cpus"]
    assert main(["doctor", "--", "env", "A=1", python, "train.py"]) == WARNED
    assert python in capsys.readouterr().out.replace("\n         ", "")


@pytest.mark.usefixtures("asked")
def test_a_python_without_torch_is_an_error(capsys: Captured, tmp_path: Path):
    python = fake_python(tmp_path, """echo '{"absent": "No module named torch"}'""")
    assert main(["doctor", "--json", "--", python, "train.py"]) == FAILED
    seen = printed(capsys)
    (finding,) = seen.findings
    assert finding.code == "torch-absent"
    assert finding.evidence == f"{python} has no torch that can be imported: No module named torch"
    assert seen.why_no_torch == finding.evidence
    assert seen.host.torch is None


def test_without_a_command_tunekits_own_python_may_lack_torch(
    machine: Machine, capsys: Captured, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(torch_room, "torch_build", lambda python: TorchAbsent(f"{python} has none"))
    assert main(["doctor", "--json"]) == 0
    seen = printed(capsys)
    assert seen.why_no_torch == f"{sys.executable} has none"
    assert not seen.has_python_answered
    assert [(one.code, one.severity.value) for one in seen.findings] == [("torch-unknown", "info")]
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert "Ready to train: 1 note.\n" in shown
    assert "tunekit doctor -- /path/to/env/bin/python train.py" in " ".join(shown.split())


def tuned_run(folder: Path, *tiers: Tier) -> Path:
    """A run whose tiers load with 1, 2, ... workers, in their order, and its baseline with 8."""
    found = []
    trials = [baseline_record(of=config(batch_size=256, num_workers=8), bytes_per_sample=1000)]
    for workers, tier in enumerate(tiers, start=1):
        of = config(batch_size=64, num_workers=workers, prefetch_factor=4)
        numbers = (10 * workers, 10 * workers + 1)
        trials += [trial_record(number, of=of, bytes_per_sample=2000, world_size=2) for number in numbers]
        found.append(recommendation(tier, of, search_trial=numbers[0], confirm_trials=numbers[1:]))
    return saved(folder, trials=tuple(trials), recommendations=tuple(found))


ALL = (Tier.CONSERVATIVE, Tier.BALANCED, Tier.AGGRESSIVE)


@pytest.mark.parametrize(
    ("tiers", "flags", "workers", "name"),
    [
        (ALL, [], 2, "balanced"),
        (ALL, ["--tier", "aggressive"], 3, "aggressive"),
        (ALL, ["--tier", "baseline"], 8, "baseline"),
        ((Tier.AGGRESSIVE, Tier.CONSERVATIVE), [], 2, "conservative"),
        ((Tier.AGGRESSIVE,), [], 1, "aggressive"),
        ((), [], 8, "baseline"),
    ],
)
def test_a_run_gives_the_loader_settings_of_its_tuned_config(
    machine: Machine,
    capsys: Captured,
    tmp_path: Path,
    tiers: tuple[Tier, ...],
    flags: list[str],
    workers: int,
    name: str,
):
    folder = tuned_run(tmp_path / "run", *tiers)
    main(["doctor", "--json", "--run", str(folder), *flags])
    is_tuned = name != "baseline"
    assert printed(capsys).loader == LoaderPlan(
        num_workers=workers,
        prefetch_factor=4 if is_tuned else 2,
        batch_bytes=64 * 2000 if is_tuned else 256 * 1000,
        processes=2 if is_tuned else 1,
        taken_from=f"{name} of {folder}",
    )
    main(["doctor", "--run", str(folder), *flags])
    assert f"({name}of{folder})" in "".join(capsys.readouterr().out.split())


@pytest.mark.real
def test_this_machine_is_described_correctly(capsys: Captured, tmp_path: Path):
    (tmp_path / "a").mkdir()
    for number in range(4):
        (tmp_path / "a" / f"{number}.bin").write_bytes(os.urandom(MIB))
    code = main(["doctor", "--json", "--workers", "2", "--data", str(tmp_path / "a")])
    seen = printed(capsys)
    host = seen.host

    worst = {finding.severity.value for finding in seen.findings}
    assert code == (FAILED if "error" in worst else WARNED if "warning" in worst else 0)

    affinity = len(os.sched_getaffinity(0))
    assert host.cpus_affinity == affinity
    assert host.cpus_total == os.cpu_count()
    assert host.cpus == (affinity if host.cpu_quota is None else max(1, min(affinity, int(host.cpu_quota))))
    cpuinfo = Path("/proc/cpuinfo").read_text()
    models = re.findall(r"model name\s*: (.*)", cpuinfo)
    assert host.cpu_name == (models[0].strip() if models else None)
    has_bf16 = bool(re.search(r"\b(avx512_bf16|amx_bf16|bf16)\b", cpuinfo))
    assert host.cpu_bf16_native in (None, has_bf16)

    shm = os.statvfs("/dev/shm") if Path("/dev/shm").is_dir() else None
    assert host.shm_bytes == (None if shm is None else shm.f_frsize * shm.f_blocks)
    assert host.open_files_limit == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert host.load_average is not None
    assert abs(host.load_average - float(Path("/proc/loadavg").read_text().split()[0])) < 2

    assert host.torch is not None
    assert host.torch.python == sys.executable

    (storage,) = seen.storage
    assert (storage.files, storage.total_bytes) == (4, 4 * MIB)
    df = subprocess.run(
        ["df", "--output=fstype,target", str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert [storage.filesystem, storage.mount_point] == df.stdout.splitlines()[1].split()
    assert seen.loader == LoaderPlan(num_workers=2)
    assert seen.environment == {name: os.environ[name] for name in VARIABLES if name in os.environ}
    assert "no-compiler" in {finding.code for finding in seen.findings} or seen.compiler is not None
