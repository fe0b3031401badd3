"""Callbacks that run right after a module is imported, without importing anything early."""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from typing import Any, Callable

STATEFUL = "torchdata.stateful_dataloader.stateful_dataloader"


class _AfterExec(Loader):
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        for callback in _finder.waiting.pop(module.__name__, ()):
            _call(callback, module)
        if not _finder.waiting and _finder in sys.meta_path:
            sys.meta_path.remove(_finder)


class _Finder(MetaPathFinder):
    def __init__(self) -> None:
        self.waiting: dict = {}
        self.failed: Callable = lambda error: None

    def find_spec(self, name, path=None, target=None):
        if name not in self.waiting:
            return None
        spec = self._found_by_others(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _AfterExec(spec.loader)  # finding a spec imports nothing yet
        return spec

    def _found_by_others(self, name, path, target):
        """Return what Python would have found without us: an editable package has its own finder."""
        for finder in sys.meta_path:
            find_spec = getattr(finder, "find_spec", None)
            spec = find_spec(name, path, target) if finder is not self and find_spec is not None else None
            if spec is not None:
                return spec
        return None


_finder = _Finder()


def report_to(failed: Callable) -> None:
    """Have `failed(error)` called if a callback raises; the script's import goes on."""
    _finder.failed = failed


def _call(callback: Callable, module: Any) -> None:
    try:
        callback(module)
    except Exception as error:
        _finder.failed(error)


def when_imported(name: str, callback: Callable) -> None:
    """Call `callback(module)` once the module `name` is imported; immediately if it already is."""
    if name in sys.modules:
        _call(callback, sys.modules[name])
        return
    _finder.waiting.setdefault(name, []).append(callback)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def hook_torch(watcher: Any, install_optimizer: Any) -> None:
    """Install the hooks that observing and applying share: ranks, loaders, roots, steps."""
    when_imported("torch.distributed.distributed_c10d", watcher.ranks.install)
    when_imported("torch.utils.data.dataloader", watcher.loaders.install)
    when_imported(STATEFUL, lambda module: watcher.loaders.wrap_construction(module.StatefulDataLoader))
    when_imported("torch.optim.optimizer", install_optimizer)
    when_imported("torch.nn.modules.module", watcher.roots.install)
