"""Ways in folders that trainings write to: beside the script, temporary ones, shared memory."""

import importlib
import os
import sys
import tempfile
from pathlib import Path

import torch
from catalogue import NEW, Place, check, run, see, way
from tensors import state

PROJECT, ELSEWHERE = "project", "elsewhere"


# --- the project -----------------------------------------------------------------------------


@way(PROJECT, plant=lambda at: at.have(at.folder / "out" / "ckpt.pt"))
def out_folder_beside_the_script(at: Place) -> None:
    os.makedirs(at.folder / "out", exist_ok=True)
    torch.save({"model": state(), "iter_num": 10}, at.folder / "out" / "ckpt.pt")
    check(torch.load(at.folder / "out" / "ckpt.pt")["iter_num"] == 10, "the old checkpoint")


@way(PROJECT, plant=lambda at: (at.folder / "latest").symlink_to("tree"))
def latest_link_moved(at: Place) -> None:
    (at.folder / "runs" / "2").mkdir(parents=True)
    (at.folder / "latest").unlink()
    (at.folder / "latest").symlink_to("runs/2")
    check(os.readlink(at.folder / "latest") == "runs/2", "the old link")


@way(PROJECT, plant=lambda at: at.have(at.folder / "beside_the_script.py", b"VALUE = 1\n"))
def bytecode_of_an_import(at: Place) -> None:
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    sys.path.insert(0, str(at.folder))
    try:
        importlib.invalidate_caches()
        check(importlib.import_module("beside_the_script").VALUE == 1, "another module")
    finally:
        sys.path.remove(str(at.folder))
        sys.dont_write_bytecode = before
    check((at.folder / "__pycache__").exists(), "no bytecode")


# --- elsewhere -------------------------------------------------------------------------------


def _both(old: Path, new: Path) -> None:
    for path in (old, new):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(NEW)
        see(path)


@way(ELSEWHERE, plant=lambda at: at.have(at.outside(tempfile.gettempdir()) / "old"))
def temporary_folder(at: Place) -> None:
    _both(at.outside(tempfile.gettempdir()) / "old", at.outside(tempfile.gettempdir()) / "new")


@way(ELSEWHERE, plant=lambda at: at.have(at.outside("/tmp") / "old"))
def slash_tmp(at: Place) -> None:
    _both(at.outside("/tmp") / "old", at.outside("/tmp") / "new")


@way(ELSEWHERE, plant=lambda at: at.have(at.outside("/dev/shm") / "old"))
def dev_shm(at: Place) -> None:
    _both(at.outside("/dev/shm") / "old", at.outside("/dev/shm") / "new")


@way(ELSEWHERE, plant=lambda at: at.have(at.outside("/dev/shm") / "old"))
def dev_shm_by_a_program(at: Place) -> None:
    run("tee", at.outside("/dev/shm") / "old", at.outside("/dev/shm") / "new", input=NEW)
    see(at.outside("/dev/shm") / "old")
    see(at.outside("/dev/shm") / "new")


@way(ELSEWHERE)
def dev_shm_new_file(at: Place) -> None:
    at.outside("/dev/shm").write_bytes(NEW)
    see(at.outside("/dev/shm"))
