"""The address by which a later trial, or the real training, knows a loader again."""

import sys
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from _tunekit_agent.loader.info import matches
from _tunekit_agent.loader.watch import LoaderWatch
from torch.utils.data import DataLoader, dataloader

MODULES = {
    "trainer.loop.fit": "def fit():\n    return Loader([1, 2, 3])\n",
    "shop.data": "def training():\n    return fit()\n",
    "shop": "def loaders():\n    return training()\n",
    "__main__": "def main():\n    return loaders()\n",
}
"""Each calls into the one before; the first builds the loader."""
SEARCHED = {
    "trainer.loop.fit": "/home/me/venv/lib/python3.11/site-packages/trainer/loop/fit.py",
    "shop.data": "/home/me/project/src/shop/data.py",
    "shop": "/home/me/project/src/shop/__init__.py",
    "__main__": "/home/me/project/train.py",
}
COPIED = {
    "trainer.loop.fit": "/usr/lib/python3/dist-packages/trainer/loop/fit.py",
    "shop.data": "/mnt/jobs/17/src/shop/data.py",
    "shop": "/mnt/jobs/17/src/shop/__init__.py",
    "__main__": "/mnt/jobs/17/train.py",
}


class Seen:
    """A double for the observer, which keeps what it is told of."""

    def __init__(self) -> None:
        self.infos: list[Any] = []

    def loader_built(self, info: Any) -> None:
        self.infos.append(info)


def built_by(files: Mapping[str, str]) -> tuple[LoaderWatch, Any]:
    """Build a loader by those modules, lying in those files; returns its watch and what is known of it."""

    class Loader(DataLoader[Any]):
        """A class of its own: torch's stays as it is."""

    seen = Seen()
    watch = LoaderWatch(None, {}, seen, SimpleNamespace(is_here=True))  # type: ignore[arg-type]
    watch.install(SimpleNamespace(DataLoader=Loader, _DatasetKind=dataloader._DatasetKind))
    scope: dict[str, Any] = {"Loader": Loader}
    for name, source in MODULES.items():
        names: dict[str, Any] = {**scope, "__name__": name}
        exec(compile(source, files[name], "exec"), names)
        scope |= {key: value for key, value in names.items() if not key.startswith("__")}
    scope["main"]()
    return watch, seen.infos[0]


def test_an_address_holds_wherever_the_project_and_its_packages_lie() -> None:
    watch, info = built_by(SEARCHED)
    address = watch.address_of(info)
    files = [frame.partition(":")[0] for frame in address["call_stack"]]
    assert files == ["trainer/loop/fit.py", "shop/data.py", "shop/__init__.py", "train.py"]
    assert matches(address, built_by(COPIED)[1])


def test_the_lines_in_which_accelerate_wraps_every_loader_are_no_part_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    package = "/home/me/venv/lib/python3.11/site-packages/trainer/__init__.py"
    monkeypatch.setitem(sys.modules, "accelerate", SimpleNamespace(__file__=package))  # type: ignore[arg-type]
    assert built_by(SEARCHED)[1].call_stack[0].startswith("shop/data.py")
