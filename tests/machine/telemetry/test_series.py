"""Series on disk: read back unchanged, readable with zarr alone, whole or not at all."""

from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from tunekit.machine.telemetry.series import Series, load_series, save_series

numbers = st.none() | st.floats(allow_nan=False, allow_infinity=False)
HOST = Series("host", ("t_s", "cpu_s"), ((0.0, 0.25), (0.5, None)))
LOOP = Series("loop", ("t_s", "phase"), ((0.0, 0.0), (0.5, 1.0)), ("warming", "measuring"))


@given(rows=st.lists(st.tuples(numbers, numbers, numbers), max_size=40))
def test_series_are_read_back_unchanged(
    rows: list[tuple[float | None, ...]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = tmp_path_factory.mktemp("run") / "telemetry.zarr"
    series = Series("gpu0", ("t_s", "power_w", "temperature_c"), tuple(rows))
    save_series(store, 7, [series, LOOP])
    assert load_series(store, 7) == (series, LOOP)


def test_the_store_is_read_with_zarr_alone(tmp_path: Path) -> None:
    store = tmp_path / "telemetry.zarr"
    save_series(store, 3, [HOST, LOOP])
    group = zarr.open_group(store, mode="r")
    table = group["0003/host"]
    assert table.attrs["columns"] == ["t_s", "cpu_s"]
    assert np.array_equal(np.asarray(table[:]), [[0.0, 0.25], [0.5, np.nan]], equal_nan=True)
    assert group["0003/loop"].attrs["labels"] == ["warming", "measuring"]


def test_a_trial_that_is_run_again_replaces_what_it_left(tmp_path: Path) -> None:
    store = tmp_path / "telemetry.zarr"
    save_series(store, 0, [HOST, LOOP])
    save_series(store, 1, [HOST])
    save_series(store, 0, [LOOP])
    assert load_series(store, 0) == (LOOP,)
    assert load_series(store, 1) == (HOST,)


@pytest.mark.parametrize("damage", ["no json", '{"zarr_format": 3, "node_type": "array"}'])
def test_series_that_can_not_be_read_are_none(tmp_path: Path, damage: str) -> None:
    store = tmp_path / "telemetry.zarr"
    save_series(store, 0, [HOST, LOOP])
    (store / "0000" / "host" / "zarr.json").write_text(damage)
    assert load_series(store, 0) == ()


def test_a_table_larger_than_any_that_was_written_is_not_read(tmp_path: Path) -> None:
    store = tmp_path / "telemetry.zarr"
    save_series(store, 0, [HOST])
    array = zarr.open_group(store / "0000", mode="a")["host"]
    assert isinstance(array, zarr.Array)
    array.resize((10**12, 2))
    assert load_series(store, 0) == ()
