"""Commands are written as a shell takes them, with all that says how tunekit runs and reads a target."""

import shlex

from build_records import target

from tunekit.records.run import FixedKnob
from tunekit.secret_words import MASK
from tunekit.trial.binding_syntax import parse_binding
from tunekit.trial.typed_commands import command_text, target_text


def test_a_command_is_shown_as_it_would_be_typed():
    spaced = target(command=("python", "my train.py", "--name", "a'b", "$HOME"))
    assert target_text(spaced) == """python 'my train.py' --name 'a'"'"'b' '$HOME'"""


def test_a_command_of_tunekits_keeps_what_reaches_the_script():
    bound = target(bindings=(parse_binding("num_workers=--workers {}"),), samples_per_step=32)
    typed = command_text("profile", bound, "cpu", ["--ablate"], [FixedKnob(knob="pin_memory", value=True)])
    assert shlex.split(typed) == [
        *("tunekit", "profile", "--ablate", "--gpu", "cpu", "--fix", "pin_memory=true"),
        *("--bind", "num_workers=--workers {}", "--samples-per-step", "32", "--", "python", "train.py"),
    ]


def test_what_the_settings_or_the_search_bound_is_not_typed_again():
    found = parse_binding("num_workers=--workers {}").changed(is_typed=False)
    assert command_text("profile", target(bindings=(found,))) == "tunekit profile -- python train.py"


def test_a_masked_secret_is_said_to_be_missing():
    typed = command_text("profile", target(command=("python", "train.py", "--token", MASK)))
    assert typed.endswith(f"  # with the secret in place of {MASK}")
