"""What people call a knob leads to it."""

import pytest

from tunekit.trial.knob_names import knob_hint


@pytest.mark.parametrize(
    ("name", "knob"),
    [("data.bsz", "batch_size"), ("btach_size", "batch_size"), ("j", "num_workers")],
)
def test_what_people_call_a_knob_leads_to_it(name: str, knob: str):
    assert knob_hint(name) == f"did you mean {knob}?"


@pytest.mark.parametrize("name", ["amp", "tf32", "mixed_precision", "dtype"])
def test_a_word_for_a_precision_leads_to_the_precisions(name: str):
    assert knob_hint(name) == "did you mean precision, one of fp32, tf32, bf16, fp16?"
