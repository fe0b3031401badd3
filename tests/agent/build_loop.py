"""A loop as the stages see it, of known facts."""

from types import SimpleNamespace
from typing import Any

import torch


def loop_of(window_s: float = 1.0, **known: Any) -> Any:
    """Return a double of the agent's `Loop` that trains on a CPU with one rank, but for what is given."""
    request = {"window_s": window_s, "sizes": [], "working_dir": "/", "trial_folder": "/"}
    asked = SimpleNamespace(**{name: known.pop(name, value) for name, value in request.items()})
    usual = {
        "torch": torch,
        "device": None,
        "device_type": "cpu",
        "world_size": 1,
        "batches_per_step": 1,
        "batches_per_turn": 1,
        "own_batch_samples": 1,
        "step_s": 0.0,
        "batch_shm_bytes": 0,
        "is_dry": False,
        "reads_ahead": False,
        "partners": [],
        "dry": None,
        "has_own_autocast": False,
        "roots_cover_step": True,
        "synchronize": lambda: None,
        "graphs_captured": int,
        "last_loss": lambda: None,
        "modules": list,
        "parameters": list,
        "buffers": list,
        "optimizers": list,
    }
    loop = SimpleNamespace(request=asked, **(usual | known))
    loop.on_cuda = loop.device_type == "cuda"
    return loop
