"""Starts one trial: sets up its sandbox, request, environment and keeper."""

import contextlib
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tunekit.agent import REQUEST_VARIABLE, SITE_FOLDER, TRIAL_VARIABLE
from tunekit.errors import UsageError
from tunekit.machine.host.interpreter import interpreter_of, is_python
from tunekit.records.agent_messages import AgentRequest
from tunekit.records.codec import write_text
from tunekit.records.host import Sandbox
from tunekit.trial import sandbox
from tunekit.trial.bindings import Bound
from tunekit.trial.processes import KEEPER, OWNER_VARIABLE, this_owner

# --- the sandbox: which one works here, and what a trial's processes find in it -------------

SANDBOX_VARIABLE = "TUNEKIT_SANDBOX"
"""Environment variable that forces a kind of sandbox, such as "none" for a script that can't run in one."""
_KINDS = (sandbox.OVERLAY, sandbox.LANDLOCK, sandbox.NONE)
CACHE_LAYERS = "cache-layers"
"""Folder next to the trials: their downloads into the user's cache folders, kept for the next trial."""
AGENT_FOLDER = "agent"
"""Subfolder of a trial's folder that its processes may write to; the rest is out of their reach."""
LAYER = "layer"
STARTUP_FILE = "tunekit-agent.pth"
_SCRIPT_BYTES = 1 << 16
_PYTHON_OR_ENVIRONMENT = re.compile(r"(?<![\w.+/-])([\w.+/-]*/bin)/(python[\d.]*|activate)(?![\w/])")
"""The path of an interpreter, or of a virtual environment's activate script, in a shell script."""
_CACHE_VARIABLES = (
    "XDG_CACHE_HOME",
    "HF_HOME",
    "HF_DATASETS_CACHE",
    "TRANSFORMERS_CACHE",
    "TORCH_HOME",
    "TORCH_EXTENSIONS_DIR",
    "CUDA_CACHE_PATH",
    "NLTK_DATA",
)
"""Variables that name cache folders of downloads and compiled code, which later trials reuse."""


@functools.lru_cache(maxsize=8)
def best_sandbox(folder: Path) -> Sandbox:
    """Return the best sandbox that works for trials in a folder; each kind is actually tried.

    Raises:
        UsageError: TUNEKIT_SANDBOX names an unknown kind, or one that doesn't work here.
    """
    wanted = os.environ.get(SANDBOX_VARIABLE, "").strip().lower()
    if wanted and wanted not in _KINDS:
        raise UsageError(
            f"{SANDBOX_VARIABLE} must be one of {', '.join(_KINDS)}, got {wanted!r}; or unset it"
        )
    if wanted == sandbox.NONE:
        return Sandbox(kind="none", reasons=dict.fromkeys(_KINDS[:2], f"{SANDBOX_VARIABLE}=none"))
    folder.mkdir(parents=True, exist_ok=True)
    kind, reasons = sandbox.probe(str(folder.resolve()), (wanted,) if wanted else _KINDS[:2])
    if wanted and kind != wanted:
        raise UsageError(f"{SANDBOX_VARIABLE}={wanted} does not work here ({reasons[wanted]}); unset it")
    return Sandbox.model_validate({"kind": kind, "reasons": reasons})


def isolated(
    command: Sequence[str], kind: str, request_path: Path, kept: Sequence[str], environment: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Return the command line that starts a trial's command in a sandbox, and its environment there.

    Args:
        command: program and arguments.
        kind: the sandbox's kind.
        request_path: the trial's request file, in the trial's folder.
        kept: writable folders in addition to the agent's; the first is for sockets and the like.
        environment: the trial's environment.
    """
    folder = request_path.parent
    changed = dict(environment)
    spec: dict[str, object] = {"kind": kind, "kept": [str(folder / AGENT_FOLDER), *kept]}
    if kind == sandbox.OVERLAY:
        pythons = _site_folders(command, str(Path.cwd()), environment.get("PATH", os.defpath))
        startup = _startup_text(request_path)
        spec |= {
            "layer": str(folder / LAYER),
            "shared": _shared_caches(folder.parent / CACHE_LAYERS, environment),
            "startup_files": {f"{place}/{STARTUP_FILE}": startup for place in pythons},
        }
    else:
        changed["PATH"] = path_with_agent(folder, environment)
        changed["TMPDIR"] = tempfile.mkdtemp(dir=kept[0])
    launcher = [sys.executable, "-I", "-S", sandbox.__file__, json.dumps(spec), "--"]
    return [*launcher, *command] if kind != sandbox.NONE else list(command), changed


def own_cache(environment: Mapping[str, str]) -> str:
    """Return tunekit's folder in the user's cache, created if missing; it holds the built-in data."""
    named = environment.get("XDG_CACHE_HOME", "")
    caches = Path(named) if named.startswith("/") else Path.home() / ".cache"
    (caches / "tunekit").mkdir(parents=True, exist_ok=True)
    return str((caches / "tunekit").resolve())


def _startup_text(request_path: Path) -> str:
    """Return the startup line that loads the agent even if the script cleared its environment variables.

    Python then finds the agent's `sitecustomize` on the path, as if PYTHONPATH still named it.
    """
    names = {REQUEST_VARIABLE: str(request_path), TRIAL_VARIABLE: "1"}
    settings = "; ".join(f"os.environ.setdefault({name!r}, {value!r})" for name, value in names.items())
    site = str(SITE_FOLDER)
    return f"import os, sys; {settings}; {site!r} in sys.path or sys.path.insert(0, {site!r})\n"


def _site_folders(command: Sequence[str], working_dir: str, search_path: str) -> list[str]:
    """Return the folders where the Pythons that a command may run look for startup files; none is run."""
    found = [interpreter_of(command, Path(working_dir), search_path), *_named_pythons(command, working_dir)]
    for folder in dict.fromkeys(map(os.path.realpath, search_path.split(os.pathsep))):
        found.append(shutil.which("python3", path=folder) or shutil.which("python", path=folder))
    homes = dict.fromkeys(Path(python).parent.parent for python in filter(None, found))
    return [str(place) for home in homes for place in sorted(home.glob("lib*/python3*/*-packages"))]


def _named_pythons(command: Sequence[str], working_dir: str) -> list[str]:
    """Return the Pythons whose paths appear in the command or in a shell script that it names."""
    texts = list(command)
    for word in command:
        path = Path(working_dir, word)
        with contextlib.suppress(OSError, ValueError):  # most words aren't files
            if path.suffix != ".py" and path.is_file():
                with path.open("rb") as stream:
                    texts.append(stream.read(_SCRIPT_BYTES).decode("utf-8", "replace"))
    named = (match for text in texts for match in _PYTHON_OR_ENVIRONMENT.finditer(text))
    return [str(Path(working_dir, match[1], match[2].replace("activate", "python"))) for match in named]


def path_with_agent(folder: Path, environment: Mapping[str, str]) -> str:
    """Return a PATH on which every `python` puts the agent back on PYTHONPATH.

    Without startup files, this keeps the agent in commands such as `PYTHONPATH=src python train.py`.

    Args:
        folder: receives the wrapper programs.
        environment: its PATH is extended.
    """
    shims, path = folder / "bin", environment.get("PATH", os.defpath)
    shims.mkdir(exist_ok=True)
    # Unlike pathlib, isdir does not raise for another user's folder.
    for place in filter(os.path.isdir, (place or os.curdir for place in path.split(os.pathsep))):
        for program in sorted(Path(place).glob("python*")):
            shim = shims / program.name
            if is_python(program.name) and not shim.exists() and os.access(program, os.X_OK):
                agent_first = f"{SITE_FOLDER}${{PYTHONPATH:+:$PYTHONPATH}}"
                text = f'#!/bin/sh\nPYTHONPATH="{agent_first}" exec "{program}" "$@"\n'
                shim.write_text(text, encoding="utf-8")
                shim.chmod(0o755)
    return f"{shims}{os.pathsep}{path}"


def _shared_caches(layers: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the cache folders, none inside another, each with the layer that trials write to instead."""
    home = environment.get("HOME", "")
    named = [environment.get(name, "") for name in _CACHE_VARIABLES]
    named += [f"{home}/.cache", f"{home}/.nv"] if home else []  # the driver stores compiled kernels in .nv
    real = sorted({os.path.realpath(path) for path in named if path.startswith("/")})
    outer = [path for path in real if path != "/" and not any(path.startswith(f"{one}/") for one in real)]
    shared = {path: layers / str(number) for number, path in enumerate(outer)}
    for layer in shared.values():
        layer.mkdir(parents=True, exist_ok=True)
    return {path: str(layer) for path, layer in shared.items()}


# --- the request, the environment and the keeper --------------------------------------------

COMPILE_CACHE = "compile-cache"
"""Folder next to the trials: their compiled code, kept for the next trial."""
OUTPUT_FILE, REQUEST_FILE, TRIAL_FILE = "output.log", "request.json", "trial.json"


def is_cut_off(folder: Path) -> bool:
    """Return whether a trial started in a folder but ended before its record was written."""
    is_trials = folder.name.isdigit() and not folder.is_symlink() and (folder / REQUEST_FILE).is_file()
    return is_trials and not (folder / TRIAL_FILE).exists()


_TRACKERS_OFF = {
    "WANDB_MODE": "disabled",  # Weights & Biases: calls do nothing
    "COMET_AUTO_LOG_DISABLE": "true",  # Comet: importing it patches no framework
    "DISABLE_MLFLOW_INTEGRATION": "TRUE",  # MLflow in the transformers Trainer
    "MLFLOW_ALLOW_FILE_STORE": "true",  # MLflow 3.17 refuses to log to a folder without it
    "SWANLAB_MODE": "disabled",
    "HF_HUB_DISABLE_TELEMETRY": "1",  # not HF_HUB_OFFLINE: downloads stay possible
    "DO_NOT_TRACK": "1",
}
"""Variables that keep a trial out of experiment trackers even before the agent does."""


def agent_path(environment: Mapping[str, str]) -> str:
    """Return a PYTHONPATH with the agent's folder before the user's own entries."""
    own = environment.get("PYTHONPATH")
    return f"{SITE_FOLDER}{os.pathsep}{own}" if own else str(SITE_FOLDER)


def write_request(request: AgentRequest, folder: Path) -> Path:
    """Write the agent's request into a folder, and return its path."""
    path = folder / REQUEST_FILE
    write_text(path, request.model_dump_json(indent=2) + "\n")
    return path


def write_copies(file_texts: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Write the rewritten texts of the user's files into `FOLDER/bound` and return the path of each copy.

    Args:
        file_texts: new texts, by the real path of the user's file.
        folder: the trial's folder, absolute.

    Raises:
        OSError: the folder can't be written.
    """
    copies = {}
    for number, (path, text) in enumerate(sorted(file_texts.items())):
        copy = folder / "bound" / f"{number}-{Path(path).name}"
        copy.parent.mkdir(mode=0o700, exist_ok=True)  # the user's file may be private
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
        hide_gpus: train on the CPU even if there is a GPU (`--gpu cpu`).
    """
    environment = dict(inherited)
    environment["PYTHONPATH"] = agent_path(environment)
    environment[REQUEST_VARIABLE] = str(request_path)
    environment[TRIAL_VARIABLE] = "1"
    environment[OWNER_VARIABLE] = this_owner().text()
    environment.update(_TRACKERS_OFF)
    caches = request_path.parent.parent / COMPILE_CACHE
    environment["TORCHINDUCTOR_CACHE_DIR"] = str(caches / "inductor")
    environment["TRITON_CACHE_DIR"] = str(caches / "triton")
    if hide_gpus:
        environment["CUDA_VISIBLE_DEVICES"] = ""
    return environment


def start_trial(
    bound: Bound, request: AgentRequest, hide_gpus: bool = False, writable: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    """Write the request next to the agent's folder and start the target under a keeper.

    Args:
        bound: the command and its variables, with the trial's knobs in them.
        request: the agent's request, including its folder and sandbox.
        hide_gpus: train on the CPU even if there is a GPU.
        writable: folders outside the trial's folder that it may really write to.

    Returns:
        The keeper. Closing its standard input ends the whole tree; its standard output then holds
        one line of JSON with the target's exit status.
    """
    folder = Path(request.trial_folder).parent
    caches = folder.parent / COMPILE_CACHE
    caches.mkdir(exist_ok=True)
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
