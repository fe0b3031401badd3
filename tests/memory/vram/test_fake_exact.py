"""A trace between two batch sizes is the trace of that size, block for block, from 2 to 512.

benchmarks/vram_accuracy.py tries more of them.
"""

import pytest
from fake_trainings import IS_KNOWN, NOT_KNOWN, told_of

pytestmark = [pytest.mark.real, pytest.mark.skipif(not IS_KNOWN, reason=NOT_KNOWN)]

NAMES = ("cnn", "cnn bf16", "gpt", "gpt bf16", "lstm", "lstm bf16")
SIZES = (2, 33, 512)


@pytest.fixture(scope="module")
def told() -> dict:
    return told_of(NAMES, SIZES)


@pytest.mark.parametrize("name", NAMES)
def test_blocks_and_sizes_and_so_both_peaks_are_exact(told, name: str):
    assert told[name]["differs"] == []
