"""Which stages there are, in the order in which they look at the loop."""

from __future__ import annotations

import sys
from typing import Any

from . import floors, full_queue
from .kernel_window import KernelWindow
from .peaks import Peaks
from .sync_points import SyncPoints


def stages(wanted: list, observer: Any) -> list:
    """Return the stages for what the parent asks, in the order of the parent's `Detail`.

    Args:
        wanted: names of details.
        observer: the `observe.Observer` whose loop they look at.
    """
    torch, on_cuda = sys.modules["torch"], observer.device_type == "cuda"
    makers = {
        "queue": lambda: full_queue.make(observer),
        "kernels": lambda: KernelWindow(torch, on_cuda),
        "syncs": lambda: SyncPoints(torch, on_cuda, observer.working_dir),
        "peaks": lambda: Peaks(torch, observer.device if on_cuda else None, observer.parameters),
        "floors": lambda: floors.make(observer),
    }
    return [make() for name, make in makers.items() if name in wanted]
