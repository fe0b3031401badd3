"""Records a real training from outside: `python -m tunekit.trial.recording FOLDER PID` watches until its end.

This process has no terminal and none of the training's files. It ends with the training, or once the
recording's folder is removed.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from statistics import fmean

import psutil

from tunekit.agent import REQUEST_VARIABLE, TRIAL_VARIABLE
from tunekit.errors import RunFolderError, TargetError
from tunekit.machine.gpu.nvml import Nvml
from tunekit.machine.telemetry.sampler import GpuSampler
from tunekit.machine.telemetry.tree import TreeMeter
from tunekit.records.agent_messages import AgentRequest
from tunekit.records.codec import read_json, write_json
from tunekit.records.recording import HostInterval, RecordingStart
from tunekit.trial.keeper import descendants
from tunekit.trial.launch import OUTPUT_FILE, agent_path, path_with_agent, write_request

RECORDING_FILE = "recording.json"
HOST_FILE, LOOP_FILES = "host.jsonl", "loop-*.jsonl"
ENDED_FILE = "ended"
"""Its modification time is when the training ended."""
EPOCH_OPTIONS = ("epochs", "numepochs", "nepochs", "maxepochs", "numtrainepochs", "trainepochs")
STEP_OPTIONS = ("maxsteps", "totalsteps", "trainsteps", "numsteps", "maxiters", "maxtrainsteps")
"""Plain names of the options that say how long a script trains."""

_POLL_S = 0.5
_SUMS = ("duration_s", "cpu_s", "others_cpu_s", "read_bytes", "gpu_busy_s")
_PEAKS = ("pss_bytes", "vram_bytes")
_DETACH = (
    "import os, sys\n"
    "for stream in range(3): os.dup2(os.open(os.devnull, os.O_RDWR), stream)\n"
    "if os.fork(): os._exit(0)\n"
    "os.setsid(); os.nice(10); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)
"""Starts the watcher as an orphan: a training that waits for its children must not meet it."""


# --- starting --------------------------------------------------------------------------------


def start_recorded(command: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
    """Start a command as it is, with an agent that records its loop; its output goes to a file in the folder.

    Raises:
        RunFolderError: the folder can't be written.
        TargetError: the command can't be started.
    """
    request = AgentRequest(
        mode="record",
        trial_folder=str(folder),
        working_dir=str(Path.cwd()),
        scratch_folder=str(folder),
        started_at_s=time.time(),
        loader=None,
        roots=(),
        option_names=(*EPOCH_OPTIONS, *STEP_OPTIONS),
        window_s=1.0,
    )
    try:
        folder.mkdir(parents=True)
        environment = agent_environment(request, folder, os.environ)
        output = (folder / OUTPUT_FILE).open("wb")
    except OSError as error:
        raise RunFolderError(f"{folder} can't be written ({error.strerror}); start elsewhere") from error
    with output:
        try:
            return subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,  # Ctrl-C reaches it once, from us
            )
        except OSError as error:
            raise TargetError(f"{command[0]} could not be started: {error.strerror}") from error


def agent_environment(request: AgentRequest, folder: Path, inherited: Mapping[str, str]) -> dict[str, str]:
    """Write the agent's request and return the environment that makes a command's Pythons load the agent."""
    environment = {name: value for name, value in inherited.items() if name != TRIAL_VARIABLE}
    environment[REQUEST_VARIABLE] = str(write_request(request, folder))
    environment["PYTHONPATH"] = agent_path(environment)
    environment["PATH"] = path_with_agent(folder, environment)
    return environment


def start_watcher(folder: Path, start: RecordingStart) -> None:
    """Write recording.json and start the watcher of the training that the record names."""
    write_json(folder / RECORDING_FILE, start)
    environment = {name: value for name, value in os.environ.items() if name != REQUEST_VARIABLE}
    source = str(Path(__file__).parents[2])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [source, environment.get("PYTHONPATH")]))
    words = ("-m", "tunekit.trial.recording", str(folder.resolve()), str(start.pid))
    starter = [sys.executable, "-I", "-S", "-c", _DETACH, *words]
    subprocess.run(starter, env=environment, cwd="/", check=False)


# --- finding a training that runs ------------------------------------------------------------


def recording_of(pid: int) -> Path | None:
    """Return the folder of the recording that a process or one below it was started with; None without one.

    Raises:
        TargetError: there is no such process.
    """
    if not psutil.pid_exists(pid) or not is_alive(psutil.Process(pid)):
        raise TargetError(f"no process {pid} runs here; list yours with: ps -u $USER")
    for one in (pid, *descendants(pid)):
        with contextlib.suppress(psutil.Error, OSError):
            folder = Path(psutil.Process(one).environ().get(REQUEST_VARIABLE, "/")).parent
            if (folder / RECORDING_FILE).is_file():
                return folder
    return None


def is_alive(process: psutil.Process) -> bool:
    """Return whether a process still runs: not ended, replaced or waiting to be collected."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


# --- watching --------------------------------------------------------------------------------


class HostWatch:
    """Measures a process with its descendants and GPUs, and returns the figures of each interval.

    Args:
        pid: the training's first process.
        gpus: an open sampler of the GPUs that it may use.
    """

    def __init__(self, pid: int, gpus: GpuSampler) -> None:
        self._meter = TreeMeter(0, lambda: [pid, *descendants(pid)])
        self._gpus, self._pss_bytes = gpus, 0
        self._at_s, self._counters = time.time(), self._read()

    def interval(self) -> HostInterval:
        """Return the figures since the previous interval, and begin the next."""
        self._meter.is_above(sys.maxsize)  # reads the PSS when it is due
        self._pss_bytes = self._meter.last_pss_bytes or self._pss_bytes  # once it ended, what it had before
        readings = self._gpus.sample(self._meter.pids).values()
        used = [one for one in readings if one.tree_bytes] or readings
        percents = (one.graphics_activity_percent or one.utilization_percent for one in used)
        busy = [percent for percent in percents if percent is not None]
        held = [one.used_bytes if one.tree_bytes is None else one.tree_bytes for one in used]
        before, self._counters = self._counters, self._read()
        began_s, self._at_s = self._at_s, time.time()
        duration_s = max(0.0, self._at_s - began_s)
        cpu_s, read_bytes, all_cpu_s = (
            max(0.0, now - then) for now, then in zip(self._counters, before, strict=True)
        )
        return HostInterval(
            at_s=began_s,
            duration_s=duration_s,
            cpu_s=cpu_s,
            others_cpu_s=max(0.0, all_cpu_s - cpu_s),
            read_bytes=read_bytes,
            pss_bytes=self._pss_bytes,
            gpu_busy_s=fmean(busy) / 100 * duration_s if busy else None,
            vram_bytes=max((int(one) for one in held if one is not None), default=None),
        )

    def _read(self) -> tuple[float, float, float]:
        activity, machine = self._meter.activity(), psutil.cpu_times()
        used_s = machine.user + machine.nice + machine.system + machine.steal
        return activity.cpu_s, float(activity.read_bytes), used_s


def watch(folder: Path, pid: int) -> None:
    """Write host.jsonl until the process ends or the folder is gone."""
    start = read_json(folder / RECORDING_FILE, RecordingStart)
    kept = import_module("tunekit.agent.site._tunekit_agent.recording").BoundedFile
    file = kept(str(folder / HOST_FILE), _SUMS, _PEAKS)
    with GpuSampler(Nvml(), list(start.gpus)) as gpus, contextlib.suppress(psutil.NoSuchProcess):
        process, host = psutil.Process(pid), HostWatch(pid, gpus)
        while folder.exists() and is_alive(process):
            ends_at = time.monotonic() + file.every_s
            while is_alive(process) and time.monotonic() < ends_at:
                time.sleep(_POLL_S)
            file.append(host.interval().model_dump())
    with contextlib.suppress(OSError):
        (folder / ENDED_FILE).touch(exist_ok=False)


if __name__ == "__main__":
    watch(Path(sys.argv[1]), int(sys.argv[2]))
