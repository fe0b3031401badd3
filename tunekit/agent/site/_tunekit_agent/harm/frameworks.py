"""Frameworks don't checkpoint, rotate checkpoints or upload in a trial."""

from __future__ import annotations

import functools
import os
import re
from typing import Any, Callable

from .. import imports

_TRAINER = ("_save_checkpoint", "save_model", "_push_from_checkpoint", "push_to_hub", "_rotate_checkpoints")
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


class Silencer:
    """Replaces functions by ones that do nothing and are listed when they are called.

    Args:
        log: where they are listed.
    """

    def __init__(self, log: Any) -> None:
        self._log = log
        self._told: set = set()

    def off(self, owner: Any, name: str, shown: str, reply: Callable | None = None) -> None:
        """Replace an attribute of a class or a module, if it is there.

        Args:
            owner: the class or module.
            name: the function's name in it.
            shown: what the report calls it.
            reply: called with the call's arguments for what to return; None returns None.
        """
        from inspect import getattr_static

        found = getattr_static(owner, name, None)
        if found is None:
            return
        original = getattr(found, "__func__", found)

        @functools.wraps(original)
        def nothing(*args, **kwargs):
            self._tell(shown)
            return None if reply is None else reply(*args, **kwargs)

        is_static = isinstance(found, staticmethod)
        setattr(owner, name, staticmethod(nothing) if is_static else nothing)

    def _tell(self, shown: str) -> None:
        if shown not in self._told:
            self._told.add(shown)
            self._log.emit("written", path=shown, action="denied")

    # --- transformers ----------------------------------------------------------------------

    def trainer_module(self, module: Any) -> None:
        """Turn off transformers.Trainer's checkpoints."""
        for name in _TRAINER:
            self.off(module.Trainer, name, f"transformers.Trainer.{name}")
        determine = getattr(module.Trainer, "_determine_best_metric", None)
        if determine is not None:
            module.Trainer._determine_best_metric = _without_missing_checkpoint(determine)

    def rotation_module(self, module: Any) -> None:
        """Turn off the rotation that newer versions keep outside the Trainer."""
        self.off(module, "rotate_checkpoints", "transformers.rotate_checkpoints")

    # --- Lightning -------------------------------------------------------------------------

    def lightning_trainer(self, module: Any) -> None:
        """Turn off Lightning's checkpoints."""
        self.off(module.Trainer, "save_checkpoint", "lightning.Trainer.save_checkpoint")

    def lightning_callback(self, module: Any) -> None:
        """Turn off the rotation and the `last` link of ModelCheckpoint."""
        for name in ("_remove_checkpoint", "_link_checkpoint"):
            self.off(module.ModelCheckpoint, name, f"lightning.ModelCheckpoint.{name}")

    def lightning_strategy(self, module: Any) -> None:
        """Turn off the removal of checkpoints by a strategy."""
        self.off(module.Strategy, "remove_checkpoint", "lightning.Strategy.remove_checkpoint")

    # --- accelerate and the hub ------------------------------------------------------------

    def accelerator(self, module: Any) -> None:
        """Turn off accelerate's checkpoints, whose automatic naming deletes old ones."""
        self.off(
            module.Accelerator,
            "save_state",
            "accelerate.Accelerator.save_state",
            lambda accelerator, output_dir=None, *args, **kwargs: output_dir,
        )
        self.off(module.Accelerator, "save_model", "accelerate.Accelerator.save_model")

    def hub(self, module: Any) -> None:
        """Turn off everything that changes the hub."""
        api = getattr(module, "api", None)
        for name in dir(module.HfApi):
            if not _HUB_CHANGES.match(name) or not callable(getattr(module.HfApi, name)):
                continue
            self.off(module.HfApi, name, f"huggingface_hub.{name}", _hub_reply)
            if api is not None and hasattr(module, name):  # a bound method that was taken before
                setattr(module, name, getattr(api, name))


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


def install(log: Any) -> None:
    """Turn the frameworks' checkpoints and uploads off as the script imports them.

    Args:
        log: where what was turned off is listed.
    """
    silencer = Silencer(log)
    imports.when_imported("transformers.trainer", silencer.trainer_module)
    imports.when_imported("transformers.trainer_utils", silencer.rotation_module)
    for package in ("lightning.pytorch", "pytorch_lightning"):
        imports.when_imported(f"{package}.trainer.trainer", silencer.lightning_trainer)
        imports.when_imported(f"{package}.callbacks.model_checkpoint", silencer.lightning_callback)
        imports.when_imported(f"{package}.strategies.strategy", silencer.lightning_strategy)
    imports.when_imported("accelerate.accelerator", silencer.accelerator)
    imports.when_imported("huggingface_hub.hf_api", silencer.hub)
