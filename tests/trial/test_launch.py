"""What a trial's environment and agent make of experiment trackers.

These are not installed here: stubs have the entry points of wandb 0.31, mlflow-skinny 3.17, comet_ml 3.58,
clearml 2.1, neptune 1.14, neptune-scale 0.30, swanlab 0.10 and trackio 0.43, and return what they are given.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

from tunekit.agent import SITE_FOLDER
from tunekit.trial.launch import path_with_agent, trial_environment

RUNS = "MLflow's folder"
TRACKERS = (
    ("wandb.sdk.wandb_init", "init(mode='online')", {"mode": "disabled"}),
    ("wandb.sdk.wandb_login", "login(key='key')", True),
    ("mlflow.tracking._tracking_service.utils", "get_tracking_uri()", RUNS),
    ("mlflow.tracking._tracking_service.utils", "_resolve_tracking_uri('http://x')", RUNS),
    ("mlflow.tracking._model_registry.utils", "_resolve_registry_uri('http://x')", RUNS),
    ("comet_ml.experiment", "BaseExperiment(disabled=False)", {"disabled": True}),
    ("comet_ml.comet_start.init_parameters", "InitParameters(online=True)", {"online": False}),
    ("comet_ml.config.config_init", "_init(api_key='key')", None),
    ("clearml.backend_interface.base", "InterfaceBase._offline_mode", True),
    ("clearml.backend_api.session.session", "Session._offline_mode", True),
    ("clearml.task", "Task.set_offline(False)", None),
    ("neptune.internal.backends.factory", "get_backend(mode='async')", {"mode": "debug"}),
    ("neptune_scale.api.run", "Run(mode='async')", {"mode": "disabled"}),
    ("swanlab.sdk.cmd.init", "init(mode='online')", {"mode": "disabled"}),
    ("swanlab.sdk.cmd.login", "login(api_key='key')", True),
    ("trackio.utils", "resolve_space_id_and_server_url('me/space', None)", [None, None]),
)
SCRIPT = """
import importlib, json, sys
from _tunekit_agent.file_guard import frameworks
frameworks.install(None, sys.argv[1])
found = [eval(call, vars(importlib.import_module(name))) for name, call, _ in json.loads(sys.argv[2])]
print(json.dumps(found))
"""


def test_trackers_stay_off_whatever_the_script_sets(tmp_path: Path) -> None:
    for module, call, _ in TRACKERS:
        stub = tmp_path.joinpath(*module.split(".")).with_suffix(".py")
        stub.parent.mkdir(parents=True, exist_ok=True)
        for package in stub.parents[: len(module.split(".")) - 1]:  # or an installed package comes first
            (package / "__init__.py").touch()
        with stub.open("a") as stream:
            stream.write(f"class {re.split('[(.]', call)[0]}(dict): _offline_mode = set_offline = None\n")
    words = [sys.executable, "-c", SCRIPT, str(tmp_path), json.dumps(TRACKERS)]
    told = subprocess.check_output(words, env={"PYTHONPATH": f"{SITE_FOLDER}:{tmp_path}"})
    runs = (tmp_path / "mlruns").as_uri()
    assert json.loads(told) == [runs if kept == RUNS else kept for *_, kept in TRACKERS]


def test_a_folder_on_path_that_cannot_be_looked_into_is_skipped(tmp_path: Path) -> None:
    path_with_agent(tmp_path, {"PATH": f"/{'x' * 256}:{Path(sys.executable).parent}"})  # even root can't
    assert (tmp_path / "bin" / "python3").exists()


def test_a_trials_environment_turns_trackers_off_and_leaves_the_rest(tmp_path: Path) -> None:
    environment = trial_environment(tmp_path / "request.json", {"WANDB_MODE": "online", "HOME": "/home/me"})
    assert environment.items() >= {"WANDB_MODE": "disabled", "HOME": "/home/me"}.items()
    assert "HF_HUB_OFFLINE" not in environment
