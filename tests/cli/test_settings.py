"""Settings files: found, read, checked, outdone by the command line, and written with all else kept."""

import argparse
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunekit.cli.parser import build_parser
from tunekit.cli.settings import load_settings, with_bindings, write_settings
from tunekit.errors import UsageError
from tunekit.records.target import Binding
from tunekit.trial.binding_syntax import binding_text, parse_binding

WHOLE = """\
gpu = "a10g"
budget = "20m"
trials = 12
epochs = 90
confirm = 3
wait-quiet = "5m"
window = 2
trial-limit = 120
no-progress-limit = "1h30m"
lr = 1e-3
base-batch = 256
max-batch = "1k"
planned-steps = "50k"
global-batch = 512
samples-per-step = 32
fix = ["compile=false"]
range = ["batch_size=8..64"]

[bind]
batch_size = "--bs {}"
lr = "configs/a.yaml:optim.lr"
"""

PROJECT = """\
# the project
[project]
name = 'x'    # its name
dependencies = [
    "torch",   # of course
]

[tool.ruff]
line-length=100
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder, outside of which nothing is looked for."""
    (tmp_path / ".git").mkdir()
    return tmp_path


COMMAND = ("python", "train.py")


def bound(folder: Path, command: Sequence[str] = COMMAND) -> tuple[Binding, ...]:
    return tuple(map(parse_binding, load_settings(folder, command).get("bind", ())))


def parsed(settings: dict[str, object], *words: str) -> argparse.Namespace:
    return build_parser(settings).parse_args(["search", *words])


# --- reading -------------------------------------------------------------------------------


def test_every_setting_is_read_under_its_flags_own_name(folder: Path):
    (folder / "tunekit.toml").write_text(WHOLE)
    assert load_settings(folder) == {
        "gpu": "a10g",
        "budget_s": 1200.0,
        "max_trials": 12,
        "epochs": 90,
        "confirm_rounds": 3,
        "wait_quiet_s": 300.0,
        "window_s": 2.0,
        "trial_limit_s": 120.0,
        "no_progress_limit_s": 5400.0,
        "base_lr": 0.001,
        "base_batch": 256,
        "max_batch": 1000,
        "planned_steps": 50_000,
        "global_batch": 512,
        "samples_per_step": 32,
        "fix": ["compile=false"],
        "range": ["batch_size=8..64"],
        "bind": ["batch_size=--bs {}", "lr=configs/a.yaml:optim.lr"],
    }


def test_the_command_line_wins_and_adds_to_lists(folder: Path):
    (folder / "tunekit.toml").write_text(WHOLE)
    settings = load_settings(folder)
    options = parsed(settings, "--gpu", "t4", "--fix", "compile=true", "--lr", "0.5")
    assert (options.gpu, options.base_lr, options.epochs) == ("t4", 0.5, 90)
    assert options.fix == ["compile=false", "compile=true"]
    assert options.range == ["batch_size=8..64"]
    assert parsed(settings).fix == ["compile=false"]
    assert (parsed(settings).max_batch, parsed(settings).planned_steps) == (1000, 50_000)


def test_pyproject_holds_settings_in_a_table_of_its_own(folder: Path):
    (folder / "pyproject.toml").write_text(PROJECT)
    assert load_settings(folder) == {}
    (folder / "pyproject.toml").write_text(
        PROJECT + '[tool.tunekit]\ngpu = "l4"\n[tool.tunekit.bind]\nlr="env:LR"\n'
    )
    assert load_settings(folder) == {"gpu": "l4", "bind": ["lr=env:LR"]}


def test_two_files_with_settings_are_refused(folder: Path):
    (folder / "tunekit.toml").write_text("epochs = 3\n")
    (folder / "pyproject.toml").write_text("[tool.tunekit]\nepochs = 4\n")
    with pytest.raises(UsageError, match=r"both .*tunekit\.toml and \[tool\.tunekit\] of .*pyproject\.toml"):
        load_settings(folder)


def test_the_nearest_parent_with_settings_counts(folder: Path):
    inner = folder / "a" / "b"
    inner.mkdir(parents=True)
    (folder / "tunekit.toml").write_text("epochs = 3\n")
    (inner / "pyproject.toml").write_text(PROJECT)
    assert load_settings(inner) == {"epochs": 3}
    (folder / "a" / "tunekit.toml").write_text("epochs = 4\n")
    assert load_settings(inner) == {"epochs": 4}


def test_nothing_is_looked_for_outside_the_repository(folder: Path):
    inner = folder / "inner"
    (inner / ".git").mkdir(parents=True)
    (folder / "tunekit.toml").write_text("epochs = 3\n")
    assert load_settings(inner) == {}


def test_paths_of_files_mean_the_same_from_where_the_command_runs(folder: Path):
    inner = folder / "a" / "b"
    inner.mkdir(parents=True)
    (folder / "tunekit.toml").write_text(
        '[bind]\nlr = "configs/a.yaml:lr"\nbatch_size = "/etc/b.yaml:bs"\ncompile = "env:C"\n'
    )
    (binding, absolute, _) = bound(inner)
    assert binding.path == "../../configs/a.yaml"
    assert (inner / str(binding.path)).resolve() == folder / "configs" / "a.yaml"
    assert absolute.path == "/etc/b.yaml"


BROKEN = (
    "epoch = 3", "base_batch = 3", "xyzzy = 3", "epochs = 0", "epochs = 1.5", "epochs = true",
    'trials = "0k"', 'trials = "many"', "lr = 0", "lr = nan", "window = inf", 'budget = "soon"',
    "budget = -3", "gpu = 4", 'fix = "compile=false"', "range = [1]", "bind = 3",
    "[script.'a.py']\nbind = 3", "[script.'a.py']\nepochs = 3", "script = 3", "[bind]\nlr = 3",
    '[bind]\nlearning = "env:LR"', '[bind]\nlr = "inject"', "epochs = ", 'gpu = "\\u0000',
)  # fmt: skip


def test_what_cannot_be_used_names_the_file_and_the_remedy(folder: Path, golden: Callable[[str], object]):
    told = []
    for text in BROKEN:
        (folder / "tunekit.toml").write_text(text)
        with pytest.raises(UsageError) as raised:
            load_settings(folder)
        told.append(f"{text!r}\n    {raised.value}".replace(str(folder), "FOLDER"))
    assert ("\n".join(told) + "\n") == golden("broken-settings.txt")


def test_a_broken_project_file_matters_only_when_it_speaks_of_tunekit(folder: Path):
    (folder / "pyproject.toml").write_bytes(b"name = \xff")
    assert load_settings(folder) == {}
    (folder / "pyproject.toml").write_text("[tool.tunekit\n")
    with pytest.raises(UsageError, match=r"pyproject\.toml can't be read as TOML"):
        load_settings(folder)
    (folder / "pyproject.toml").write_text("[tool]\ntunekit = 3\n")
    with pytest.raises(UsageError, match=r"tool\.tunekit must be a table, got 3"):
        load_settings(folder)


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (COMMAND, ["batch_size=--b {}", "lr=env:RATE"]),
        (("torchrun", "--nproc_per_node=2", "train.py"), ["batch_size=--b {}", "lr=env:RATE"]),
        (("python", "-m", "jobs.tune"), ["batch_size=--b {}", "lr=env:TUNED"]),
        (("mytrain", "--fast"), ["batch_size=--fast {}", "lr=env:LR"]),
        (("python", "other.py"), ["batch_size=--b {}", "lr=env:LR"]),
        ((), ["batch_size=--b {}", "lr=env:LR"]),
    ],
    ids=["script", "launcher", "module", "program", "another script", "none"],
)
def test_a_script_has_its_own_bindings_beside_those_of_its_folder(
    folder: Path, command: tuple[str, ...], found: list[str]
):
    (folder / "tunekit.toml").write_text(
        '[bind]\nbatch_size = "--b {}"\nlr = "env:LR"\n'
        '[script."train.py".bind]\nlr = "env:RATE"\n'
        '[script."jobs/tune.py".bind]\nlr = "env:TUNED"\n'
        '[script.mytrain.bind]\nbatch_size = "--fast {}"\n'
    )
    assert load_settings(folder, command)["bind"] == found


def test_a_script_is_called_by_where_it_lies_below_the_settings(folder: Path):
    inner = folder / "a"
    inner.mkdir()
    (folder / "tunekit.toml").write_text('[script."a/train.py".bind]\nlr = "env:LR"\n')
    assert len(bound(inner)) == len(bound(folder, ("python", "a/train.py"))) == 1
    assert bound(folder) == ()


# --- writing -------------------------------------------------------------------------------

BINDINGS = tuple(
    parse_binding(text)
    for text in (
        "batch_size=--bs {}",
        "precision=--p {fp32:'a',bf16:\"b\\c\"}",
        "lr=configs/a.yaml:optim.lr",
        "compile=--compile|--no-compile",
    )
)


def test_bindings_go_to_a_new_file_where_there_is_none(folder: Path):
    assert write_settings(folder, COMMAND, BINDINGS) == folder / "tunekit.toml"
    assert bound(folder) == BINDINGS


def test_bindings_go_to_the_end_of_the_project_file(folder: Path):
    path = folder / "pyproject.toml"
    path.write_bytes(PROJECT.replace("\n", "\r\n").encode())
    path.chmod(0o600)
    assert write_settings(folder, COMMAND, BINDINGS) == path
    assert path.read_bytes().startswith(
        PROJECT.replace("\n", "\r\n").encode() + b'\r\n[tool.tunekit.script."train.py".bind]\r\n'
    )
    assert path.stat().st_mode & 0o777 == 0o600
    assert bound(folder) == BINDINGS


def test_bindings_join_the_settings_that_are_there(folder: Path):
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "tunekit.toml").write_text("epochs = 3")
    assert write_settings(folder, COMMAND, BINDINGS) == folder / "tunekit.toml"
    assert bound(folder) == BINDINGS
    assert load_settings(folder)["epochs"] == 3
    assert (folder / "pyproject.toml").read_text() == PROJECT


def test_other_bindings_are_replaced_and_comments_stay(folder: Path):
    path = folder / "pyproject.toml"
    path.write_text(
        PROJECT
        + "[tool.tunekit.script.'train.py'.bind]\n# how\nlr = 'env:LR'  # mine\nbatch_size = '--b {}'\n"
        + "[tool.z]\nq=1\n"
    )
    before = path.read_text()
    kept = (parse_binding("lr=env:LR"), parse_binding("compile=env:C"))
    write_settings(folder, COMMAND, kept)
    assert path.read_text() == before.replace("batch_size = '--b {}'\n", 'compile = "env:C"\n')


def test_the_same_bindings_leave_the_file_alone(folder: Path):
    (folder / "tunekit.toml").write_text("[script.'train.py'.bind]\nlr = 'env:LR'   # mine\n")
    write_settings(folder, COMMAND, [parse_binding("lr=env:LR")])
    assert (folder / "tunekit.toml").read_text() == "[script.'train.py'.bind]\nlr = 'env:LR'   # mine\n"
    assert with_bindings("a = 1\n", [], ("bind",)) == "a = 1\n"


@pytest.mark.parametrize(
    "text",
    [
        "tool = {x = 1}\n",
        "tool.tunekit = {epochs = 3}\n",
        "[tool.tunekit]\nbind = {}\n",
        "[tool.tunekit]\nepochs = 3\n[a]\nb = 1",
    ],
)
def test_bindings_find_their_place_in_any_style(text: str):
    after = with_bindings(text, BINDINGS, ("tool", "tunekit", "bind"))
    bound = tomllib.loads(after)["tool"]["tunekit"].pop("bind")
    assert [f"{knob}={how}" for knob, how in bound.items()] == [binding_text(b) for b in BINDINGS]


def test_a_file_that_cannot_be_read_is_left_alone(folder: Path):
    for content, told in (
        (b"a = ", "can't be read as TOML"),
        (b"a = '\xff'", "not UTF-8"),
        (b"script.'train.py'.bind = 3", "no table"),
        (b"[script]\n'train.py'.a = 3", "no place for"),
    ):
        (folder / "tunekit.toml").write_bytes(content)
        with pytest.raises(UsageError, match=rf"tunekit\.toml.*{told}"):
            write_settings(folder, COMMAND, BINDINGS)
        assert (folder / "tunekit.toml").read_bytes() == content


literals = st.text(st.characters(exclude_characters="{}\0", exclude_categories=["Cs"]), max_size=8)


@given(st.lists(literals, min_size=1, max_size=3), st.sampled_from(["", "a = 1", "[tool.x]\nb = 1\n"]))
def test_any_words_are_read_as_they_were_written(words: list[str], existing: str):
    binding = Binding(knob="batch_size", kind="arg", words=("--x", *words, "{}"))
    after = with_bindings(existing, [binding], ("tool", "tunekit", "bind"))
    assert after.startswith(existing)
    ((knob, how),) = tomllib.loads(after)["tool"]["tunekit"]["bind"].items()
    assert parse_binding(f"{knob}={how}") == binding
