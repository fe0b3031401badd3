"""What torch.compile would have a step keep, on fake cuda tensors: a bound."""

import pytest
from fake_trainings import IS_KNOWN, NOT_KNOWN, told_of

pytestmark = [pytest.mark.real, pytest.mark.skipif(not IS_KNOWN, reason=NOT_KNOWN)]


@pytest.fixture(scope="module")
def told() -> dict:
    return told_of(("wordy gpt bf16", "wordy gpt bf16 compiled"))


def activations(one: dict) -> int:
    return one["by_purpose"]["activations"]


def test_a_transformer_in_half_precision_takes_clearly_less(told):
    assert activations(told["wordy gpt bf16 compiled"]) < 0.85 * activations(told["wordy gpt bf16"])


def test_a_compiled_step_multiplies_as_often(told):
    """What is made again in the backward pass is pointwise."""
    eager, compiled = (told[f"wordy gpt bf16{way}"]["flops"] for way in ("", " compiled"))
    assert compiled == pytest.approx(eager, rel=0.05)


def test_a_batch_size_between_is_exactly_what_its_own_trace_says(told):
    assert told["wordy gpt bf16 compiled"]["differs"] == []
