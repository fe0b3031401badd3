"""`tunekit profile`: what it refuses before it runs, and what it leaves on disk."""

import sys
from pathlib import Path

import pytest
from build_loop_profiles import profiled
from json_schemas import valid
from real_trials import ZOO, run_tunekit

from tunekit.cli import profile as verb
from tunekit.cli.main import main
from tunekit.cli.parser import build_parser
from tunekit.cli.profile import against_file, profile_options
from tunekit.records.codec import from_json
from tunekit.records.config import Precision
from tunekit.records.run import LoopProfile, RunStatus
from tunekit.session.folder import load_saved
from tunekit.trial.target import resolve_target

TRAIN = ("--", sys.executable, "train.py")


@pytest.mark.parametrize(
    ("words", "rounds"),
    [
        ([], 1),
        (["--ablate"], 3),
        (["--against", "a.yaml"], 3),
        (["--ablate", "--rounds", "2"], 2),
    ],
)
def test_comparisons_have_three_rounds_by_default(words: list[str], rounds: int):
    options = build_parser().parse_args(["profile", *words])
    assert profile_options(options, builtin=False).rounds == rounds


def test_a_projects_settings_hold_for_a_profile_too(project: Path, monkeypatch: pytest.MonkeyPatch):
    (project / "tunekit.toml").write_text('window = 2.5\nfix = ["num_workers=3"]\nepochs = 4\n')
    seen: list[LoopProfile] = []
    monkeypatch.setattr(verb, "run_walk", lambda profile, *_: seen.append(profile) or 0)
    assert main(["profile", *TRAIN]) == 0
    assert seen[0].options.window_s == 2.5
    assert [one.knob for one in seen[0].options.fixed] == ["num_workers"]


@pytest.mark.parametrize("key", ["compile", "compile_model"])
def test_a_knob_has_its_own_name_or_that_of_an_exported_file(key: str, project: Path):
    (project / "other.yaml").write_text(f"{key}: true\n")
    asked = against_file(Path("other.yaml"), resolve_target([sys.executable, "train.py"], project))
    assert asked.config_of(profiled().contenders[0].config, False).compile


def test_a_file_of_knobs_changes_the_scripts_own_config(project: Path):
    (project / "other.yaml").write_text("num_workers: 4\nprecision: bf16-mixed\n")
    own = profiled().contenders[0].config
    asked = against_file(Path("other.yaml"), resolve_target([sys.executable, "train.py"], project))
    assert asked.name == "other.yaml"
    assert asked.config_of(own, True) == own.model_copy(
        update={"num_workers": 4, "precision": Precision.BF16}
    )


def test_workers_alone_bring_torchs_own_prefetch(project: Path):
    (project / "other.yaml").write_text("num_workers: 4\n")
    alone = {"num_workers": 0, "prefetch_factor": None, "persistent_workers": False}
    own = profiled().contenders[0].config.model_copy(update=alone)
    asked = against_file(Path("other.yaml"), resolve_target([sys.executable, "train.py"], project))
    assert asked.config_of(own, False).prefetch_factor == 2


@pytest.mark.real
def test_two_configs_of_a_real_script_are_compared(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("num_workers: 1\n")
    words = ("--window", "0.3", "--rounds", "1", "--against", "other.yaml", "--out", "looked", "--json")
    script = str(ZOO / "plain_with_validation.py")
    done = run_tunekit(tmp_path, "profile", *words, "--", sys.executable, script)
    assert done.returncode == 0, done.stderr
    whole = from_json(valid("profile", done.stdout), LoopProfile)
    assert whole == load_saved(tmp_path / "looked")
    assert whole.status is RunStatus.FINISHED
    own, other = whole.contenders
    assert (own.config.num_workers, other.config.num_workers) == (0, 1)
    assert other.factor is not None
    assert "result                         config" in done.stderr
    assert "Compared (measured" not in done.stderr, "the report is for those who read it"
    assert not (tmp_path / "reports").exists()
