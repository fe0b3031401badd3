"""Recurrent layers on fake cuda tensors keep what cuDNN keeps."""

import pytest
from fake_trainings import IS_KNOWN, NOT_KNOWN, told_of

from tunekit.memory.vram.fake.recurrent import reserve_elements

is_known = pytest.mark.skipif(not IS_KNOWN, reason=NOT_KNOWN)
HIDDEN, STEPS = 48, 8 * 64
"""Of the layers, and of a batch of 8 samples with 64 time steps."""


@pytest.fixture(scope="module")
def told() -> dict:
    return told_of(("lstm", "lstm bf16", "gru"))


def test_the_reserve_is_what_cudnn_returned():
    """pytorch/pytorch issue 2895: 4 layers, 320 features; 25,000 samples and time steps by its GRU."""
    assert 4 * reserve_elements(2, 4, 1, 320, 25_000) == 736_000_000
    assert 4 * reserve_elements(3, 4, 1, 320, 25_000) == 864_000_000


def test_both_directions_keep_twice_as_much():
    assert reserve_elements(2, 2, 2, 320, 100) == 2 * reserve_elements(2, 2, 1, 320, 100)


@is_known
@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "element_bytes", "elements"), [("lstm", 4, 11), ("lstm bf16", 2, 11), ("gru", 4, 13)]
)
def test_a_layer_is_one_kernel_that_keeps_its_reserve(told, name: str, element_bytes: int, elements: int):
    seen = [op[0] for op in told[name]["ops"]]
    assert seen.count("_cudnn_rnn") == seen.count("_cudnn_rnn_backward") == 1
    assert elements * HIDDEN * STEPS * element_bytes in told[name]["blocks"]
    assert told[name]["differs"] == []


@is_known
@pytest.mark.real
def test_weights_lie_in_one_block(told):
    weights = 4 * (HIDDEN * 32 + HIDDEN * HIDDEN + 2 * HIDDEN + 2 * HIDDEN * HIDDEN + 2 * HIDDEN)
    assert 4 * weights in told["lstm"]["blocks"]


@is_known
@pytest.mark.real
def test_operations_are_those_of_every_gate(told):
    by_name = {op[0]: op[2] for op in told["lstm"]["ops"]}
    forward = 2 * STEPS * 4 * HIDDEN * (32 + HIDDEN + 2 * HIDDEN)
    assert by_name["_cudnn_rnn"] == forward
    assert by_name["_cudnn_rnn_backward"] == 2 * forward
