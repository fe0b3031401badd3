"""Ways of NumPy and torch."""

from pathlib import Path

import numpy
import torch
import torch.distributed
import torch.distributed.checkpoint
from catalogue import OLD, Place, check, over_and_new, see, way
from torch import nn
from torch.profiler import ExecutionTraceObserver

NUMPY, TORCH, TORCH_C = "numpy", "torch", "torch's C++ writers"


def state() -> dict[str, torch.Tensor]:
    """Return weights to save."""
    return {"weight": torch.arange(4.0)}


def net() -> nn.Module:
    """Return a module to save."""
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU())


def scripted() -> torch.jit.ScriptModule:
    """Return a compiled module to save."""
    return torch.jit.script(net())


# --- NumPy -----------------------------------------------------------------------------------


@way(NUMPY)
def numpy_memmap_r_plus(at: Place) -> None:
    rows = numpy.memmap(at.old, mode="r+", dtype=numpy.uint8)
    rows[:4] = 65
    rows.flush()
    see(at.old, b"AAAA" + OLD[4:])


# --- torch -----------------------------------------------------------------------------------


@over_and_new(TORCH)
def torch_save(path: Path) -> None:
    torch.save(state(), path)


@over_and_new(TORCH)
def torch_jit_save(path: Path) -> None:
    torch.jit.save(scripted(), path)


@way(TORCH, plant=lambda at: at.have(at.folder / "sharded" / ".metadata"))
def torch_distributed_checkpoint(at: Place) -> None:
    for name in ("sharded", "new"):
        torch.distributed.checkpoint.save(state(), checkpoint_id=at.folder / name, no_dist=True)
        check((at.folder / name / "__0_0.distcp").exists(), name)


# --- torch's C++ writers ---------------------------------------------------------------------


@over_and_new(TORCH_C)
def torch_execution_trace(path: Path) -> None:
    observer = ExecutionTraceObserver()
    observer.register_callback(str(path))
    observer.start()
    torch.ones(2) + 1
    observer.stop()
    observer.unregister_callback()


@way(TORCH_C)
def torch_from_file_shared(at: Place) -> None:
    for path in (at.old, at.new):
        torch.from_file(str(path), shared=True, size=4, dtype=torch.uint8).fill_(65)
        check(path.read_bytes()[:4] == b"AAAA", path.name)


@way(TORCH_C)
def torch_file_store(at: Place) -> None:
    store = torch.distributed.FileStore(str(at.new), 2)
    store.set("epoch", "1")
    check(at.new.exists(), "no file")
