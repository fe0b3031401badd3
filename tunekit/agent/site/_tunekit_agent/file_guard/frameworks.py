"""Frameworks don't checkpoint, rotate checkpoints or upload in a trial; experiment trackers send nothing."""

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
"""What checkpoints and rotates: packages, module in them, functions and methods there."""
# Every method of HfApi that changes something there begins with one of these words.
_HUB_CHANGES = re.compile(
    r"(accept|add|batch|cancel|change|comment|copy|create|delete|disable|duplicate|edit|enable|grant|hide|merge|"
    r"move|pause|permanently|preupload|reject|rename|request|rerun|restart|resume|scale|set|super|suspend|sync|"
    r"trigger|unlike|update|upload|run_job|run_uv_job)(_|$)"
)


class HubReply(str):
    """What a hub call that wasn't made returns: an empty URL whose attributes are empty too."""

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
    """Turn off everything that changes the hub."""
    api = getattr(module, "api", None)
    for name in dir(module.HfApi):
        if not _HUB_CHANGES.match(name) or not callable(getattr(module.HfApi, name)):
            continue
        replace(_off(refused, f"huggingface_hub.{name}", _hub_reply), f"HfApi.{name}", module)
        if api is not None and hasattr(module, name):  # a bound method that was taken before
            setattr(module, name, getattr(api, name))


# --- what takes the place of a function or an attribute: made from it ----------------------


def _off(refused: Callable, shown: str, reply: Callable | None = None) -> Callable:
    """Return what makes a function that does nothing and is listed when it is called.

    Args:
        refused: lists it.
        shown: what the report calls it.
        reply: called with the call's arguments for what to return; None returns None.
    """

    def made(original: Callable) -> Callable:
        @functools.wraps(original)
        def nothing(*args, **kwargs):
            refused(shown)
            return None if reply is None else reply(*args, **kwargs)

        return nothing

    return made


def _always(value: Any) -> Callable:
    """Return what makes a function that does nothing but return the value."""
    return lambda original: lambda *args, **kwargs: value


def _with(**forced: Any) -> Callable:
    """Return what makes a function that calls the original with these arguments, whatever else is given."""
    return lambda original: functools.wraps(original)(
        lambda *args, **kwargs: original(*args, **{**kwargs, **forced})
    )


def _without_missing_checkpoint(determine: Callable) -> Callable:
    """Return a method after which the best checkpoint is none that was never saved."""

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
"""What starts a tracker's run or says where it goes: module, name in it, what makes another of it."""


def install(log: Any, trial_folder: str) -> None:
    """Turn the frameworks' checkpoints and uploads and the trackers off as the script imports them.

    Args:
        log: where what was turned off and called is listed.
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
    # Its automatic naming would delete old checkpoints.
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
