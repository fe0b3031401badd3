"""Keeps frameworks from checkpointing and uploading in a trial, and experiment trackers from sending."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path
from typing import Any, Callable

from .. import imports
from . import report_once
from .stand_ins import replace

_LIGHTNING = ("lightning.pytorch", "pytorch_lightning")
_TRAINER = ("_save_checkpoint", "save_model", "_push_from_checkpoint", "push_to_hub", "_rotate_checkpoints")
_CALLBACK = ("ModelCheckpoint._remove_checkpoint", "ModelCheckpoint._link_checkpoint")
_OFF = (
    (("transformers",), "trainer", tuple(f"Trainer.{name}" for name in _TRAINER)),
    (("transformers",), "trainer_utils", ("rotate_checkpoints",)),
    (_LIGHTNING, "trainer.trainer", ("Trainer.save_checkpoint",)),
    (_LIGHTNING, "callbacks.model_checkpoint", _CALLBACK),
    (_LIGHTNING, "strategies.strategy", ("Strategy.remove_checkpoint",)),
    (("accelerate",), "accelerator", ("Accelerator.save_model",)),
)
"""Functions and methods that write or rotate checkpoints: packages, module in them, names there."""
# Every method of HfApi that changes something there begins with one of these words.
_HUB_CHANGES = re.compile(
    r"(accept|add|batch|cancel|change|comment|copy|create|delete|disable|duplicate|edit|enable|grant|hide|merge|"
    r"move|pause|permanently|preupload|reject|rename|request|rerun|restart|resume|scale|set|super|suspend|sync|"
    r"trigger|unlike|update|upload|run_job|run_uv_job)(_|$)"
)


class HubReply(str):
    """The result of a suppressed hub call: an empty URL whose attributes are empty too."""

    repo_id = ""

    def __getattr__(self, name: str) -> HubReply:
        if name.startswith("__"):
            raise AttributeError(name)
        return HubReply()


def _hub_reply(api: Any, *args: Any, **kwargs: Any) -> Any:
    reply = HubReply()
    names = [value for value in (kwargs.get("repo_id"), *args[:1]) if isinstance(value, str)]
    reply.repo_id = names[0] if names else ""
    if not kwargs.get("run_as_future"):
        return reply
    from concurrent.futures import Future

    future: Future = Future()
    future.set_result(reply)
    return future


def _hub(refused: Callable, module: Any) -> None:
    """Turn off every function that changes the hub."""
    api = getattr(module, "api", None)
    for name in dir(module.HfApi):
        if not _HUB_CHANGES.match(name) or not callable(getattr(module.HfApi, name)):
            continue
        replace(_off(refused, f"huggingface_hub.{name}", _hub_reply), f"HfApi.{name}", module)
        if api is not None and hasattr(module, name):  # the module's own name for the old bound method
            setattr(module, name, getattr(api, name))


# --- factories: each returns a function that turns an original into its replacement --------


def _off(refused: Callable, shown: str, reply: Callable | None = None) -> Callable:
    """Return a factory of functions that only report that they were called.

    Args:
        refused: reports a call.
        shown: the function's name in the report.
        reply: computes the result from the call's arguments; if None, the result is None.
    """

    def made(original: Callable) -> Callable:
        @functools.wraps(original)
        def nothing(*args, **kwargs):
            refused(shown)
            return None if reply is None else reply(*args, **kwargs)

        return nothing

    return made


def _always(value: Any) -> Callable:
    """Return a factory of functions that only return the value."""
    return lambda original: lambda *args, **kwargs: value


def _with(**forced: Any) -> Callable:
    """Return a factory of functions that call the original with these arguments forced."""
    return lambda original: functools.wraps(original)(
        lambda *args, **kwargs: original(*args, **{**kwargs, **forced})
    )


def _without_missing_checkpoint(determine: Callable) -> Callable:
    """Return a method that clears the trainer's best checkpoint afterwards if it was never saved."""

    @functools.wraps(determine)
    def determined(trainer, *args, **kwargs):
        result = determine(trainer, *args, **kwargs)
        best = trainer.state.best_model_checkpoint
        if best is not None and not os.path.isdir(best):
            trainer.state.best_model_checkpoint = None
        return result

    return determined


_OTHERS = (
    ("transformers.trainer", "Trainer._determine_best_metric", _without_missing_checkpoint),
    ("wandb.sdk.wandb_init", "init", _with(mode="disabled")),
    ("wandb.sdk.wandb_login", "login", _always(True)),
    ("comet_ml.experiment", "BaseExperiment.__init__", _with(disabled=True)),
    ("comet_ml.comet_start.init_parameters", "InitParameters.__init__", _with(online=False)),
    ("comet_ml.config.config_init", "_init", _always(None)),
    ("clearml.backend_interface.base", "InterfaceBase._offline_mode", lambda own: True),
    ("clearml.backend_api.session.session", "Session._offline_mode", lambda own: True),
    ("clearml.task", "Task.set_offline", _always(None)),
    ("neptune.internal.backends.factory", "get_backend", _with(mode="debug")),
    ("neptune_scale.api.run", "Run.__init__", _with(mode="disabled")),
    ("swanlab.sdk.cmd.init", "init", _with(mode="disabled")),
    ("swanlab.sdk.cmd.login", "login", _always(True)),
    ("trackio.utils", "resolve_space_id_and_server_url", _always((None, None))),
)
"""Functions that start a tracker's run or choose its destination: module, name in it, factory."""


def install(log: Any, trial_folder: str) -> None:
    """Turn off checkpoints, uploads and trackers as the script imports their frameworks.

    Args:
        log: receives an event when a suppressed function is called.
        trial_folder: absolute; MLflow's runs go there.
    """
    refused = report_once(lambda path: log.emit("written", path=path, action="denied"))
    runs = os.environ["MLFLOW_TRACKING_URI"] = Path(trial_folder, "mlruns").as_uri()
    rows = [
        *_OTHERS,
        ("mlflow.tracking._tracking_service.utils", "get_tracking_uri", _always(runs)),
        ("mlflow.tracking._tracking_service.utils", "_resolve_tracking_uri", _always(runs)),
        ("mlflow.tracking._model_registry.utils", "_resolve_registry_uri", _always(runs)),
    ]
    # Accelerate's automatic naming would delete old checkpoints.
    name = "Accelerator.save_state"
    saved = _off(refused, f"accelerate.{name}", lambda own, output_dir=None, *_, **__: output_dir)
    rows.append(("accelerate.accelerator", name, saved))
    for packages, module, names in _OFF:
        shown = packages[0].partition(".")[0]
        rows += [
            (f"{package}.{module}", name, _off(refused, f"{shown}.{name}"))
            for package in packages
            for name in names
        ]
    for module, name, made in rows:
        imports.when_imported(module, functools.partial(replace, made, name))
    imports.when_imported("huggingface_hub.hf_api", functools.partial(_hub, refused))
