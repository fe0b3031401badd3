import pytest
from build_records import GIB, config, recommendation

from tunekit.recommend.learning_rate import BaseLearningRate
from tunekit.recommend.scaling import scaling_rows

BASE = BaseLearningRate(0.1, 128, "flags")


def test_the_table_of_a_small_config_by_hand():
    knobs = config(batch_size=256, num_workers=2, prefetch_factor=2, accumulate_grad_batches=2)
    found = scaling_rows(recommendation(of=knobs), BASE)
    assert [row.gpus for row in found] == [1, 2, 4, 8]
    assert [row.total_batch for row in found] == [512, 1024, 2048, 4096]
    assert [row.total_workers for row in found] == [2, 4, 8, 16]
    assert [row.buffer_bytes for row in found] == [1_024_000, 2_048_000, 4_096_000, 8_192_000]
    assert [row.ram_bytes for row in found] == [row.gpus * GIB + row.buffer_bytes for row in found]
    assert [row.lr_linear for row in found] == pytest.approx([0.4, 0.8, 1.6, 3.2], rel=1e-12)
    assert [row.lr_sqrt for row in found] == pytest.approx([0.2, 0.08**0.5, 0.4, 0.32**0.5], rel=1e-12)
