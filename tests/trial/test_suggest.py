"""Places that a user's own files, command and script already have for knobs."""

from pathlib import Path

import pytest
from build_records import discovery, root, target

from tunekit.records.target import Binding, InputSeen
from tunekit.trial.binding_syntax import how_text, parse_binding
from tunekit.trial.suggest import default_values, possible_batch, suggest_bindings

SEEN = {"batch_size": 32, "num_workers": 4, "accumulate_grad_batches": 1, "precision": "fp32", "lr": 0.05}


def suggested(
    folder: Path, *command: str, script: str = "", bound: tuple[Binding, ...] = ()
) -> dict[str, str]:
    """Return how each knob would be bound."""
    (folder / "train.py").write_text(script)
    words = ("python", "train.py", *command)
    known = target(command=words, working_dir=str(folder), script=str(folder / "train.py"), bindings=bound)
    return {binding.knob: how_text(binding) for binding in suggest_bindings(known, SEEN)}


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


@pytest.mark.parametrize(
    "command",
    [("--batch-size", "64"), ("--verbose", "--batch-size"), ("--epochs", "32"), ("--precision", "high")],
)
def test_a_place_that_does_not_hold_what_was_seen_is_left_alone(command: tuple[str, ...], tmp_path: Path):
    assert suggested(tmp_path, *command) == {}


def test_a_key_of_the_config_file_comes_before_the_scripts_flags(tmp_path: Path):
    (tmp_path / "a.yaml").write_text("data:\n  batch_size: 32\noptim:\n  lr: 0.05\n")
    script = 'parser.add_argument("--batch-size", default=32)\nparser.add_argument("--lr", default=0.05)\n'
    assert suggested(tmp_path, "--config=a.yaml", script=script) == {
        "batch_size": "a.yaml:data.batch_size",
        "lr": "a.yaml:optim.lr",
    }


def test_a_flag_that_the_script_declares_is_found_by_its_default(tmp_path: Path):
    script = (
        'parser.add_argument("-b", "--batch-size", type=int, default=32)\n'
        'parser.add_argument("--workers", default=2)\n'
        'parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")\n'
    )
    assert suggested(tmp_path, script=script) == {
        "batch_size": "--batch-size {}",
        "precision": "--dtype {fp32:float32,bf16:bfloat16}",
    }


def test_what_is_bound_already_is_not_suggested_again(tmp_path: Path):
    bound = (parse_binding("batch_size=env:BS"),)
    assert suggested(tmp_path, "--batch-size", "32", bound=bound) == {}


@pytest.mark.parametrize("script", ["def (", "\0", "parser.add_argument()\n", "add_argument = 1\n"])
def test_a_script_that_can_not_be_read_suggests_nothing(script: str, tmp_path: Path):
    assert suggested(tmp_path, script=script) == {}


def test_a_config_file_that_can_not_be_read_suggests_nothing(tmp_path: Path):
    (tmp_path / "a.json").write_text("{")
    assert suggested(tmp_path, "--config", "a.json") == {}


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
        ((), "p.add_argument('--batch_size', default=32)", None),
        ((), "p.add_argument('--length', default=20)", None),
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
