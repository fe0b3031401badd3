"""Ways of the libraries that a training has beside torch."""

import os
from pathlib import Path

import filelock
import fsspec
import h5py
import lmdb
import numpy
import pandas
import polars
import pyarrow
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet
import rich.console
import safetensors.numpy
import safetensors.torch
import tokenizers
import torch
import yaml
import zarr
from catalogue import NEW, OLD, Place, check, over_and_new, see, way
from tensors import net, state

WEIGHTS, TABLES, STORES, TEXTS = "weights", "tables", "stores", "texts"
ROWS = {"loss": [0.5, 0.25]}


# --- weights ---------------------------------------------------------------------------------


@over_and_new(WEIGHTS)
def safetensors_save_file(path: Path) -> None:
    safetensors.torch.save_file(state(), path)


@over_and_new(WEIGHTS)
def safetensors_numpy_save_file(path: Path) -> None:
    safetensors.numpy.save_file({"weight": numpy.ones(2)}, path)


@over_and_new(WEIGHTS)
def safetensors_save_model(path: Path) -> None:
    safetensors.torch.save_model(net(), str(path))


@over_and_new(WEIGHTS)
def safetensors_save_and_write(path: Path) -> None:
    path.write_bytes(safetensors.torch.save(state()))


@over_and_new(WEIGHTS)
def tokenizers_save(path: Path) -> None:
    tokenizers.Tokenizer(tokenizers.models.BPE()).save(str(path))


# --- tables ----------------------------------------------------------------------------------


@over_and_new(TABLES)
def pandas_to_csv(path: Path) -> None:
    pandas.DataFrame(ROWS).to_csv(path)


@over_and_new(TABLES)
def pandas_append_to_csv(path: Path) -> None:
    pandas.DataFrame(ROWS).to_csv(path, mode="a", header=False)


@over_and_new(TABLES)
def pandas_to_json(path: Path) -> None:
    pandas.DataFrame(ROWS).to_json(path)


@over_and_new(TABLES)
def pandas_to_pickle(path: Path) -> None:
    pandas.DataFrame(ROWS).to_pickle(path)


@over_and_new(TABLES)
def pandas_to_parquet(path: Path) -> None:
    pandas.DataFrame(ROWS).to_parquet(path)


@over_and_new(TABLES)
def pandas_to_feather(path: Path) -> None:
    pandas.DataFrame(ROWS).to_feather(path)


@over_and_new(TABLES)
def polars_write_csv(path: Path) -> None:
    polars.DataFrame(ROWS).write_csv(path)


@over_and_new(TABLES)
def polars_write_parquet(path: Path) -> None:
    polars.DataFrame(ROWS).write_parquet(path)


@over_and_new(TABLES)
def polars_write_ipc(path: Path) -> None:
    polars.DataFrame(ROWS).write_ipc(path)


@over_and_new(TABLES)
def polars_sink_parquet(path: Path) -> None:
    polars.LazyFrame(ROWS).sink_parquet(path)


@over_and_new(TABLES)
def pyarrow_write_parquet(path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table(ROWS), path)


@over_and_new(TABLES)
def pyarrow_write_csv(path: Path) -> None:
    pyarrow.csv.write_csv(pyarrow.table(ROWS), path)


@over_and_new(TABLES)
def pyarrow_write_feather(path: Path) -> None:
    pyarrow.feather.write_feather(pyarrow.table(ROWS), path)


@over_and_new(TABLES)
def pyarrow_os_file(path: Path) -> None:
    with pyarrow.OSFile(str(path), "wb") as stream:
        stream.write(NEW)


@way(TABLES)
def pyarrow_memory_map(at: Place) -> None:
    with pyarrow.memory_map(str(at.old), "r+") as mapped:
        mapped.write(b"WHAT")
    see(at.old, b"WHAT" + OLD[4:])


@way(TABLES, plant=lambda at: at.have(at.folder / "rows" / "part-0.parquet"))
def pyarrow_write_dataset(at: Place) -> None:
    pyarrow.dataset.write_dataset(
        pyarrow.table(ROWS),
        at.folder / "rows",
        format="parquet",
        existing_data_behavior="delete_matching",
    )
    check((at.folder / "rows" / "part-0.parquet").read_bytes() != OLD, "the old part")


# --- stores ----------------------------------------------------------------------------------


def _plant_hdf5(at: Place) -> None:
    with h5py.File(at.folder / "rows.h5", "w") as file:
        file["rows"] = numpy.zeros(4)


@over_and_new(STORES)
def h5py_w(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["rows"] = numpy.ones(4)


@way(STORES, plant=_plant_hdf5)
def h5py_a(at: Place) -> None:
    with h5py.File(at.folder / "rows.h5", "a") as file:
        file["more"] = numpy.ones(4)
    with h5py.File(at.folder / "rows.h5", "r") as file:
        check("more" in file, "no new rows")


@way(STORES, plant=_plant_hdf5)
def h5py_r_plus(at: Place) -> None:
    with h5py.File(at.folder / "rows.h5", "r+") as file:
        file["rows"][0] = 7
    with h5py.File(at.folder / "rows.h5", "r") as file:
        check(file["rows"][0] == 7, "the old rows")


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


@way(STORES)
def lmdb_new(at: Place) -> None:
    _put(at.new)


@way(STORES, plant=_plant_lmdb)
def lmdb_writemap(at: Place) -> None:
    with (
        lmdb.open(str(at.folder / "base"), map_size=1 << 20, writemap=True) as environment,
        environment.begin(write=True) as transaction,
    ):
        transaction.put(b"epoch", b"1")
        check(transaction.get(b"epoch") == b"1", "no entry")


def _plant_zarr(at: Place) -> None:
    zarr.open_array(str(at.folder / "rows.zarr"), mode="w", shape=(4,), dtype="f8")[:] = 1


@way(STORES, plant=_plant_zarr)
def zarr_r_plus(at: Place) -> None:
    zarr.open_array(str(at.folder / "rows.zarr"), mode="r+")[0] = 7
    check(zarr.open_array(str(at.folder / "rows.zarr"), mode="r")[0] == 7, "the old row")


@way(STORES, plant=_plant_zarr)
def zarr_anew(at: Place) -> None:
    for name in ("rows.zarr", "new.zarr"):
        zarr.open_group(str(at.folder / name), mode="w").create_array("loss", shape=(2,), dtype="f8")
        check("loss" in zarr.open_group(str(at.folder / name), mode="r"), name)


@over_and_new(STORES)
def zarr_zip_store(path: Path) -> None:
    store = zarr.storage.ZipStore(path, mode="w")
    zarr.create_array(store, name="loss", shape=(2,), dtype="f8")[:] = 1
    store.close()


@over_and_new(STORES)
def fsspec_open(path: Path) -> None:
    with fsspec.open(path.as_uri(), "wb") as stream:
        stream.write(NEW)


@way(STORES)
def fsspec_rm(at: Place) -> None:
    fsspec.filesystem("file").rm(str(at.tree), recursive=True)
    check(not at.tree.exists(), "it is still there")


@way(STORES)
def filelock_acquire(at: Place) -> None:
    with filelock.FileLock(at.folder / "data.lock"):
        check((at.folder / "data.lock").exists(), "no lock")


# --- texts -----------------------------------------------------------------------------------


@over_and_new(TEXTS)
def yaml_dump(path: Path) -> None:
    with open(path, "w") as stream:
        yaml.safe_dump({"lr": 0.1}, stream)


@over_and_new(TEXTS)
def rich_save_text(path: Path) -> None:
    console = rich.console.Console(record=True, quiet=True, file=open(os.devnull, "w"))
    console.print("loss 0.5")
    console.save_text(str(path))


@over_and_new(TEXTS)
def torch_print_options_to_file(path: Path) -> None:
    with open(path, "a") as stream:
        print(torch.ones(2), file=stream)
