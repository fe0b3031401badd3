"""Ways of NumPy and torch."""

import io
import os
from pathlib import Path

import numpy
import torch
import torch.distributed
import torch.distributed.checkpoint
from catalogue import NEW, OLD, Place, check, over_and_new, see, way
from torch import nn
from torch.package import PackageExporter
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile

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


def _plant_rows(at: Place) -> None:
    numpy.save(at.folder / "rows.npy", numpy.arange(4.0))


@way(NUMPY, plant=_plant_rows)
def numpy_save(at: Place) -> None:
    for name in ("rows.npy", "new.npy"):
        numpy.save(at.folder / name, numpy.ones(2))
        check(numpy.load(at.folder / name).tolist() == [1, 1], name)


@way(NUMPY, plant=lambda at: at.have(at.folder / "rows.npz"))
def numpy_savez(at: Place) -> None:
    for name in ("rows.npz", "new.npz"):
        numpy.savez(at.folder / name, rows=numpy.ones(2))
        check(numpy.load(at.folder / name)["rows"].tolist() == [1, 1], name)


@way(NUMPY, plant=lambda at: at.have(at.folder / "rows.npz"))
def numpy_savez_compressed(at: Place) -> None:
    numpy.savez_compressed(at.folder / "rows.npz", rows=numpy.ones(2))
    check(numpy.load(at.folder / "rows.npz")["rows"].tolist() == [1, 1], "other rows")


@over_and_new(NUMPY)
def numpy_savetxt(path: Path) -> None:
    numpy.savetxt(path, numpy.ones(2))


@over_and_new(NUMPY)
def numpy_tofile(path: Path) -> None:
    numpy.ones(2).tofile(path)


@over_and_new(NUMPY)
def numpy_memmap_w_plus(path: Path) -> None:
    rows = numpy.memmap(path, mode="w+", shape=(4,), dtype=numpy.uint8)
    rows[:] = 7
    rows.flush()


@way(NUMPY)
def numpy_memmap_r_plus(at: Place) -> None:
    rows = numpy.memmap(at.old, mode="r+", dtype=numpy.uint8)
    rows[:4] = 65
    rows.flush()
    see(at.old, b"AAAA" + OLD[4:])


@way(NUMPY, plant=_plant_rows)
def numpy_load_r_plus(at: Place) -> None:
    rows = numpy.load(at.folder / "rows.npy", mmap_mode="r+")
    rows[0] = 7
    rows.flush()
    check(numpy.load(at.folder / "rows.npy")[0] == 7, "the old row")


@over_and_new(NUMPY)
def numpy_open_memmap(path: Path) -> None:
    rows = numpy.lib.format.open_memmap(path, mode="w+", shape=(4,))
    rows[:] = 7
    rows.flush()


# --- torch -----------------------------------------------------------------------------------


@over_and_new(TORCH)
def torch_save(path: Path) -> None:
    torch.save(state(), path)


@over_and_new(TORCH)
def torch_save_by_open_handle(path: Path) -> None:
    with open(path, "wb") as stream:
        torch.save(state(), stream)


@over_and_new(TORCH)
def torch_save_by_buffer(path: Path) -> None:
    buffer = io.BytesIO()
    torch.save(state(), buffer)
    path.write_bytes(buffer.getvalue())


@over_and_new(TORCH)
def torch_save_legacy(path: Path) -> None:
    torch.save(state(), path, _use_new_zipfile_serialization=False)


@over_and_new(TORCH)
def torch_save_and_replace(path: Path) -> None:
    part = path.with_suffix(".part")
    torch.save(state(), part)
    os.replace(part, path)


@way(TORCH, plant=lambda at: [torch.save({}, at.folder / f"step-{step}.pt") for step in (1, 2)])
def torch_save_with_rotation(at: Place) -> None:
    for step in (3, 4):
        torch.save(state(), at.folder / f"step-{step}.pt")
        for path in sorted(at.folder.glob("step-*.pt"))[:-2]:
            path.unlink()
    check(sorted(path.name for path in at.folder.glob("*.pt")) == ["step-3.pt", "step-4.pt"], "other files")


@over_and_new(TORCH)
def torch_tensor_tofile(path: Path) -> None:
    torch.ones(4).numpy().tofile(path)


@over_and_new(TORCH)
def torch_jit_save(path: Path) -> None:
    torch.jit.save(scripted(), path)


@over_and_new(TORCH)
def torch_script_module_save(path: Path) -> None:
    scripted().save(str(path))


@way(TORCH, plant=lambda at: at.have(at.folder / "model.pt2"))
def torch_export_save(at: Place) -> None:
    program = torch.export.export(net(), (torch.zeros(2, 4),))
    for name in ("model.pt2", "new.pt2"):
        torch.export.save(program, at.folder / name)
        check((at.folder / name).read_bytes()[:2] == b"PK", name)


@way(TORCH, plant=lambda at: at.have(at.folder / "sharded" / ".metadata"))
def torch_distributed_checkpoint(at: Place) -> None:
    for name in ("sharded", "new"):
        torch.distributed.checkpoint.save(state(), checkpoint_id=at.folder / name, no_dist=True)
        check((at.folder / name / "__0_0.distcp").exists(), name)


@way(TORCH, plant=lambda at: at.have(at.folder / "weights.bin", NEW))
def torch_hub_download(at: Place) -> None:
    for path in (at.old, at.new):
        torch.hub.download_url_to_file((at.folder / "weights.bin").as_uri(), str(path), progress=False)
        see(path)


@way(TORCH, plant=lambda at: torch.save(state(), at.folder / "weights.pt"))
def torch_hub_load_state_dict(at: Place) -> None:
    url = (at.folder / "weights.pt").as_uri()
    torch.hub.load_state_dict_from_url(url, model_dir=str(at.new), progress=False)
    check((at.new / "weights.pt").exists(), "nothing was kept")


@way(TORCH, plant=lambda at: at.have(at.folder / "graph" / "module.py"))
def torch_fx_to_folder(at: Place) -> None:
    torch.fx.symbolic_trace(net()).to_folder(at.folder / "graph")
    check((at.folder / "graph" / "module.py").read_bytes() != OLD, "the old module")


# --- torch's C++ writers ---------------------------------------------------------------------


@over_and_new(TORCH_C)
def torch_file_writer(path: Path) -> None:
    writer = torch._C.PyTorchFileWriter(str(path))
    writer.write_record("data", NEW, len(NEW))
    writer.write_end_of_file()


@over_and_new(TORCH_C)
def torch_c_module_save(path: Path) -> None:
    scripted()._c.save(str(path), {})


@over_and_new(TORCH_C)
def torch_lite_interpreter_save(path: Path) -> None:
    scripted()._save_for_lite_interpreter(str(path))


@over_and_new(TORCH_C)
def torch_package_exporter(path: Path) -> None:
    with PackageExporter(path) as exporter:
        exporter.save_text("notes", "note.txt", NEW.decode())


def _profiled() -> profile:
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        torch.ones(2) + 1
    return profiled


@over_and_new(TORCH_C)
def torch_export_chrome_trace(path: Path) -> None:
    _profiled().export_chrome_trace(str(path))


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
def torch_storage_from_file_shared(at: Place) -> None:
    storage = torch.UntypedStorage.from_file(str(at.old), shared=True, nbytes=4)
    storage.fill_(65)
    see(at.old, b"AAAA" + OLD[4:])


@way(TORCH_C)
def torch_file_store(at: Place) -> None:
    store = torch.distributed.FileStore(str(at.new), 2)
    store.set("epoch", "1")
    check(at.new.exists(), "no file")
