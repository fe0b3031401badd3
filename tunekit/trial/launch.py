"""Starts one trial: its folder, its request, its environment, its keeper."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tunekit.agent import REQUEST_VARIABLE, SITE_FOLDER, TRIAL_VARIABLE
from tunekit.records.agent_messages import AgentRequest, dump_request
from tunekit.records.codec import write_text
from tunekit.records.target import Target

REQUEST_FILE = "request.json"
OUTPUT_FILE = "output.log"
_KEEPER = Path(__file__).with_name("keeper.py")


def trial_environment(
    request_path: Path, inherited: Mapping[str, str], hide_gpus: bool = False
) -> dict[str, str]:
    """Return the training process's environment: the user's own, with the agent's folder first.

    Args:
        request_path: the trial's request file.
        inherited: the user's environment.
        hide_gpus: train on the CPU although a GPU is here (`--gpu cpu`).
    """
    environment = dict(inherited)
    user_path = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = f"{SITE_FOLDER}{os.pathsep}{user_path}" if user_path else str(SITE_FOLDER)
    environment[REQUEST_VARIABLE] = str(request_path)
    environment[TRIAL_VARIABLE] = "1"
    environment["WANDB_MODE"] = "disabled"
    if hide_gpus:
        environment["CUDA_VISIBLE_DEVICES"] = ""
    return environment


def start_trial(
    folder: Path,
    target: Target,
    request: AgentRequest,
    hide_gpus: bool = False,
    variables: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Write the request and start the target under a keeper.

    Args:
        folder: the trial's folder.
        target: the command, as this trial runs it.
        request: what the agent has to do.
        hide_gpus: train on the CPU although a GPU is here.
        variables: environment variables that this trial sets.

    Returns:
        The keeper. Closing its standard input ends the whole tree; its standard output then holds
        one line of JSON with the target's exit status.
    """
    request_path = folder / REQUEST_FILE
    write_text(request_path, json.dumps(dump_request(request), indent=2) + "\n")
    output = str(folder / OUTPUT_FILE)
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(_KEEPER), output, request.scratch_folder, "--", *target.command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=target.working_dir,
        env=trial_environment(request_path, {**os.environ, **(variables or {})}, hide_gpus),
        start_new_session=True,
    )
