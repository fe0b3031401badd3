"""Does to the files of `--folder` whatever scripts do to files, then trains.

Exits with status 3 when it doesn't see what it did.
"""

import argparse
import logging.handlers
import os
import shutil
import sqlite3
import sys
from pathlib import Path

import numpy
import torch
from plain_loop import labelled_rows
from safetensors.torch import load_file, save_file
from torch import nn
from torch.utils.data import DataLoader


def check(what, seen, expected):
    if seen != expected:
        print(f"{what}: saw {seen!r}, expected {expected!r}", file=sys.stderr, flush=True)
        sys.exit(3)


def rotate(folder, model):
    """Keep the newest two of the checkpoints that are there, as many scripts do."""
    for step in (3, 4, 5):
        torch.save(model.state_dict(), folder / f"step-{step}.pt")
        for old in sorted(folder.glob("step-*.pt"))[:-2]:
            old.unlink()
    check("rotation", sorted(path.name for path in folder.glob("step-*.pt")), ["step-4.pt", "step-5.pt"])
    shutil.copyfile(folder / "step-5.pt", folder / "best.pt")
    check("best", set(torch.load(folder / "best.pt")), set(model.state_dict()))


def replace_atomically(folder):
    (folder / "state.tmp").write_text("new state")
    os.replace(folder / "state.tmp", folder / "state.json")  # noqa: PTH105
    check("state", (folder / "state.json").read_text(), "new state")
    check("temporary", (folder / "state.tmp").exists(), False)


def write_elsewise(folder, model):
    tensors = {"weight": model[0].weight.detach().clone()}
    save_file(tensors, folder / "model.safetensors")
    check(
        "safetensors", torch.equal(load_file(folder / "model.safetensors")["weight"], tensors["weight"]), True
    )
    scripted = torch.jit.script(model)
    torch.jit.save(scripted, str(folder / "scripted.pt"))
    check("scripted", torch.jit.load(str(folder / "scripted.pt"))(torch.zeros(2, 128)).shape[0], 2)
    numpy.save(folder / "rows.npy", numpy.arange(3))
    rows = numpy.load(folder / "rows.npy", mmap_mode="r+")
    rows[0] = 7
    rows.flush()
    check("rows", numpy.load(folder / "rows.npy").tolist(), [7, 1, 2])
    with sqlite3.connect(folder / "runs.db") as runs:
        runs.execute("insert into runs values ('this one')")
    check(
        "database", sqlite3.connect(folder / "runs.db").execute("select count(*) from runs").fetchone(), (2,)
    )


def log_and_mark(folder):
    handler = logging.handlers.RotatingFileHandler(folder / "train.log", maxBytes=30, backupCount=1)
    handler.emit(logging.makeLogRecord({"msg": "a line that is long enough to rotate"}))
    handler.emit(logging.makeLogRecord({"msg": "last"}))
    handler.close()
    check("log", (folder / "train.log").read_text(), "last\n")
    os.chmod(folder / "data.bin", 0o600)  # noqa: PTH101
    os.utime(folder / "data.bin")
    handle = os.open(folder / "data.bin", os.O_RDWR)
    os.ftruncate(handle, 2)
    os.close(handle)
    check("data", (folder / "data.bin").read_bytes(), b"da")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    folder = parser.parse_args().folder
    loader = DataLoader(labelled_rows(), batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    rotate(folder, model)
    replace_atomically(folder)
    write_elsewise(folder, model)
    log_and_mark(folder)
    for epoch in range(300):
        for inputs, labels in loader:
            loss = nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
