"""Bindings as text: what is read is what was written, and what can't be used says why."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tunekit.errors import UsageError
from tunekit.records.config import KNOBS, SWITCH_KNOBS, Precision
from tunekit.records.target import Binding, BindingKind
from tunekit.trial.binding_syntax import (
    PLACE,
    binding_text,
    parse_binding,
    parse_value,
    value_text,
    values_possible,
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


@given(st.sampled_from(BINDABLE), st.data())
def test_values_keep_through_their_text(knob: str, data: st.DataObject):
    value = data.draw(st.sampled_from(VALUES.get(knob, [1, 32, 4096])))
    assert parse_value(knob, value_text(value)) == value


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("batch_size=--bs {}", {"kind": "arg", "words": ("--bs", "{}")}),
        ("batch_size=--bs={}", {"kind": "arg", "words": ("--bs={}",)}),
        ("batch_size=data.batch_size={}", {"kind": "arg", "words": ("data.batch_size={}",)}),
        ("batch_size=-o 'a b={}'", {"kind": "arg", "words": ("-o", "a b={}")}),
        ("""batch_size=--cfg '{"bs": {}}'""", {"kind": "arg", "words": ("--cfg", '{"bs": {}}')}),
        ("batch_size=file=a.yaml:b={}", {"kind": "arg", "words": ("file=a.yaml:b={}",)}),
        ("compile=--compile", {"kind": "arg", "words": ("--compile",)}),
        (
            "compile=--compile | --no-compile",
            {"kind": "arg", "words": ("--compile",), "words_off": ("--no-compile",)},
        ),
        (
            "precision=--precision {fp32: 32-true, bf16: bf16-mixed}",
            {
                "kind": "arg",
                "words": ("--precision", "{}"),
                "spelling": (("fp32", "32-true"), ("bf16", "bf16-mixed")),
            },
        ),
        (
            "precision=configs/a.yaml:trainer.precision{fp32:32-true}",
            {
                "kind": "file",
                "path": "configs/a.yaml",
                "key": "trainer.precision",
                "spelling": (("fp32", "32-true"),),
            },
        ),
        ("lr=a.toml:optim.0.lr", {"kind": "file", "path": "a.toml", "key": "optim.0.lr"}),
        ("lr=env:LR", {"kind": "env", "variable": "LR"}),
        (
            "precision=env:PRECISION{bf16:1,fp32:0}",
            {"kind": "env", "variable": "PRECISION", "spelling": (("bf16", "1"), ("fp32", "0"))},
        ),
        ("channels_last=inject", {"kind": "inject"}),
        ("channels_last = fixed ", {"kind": "fixed"}),
    ],
)
def test_every_way_to_bind_is_read(text: str, fields: dict[str, object]):
    knob = text.partition("=")[0].strip()
    assert parse_binding(text) == Binding.model_validate({"knob": knob} | fields)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("batch_size", "write it as KNOB=HOW"),
        ("=--bs {}", "write it as KNOB=HOW"),
        ("batch_size=", "write it as KNOB=HOW"),
        ("batchsize=--bs {}", "did you mean batch_size?"),
        ("momentum=--m {}", "use one of batch_size, num_workers"),
        ("batch_size=--bs", "batch_size is not true or false; .* as in: '--bs {}'"),
        ("precision=--bf16", "precision is not true or false"),
        ("batch_size=bs", "write HOW as inject, fixed, env:NAME"),
        ("batch_size={}", "write the flag too"),
        ("batch_size=--bs {} {}", "stands in 2 places"),
        ("precision=--p {fp32:a} {bf16:b}", "braces in more than one place"),
        ("precision=--p {fp31:a}", "'fp31' is no value of precision; use one of fp32, tf32, bf16, fp16"),
        ("batch_size=--bs {small:1}", "'small' is no value of batch_size; use a whole number, at least 1"),
        ("compile=--c {maybe:1}", "'maybe' is no value of compile; use true or false"),
        ("lr=env:LR{nan:1}", "'nan' is no value of lr; use a positive number"),
        ("precision=--p {fp32}", "write {value:text,value:text}"),
        ("precision=--p {fp32:a,fp32:b}", "fp32 is spelled twice"),
        ("precision=--p {fp32:a,tf32:a}", "two values of precision are spelled 'a'"),
        ("compile=--a|--b|--c", "at most one |"),
        ("compile=--a|", "words on both sides"),
        ("compile=--a|--a", "are the same"),
        ("batch_size=--bs '{}", "close the quotes"),
        ("batch_size=--bs {'}'", "spells no value of batch_size"),
        ("batch_size=--bs {'}'{}", "quotes part the braces"),
        ("batch_size=env:A-B", "not the name of a variable"),
        ("batch_size=a.ini:x.y", "only .yaml, .yml, .json and .toml"),
        ("batch_size=a.yaml:x..y", "has an empty part"),
        ("lr=inject", "lr can't be injected"),
        ("accumulate_grad_batches=inject", "can't be injected"),
        ("batch_size=--bs\0{}", "not readable as text"),
        ("batch_size=--b\udcff {}", "not readable as text"),
    ],
)
def test_what_is_no_binding_is_told_with_its_remedy(text: str, told: str):
    with pytest.raises(UsageError, match=told.replace("{", r"\{").replace("}", r"\}")):
        parse_binding(text)


def test_a_spelling_limits_the_values_to_those_it_lists():
    spelled = parse_binding("precision=--p {fp32:32-true,bf16:bf16-mixed}")
    assert values_possible(spelled, "precision") == (Precision.FP32, Precision.BF16)
    workers = parse_binding("num_workers=env:W{0:none,4:four}")
    assert values_possible(workers, "num_workers") == (0, 4)


@pytest.mark.parametrize("knob", KNOBS)
def test_without_a_spelling_any_value_is_possible(knob: str):
    assert values_possible(parse_binding(f"{knob}=--x={{}}"), knob) is None
