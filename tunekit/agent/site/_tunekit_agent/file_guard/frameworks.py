"""Frameworks don't checkpoint, rotate checkpoints or upload in a trial."""

from __future__ import annotations

import functools
import os
import re
from typing import Any, Callable

from .. import imports

_LIGHTNING = ("lightning.pytorch", "pytorch_lightning")
_TRAINER = ("_save_checkpoint", "save_model", "_push_from_checkpoint", "push_to_hub", "_rotate_checkpoints")
_OFF = (
    (("transformers",), "trainer", "Trainer", _TRAINER),
    (("transformers",), "trainer_utils", "", ("rotate_checkpoints",)),
    (_LIGHTNING, "trainer.trainer", "Trainer", ("save_checkpoint",)),
    (_LIGHTNING, "callbacks.model_checkpoint", "ModelCheckpoint", ("_remove_checkpoint", "_link_checkpoint")),
    (_LIGHTNING, "strategies.strategy", "Strategy", ("remove_checkpoint",)),
    (("accelerate",), "accelerator", "Accelerator", ("save_model",)),
)
"""What checkpoints and rotates: packages, module in them, class, methods."""
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
    """Replaces functions by ones that do nothing and are listed when they are called."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self._listed: set = set()

    def off(self, owner: Any, name: str, shown: str, reply: Callable | None = None) -> None:
        """Replace an attribute of a class or a module, if it is there.

        Args:
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
            if shown not in self._listed:
                self._listed.add(shown)
                self._log.emit("written", path=shown, action="denied")
            return None if reply is None else reply(*args, **kwargs)

        is_static = isinstance(found, staticmethod)
        setattr(owner, name, staticmethod(nothing) if is_static else nothing)

    def off_in(self, module: Any, owner: str, names: tuple, package: str) -> None:
        shown = f"{package}.{owner}" if owner else package
        for name in names:
            self.off(getattr(module, owner) if owner else module, name, f"{shown}.{name}")

    def best_checkpoint(self, module: Any) -> None:
        """Have transformers.Trainer forget a best checkpoint that was never saved."""
        determine = getattr(module.Trainer, "_determine_best_metric", None)
        if determine is not None:
            module.Trainer._determine_best_metric = _without_missing_checkpoint(determine)

    def accelerator_state(self, module: Any) -> None:
        """Turn off accelerate's checkpoints, whose automatic naming deletes old ones."""
        self.off(
            module.Accelerator,
            "save_state",
            "accelerate.Accelerator.save_state",
            lambda accelerator, output_dir=None, *args, **kwargs: output_dir,
        )

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
    """Turn the frameworks' checkpoints and uploads off as the script imports them."""
    silencer = Silencer(log)
    for packages, module, owner, names in _OFF:
        shown = packages[0].partition(".")[0]
        turn_off = functools.partial(silencer.off_in, owner=owner, names=names, package=shown)
        for package in packages:
            imports.when_imported(f"{package}.{module}", turn_off)
    imports.when_imported("transformers.trainer", silencer.best_checkpoint)
    imports.when_imported("accelerate.accelerator", silencer.accelerator_state)
    imports.when_imported("huggingface_hub.hf_api", silencer.hub)
