"""Bindings as text: what is read is what was written, and what can't be used says why."""

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tunekit.errors import UsageError
from tunekit.records.config import SWITCH_KNOBS, Precision
from tunekit.records.target import Binding, BindingKind
from tunekit.trial.binding_syntax import (
    PLACE,
    binding_text,
    parse_binding,
    value_text,
)
from tunekit.trial.knob_names import BINDABLE

VALUES = {
    "precision": list(Precision),
    "lr": [0.1, 1e-05, 3.0],
    "prefetch_factor": [None, 1, 16],
    "num_workers": [0, 4, 16],
    **{knob: [True, False] for knob in SWITCH_KNOBS},
}

texts = st.text(st.characters(exclude_characters="{},\0", exclude_categories=["Cs"]), max_size=8).map(
    str.strip
)
literals = st.text(st.characters(exclude_characters="{}\0", exclude_categories=["Cs"]), max_size=8)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)


@st.composite
def spellings(draw: st.DrawFn, knob: str) -> tuple[tuple[str, str], ...]:
    values = draw(st.lists(st.sampled_from(VALUES.get(knob, [1, 32, 4096])), unique=True, max_size=3))
    written = draw(st.lists(texts, unique=True, min_size=len(values), max_size=len(values)))
    return tuple((value_text(value), text) for value, text in zip(values, written, strict=True))


@st.composite
def bindings(draw: st.DrawFn) -> Binding:
    knob = draw(st.sampled_from(BINDABLE))
    spelling = draw(spellings(knob))
    kind = draw(st.sampled_from(BindingKind))
    if kind is BindingKind.INJECT and knob in ("lr", "accumulate_grad_batches"):
        kind = BindingKind.FIXED
    if kind is BindingKind.ENV:
        return Binding(knob=knob, kind=kind, variable=draw(names), spelling=spelling)
    if kind is BindingKind.FILE:
        ending = draw(st.sampled_from(["yaml", "yml", "json", "toml", "YAML"]))
        key = ".".join(draw(st.lists(names | st.just("0"), min_size=1, max_size=3)))
        path = f"{draw(names)}/my {draw(names)}.{ending}"
        return Binding(knob=knob, kind=kind, path=path, key=key, spelling=spelling)
    if kind is BindingKind.ARG:
        flag, more = f"--{draw(names)}", draw(st.lists(literals, max_size=2))
        if knob in SWITCH_KNOBS and draw(st.booleans()):
            off = draw(st.sampled_from([(), (f"{flag}-off", "it's off")]))
            words = (flag, *(word.replace("|", "") for word in more))
            return Binding(knob=knob, kind=kind, words=words, words_off=off)
        place = draw(st.sampled_from([(PLACE,), (f"{flag}={PLACE}",), (f"a b={PLACE} c",)]))
        return Binding(knob=knob, kind=kind, words=(flag, *more, *place), spelling=spelling)
    return Binding(knob=knob, kind=kind)


@given(bindings())
def test_a_binding_that_was_written_is_read_unchanged(binding: Binding):
    assert parse_binding(binding_text(binding)) == binding


@example(knob="pin_memory", how="-\x1b")
@given(st.sampled_from(BINDABLE), st.text(max_size=30))
def test_any_text_is_a_binding_or_a_usage_error(knob: str, how: str):
    try:
        binding = parse_binding(f"{knob}={how}")
    except UsageError as error:
        assert "--bind" in str(error)
    else:
        assert parse_binding(binding_text(binding)) == binding


TEXTS = """\
batch_size=--bs {}
batch_size=--bs={}
batch_size=data.batch_size={}
batch_size=-o 'a b={}'
batch_size=--cfg '{"bs": {}}'
batch_size=file=a.yaml:b={}
compile=--compile
compile=--compile | --no-compile
precision=--precision {fp32: 32-true, bf16: bf16-mixed}
precision=configs/a.yaml:trainer.precision{fp32:32-true}
lr=a.toml:optim.0.lr
lr=env:LR
precision=env:PRECISION{bf16:1,fp32:0}
channels_last=inject
channels_last = fixed
batch_size
=--bs {}
batch_size=
batchsize=--bs {}
momentum=--m {}
batch_size=--bs
precision=--bf16
batch_size=bs
batch_size={}
batch_size=--bs {} {}
precision=--p {fp32:a} {bf16:b}
precision=--p {fp31:a}
batch_size=--bs {small:1}
compile=--c {maybe:1}
lr=env:LR{nan:1}
precision=--p {fp32}
precision=--p {fp32:a,fp32:b}
precision=--p {fp32:a,tf32:a}
compile=--a|--b|--c
compile=--a|
compile=--a|--a
batch_size=--bs '{}
batch_size=--bs {'}'
batch_size=--bs {'}'{}
batch_size=env:A-B
batch_size=a.ini:x.y
batch_size=a.yaml:x..y
lr=inject
accumulate_grad_batches=inject
"""


def test_every_way_to_bind_is_read_and_what_is_none_is_told_with_its_remedy(
    golden: Callable[[str], object],
):
    told = []
    for text in TEXTS.splitlines():
        try:
            read = parse_binding(text).model_dump_json(exclude_defaults=True)
            told.append(f"{text}\n    {read}\n")
        except UsageError as refused:
            told.append(f"{text}\n    refused: {refused}\n")
    assert "".join(told) == golden("bindings.txt")


@pytest.mark.parametrize("text", ["batch_size=--bs\0{}", "batch_size=--b\udcff {}"])
def test_what_is_no_text_is_no_binding(text: str):
    with pytest.raises(UsageError):
        parse_binding(text)
