"""What people call a knob leads to it."""

import pytest

from tunekit.records.config import KNOBS, NUMERIC_KNOBS, TABLE, Knob
from tunekit.trial.knob_names import BINDABLE, knob_hint


@pytest.mark.parametrize(
    ("name", "knob"),
    [
        *(
            (name, "batch_size")
            for name in ("batch", "bs", "--batch-size", "batchSize", "data.bsz", "btach_size")
        ),
        *((name, "num_workers") for name in ("workers", "nworkers", "num_worker", "j")),
        *((name, "prefetch_factor") for name in ("prefetch", "prefetch-factor")),
        *((name, "pin_memory") for name in ("pin", "pinned", "pinmemory")),
        *((name, "persistent_workers") for name in ("persistent", "persistent-workers")),
        *((name, "compile") for name in ("torch_compile", "compiled", "compile_model")),
        *((name, "channels_last") for name in ("nhwc", "channels-last", "memory_format")),
        *(
            (name, "accumulate_grad_batches")
            for name in ("accum", "gradient_accumulation_steps", "grad_accum")
        ),
    ],
)
def test_what_people_call_a_knob_leads_to_it(name: str, knob: str):
    assert knob_hint(name) == f"did you mean {knob}?"


@pytest.mark.parametrize(
    "name", ["amp", "bf16", "fp16", "tf32", "mixed_precision", "autocast", "dtype", "half"]
)
def test_a_word_for_a_precision_leads_to_the_precisions(name: str):
    assert knob_hint(name) == "did you mean precision, one of fp32, tf32, bf16, fp16?"


@pytest.mark.parametrize("knob", TABLE, ids=lambda knob: knob.name)
def test_every_name_that_scripts_have_for_a_knob_leads_to_it(knob: Knob):
    for name in knob.option_names:
        assert knob_hint(name).startswith(f"did you mean {knob.name}")


def test_a_hint_names_only_what_would_do():
    assert knob_hint("learning_rate", BINDABLE) == "did you mean lr?"
    assert knob_hint("learning_rate") == f"use one of {', '.join(KNOBS)}"
    assert knob_hint("bf16", NUMERIC_KNOBS) == f"use one of {', '.join(NUMERIC_KNOBS)}"
