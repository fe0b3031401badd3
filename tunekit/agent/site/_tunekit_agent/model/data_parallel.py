"""What trains the roots of several ranks together, and how to train them without summing gradients."""

from __future__ import annotations

import sys
import weakref
from typing import Any, Iterator

from ..options import after

_SHARDED = {"FullyShardedDataParallel": "fsdp", "FSDPModule": "fsdp2", "FSDP": "fsdp2"}
"""Classes of torch's, of which the later are bases of every module that `fully_shard` was called with."""
_SUMMED_STEPS = 4
"""Before gradients are summed no more: torch needs the first of a static graph."""


class DataParallelWatch:
    """Sees what trains the roots together, and stops DistributedDataParallel's sums where that is asked.

    Args:
        no_sync: whether gradients are no longer summed after the first steps.
    """

    def __init__(self, no_sync: bool) -> None:
        self._no_sync = no_sync
        self._ddp: Any = None
        self._roots: list = []
        self._syncs = True
        self._built: list = []  # as weak references
        self._steps = 0

    def install(self, module: Any) -> None:
        """Wrap `__init__` of DistributedDataParallel in `torch.nn.parallel.distributed`, to see each one.

        The class stays what it is, for those who subclass it and those who ask for it.
        """
        if self._no_sync:
            after(module.DistributedDataParallel, "__init__", self._built_one)

    def _built_one(self, _: None, ddp: Any, *__: Any, **___: Any) -> None:
        self._built.append(weakref.ref(ddp))

    def found(self, roots: list) -> None:
        """Take the modules that are trained."""
        self._roots = roots
        self._ddp = next((one for one in self._modules() if is_ddp(one)), None)

    def stepped(self) -> None:
        """An optimizer has stepped: its gradients were summed or not as it now stands.

        Elsewhere the script may be within a no_sync() of its own, as it accumulates gradients.
        """
        if self._ddp is not None:
            self._syncs = bool(self._ddp.require_backward_grad_sync)
        self._steps += 1
        if self._no_sync and self._steps >= _SUMMED_STEPS:
            for reference in self._built:
                ddp = reference()
                if ddp is not None:
                    ddp.require_backward_grad_sync = False  # as its no_sync() has it

    def facts(self, device: Any, world_size: int) -> dict | None:
        """Return the plain facts of a DataParallelSeen record.

        Args:
            device: torch's, of the roots.
            world_size: processes that train together, as far as the environment tells.

        Returns:
            None for one process that is no member of a group.
        """
        backend, kind = _backend(device), self._kind()
        if world_size == 1 and backend is None and kind == "none":
            return None
        ddp = self._ddp
        return {
            "kind": kind,
            "backend": backend,
            "gradient_bytes": self._gradient_bytes(kind),
            "syncs_gradients": None if ddp is None else self._syncs,
            "comm_hook": None if ddp is None else _hook_of(ddp),
        }

    def _modules(self) -> Iterator[Any]:
        for root in self._roots:
            yield from root.modules()

    def _kind(self) -> str:
        if self._ddp is not None:
            return "ddp"
        bases = {base for module in self._modules() for base in type(module).__mro__}
        names = {base.__name__ for base in bases if base.__module__.startswith("torch.distributed")}
        return next((kind for name, kind in _SHARDED.items() if name in names), "none")

    def _gradient_bytes(self, kind: str) -> int | None:
        """Return the bytes that are summed, of sharded parameters in their whole size."""
        if kind == "ddp":
            return sum(_bytes(one) for ddp in filter(is_ddp, self._modules()) for one in _summed(ddp))
        if kind == "fsdp2":
            return sum(_bytes(one) for root in self._roots for one in root.parameters() if one.requires_grad)
        return None


def is_ddp(module: Any) -> bool:
    defined = sys.modules.get("torch.nn.parallel.distributed")
    return defined is not None and isinstance(module, defined.DistributedDataParallel)


def _summed(ddp: Any) -> Iterator[Any]:
    """Yield the parameters whose gradients DistributedDataParallel sums."""
    for name, parameter in ddp.module.named_parameters():
        if parameter.requires_grad and name not in ddp.parameters_to_ignore:
            yield parameter


def _bytes(parameter: Any) -> int:
    return int(parameter.numel()) * int(parameter.element_size())


def _hook_of(ddp: Any) -> str | None:
    """Return the name of the communication hook, None without one."""
    hooks = getattr(ddp, "_comm_hooks", None)
    return getattr(hooks[0][0], "__name__", type(hooks[0][0]).__name__)[:200] if hooks else None


def _backend(device: Any) -> str | None:
    """Return the backend of the default process group on a device, None where there is no group."""
    module = sys.modules.get("torch.distributed.distributed_c10d")
    if module is None or not getattr(module, "is_initialized", bool)():  # torch was built without distributed
        return None
    name = str(module.get_backend())[:80]
    if name.isalpha() and name != "undefined":
        return name
    try:  # one for each kind of device, such as "cpu:gloo,cuda:nccl"
        return str(module._get_default_group()._get_backend(device).name()).lower()
    except Exception:
        return name
