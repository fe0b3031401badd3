import pytest
from build_records import GIB, config, configs, host
from hypothesis import given
from hypothesis import strategies as st

from tunekit.recommend.learning_rate import BaseLearningRate
from tunekit.recommend.scaling import scaling_rows
from tunekit.records.recommendation import LearningRateRule, Tier

BASE = BaseLearningRate(0.1, 128, "flags")
LINEAR, SQRT = LearningRateRule.LINEAR, LearningRateRule.SQRT


def rows(knobs=None, **overrides):
    values = {
        "bytes_per_sample": 1000.0,
        "base_ram_bytes": GIB,
        "base": BASE,
        "rule": LINEAR,
        "host": host(cpus=16),
    }
    return scaling_rows(Tier.BALANCED, knobs or config(), **(values | overrides))


def test_the_table_of_a_small_config_by_hand():
    found = rows(config(batch_size=256, num_workers=2, prefetch_factor=2, accumulate_grad_batches=2))
    assert [row.gpus for row in found] == [1, 2, 4, 8]
    assert [row.total_batch for row in found] == [512, 1024, 2048, 4096]
    assert [row.total_workers for row in found] == [2, 4, 8, 16]
    assert [row.buffer_bytes for row in found] == [1_024_000, 2_048_000, 4_096_000, 8_192_000]
    assert [row.ram_bytes for row in found] == [row.gpus * GIB + row.buffer_bytes for row in found]
    assert [row.lr_linear for row in found] == pytest.approx([0.4, 0.8, 1.6, 3.2], rel=1e-12)
    assert [row.lr_sqrt for row in found] == pytest.approx([0.2, 0.08**0.5, 0.4, 0.32**0.5], rel=1e-12)
    assert all(row.warnings == () for row in found)


def test_sgd_is_warned_above_what_the_source_shows():
    found = rows(config(batch_size=2048))
    assert [row.warnings for row in found[:3]] == [(), (), ()]
    assert found[3].warnings == (
        "global batch 16384 is above 8192, beyond what the source of the linear rule shows",
    )
    assert all(row.warnings == () for row in rows(config(batch_size=2048), rule=None))


def test_adam_is_warned_where_its_rule_fails():
    found = rows(config(batch_size=256), rule=SQRT)
    assert [len(row.warnings) for row in found] == [0, 0, 0, 1]
    assert found[3].warnings[0].startswith("global batch 2048 is 16 times the base of 128")


def test_this_hosts_limits_are_compared():
    found = rows(host=host(cpus=4, ram_limit_bytes=4 * GIB))
    assert found[1].warnings == ()
    assert found[2].warnings == (
        "needs 4.0 GiB of RAM, more than 85% of this host's 4.0 GiB (3.4 GiB)",
        "needs 8 workers, this host allows 4 CPUs",
    )


def test_a_learning_rate_beyond_all_numbers_is_left_out():
    assert [row.lr_linear for row in rows(base=BaseLearningRate(1e308, 128, "flags"))] == [
        1e308,
        None,
        None,
        None,
    ]


@given(configs(), st.floats(0, 1e7), st.integers(0, 64 * GIB), st.none() | st.floats(1e-8, 10))
def test_every_row_is_its_number_of_gpus_times_the_first(knobs, sample_bytes, base_bytes, lr):
    base = BaseLearningRate(lr, 128, "flags") if lr else None
    first, *others = rows(knobs, bytes_per_sample=sample_bytes, base_ram_bytes=base_bytes, base=base)
    for row in others:
        assert row.total_batch == row.gpus * first.total_batch
        assert row.total_workers == row.gpus * first.total_workers
        assert row.buffer_bytes == row.gpus * first.buffer_bytes
        assert row.ram_bytes == row.gpus * first.ram_bytes
        if lr is not None:
            assert row.lr_linear == pytest.approx(row.gpus * first.lr_linear, rel=1e-12)
            assert row.lr_sqrt == pytest.approx(row.gpus**0.5 * first.lr_sqrt, rel=1e-12)
