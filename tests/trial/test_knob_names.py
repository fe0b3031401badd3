"""What people call a knob leads to it."""

import pytest

from tunekit.trial.knob_names import knob_hint


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
