"""Places that a user's own options, files, command and script already have for knobs."""

from pathlib import Path
from typing import Any

import pytest
from build_records import discovery, root, target

from tunekit.records.target import Binding, InputSeen, ScriptOption
from tunekit.trial.binding_suggestions import (
    batch_of_all_ranks,
    binding_hint,
    candidate_bindings,
    default_values,
    possible_batch,
    step_numbers,
    without_unknown_flags,
)
from tunekit.trial.binding_syntax import how_text, parse_binding

SEEN = {"batch_size": 32, "num_workers": 4, "accumulate_grad_batches": 1, "precision": "fp32", "lr": 0.05}


def suggested(
    folder: Path,
    *command: str,
    script: str = "",
    bound: tuple[Binding, ...] = (),
    options: tuple[ScriptOption, ...] = (),
    **seen: Any,
) -> dict[str, str]:
    """Return how each knob would be bound first."""
    every = suggested_all(folder, *command, script=script, bound=bound, options=options, **seen)
    return {knob: ways[0] for knob, ways in every.items()}


def suggested_all(
    folder: Path,
    *command: str,
    script: str = "",
    bound: tuple[Binding, ...] = (),
    options: tuple[ScriptOption, ...] = (),
    **seen: Any,
) -> dict[str, list[str]]:
    (folder / "train.py").write_text(script)
    words = ("python", "train.py", *command)
    known = target(command=words, working_dir=str(folder), script=str(folder / "train.py"), bindings=bound)
    found = candidate_bindings(known, SEEN | seen, discovery(options=options))
    return {knob: [how_text(binding) for binding in bindings] for knob, bindings in found.items()}


def option(*flags: str, value: Any, name: str = "", form: str = "flag", **more: Any) -> ScriptOption:
    known = {"name": name or flags[0].lstrip("-").replace("-", "_"), "form": form}
    return ScriptOption.model_validate(known | {"flags": flags, "value": value} | more)


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (("--batch-size", "32"), {"batch_size": "--batch-size {}"}),
        (("--batch_size=32", "-j", "4"), {"batch_size": "--batch_size={}", "num_workers": "-j {}"}),
        (("data.batch_size=32", "optim.lr=5e-2"), {"batch_size": "data.batch_size={}", "lr": "optim.lr={}"}),
        (
            ("--gradient_accumulation_steps", "1"),
            {"accumulate_grad_batches": "--gradient_accumulation_steps {}"},
        ),
        (("--mixed_precision", "no"), {"precision": "--mixed_precision {fp32:no,bf16:bf16,fp16:fp16}"}),
        (
            ("--precision", "32-true"),
            {"precision": "--precision {fp32:32-true,bf16:bf16-mixed,fp16:16-mixed}"},
        ),
    ],
)
def test_a_flag_of_the_command_is_found(command: tuple[str, ...], found: dict[str, str], tmp_path: Path):
    assert suggested(tmp_path, *command) == found


def test_a_key_of_the_config_file_comes_before_the_scripts_flags(tmp_path: Path):
    (tmp_path / "a.yaml").write_text("data:\n  batch_size: 32\noptim:\n  lr: 0.05\n")
    script = 'parser.add_argument("--batch-size", default=32)\nparser.add_argument("--lr", default=0.05)\n'
    assert suggested(tmp_path, "--config=a.yaml", script=script) == {
        "batch_size": "a.yaml:data.batch_size",
        "lr": "a.yaml:optim.lr",
    }


def test_a_key_that_cannot_be_rewritten_is_not_suggested(tmp_path: Path):
    (tmp_path / "a.yaml").write_text("own: &bs 32\ndata: {batch_size: *bs}\n")
    assert suggested(tmp_path, "--config=a.yaml", "--bs", "32") == {"batch_size": "--bs {}"}


def test_a_flag_that_the_script_declares_is_found_by_its_default(tmp_path: Path):
    script = (
        'parser.add_argument("-b", "--batch-size", type=int, default=32)\n'
        'parser.add_argument("--workers", default=2)\n'
        'parser.add_argument("--dtype", default="float32")\n'
    )
    assert suggested(tmp_path, script=script) == {
        "batch_size": "--batch-size {}",
        "precision": "--dtype {fp32:float32,bf16:bfloat16,fp16:float16}",
    }


def test_what_is_bound_already_is_not_suggested_again(tmp_path: Path):
    bound = (parse_binding("batch_size=env:BS"),)
    assert suggested(tmp_path, "--batch-size", "32", bound=bound) == {}


def test_a_script_that_runs_nanogpts_configurator_is_bound_to_its_own_variables(tmp_path: Path):
    script = "batch_size = 32\nlearning_rate = 0.05\nmax_iters = 600\nexec(open('configurator.py').read())\n"
    found = {"batch_size": "--batch_size={}", "lr": "--learning_rate={}"}
    assert suggested(tmp_path, script=script, steps=200) == found
    assert suggested(tmp_path, "--max_iters=200", script=script, steps=200)["steps"] == "--max_iters={}"
    for command, steps in (((), 600), (("--max_iters=200",), 200)):
        words, path = ("python", "train.py", *command), str(tmp_path / "train.py")
        known = target(command=words, working_dir=str(tmp_path), script=path)
        (limit,) = step_numbers(known, discovery(options=()))
        assert (limit.source, limit.steps, limit.is_option) == ("--max_iters", steps, True)


@pytest.mark.parametrize(
    ("options", "command", "found"),
    [
        ([option("--batchSize", "-b", value=32)], (), {"batch_size": "--batchSize {}"}),
        ([option("--batchSize", "-b", value=32)], ("-b", "32"), {"batch_size": "-b {}"}),
        ([option("-j", "--jobs", value=4)], (), {"num_workers": "--jobs {}"}),
        ([option("-j", name="j", value=4)], (), {"num_workers": "-j {}"}),
        ([option("data.batch_size", value=32, form="key")], (), {"batch_size": "data.batch_size={}"}),
        ([option("IMS_PER_BATCH", value=32, form="pair")], (), {"batch_size": "IMS_PER_BATCH {}"}),
        (
            [option("--trainer.precision", value=32, choices=("32", "bf16-mixed"))],
            (),
            {"precision": "--trainer.precision {fp32:32,bf16:bf16-mixed}"},
        ),
        (
            [option("--mixed_precision", value=None, choices=("no", "fp16", "bf16"))],
            (),
            {"precision": "--mixed_precision {fp32:no,bf16:bf16,fp16:fp16}"},
        ),
        ([option("--val.batch_size", value=32)], (), {}),
        ([option("--batch-size", value=64)], ("--batch-size", "32"), {}),
        ([option("--epochs", value=32)], ("--batch-size", "32"), {}),
    ],
)
def test_options_of_the_scripts_parser_come_before_its_words(
    options: list[ScriptOption], command: tuple[str, ...], found: dict[str, str], tmp_path: Path
):
    script = 'parser.add_argument("--num-workers", default=4)\n'
    assert suggested(tmp_path, *command, script=script, options=tuple(options)) == found


AMP = option("--amp", value=False, form="switch")
ON = AMP.model_copy(update={"value": True})
NO_AMP = option("--no-amp", name="amp", value=True, form="switch", off=("--no-amp",))
BOTH = (option("--bf16", value=False, form="optional"), option("--fp16", value=False, form="optional"))


@pytest.mark.parametrize(
    ("options", "command", "seen", "ways"),
    [
        ((AMP,), (), "fp32", ["{bf16:--amp,fp32:}", "{fp16:--amp,fp32:}"]),
        ((ON,), ("--amp",), "bf16", ["{bf16:--amp,fp32:}"]),
        ((ON.model_copy(update={"off": ("--no-amp",)}),), (), "fp16", ["{fp16:,fp32:--no-amp}"]),
        ((NO_AMP.model_copy(update={"flags": ()}),), (), "bf16", ["{bf16:,fp32:--no-amp}"]),
        (BOTH, (), "fp32", ["{fp32:,bf16:--bf16,fp16:--fp16}", "{bf16:--bf16,fp32:}", "{fp16:--fp16,fp32:}"]),
        (BOTH, ("--bf16", "False"), "fp32", ["--bf16 {bf16:true,fp32:false}", "{fp16:--fp16,fp32:}"]),
        ((ON,), ("--amp",), "fp32", []),
    ],
)
def test_switches_of_a_precision_are_found(
    options: tuple[ScriptOption, ...], command: tuple[str, ...], seen: str, ways: list[str], tmp_path: Path
):
    found = suggested_all(tmp_path, *command, options=options, precision=seen)
    assert found.get("precision", []) == ways


@pytest.mark.parametrize(
    ("compile_option", "command", "found"),
    [
        (option("--compile", value=False, form="switch"), (), {}),
        (option("--compile", value=True, form="switch", off=("--no-compile",)), (), "--compile|--no-compile"),
        (option("--compile", value=True, form="switch"), ("--compile",), "--compile"),
        (option("--compile", value=True, form="switch"), (), {}),
        (option("--torch_compile", value=True), (), "--torch_compile {}"),
    ],
)
def test_what_the_script_itself_turns_on_is_bound(
    compile_option: ScriptOption, command: tuple[str, ...], found: str, tmp_path: Path
):
    seen = {"compile": bool(compile_option.value)}
    expected = {"compile": found} if found else {}
    assert suggested(tmp_path, *command, options=(compile_option,), **seen) == expected


LR, ODD = option("--lr", value=1.0), option("--dtype", value="odd")


@pytest.mark.parametrize(
    ("knob", "options", "seen", "hint"),
    [
        ("batch_size", (), 32, "--bind batch_size=HOW"),
        ("batch_size", (LR,), 32, "--bind batch_size=HOW (no option of the script is known to set it)"),
        ("batch_size", (option("--bs", value=32),), 32, "--bind 'batch_size=--bs {}'"),
        ("batch_size", (option("--bs", value=64),), 32, "--bind 'batch_size=--bs {}'"),
        ("precision", (AMP,), "fp32", "--bind 'precision={bf16:--amp,fp32:}'"),
        ("precision", (ODD,), "fp32", "--bind 'precision=--dtype {bf16:TEXT,fp32:TEXT}'"),
    ],
)
def test_a_hint_names_only_what_the_script_has(
    knob: str, options: tuple[ScriptOption, ...], seen: Any, hint: str
):
    assert binding_hint(knob, discovery(options=options), seen) == hint


def test_an_option_that_holds_the_batch_of_all_ranks_is_noticed():
    whole = (option("--batch-size", value=128),)
    assert batch_of_all_ranks(discovery(options=whole, world_size=4), 32) == "--batch-size"
    assert batch_of_all_ranks(discovery(options=whole), 32) is None
    own = (*whole, option("--micro-batch-size", value=32))
    assert batch_of_all_ranks(discovery(options=own, world_size=4), 32) is None


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("add('x'); p.add_argument('--bs', type=int, default=20)", {"batch_size": 20}),
        ("p.add_argument('--bs', type=int)", {}),
        ("p.add_argument('--bs', default='auto')", {}),
        ("p.add_argument('--bs', default=20); q.add_argument('--bs', default=8)", {}),
        ("p.add_argument('--batch', default=20)", {}),
        ("no python", {}),
    ],
)
def test_the_default_of_a_bound_flag_is_known_where_the_script_declares_one(
    script: str, found: dict[str, int], tmp_path: Path
):
    (tmp_path / "train.py").write_text(script)
    flags = (parse_binding("batch_size=--bs {}"), parse_binding("num_workers=env:WORKERS"))
    known = target(script=str(tmp_path / "train.py"), bindings=flags)
    assert default_values(known) == found


@pytest.mark.parametrize(
    ("command", "script", "found"),
    [
        ((), "p.add_argument('--batch_size', default=20)", "--batch_size {}"),
        ((), "p.add_argument('--minibatch', default=20)", "--minibatch {}"),
        ((), "p.add_argument('--batch_size', default=32)", None),
        ((), "p.add_argument('--batch_size', default='auto')", None),
        (("--bs", "20"), "p.add_argument('--batch_size', default=20)", "--bs {}"),
        (("--bs", "32"), "p.add_argument('--batch_size', default=20)", "--batch_size {}"),
    ],
)
def test_a_place_for_the_batch_is_named_where_the_inputs_can_hold_what_it_says(
    command: tuple[str, ...], script: str, found: str | None, tmp_path: Path
):
    (tmp_path / "train.py").write_text(script)
    known = target(
        command=("python", "train.py", *command), working_dir=str(tmp_path), script=str(tmp_path / "train.py")
    )
    called = root(inputs=(InputSeen(path="[0]", sizes=(35, 20)),))
    binding = possible_batch(known, discovery(loaders=(), roots=(called,)))
    assert (how_text(binding) if binding else None) == found
    bound = known.model_copy(update={"bindings": (parse_binding("batch_size=--b {}"),)})
    assert possible_batch(bound, discovery(loaders=(), roots=(called,))) is None


@pytest.mark.parametrize(
    ("how", "is_typed", "command", "options", "is_kept"),
    [
        ("batch_size=--bs {}", False, (), (option("--batch-size", value=8),), False),
        ("batch_size=--bs {}", True, (), (option("--batch-size", value=8),), True),
        ("batch_size=--bs {}", False, ("--bs=8",), (option("--batch-size", value=8),), True),
        ("batch_size=--batch {}", False, (), (option("--batch-size", value=8),), True),
        ("batch_size=--bs={}", False, (), (), True),
        ("batch_size=--bs {}", False, (), (option("data.bs", value=8, form="key"),), True),
        ("batch_size=-b {}", False, (), (option("--batch-size", value=8),), True),
        ("compile=--c|--no-c", False, (), (option("--c", value=True, form="switch", off=("--no-c",)),), True),
        ("precision={fp32:,bf16:--bf16}", False, (), (option("--amp", value=False),), False),
        ("lr=env:LR", False, (), (option("--amp", value=False),), True),
    ],
    ids=[
        *("lacking", "typed by the user", "in the command", "shortened", "no parser", "keys alone"),
        *("short flag", "switch", "switch of a value", "variable"),
    ],
)
def test_a_binding_of_the_project_goes_where_the_script_lacks_its_flag(
    how: str, is_typed: bool, command: tuple[str, ...], options: tuple[ScriptOption, ...], is_kept: bool
):
    binding = parse_binding(how).changed(is_typed=is_typed)
    bound = target(command=("python", "train.py", *command), bindings=(binding,))
    left, said = without_unknown_flags(bound, discovery(options=options))
    assert (left.bindings, len(said)) == (((binding,), 0) if is_kept else ((), 1))
