"""How a config reaches the script: only what differs is touched, each knob by its own way."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from build_records import config, configs
from hypothesis import given
from hypothesis import strategies as st

from tunekit.errors import TargetError, UsageError
from tunekit.records.config import Precision, TrainConfig
from tunekit.records.target import ScriptOption, Target
from tunekit.trial.binding_syntax import binding_text, parse_binding
from tunekit.trial.bindings import INJECTED_KNOBS, bind, check_bindings, present_values

COMMAND = ("python", "train.py", "--epochs", "3")

FULL_YAML = """\
data:
  batch_size: 128   # per GPU
  workers: 2
  prefetch: 2
trainer: {precision: 32-true, compile: false}
"""


def target_of(*bindings: str, command: tuple[str, ...] = COMMAND, folder: Path = Path("/nowhere")) -> Target:
    return Target(
        name="train",
        command=command,
        working_dir=str(folder),
        script=str(folder / "train.py"),
        script_sha256=None,
        bindings=tuple(parse_binding(text) for text in bindings),
    )


def command_of(binding: str, words: str, **knobs: Any) -> str:
    """The script's own words after binding, from a baseline of 128 samples, 2 workers and fp32."""
    target = target_of(binding, command=("python", "train.py", *words.split()))
    return " ".join(bind(target, config(**knobs), config()).command[2:])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "full.yaml").write_text(FULL_YAML)
    (tmp_path / "ds.json").write_text('{"optim": {"lr": 0.1}}')
    (tmp_path / "a.toml").write_text("prefetch = 2 # deep\n")
    return tmp_path


# --- what is not bound is injected ---------------------------------------------------------


@given(configs(), configs())
def test_only_what_differs_is_injected(wanted: TrainConfig, baseline: TrainConfig):
    baseline = baseline.model_copy(update={"accumulate_grad_batches": wanted.accumulate_grad_batches})
    bound = bind(target_of(), wanted, baseline)
    asked = bound.injected
    for knob in INJECTED_KNOBS:
        value = getattr(wanted, knob)
        assert asked.get(knob) == (None if value == getattr(baseline, knob) else value)
        assert (knob in bound.changed) == (value != getattr(baseline, knob))
    assert (bound.command, bound.environment, bound.file_texts) == (COMMAND, {}, {})


@given(configs())
def test_the_baselines_own_config_changes_nothing(knobs: TrainConfig):
    bound = bind(target_of("batch_size=--bs {}", "compile=--compile"), knobs, knobs)
    assert bound == bind(target_of(), None, None)
    assert (bound.command, bound.changed) == (COMMAND, {})


def test_accumulation_and_learning_rate_need_a_binding():
    with pytest.raises(UsageError, match=r"accumulate_grad_batches=4 can't be set.*--bind accumulate.*=HOW"):
        bind(target_of(), config(accumulate_grad_batches=4), config())
    with pytest.raises(UsageError, match=r"lr=0\.1 can't be set inside the script.*--bind lr=HOW"):
        bind(target_of(), config(), config(), lr=0.1)
    target = target_of("accumulate_grad_batches=--acc {}", "lr=env:LR")
    bound = bind(target, config(accumulate_grad_batches=4), config(), lr=5e-05)
    assert bound.command == (*COMMAND, "--acc", "4")
    assert bound.environment == {"LR": "5e-05"}
    assert bound.changed == {"accumulate_grad_batches": 4, "lr": 5e-05}


# --- words on the command line -------------------------------------------------------------


@pytest.mark.parametrize(
    ("binding", "words", "expected"),
    [
        ("batch_size=--bs {}", "--epochs 3", "--epochs 3 --bs 64"),
        ("batch_size=--bs={}", "--epochs 3", "--epochs 3 --bs=64"),
        ("batch_size=--bs {}", "--bs 32 --epochs 3", "--bs 64 --epochs 3"),
        ("batch_size=--bs {}", "--bs=32 --epochs 3", "--bs=64 --epochs 3"),
        ("batch_size=--bs={}", "--bs 32 --epochs 3", "--bs 64 --epochs 3"),
        ("batch_size=--bs {}", "--bs=8 --lr 1 --bs 16 --bs 32 x", "--bs=64 --lr 1 x"),
        ("batch_size=--bs {}", "--bsz 8 --no-bs 9", "--bsz 8 --no-bs 9 --bs 64"),
        ("batch_size=--bs {}", "--bs --epochs 3", "--bs --epochs 3 --bs 64"),
        ("batch_size=--bs {}", "--epochs 3 --bs", "--epochs 3 --bs --bs 64"),
        ("batch_size=--bs {}", "--bs -1 x", "--bs 64 x"),
        ("batch_size=data.bs={}", "data.bs=32 lr=1", "data.bs=64 lr=1"),
        ("batch_size=data.bs={}", "+data.bs=32 x", "+data.bs=64 x"),
        ("batch_size=++data.bs={}", "data.bs=32 x", "data.bs=64 x"),
        ("batch_size=data.bs={}", "mydata.bs=32", "mydata.bs=32 data.bs=64"),
        ("batch_size=-o bs={}", "-o lr=1 -o bs=32 -o x=2", "-o lr=1 -o bs=64 -o x=2"),
        ("batch_size=--opt=bs:{},x", "--opt=bs:32,x --opt=bs:3", "--opt=bs:64,x --opt=bs:3"),
    ],
)
def test_an_argument_is_replaced_in_place_or_appended(binding: str, words: str, expected: str):
    assert command_of(binding, words, batch_size=64) == expected


@pytest.mark.parametrize(
    ("binding", "words", "on", "off"),
    [
        ("compile=--compile", "x", "x --compile", "x"),
        ("compile=--compile", "--compile x --compile", "--compile x", "x"),
        ("compile=--c|--no-c", "x", "x --c", "x --no-c"),
        ("compile=--c|--no-c", "--no-c x --c", "--c x", "--no-c x"),
        ("compile=--c|--c off", "--c off x", "--c x", "--c off x"),
        ("compile=--compile {}", "--compile False", "--compile true", "--compile false"),
        ("compile=--mode {true:max,false:off}", "", "--mode max", "--mode off"),
    ],
)
def test_a_switch_is_put_and_taken_away(binding: str, words: str, on: str, off: str):
    target = target_of(binding, command=("python", "train.py", *words.split()))
    for wanted, expected in ((True, on), (False, off)):
        bound = bind(target, config(compile=wanted), config(compile=not wanted))
        assert " ".join(bound.command[2:]) == expected
        assert bound.changed == {"compile": wanted}
        assert "compile" not in bound.injected


def test_a_spelling_is_written_and_what_it_lacks_is_refused():
    binding = "precision=--precision {fp32:32-true,bf16:bf16-mixed}"
    assert command_of(binding, "--precision 32-true", precision="bf16") == "--precision bf16-mixed"
    with pytest.raises(UsageError, match=r"precision=tf32 has no spelling.*knows fp32, bf16; add tf32:TEXT"):
        command_of(binding, "", precision="tf32")


plain_words = st.sampled_from(["--epochs", "3", "x", "--bsz", "lr=1", "--", "--compile"])
known_words = st.sampled_from(
    [("--bs", "32"), ("--bs=16",), ("d.bs=1",), ("+d.bs=2",), ("--c",), ("--no-c",)]
)
ways = st.sampled_from(
    ["--bs {}", "--bs={}", "d.bs={}", "-x --bs {}", "--b{1:one,64:-64}", "--b {1:-one,64:--x}"]
)


@given(
    ways,
    st.sampled_from(["--c", "--c|--no-c", "--mode {}"]),
    st.lists(known_words | st.tuples(plain_words)),
    st.data(),
)
def test_binding_twice_is_binding_once(
    way: str, switch: str, words: list[tuple[str, ...]], data: st.DataObject
):
    command = ("python", "train.py", *(word for group in words for word in group))
    target = target_of(f"batch_size={way}", f"compile={switch}", command=command)
    wanted = config(batch_size=data.draw(st.sampled_from([1, 64])), compile=data.draw(st.booleans()))
    baseline = config(batch_size=9, compile=not wanted.compile)
    once = bind(target, wanted, baseline)
    bound = target.model_copy(update={"command": once.command})
    assert bind(bound, wanted, baseline) == once
    present = present_values(bound)
    assert present["batch_size"] == wanted.batch_size
    assert present["compile"] == wanted.compile


# --- variables -----------------------------------------------------------------------------


def test_variables_are_set_for_what_differs():
    target = target_of(
        "batch_size=env:BS", "compile=env:C", "pin_memory=env:PIN", "precision=env:P{bf16:1,fp32:0}"
    )
    bound = bind(target, config(compile=True, pin_memory=True, precision="bf16"), config())
    assert bound.environment == {"C": "1", "PIN": "1", "P": "1"}
    assert bind(target, config(), config(compile=True)).environment == {"C": "0"}


# --- files ---------------------------------------------------------------------------------


def test_keys_of_one_file_go_into_one_text_and_the_file_stays(project: Path):
    full = project / "configs" / "full.yaml"
    (project / "link.yaml").symlink_to(full)
    target = target_of(
        "batch_size=configs/full.yaml:data.batch_size",
        "num_workers=link.yaml:data.workers",
        "prefetch_factor=./configs/../configs/full.yaml:data.prefetch",
        "compile=configs/full.yaml:trainer.compile",
        "precision=configs/full.yaml:trainer.precision{fp32:32-true,bf16:bf16-mixed}",
        "lr=ds.json:optim.lr",
        folder=project,
    )
    wanted = config(batch_size=64, num_workers=0, compile=True, precision="bf16")
    bound = bind(target, wanted, config(), lr=0.5)
    assert set(bound.file_texts) == {str(full.resolve()), str((project / "ds.json").resolve())}
    assert yaml.safe_load(bound.file_texts[str(full.resolve())]) == {
        "data": {"batch_size": 64, "workers": 0, "prefetch": None},
        "trainer": {"precision": "bf16-mixed", "compile": True},
    }
    assert json.loads(bound.file_texts[str(project / "ds.json")]) == {"optim": {"lr": 0.5}}
    assert full.read_text() == FULL_YAML
    assert bound.command == COMMAND
    assert bound.injected == {"persistent_workers": False}


# --- what is there now ---------------------------------------------------------------------


def test_present_values_are_read_from_every_place(project: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TEST_PIN", "1")
    target = target_of(
        "batch_size=--bs {}",
        "num_workers=configs/full.yaml:data.workers",
        "precision=configs/full.yaml:trainer.precision{fp32:32-true,bf16:bf16-mixed}",
        "pin_memory=env:TEST_PIN",
        "compile=--compile",
        "lr=lr={}",
        "channels_last=fixed",
        command=("python", "train.py", "--bs", "8", "--bs=16", "lr=1e-3"),
        folder=project,
    )
    assert present_values(target) == {
        "batch_size": 16,
        "num_workers": 2,
        "precision": Precision.FP32,
        "pin_memory": True,
        "compile": False,
        "lr": 0.001,
    }


def test_where_the_command_does_not_say_the_parsers_value_is_in_force():
    target = target_of(
        "batch_size=--bs {}",
        "num_workers=-j {}",
        "lr=optim.lr={}",
        "precision={fp32:,bf16:--bf16}",
        "prefetch_factor=--prefetch {}",
        command=("python", "train.py", "-j", "4"),
    )
    options = [
        ScriptOption(name="batch_size", form="flag", flags=("--batch-size", "--bs"), value=20),
        ScriptOption(name="workers", form="flag", flags=("--workers", "-j"), value=4),
        ScriptOption(name="optim.lr", form="key", flags=("optim.lr",), value=0.1),
        ScriptOption(name="other", form="flag", flags=("--other",), value=3),
        ScriptOption(name="prefetch", form="flag", flags=("--prefetch",), value="many"),
    ]
    assert present_values(target, options) == {
        "batch_size": 20,
        "num_workers": 4,
        "lr": 0.1,
        "precision": Precision.FP32,
    }
    assert present_values(target) == {"num_workers": 4, "precision": Precision.FP32}


@pytest.mark.parametrize(
    ("words", "precision", "result"),
    [
        ((), "bf16", ("--bf16",)),
        ((), "fp16", ("--amp", "--amp-dtype=float16")),
        (("--bf16", "-x"), "fp32", ("-x",)),
        (("--bf16", "-x"), "fp16", ("--amp", "--amp-dtype=float16", "-x")),
        (("--amp", "--amp-dtype=float16", "-x"), "bf16", ("--bf16", "-x")),
    ],
)
def test_each_precision_may_have_words_of_its_own(
    words: tuple[str, ...], precision: str, result: tuple[str, ...]
):
    text = "precision={fp32:,bf16:--bf16,fp16:--amp --amp-dtype=float16}"
    assert binding_text(parse_binding(text)) == text
    target = target_of(text, command=("python", "train.py", *words))
    bound = bind(target, config(precision=Precision(precision)), None)
    assert bound.command == ("python", "train.py", *result)
    again = target_of(text, command=bound.command)
    assert present_values(again) == {"precision": precision}


def test_what_cannot_be_read_is_absent(project: Path):
    target = target_of(
        "batch_size=--bs {}",
        "num_workers=missing.yaml:workers",
        "precision=--p {bf16:1,fp32:0}",
        "pin_memory=env:TEST_NO_SUCH_VARIABLE",
        "compile=--c|--no-c",
        "lr=--lr {}",
        command=("python", "train.py", "--p", "fp32", "--lr", "auto"),
        folder=project,
    )
    assert "TEST_NO_SUCH_VARIABLE" not in os.environ
    assert present_values(target) == {}


@pytest.mark.parametrize(
    ("bindings", "error", "told"),
    [
        (["lr=missing.yaml:lr"], TargetError, "no file 'missing.yaml'"),
        (["lr=ds.json:optim.rate"], UsageError, r"no key 'optim\.rate'"),
        (["lr=ds.json:optim"], UsageError, "more than one value"),
        (
            ["batch_size=--n {}", "num_workers=--n {}"],
            UsageError,
            "batch_size and num_workers are bound to the",
        ),
        (["compile=env:X", "pin_memory=env:X"], UsageError, "compile and pin_memory are bound to the"),
    ],
)
def test_bindings_that_no_trial_could_use_are_refused_early(
    project: Path, bindings: list[str], error: type[Exception], told: str
):
    with pytest.raises(error, match=told):
        check_bindings(target_of(*bindings, folder=project))


def test_samples_that_are_said_may_not_differ_from_what_is_bound():
    bound = target_of("batch_size=--bs {}", command=(*COMMAND, "--bs", "20"))
    check_bindings(bound.model_copy(update={"samples_per_step": 20}))
    with pytest.raises(
        UsageError, match=r"--samples-per-step 35: batch_size is bound to a place that says 20"
    ):
        check_bindings(bound.model_copy(update={"samples_per_step": 35}))
    check_bindings(target_of("batch_size=--bs {}").model_copy(update={"samples_per_step": 35}))


@pytest.mark.parametrize(
    ("typed", "default", "passed"),
    [
        (("--max-steps", "1000"), 77, ("--max-steps", "250")),
        ((), 999, ("--max-steps", "250")),
        ((), None, ()),
    ],
)
def test_steps_are_scaled_with_the_batch(
    typed: tuple[str, ...], default: int | None, passed: tuple[str, ...]
) -> None:
    """By what the command says, else by the script's default, where the search's command had none either."""
    command = ("python", "train.py", "--bs", "16", *typed)
    target = target_of("batch_size=--bs {}", "steps=--max-steps {}", command=command)
    target = target.changed(unset_knobs=() if typed else ("steps",))
    option = ScriptOption(name="max_steps", form="flag", flags=("--max-steps",), value=default)
    own = config(batch_size=16)
    bound = bind(target, own.changed(batch_size=64), own, options=(option,))
    assert bound.command == ("python", "train.py", "--bs", "64", *passed)
    assert bind(target, own, own, options=(option,)).command == command
