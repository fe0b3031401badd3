"""`python -m simgpu` from outside, and what it changes of a running simulation."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gpu_environment import ROOT

from simgpu.cli import build_parser, main
from simgpu.control import CONTROLS, parsed_bytes
from simgpu.devices import known_devices
from simgpu.errors import NoEnvironmentError, SimgpuError
from simgpu.machine import SimulatedGpu
from simgpu.simulation import check_devices, find_any_environment, state_folder

SEEN = """
import json, pynvml
pynvml.nvmlInit()
device = pynvml.nvmlDeviceGetHandleByIndex(0)
processes = pynvml.nvmlDeviceGetComputeRunningProcesses(device)
free = pynvml.nvmlDeviceGetMemoryInfo(device).free
print(json.dumps({"free": free, "processes": [[one.pid, one.usedGpuMemory] for one in processes]}))
"""


def simgpu(*words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, **variables}
    command = [sys.executable, "-m", "simgpu", *words]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("text", "size"), [("4096", 4096), ("3GiB", 3 * 2**30), ("1.5 MiB", 3 * 2**19), ("8KiB", 8192)]
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert parsed_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "3GB", "3Gib", "-1", "1e3", "3 GiB MiB", "inf"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="KiB, MiB, GiB"):
        parsed_bytes(text)


def test_the_sources_have_every_control() -> None:
    source = (ROOT / "simgpu" / "src" / "state.c").read_text()
    for control in CONTROLS:
        assert f'{{"{control}"' in source


def test_an_unknown_device_is_refused_with_those_that_there_are() -> None:
    check_devices("a10g,t4:memory_bytes=3GiB")
    with pytest.raises(SimgpuError, match=r"no device file of 'a10h' .* a10g, "):
        check_devices("t4,a10h")


def test_a_device_file_of_ones_own_is_named_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.conf"
    with pytest.raises(SimgpuError, match=r"no device file of '.*mine\.conf'"):
        check_devices(f"{path},t4")
    path.write_text("name = Mine\n")
    check_devices(f"{path},t4")


def test_a_state_folder_is_gone_afterwards() -> None:
    with state_folder() as folder:
        (folder / "state").write_bytes(b"0")
        assert folder.name.startswith("psm_")
    assert not folder.exists()


def test_without_an_environment_the_command_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoEnvironmentError, match="python -m simgpu environment"):
        find_any_environment(None, tmp_path)


def test_a_shell_that_has_a_simulation_is_asked_for_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMGPU", "t4")
    monkeypatch.setenv("SIMGPU_STATE", "/dev/shm/psm_shared")
    options = build_parser().parse_args(["set", "0", "xid", "79"])
    assert (options.device, options.state) == ("t4", Path("/dev/shm/psm_shared"))


def test_the_devices_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices"]) == 0
    assert "a10g           NVIDIA A10G, 8.6, 22.1 GiB" in capsys.readouterr().out.splitlines()


def test_an_error_is_one_line_and_code_1(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["build", "--torch", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(f"simgpu: there is no torch in {tmp_path}; ")


def test_run_gives_a_command_the_devices_and_takes_its_state_away(simulated_gpu: SimulatedGpu) -> None:
    code = (
        "import os, sys, torch; print(torch.cuda.get_device_name(), os.environ['SIMGPU_STATE']); sys.exit(7)"
    )
    done = simgpu("run", "--device", "t4", "--torch", "2.15.0", "--", "python", "-c", code)
    name, _, state = done.stdout.strip().rpartition(" ")
    assert (name, done.returncode) == ("Tesla T4", 7)
    assert not Path(state).exists()


def test_run_passes_a_termination_on(simulated_gpu: SimulatedGpu) -> None:
    words = ["run", "--", "sh", "-c", "echo $$ $SIMGPU_STATE; exec sleep 60"]
    command = [sys.executable, "-m", "simgpu", *words]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid, state = process.stdout.readline().split()
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM
    assert not Path(state).exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_a_termination_before_the_command_runs_leaves_nothing_either(simulated_gpu: SimulatedGpu) -> None:
    """By the command's first act, which may come before its start is known here."""
    done = simgpu("run", "--", "sh", "-c", "kill -TERM $PPID; echo $SIMGPU_STATE; exec sleep 60")
    assert done.returncode == 128 + signal.SIGTERM
    assert not Path(done.stdout.strip() or "nothing was said").exists()


def test_a_command_that_is_not_there_is_said(simulated_gpu: SimulatedGpu) -> None:
    done = simgpu("run", "--", "no-such-command")
    assert (done.returncode, done.stderr) == (
        127,
        "simgpu: no-such-command can't be run: No such file or directory\n",
    )


def test_env_prints_what_a_shell_can_read(simulated_gpu: SimulatedGpu, tmp_path: Path) -> None:
    state = str(simulated_gpu.state)
    said = simgpu("env", "--device", "l4", "--torch", "2.15.0", "--state", state).stdout
    code = "import torch, os; print(torch.cuda.get_device_name(), os.environ['SIMGPU_STATE'])"
    script = f"{said}\npython -c {shlex.quote(code)}"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == f"NVIDIA L4 {state}\n", done.stderr


def seen(gpu: SimulatedGpu) -> dict[str, Any]:
    """What NVML says of the first device."""
    done = gpu.run(["-c", SEEN])
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_another_process_holds_memory_and_its_end_gives_it_back(simulated_gpu: SimulatedGpu) -> None:
    before = seen(simulated_gpu)
    held = 3 * 2**30 + int(known_devices()["a10g"]["context_bytes"])
    with simulated_gpu.hold(0, 3 * 2**30) as pid:
        assert seen(simulated_gpu) == {"free": before["free"] - held, "processes": [[pid, held]]}
    assert seen(simulated_gpu) == before


def test_more_than_a_device_has_is_not_held(simulated_gpu: SimulatedGpu) -> None:
    done = simgpu("hold", "0", "30GiB", "--state", str(simulated_gpu.state))
    assert done.returncode == 1
    assert "device 0 has no 32212254720 bytes left" in done.stderr


def test_a_device_that_cuda_does_not_see_is_not_held(simulated_gpu: SimulatedGpu) -> None:
    state = str(simulated_gpu.state)
    done = simgpu("hold", "1", "1GiB", "--device", "a10g,t4", "--state", state, CUDA_VISIBLE_DEVICES="0")
    assert done.returncode == 1
    assert "CUDA doesn't see device 1" in done.stderr


def test_what_nobody_is_named_for_takes_memory_too(simulated_gpu: SimulatedGpu) -> None:
    before = seen(simulated_gpu)["free"]
    simulated_gpu.set(0, "outside_bytes", 2**30)
    assert seen(simulated_gpu) == {"free": before - 2**30, "processes": []}


def test_a_state_folder_knows_its_devices(simulated_gpu: SimulatedGpu) -> None:
    state = ("--state", str(simulated_gpu.state))
    name = "import torch; print(torch.cuda.get_device_name(1))"
    assert simgpu("run", *state, "--device", "t4,a10g", "--", "true").returncode == 0
    assert simgpu("set", "1", "throttle_mask", "0x8", *state).returncode == 0
    assert simgpu("hold", "1", "1GiB", "--seconds", "0", *state).returncode == 0
    second = simgpu("run", *state, "--", "python", "-c", name).stdout
    assert second == "Tesla T4\n", "CUDA's order: fastest first"


def test_a_state_folder_that_cannot_be_written_is_named(simulated_gpu: SimulatedGpu) -> None:
    done = simgpu("run", "--state", "/proc/none", "--", "true")
    assert (done.returncode, done.stdout) == (1, "")
    assert "the state folder /proc/none can't be used" in done.stderr


@pytest.mark.parametrize(("text", "value"), [("0.5", 0.5), ("79", 79), ("0x8", 8), ("2GiB", 2 * 2**30)])
def test_values_are_read_as_people_write_them(text: str, value: float) -> None:
    assert build_parser().parse_args(["set", "0", "clock_share", text]).value == value


def test_a_word_is_no_mask_though_its_letters_are_digits() -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args(["set", "0", "throttle_mask", "bad"])


@pytest.mark.parametrize("value", ["-1", "nan"])
def test_a_value_that_no_control_has_is_refused(simulated_gpu: SimulatedGpu, value: str) -> None:
    done = simgpu("set", "--state", str(simulated_gpu.state), "0", "clock_share", value)
    assert done.returncode == 1
    assert "clock_share is 0 or more" in done.stderr


def test_a_place_without_a_device_is_refused(simulated_gpu: SimulatedGpu) -> None:
    done = simgpu("set", "2", "xid", "79", "--device", "a10g,t4", "--state", str(simulated_gpu.state))
    assert (done.returncode, done.stderr) == (
        1,
        "simgpu: there is no device 2; there are 2, counted from 0\n",
    )
