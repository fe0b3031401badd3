"""Starts one trial: its folder, its request, its environment, its keeper."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tunekit.agent import REQUEST_VARIABLE, SITE_FOLDER, TRIAL_VARIABLE
from tunekit.records.agent_messages import AgentRequest, dump_request
from tunekit.records.codec import write_text
from tunekit.trial.bindings import Bound
from tunekit.trial.compile_cache import COMPILE_CACHE, INDUCTOR, TRITON, compile_cache
from tunekit.trial.isolation import isolated
from tunekit.trial.orphans import KEEPER, OWNER_VARIABLE, this_owner

REQUEST_FILE = "request.json"
OUTPUT_FILE = "output.log"

_TRACKERS_OFF = {
    "WANDB_MODE": "disabled",  # Weights & Biases: calls do nothing
    "WANDB_SILENT": "true",
    "COMET_MODE": "disabled",  # Comet as the transformers Trainer asks for it
    "COMET_AUTO_LOG_DISABLE": "true",  # Comet: importing it patches no framework
    "COMET_START_ONLINE": "false",  # Comet: comet_ml.start writes to the folder below
    "DISABLE_MLFLOW_INTEGRATION": "TRUE",  # MLflow as the transformers Trainer asks for it
    "NEPTUNE_MODE": "offline",  # the one mode that both Neptune clients know and that sends nothing
    "CLEARML_OFFLINE_MODE": "1",
    "SWANLAB_MODE": "disabled",
    "HF_HUB_DISABLE_TELEMETRY": "1",  # downloads stay possible: HF_HUB_OFFLINE is left as it is
    "DO_NOT_TRACK": "1",
}
"""What keeps a trial out of experiment trackers, each by its own environment variable."""

_TRACKER_FOLDERS = {
    "COMET_OFFLINE_DIRECTORY": "comet",
    "NEPTUNE_LOG_DIRECTORY": "neptune",
    "SWANLAB_LOG_DIR": "swanlab",
}
"""Where trackers that only write locally do so: folders in the trial's."""


def agent_path(environment: Mapping[str, str]) -> str:
    """Return the PYTHONPATH that has the agent's folder before the user's own entries."""
    own = environment.get("PYTHONPATH")
    return f"{SITE_FOLDER}{os.pathsep}{own}" if own else str(SITE_FOLDER)


def write_request(request: AgentRequest) -> Path:
    """Write what the agent is asked into its folder, and return where it stands."""
    path = Path(request.trial_folder) / REQUEST_FILE
    write_text(path, json.dumps(dump_request(request), indent=2) + "\n")
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
    trackers = request_path.parent / "trackers"
    environment.update({variable: str(trackers / name) for variable, name in _TRACKER_FOLDERS.items()})
    caches = request_path.parent.parent / COMPILE_CACHE
    environment["TORCHINDUCTOR_CACHE_DIR"] = str(caches / INDUCTOR)
    environment["TRITON_CACHE_DIR"] = str(caches / TRITON)
    environment["MLFLOW_TRACKING_URI"] = (trackers / "mlruns").as_uri()
    if hide_gpus:
        environment["CUDA_VISIBLE_DEVICES"] = ""
    return environment


def start_trial(
    bound: Bound, request: AgentRequest, hide_gpus: bool = False, writable: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    """Write the request and start the target under a keeper.

    Args:
        bound: the command and its variables, with the trial's knobs in them.
        request: what the agent is asked, in which folder and in which sandbox.
        hide_gpus: train on the CPU although a GPU is here.
        writable: folders outside the trial's in which writes of its stay.

    Returns:
        The keeper. Closing its standard input ends the whole tree; its standard output then holds
        one line of JSON with the target's exit status.
    """
    request_path = write_request(request)
    caches = compile_cache(request_path.parent.parent, os.environ)
    command, environment = isolated(
        bound.command,
        request.sandbox,
        request_path,
        (request.scratch_folder, str(caches.resolve()), *writable),
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
