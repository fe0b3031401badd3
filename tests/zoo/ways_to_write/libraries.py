"""Ways of the libraries that a training has beside torch."""

from pathlib import Path

import h5py
import lmdb
import numpy
import pandas
import safetensors.numpy
import safetensors.torch
import zarr
from catalogue import Place, check, over_and_new, way
from tensors import state

WEIGHTS, TABLES, STORES = "weights", "tables", "stores"
ROWS = {"loss": [0.5, 0.25]}


# --- weights ---------------------------------------------------------------------------------


@over_and_new(WEIGHTS)
def safetensors_save_file(path: Path) -> None:
    safetensors.torch.save_file(state(), path)


# --- tables ----------------------------------------------------------------------------------


@over_and_new(TABLES)
def pandas_to_parquet(path: Path) -> None:
    pandas.DataFrame(ROWS).to_parquet(path)


# --- stores ----------------------------------------------------------------------------------


@over_and_new(STORES)
def h5py_w(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["rows"] = numpy.ones(4)


def _put(folder: Path) -> None:
    with lmdb.open(str(folder), map_size=1 << 20) as environment:
        with environment.begin(write=True) as transaction:
            transaction.put(b"epoch", b"1")
        with environment.begin() as transaction:
            check(transaction.get(b"epoch") == b"1", "no entry")


def _plant_lmdb(at: Place) -> None:
    with (
        lmdb.open(str(at.folder / "base"), map_size=1 << 20) as environment,
        environment.begin(write=True) as transaction,
    ):
        transaction.put(b"epoch", b"0")


@way(STORES, plant=_plant_lmdb)
def lmdb_put(at: Place) -> None:
    _put(at.folder / "base")


def _plant_zarr(at: Place) -> None:
    zarr.open_array(str(at.folder / "rows.zarr"), mode="w", shape=(4,), dtype="f8")[:] = 1


@way(STORES, plant=_plant_zarr)
def zarr_anew(at: Place) -> None:
    for name in ("rows.zarr", "new.zarr"):
        zarr.open_group(str(at.folder / name), mode="w").create_array("loss", shape=(2,), dtype="f8")
        check("loss" in zarr.open_group(str(at.folder / name), mode="r"), name)
