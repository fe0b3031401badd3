"""A knob in the user's own terms: where the target keeps it."""

import pytest
from build_records import target

from tunekit.diagnose.knob_words import set_knob
from tunekit.records.config import Precision
from tunekit.trial.binding_syntax import BoundValue, parse_binding


@pytest.mark.parametrize(
    ("binding", "knob", "value", "words"),
    [
        ("num_workers=--workers {}", "num_workers", 6, "--workers 6"),
        ("num_workers=--workers={}", "num_workers", 6, "--workers=6"),
        ("num_workers=data.workers={}", "num_workers", 6, "data.workers=6"),
        ("num_workers=config.yaml:data.num_workers", "num_workers", 6, "data.num_workers: 6 in config.yaml"),
        ("num_workers=c.toml:data.workers", "num_workers", 6, "data.workers = 6 in c.toml"),
        ("num_workers=env:WORKERS", "num_workers", 6, "WORKERS=6"),
        ("compile=env:COMPILE", "compile", True, "COMPILE=1"),
        ("compile=c.yaml:model.compile", "compile", True, "model.compile: true in c.yaml"),
        ("compile=--compile", "compile", True, "--compile"),
        ("compile=--compile", "compile", False, "no --compile"),
        ("compile=--compile|--no-compile", "compile", False, "--no-compile"),
        ("precision=--precision {bf16:bf16-mixed}", "precision", Precision.BF16, "--precision bf16-mixed"),
        ("precision=env:AMP{bf16:on,fp32:off}", "precision", Precision.BF16, "AMP=on"),
        ("prefetch_factor=--prefetch={}", "prefetch_factor", None, "no --prefetch"),
        ("prefetch_factor=env:PREFETCH", "prefetch_factor", None, "unset PREFETCH"),
        ("prefetch_factor=c.yaml:data.prefetch", "prefetch_factor", None, "data.prefetch: null in c.yaml"),
    ],
)
def test_a_bound_knob_is_set_where_it_is_bound(binding: str, knob: str, value: BoundValue, words: str):
    assert set_knob(target(bindings=(parse_binding(binding),)), knob, value) == words


@pytest.mark.parametrize("bindings", [(), ("num_workers=inject",), ("num_workers=fixed",)])
def test_a_knob_that_is_not_bound_is_set_in_the_script(bindings: tuple[str, ...]):
    of = target(bindings=tuple(map(parse_binding, bindings)))
    assert set_knob(of, "num_workers", 6) == "num_workers=6 in the DataLoader"


@pytest.mark.parametrize(
    ("knob", "value", "words"),
    [
        ("persistent_workers", True, "persistent_workers=True in the DataLoader"),
        ("compile", True, "torch.compile(model)"),
        ("precision", "tf32", "torch.set_float32_matmul_precision('high')"),
        (
            "precision",
            Precision.BF16,
            "torch.autocast(..., dtype=torch.bfloat16) around forward and loss",
        ),
        ("channels_last", True, "model.to(memory_format=torch.channels_last), and its input too"),
        ("accumulate_grad_batches", 4, "accumulate_grad_batches=4 in the script"),
    ],
)
def test_code_says_how_torch_spells_it(knob: str, value: BoundValue, words: str):
    assert set_knob(target(), knob, value) == words


def test_a_value_that_the_binding_can_not_spell_is_a_change_of_the_script():
    of = target(bindings=(parse_binding("precision=--precision {fp32:32-true}"),))
    assert set_knob(of, "precision", "tf32") == "torch.set_float32_matmul_precision('high')"
