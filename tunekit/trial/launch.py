"""Starts one trial: its request, its environment, its compile cache and its keeper."""

import contextlib
import getpass
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tunekit.agent import REQUEST_VARIABLE, SITE_FOLDER, TRIAL_VARIABLE
from tunekit.records.agent_messages import AgentRequest
from tunekit.records.codec import write_text
from tunekit.trial.bindings import Bound
from tunekit.trial.isolation import isolated
from tunekit.trial.keeper import remove_tree
from tunekit.trial.processes import KEEPER, OWNER_VARIABLE, this_owner

COMPILE_CACHE = "compile-cache"
"""Beside the trials."""
INDUCTOR, TRITON = "inductor", "triton"
_MOST_CACHED_BYTES = 512 << 20
_MOST_CACHED_FILES = 20_000


def compile_cache(trials_folder: Path, environment: Mapping[str, str]) -> Path:
    """Return the folder in which trials keep what they compile; a new one has what the user's own cache has.

    Nothing is written to that: the newest of it is copied, up to 512 MiB, so that a script that compiles by
    itself starts as fast as it does without tunekit.

    Args:
        trials_folder: of the run.
        environment: the user's, by which torch and Triton find their caches.
    """
    cache = trials_folder / COMPILE_CACHE
    if not cache.exists():
        making = trials_folder / f".{COMPILE_CACHE}"
        remove_tree(str(making))  # half-filled by a search that was killed
        making.mkdir()
        _copy_newest(_own_files(environment), making)
        making.rename(cache)
    return cache


def _own_folders(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Yield the user's own cache folders as torch and Triton name them, each with whose it is."""
    home = Path(environment.get("TRITON_HOME") or environment.get("HOME") or Path.home())
    inductor = environment.get("TORCHINDUCTOR_CACHE_DIR")
    if not inductor:
        with contextlib.suppress(KeyError, OSError):  # a user without a name, as in some containers
            user = re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
            inductor = str(Path(environment.get("TMPDIR") or "/tmp", f"torchinductor_{user}"))
    if inductor:
        yield INDUCTOR, Path(inductor)
        for of_device in sorted(Path(inductor, TRITON).glob("*")):
            yield TRITON, of_device
    yield TRITON, Path(environment.get("TRITON_CACHE_DIR") or home / ".triton" / "cache")


def _own_files(environment: Mapping[str, str]) -> Iterator[tuple[Path, str, os.stat_result]]:
    for kind, folder in _own_folders(environment):
        for place, folders, names in os.walk(folder):
            if kind == INDUCTOR and place == str(folder):
                folders[:] = [name for name in folders if name not in ("locks", TRITON)]
            for name in names:
                path = Path(place, name)
                with contextlib.suppress(OSError):
                    status = path.lstat()
                    if stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid():
                        yield path, f"{kind}/{path.relative_to(folder)}", status


def _copy_newest(files: Iterator[tuple[Path, str, os.stat_result]], cache: Path) -> None:
    left_bytes = _MOST_CACHED_BYTES
    newest = sorted(files, key=lambda file: file[2].st_mtime, reverse=True)
    for path, place, status in newest[:_MOST_CACHED_FILES]:
        left_bytes -= status.st_size
        if left_bytes < 0:
            return
        copy = cache / place
        with contextlib.suppress(OSError):  # gone by now, or a full disk
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy)


OUTPUT_FILE, REQUEST_FILE, TRIAL_FILE = "output.log", "request.json", "trial.json"


def is_cut_off(folder: Path) -> bool:
    """Return whether a trial began in a folder and did not get as far as its record."""
    is_trials = folder.name.isdigit() and not folder.is_symlink() and (folder / REQUEST_FILE).is_file()
    return is_trials and not (folder / TRIAL_FILE).exists()


_TRACKERS_OFF = {
    "WANDB_MODE": "disabled",  # Weights & Biases: calls do nothing
    "COMET_AUTO_LOG_DISABLE": "true",  # Comet: importing it patches no framework
    "DISABLE_MLFLOW_INTEGRATION": "TRUE",  # MLflow as the transformers Trainer asks for it
    "MLFLOW_ALLOW_FILE_STORE": "true",  # MLflow 3.17 refuses a folder without it
    "SWANLAB_MODE": "disabled",
    "HF_HUB_DISABLE_TELEMETRY": "1",  # downloads stay possible: HF_HUB_OFFLINE is left as it is
    "DO_NOT_TRACK": "1",
}
"""What keeps a trial out of experiment trackers before the agent does, each by its own variable."""


def agent_path(environment: Mapping[str, str]) -> str:
    """Return the PYTHONPATH that has the agent's folder before the user's own entries."""
    own = environment.get("PYTHONPATH")
    return f"{SITE_FOLDER}{os.pathsep}{own}" if own else str(SITE_FOLDER)


def write_request(request: AgentRequest, folder: Path) -> Path:
    """Write what the agent is asked into a folder, and return where it stands."""
    path = folder / REQUEST_FILE
    write_text(path, request.model_dump_json(indent=2) + "\n")
    return path


def write_copies(file_texts: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Write the rewritten texts of the user's files into `FOLDER/bound` and return where each one lies.

    Args:
        file_texts: new texts, by the real path of the user's file.
        folder: the trial's folder, absolute.

    Raises:
        OSError: the folder can't be written.
    """
    copies = {}
    for number, (path, text) in enumerate(sorted(file_texts.items())):
        copy = folder / "bound" / f"{number}-{Path(path).name}"
        copy.parent.mkdir(mode=0o700, exist_ok=True)  # the user's file may be for nobody else to read
        write_text(copy, text)
        copies[path] = str(copy)
    return copies


def trial_environment(
    request_path: Path, inherited: Mapping[str, str], hide_gpus: bool = False
) -> dict[str, str]:
    """Return the training process's environment: the user's own, with the agent's folder first.

    Args:
        request_path: the trial's request file, absolute.
        inherited: the user's environment.
        hide_gpus: train on the CPU although a GPU is here (`--gpu cpu`).
    """
    environment = dict(inherited)
    environment["PYTHONPATH"] = agent_path(environment)
    environment[REQUEST_VARIABLE] = str(request_path)
    environment[TRIAL_VARIABLE] = "1"
    environment[OWNER_VARIABLE] = this_owner().text()
    environment.update(_TRACKERS_OFF)
    caches = request_path.parent.parent / COMPILE_CACHE
    environment["TORCHINDUCTOR_CACHE_DIR"] = str(caches / INDUCTOR)
    environment["TRITON_CACHE_DIR"] = str(caches / TRITON)
    if hide_gpus:
        environment["CUDA_VISIBLE_DEVICES"] = ""
    return environment


def start_trial(
    bound: Bound, request: AgentRequest, hide_gpus: bool = False, writable: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    """Write the request beside the agent's folder and start the target under a keeper.

    Args:
        bound: the command and its variables, with the trial's knobs in them.
        request: what the agent is asked, in which folder and in which sandbox.
        hide_gpus: train on the CPU although a GPU is here.
        writable: folders outside the trial's in which writes of its stay.

    Returns:
        The keeper. Closing its standard input ends the whole tree; its standard output then holds
        one line of JSON with the target's exit status.
    """
    folder = Path(request.trial_folder).parent
    caches = compile_cache(folder.parent, os.environ)
    kept = (str(caches.resolve()), *writable)
    request_path = write_request(request.changed(writable_folders=kept), folder)
    command, environment = isolated(
        bound.command,
        request.sandbox,
        request_path,
        (request.scratch_folder, *kept),
        trial_environment(request_path, {**os.environ, **bound.environment}, hide_gpus),
    )
    output = str(request_path.parent / OUTPUT_FILE)
    return subprocess.Popen(
        [sys.executable, "-I", "-S", KEEPER, output, request.scratch_folder, "--", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=request.working_dir,
        env=environment,
        start_new_session=True,
    )
