"""Where the watches hang into torch's modules, as the script imports them."""

from __future__ import annotations

import atexit
from typing import Any

from . import imports
from .observe import Observer
from .options import OptionWatch
from .process import Owner
from .request import Request

_STATEFUL = "torchdata.stateful_dataloader.stateful_dataloader"


def install(request: Request, log: Any, owner: Owner) -> None:
    OptionWatch(request.option_names, log).install()
    observer = Observer(request, log, owner)
    hook_torch(observer, observer.steps.install_optimizer)
    imports.when_imported("torch.utils.data.dataloader", observer.loaders.install_iteration)
    imports.when_imported("torch.utils.data.dataloader", observer.work.install_start)
    imports.when_imported(_STATEFUL, observer.work.install_stateful)
    imports.when_imported("torch.utils.data._utils.fetch", observer.work.install_fetch)
    imports.when_imported("torch.cuda.graphs", observer.steps.install_graphs)
    imports.when_imported("torch.autograd", observer.steps.install_autograd)
    for module in ("torch.amp.grad_scaler", "torch.cuda.amp.grad_scaler"):
        imports.when_imported(module, observer.steps.install_scaler)
    if "precision" not in request.knobs:
        imports.when_imported("torch.amp.autocast_mode", observer.autocasts.install)
    atexit.register(observer.script_ended)


def hook_torch(watcher: Any, install_optimizer: Any) -> None:
    """Hang in what observing and applying have in common: ranks, loaders, roots, steps."""
    imports.when_imported("torch.distributed.distributed_c10d", watcher.ranks.install)
    imports.when_imported("torch.utils.data.dataloader", watcher.loaders.install)
    imports.when_imported(_STATEFUL, watcher.loaders.install_stateful)
    imports.when_imported("torch.optim.optimizer", install_optimizer)
    imports.when_imported("torch.nn.modules.module", watcher.roots.install)
