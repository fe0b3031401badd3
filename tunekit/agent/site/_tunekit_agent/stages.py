"""Which stages there are, in the order in which they look at the loop."""

from __future__ import annotations

import sys

from . import floors, full_queue, largest, sizes
from .kernel_window import KernelWindow
from .loop_at_hand import LoopAtHand
from .peaks import Peaks
from .sync_points import SyncPoints
from .trace import stage as trace


def stages(wanted: list, loop: LoopAtHand) -> list:
    """Return the stages for what the parent asks, in the order of the parent's `Detail`.

    Of a loop that computes nothing, its steps are traced first; then its loader has the machine for itself.

    Args:
        wanted: names of details.
        loop: what they look at.
    """
    torch, on_cuda = sys.modules["torch"], loop.device_type == "cuda"
    device, per_turn = loop.device if on_cuda else None, loop.batches_per_turn
    makers = {
        "queue": lambda: full_queue.make(loop),
        "kernels": lambda: KernelWindow(torch, on_cuda, per_turn, loop.synchronize, device),
        "syncs": lambda: SyncPoints(torch, on_cuda, loop.working_dir, per_turn),
        "peaks": lambda: Peaks(torch, device, loop.parameters, loop.last_loss),
        "floors": lambda: floors.make(loop),
        "largest": lambda: largest.make(torch, device, loop),
        "sizes": lambda: sizes.make(torch, device, loop),
        "trace": lambda: trace.make(loop),
    }
    order = ("trace", "floors") if loop.is_dry else tuple(makers)
    return [makers[name]() for name in order if name in wanted]
