import pytest
from build_records import GIB, config, configs, recommendation
from hypothesis import given
from hypothesis import strategies as st

from tunekit.recommend.learning_rate import BaseLearningRate
from tunekit.recommend.scaling import scaling_rows

BASE = BaseLearningRate(0.1, 128, "flags")


def rows(knobs=None, base=BASE, **overrides):
    return scaling_rows(recommendation(of=knobs, **overrides), base)


def test_the_table_of_a_small_config_by_hand():
    found = rows(config(batch_size=256, num_workers=2, prefetch_factor=2, accumulate_grad_batches=2))
    assert [row.gpus for row in found] == [1, 2, 4, 8]
    assert [row.total_batch for row in found] == [512, 1024, 2048, 4096]
    assert [row.total_workers for row in found] == [2, 4, 8, 16]
    assert [row.buffer_bytes for row in found] == [1_024_000, 2_048_000, 4_096_000, 8_192_000]
    assert [row.ram_bytes for row in found] == [row.gpus * GIB + row.buffer_bytes for row in found]
    assert [row.lr_linear for row in found] == pytest.approx([0.4, 0.8, 1.6, 3.2], rel=1e-12)
    assert [row.lr_sqrt for row in found] == pytest.approx([0.2, 0.08**0.5, 0.4, 0.32**0.5], rel=1e-12)


@given(configs(), st.integers(0, GIB), st.integers(0, 64 * GIB), st.none() | st.floats(1e-8, 10))
def test_every_row_is_its_number_of_gpus_times_the_first(knobs, buffer_bytes, base_bytes, lr):
    base = BaseLearningRate(lr, 128, "flags") if lr else None
    first, *others = rows(knobs, base, buffer_bytes=buffer_bytes, base_ram_bytes=base_bytes)
    for row in others:
        assert row.total_batch == row.gpus * first.total_batch
        assert row.total_workers == row.gpus * first.total_workers
        assert row.buffer_bytes == row.gpus * first.buffer_bytes
        assert row.ram_bytes == row.gpus * first.ram_bytes
        if lr is not None:
            assert row.lr_linear == pytest.approx(row.gpus * first.lr_linear, rel=1e-12)
            assert row.lr_sqrt == pytest.approx(row.gpus**0.5 * first.lr_sqrt, rel=1e-12)
