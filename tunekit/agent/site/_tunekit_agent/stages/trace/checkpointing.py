"""Gradient checkpointing around a model's repeated blocks, for the steps that are traced with it.

Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost", arXiv 1604.06174: a block keeps its inputs
alone, and its forward runs once more within backward.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from typing import Any, Iterator

_MIN_BLOCKS = 2
_NO_BLOCKS = "its model has no repeated blocks: modules of one class, with layers of their own, in a list"
_NOT_TRAINED = "its repeated blocks are not trained"
_ITS_OWN = "its model has it switched on already"
_SWITCHES = ("activation_checkpointing", "gradient_checkpointing")
"""What models of transformers call theirs: from version 5 on, and before."""
_KEYWORDS = {"use_reentrant": False, "preserve_rng_state": False}
"""A state of random numbers lies on the host, and is no matter to what is allocated."""


class Blocks:
    """The repeated blocks of the modules that are trained.

    Attributes:
        modules: the blocks, outermost ones of the classes that occur more than once.
        why_not: why there is nothing to checkpoint; None if there is.
    """

    def __init__(self, torch: Any, roots: list) -> None:
        self._torch = torch
        self._models = _with_own_switch(roots)
        self.modules = repeated_blocks(torch, roots)
        self.why_not: str | None = None
        if any(getattr(model, f"is_{switch}", False) for model, switch in self._models):
            self.why_not = _ITS_OWN
        elif not self.modules:
            classes = _repeated_classes(torch, roots).values()
            is_frozen = any(True for blocks in classes for block in blocks for _ in block.parameters())
            self.why_not = _NOT_TRAINED if is_frozen else _NO_BLOCKS

    @property
    def names(self) -> list:
        """The classes of the blocks."""
        return sorted({type(block).__name__ for block in self.modules})

    @contextlib.contextmanager
    def checkpointed(self) -> Iterator[None]:
        """Checkpoint them: by the model's own switch where it has one, as those of transformers do."""
        with contextlib.ExitStack() as open_:
            for model, switch in self._models:
                open_.callback(getattr(model, f"{switch}_disable"))
                getattr(model, f"{switch}_enable")(**{f"{switch}_kwargs": dict(_KEYWORDS)})
            if not self._models:
                open_.enter_context(forwards_kept(self.modules))
                checkpoint = importlib.import_module(f"{self._torch.__name__}.utils.checkpoint").checkpoint
                for block in self.modules:
                    block.__dict__["forward"] = _checkpointed(self._torch, block.forward, checkpoint)
            yield


def _with_own_switch(roots: list) -> list:
    """Return the outermost models that have a switch of their own, each with what it is called."""
    found, within = [], set()
    for module in (one for root in roots for one in root.modules()):
        if id(module) in within or not getattr(module, "supports_gradient_checkpointing", False):
            continue
        switch = next((name for name in _SWITCHES if hasattr(type(module), f"{name}_enable")), None)
        if switch is not None:
            found.append((module, switch))
            within.update(map(id, module.modules()))
    return found


@contextlib.contextmanager
def forwards_kept(modules: list) -> Iterator[None]:
    """Put back the forwards that modules have of their own at the end of a block."""
    names = ("forward", "_tunekit_forward")
    before = [{name: one.__dict__[name] for name in names if name in one.__dict__} for one in modules]
    try:
        yield
    finally:
        for module, own in zip(modules, before):  # noqa: B905 - Python 3.9
            for name in names:
                module.__dict__.pop(name, None)
            module.__dict__.update(own)


def _checkpointed(torch: Any, forward: Any, checkpoint: Any) -> Any:
    @functools.wraps(forward)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        # Its keywords stay its own: checkpoint has some of the same names.
        return checkpoint(functools.partial(forward, **kwargs), *args, **_KEYWORDS)

    return checkpointed


def repeated_blocks(torch: Any, roots: list) -> list:
    """Return the outermost modules of the classes that stand in lists of a model more than once.

    A block has layers of its own: a list of single convolutions has none. Classes that hold less than half
    the trained parameters of the largest are no blocks, but stems and heads.
    """
    found = _repeated_classes(torch, roots)
    sizes = {kind: sum(map(_numel, blocks)) for kind, blocks in found.items()}
    most = max(sizes.values(), default=0)
    kept = [block for kind, blocks in found.items() if 2 * sizes[kind] >= most > 0 for block in blocks]
    inner = {id(one) for block in kept for one in block.modules() if one is not block}
    return [block for block in kept if id(block) not in inner]


def _repeated_classes(torch: Any, roots: list) -> dict:
    """Return the modules with layers of their own in lists of a model, by class where there are several."""
    lists = (torch.nn.ModuleList, torch.nn.Sequential, torch.nn.ModuleDict)
    by_class: dict = {}
    for root in roots:
        for holder in root.modules():
            for child in holder.children() if isinstance(holder, lists) else ():
                if type(child) not in lists and any(True for _ in child.children()):
                    by_class.setdefault(type(child), {})[id(child)] = child
    return {kind: list(blocks.values()) for kind, blocks in by_class.items() if len(blocks) >= _MIN_BLOCKS}


def _numel(module: Any) -> int:
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)
