"""The command line: its frozen surface, its errors and their exit codes."""

import argparse
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from build_records import (
    config,
    interval,
    options,
    recommendation,
    run,
    trial_record,
)
from json_schemas import valid
from read_report import view
from scripted_search import ScriptedExecutor, learnt, search_in

import tunekit
from tunekit import errors
from tunekit.cli import report, report_files
from tunekit.cli.machine import variables_here
from tunekit.cli.main import INTERRUPTED, main
from tunekit.cli.parser import build_parser
from tunekit.cli.verbs import VERBS
from tunekit.errors import TargetError, TunekitError
from tunekit.machine.detect import detect_host
from tunekit.recommend.candidate import candidate_of
from tunekit.records import codec
from tunekit.records.codec import to_json
from tunekit.records.finding import Finding, Severity
from tunekit.records.measurement import THREAD_VARIABLES
from tunekit.records.run import Run, RunStatus
from tunekit.records.trial import TrialRecord
from tunekit.session.folder import RunFolder, load_run
from tunekit.trial.binding_syntax import parse_binding
from tunekit.trial.target import resolve_target


@pytest.fixture
def finished(project: Path) -> Path:
    """The folder of a finished scripted search for the project's train.py."""
    folder = project / "run"
    target = resolve_target([sys.executable, "train.py"], project)
    known = learnt(config(), device_type="cpu")
    search_in(
        folder,
        options(max_trials=3),
        target=target,
        measured_on="cpu",
        host=detect_host(),
        thread_variables=variables_here(THREAD_VARIABLES),
        executor_options={"learns": lambda spec: known},
    )
    return folder


def verbs_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    (action,) = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return dict(action.choices)


def surface_of(parser: argparse.ArgumentParser) -> list[str]:
    return sorted(
        name
        for action in parser._actions
        if not isinstance(action, argparse._SubParsersAction)
        for name in (action.option_strings or [str(action.metavar)])
    )


def all_errors(kind: type[TunekitError] = TunekitError) -> list[type[TunekitError]]:
    return [kind, *(below for child in kind.__subclasses__() for below in all_errors(child))]


EXIT_CODES = {name: int(code) for name, code in re.findall(r"(\w+Error) \((\d+)\)", errors.__doc__ or "")}


# --- surface and exit codes ----------------------------------------------------------------


def test_the_surface_is_frozen(golden: Callable[[str], object]):
    """Every verb with its options. A change here is a decision, and a line in CHANGELOG.md."""
    parser = build_parser()
    verbs = {"tunekit": parser, **verbs_of(parser)}
    assert "".join("\n  ".join([n, *surface_of(verb)]) + "\n" for n, verb in verbs.items()) == golden(
        "surface.txt"
    )


def test_every_option_says_what_it_does():
    for verb in verbs_of(build_parser()).values():
        assert verb.description
        assert all(action.help for action in verb._actions)


def test_every_error_has_its_exit_code():
    assert {kind.__name__: kind.exit_code for kind in all_errors()} == EXIT_CODES


@pytest.mark.parametrize("kind", all_errors(), ids=lambda kind: kind.__name__)
def test_an_error_ends_with_its_exit_code_and_one_line(
    kind: type[TunekitError], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def fails(asked: argparse.Namespace, command: list[str]) -> int:
        raise kind("what, the value, the remedy")

    monkeypatch.setattr(report, "run_verb", fails)
    assert main(["report", "run"]) == EXIT_CODES[kind.__name__]
    captured = capsys.readouterr()
    assert captured.err == "tunekit: what, the value, the remedy\n"
    assert captured.out == ""


def test_a_folder_that_was_removed_is_named_as_the_cause(project: Path, capsys: pytest.CaptureFixture[str]):
    shutil.rmtree(project)
    assert main(["gpus", "a10g"]) == 2
    assert "was removed; change to one that is there" in capsys.readouterr().err


def test_the_last_lines_of_a_command_are_lines_and_nothing_in_them_breaks_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def fails(asked: argparse.Namespace, command: list[str]) -> int:
        raise TargetError("it failed: bad\ntunekit: all is well", ("Traceback", "  no\x1b[2J\nsuch file"))

    monkeypatch.setattr(report, "run_verb", fails)
    assert main(["report", "run"]) == TargetError.exit_code
    assert capsys.readouterr().err.splitlines() == [
        "tunekit: it failed: bad\\ntunekit: all is well",
        "  its last lines:",
        "    Traceback",
        "      no\\x1b[2J\\nsuch file",
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_ends_as_shells_expect_of_ctrl_c(number: signal.Signals, monkeypatch: pytest.MonkeyPatch):
    def interrupted(asked: argparse.Namespace, command: list[str]) -> int:
        signal.raise_signal(number)
        return 0

    monkeypatch.setattr(report, "run_verb", interrupted)
    assert main(["report", "run"]) == INTERRUPTED == 130


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_that_tunekit_was_started_to_ignore_is_ignored(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
):
    def nohup(asked: argparse.Namespace, command: list[str]) -> int:
        signal.raise_signal(number)
        return 0

    monkeypatch.setattr(report, "run_verb", nohup)
    signal.signal(number, signal.SIG_IGN)
    assert main(["report", "run"]) == 0


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_on_a_verb_is_the_verbs_help(verb: str, capsys: pytest.CaptureFixture[str]):
    shown = []
    for words in (["help", verb], [verb, "--help"]):
        with pytest.raises(SystemExit) as caught:
            main([word for word in words if word])
        assert caught.value.code == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    assert f"usage: tunekit {verb}".rstrip() in shown[0]


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_fits_a_terminal_of_80_columns_and_breaks_no_example(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([word for word in (verb, "--help") if word])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("flag", ["-V", "-v", "--version"])
def test_the_version_is_the_packages(flag: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        main([flag])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"tunekit {tunekit.__version__}\n"


@pytest.mark.parametrize("words", [[], ["--"], ["--", "python", "train.py"]])
def test_no_word_at_all_shows_the_help(words: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    for name in verbs_of(build_parser()):
        assert f"    {name} " in captured.err


# --- the training command ------------------------------------------------------------------


@pytest.mark.parametrize("separator", ["=", " "])
def test_a_resumed_search_keeps_to_its_own_flags(separator: str, finished: Path, project: Path):
    (project / "tunekit.toml").write_text("epochs = 7\n")
    command = load_run(finished).target.command
    resume = f"--resume{separator}{finished}".split(" ")
    assert main(["search", *resume, "--", *command]) == 0


# --- options -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("in_file", "flags", "fixed", "ranges", "most"),
    [
        ("max-batch = 64", ["--fix", "batch_size=32"], [("batch_size", 32)], [], None),
        ("max-batch = '0.5k'", ["--range", "batch_size=8..32"], [], [(8, 32)], None),
        ("max-batch = 64", ["--max-batch", "32"], [], [], 32),
        ("fix = ['batch_size=32']", ["--max-batch", "64"], [], [], 64),
        ("range = ['batch_size=8..16']", ["--max-batch", "64"], [], [], 64),
        ("fix = ['batch_size=32']", ["--range", "batch_size=8..16"], [], [(8, 16)], None),
        ("fix = ['batch_size=32']", ["--fix", "batch_size=32"], [("batch_size", 32)], [], None),
    ],
)
def test_the_command_line_wins_over_a_limit_in_the_settings(
    in_file: str,
    flags: list[str],
    fixed: list[tuple[str, object]],
    ranges: list[tuple[int, int]],
    most: int | None,
    project: Path,
    capsys: pytest.CaptureFixture[str],
):
    (project / "tunekit.toml").write_text(f"{in_file}\n")
    assert main(["search", "--dry-run", "--json", *flags, "--", sys.executable, "train.py"]) == 0
    asked = Run.model_validate_json(capsys.readouterr().out).options
    assert [(one.knob, one.value) for one in asked.fixed] == fixed
    assert [(one.low, one.high) for one in asked.ranges] == ranges
    assert asked.max_batch == most


# --- --dry-run -------------------------------------------------------------------------------


def dry(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a dry run of the project's train.py, which must not run, shows in one line."""
    assert main(["search", "--dry-run", *words, "--", sys.executable, "train.py", "--bs", "32"]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_a_dry_run_shows_what_would_be_run_and_starts_nothing(
    project: Path, capsys: pytest.CaptureFixture[str]
):
    before = sorted(project.iterdir())
    bind = ("--bind", "batch_size=--bs {}")
    shown = dry(
        capsys, "--gpu", "a10g", "--budget", "20m", *bind, "--max-batch", "0.1k", "--fix", "compile=no"
    )
    assert f"target {sys.executable} train.py --bs 32" in shown
    assert "no NVIDIA A10G found" in shown
    assert "batch_size=--bs {} (now 32)" in shown
    assert "at most 100 (--max-batch)" in shown
    assert "compile: false (--fix)" in shown
    assert "budget 20m 00s" in shown
    assert sorted(project.iterdir()) == before


def test_a_dry_run_as_json_is_the_run_before_its_first_trial(
    project: Path, capsys: pytest.CaptureFixture[str]
):
    planned = Run.model_validate_json(
        dry(capsys, "--json", "--max-batch", "1k", "--range", "num_workers=0..1_000")
    )
    assert (planned.trials, planned.options.max_batch) == ((), 1000)
    assert [(one.low, one.high) for one in planned.options.ranges] == [(0, 1000)]
    assert not (project / "reports").exists()


def test_a_run_keeps_the_commit_and_whether_files_differ_from_it(
    project: Path, capsys: pytest.CaptureFixture[str]
):
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b")
    assert Run.model_validate_json(dry(capsys, "--json")).commit is None
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"], ["tag", "v1"]):
        subprocess.run([*git, *words], check=True)
    clean = Run.model_validate_json(dry(capsys, "--json")).commit
    assert clean is not None and len(clean) == 40
    (project / "train.py").write_text("")
    assert Run.model_validate_json(dry(capsys, "--json")).commit == f"{clean}-dirty"


def test_a_dry_run_of_the_built_in_workload_makes_no_images(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "cache"))
    assert main(["search", "--dry-run", "--gpu", "cpu"]) == 0
    assert "0.25x to 16x the script's own" in capsys.readouterr().out
    assert not (project / "cache").exists()


# --- run folders ---------------------------------------------------------------------------


def test_a_folder_in_use_ends_before_anything_runs(finished: Path, capsys: pytest.CaptureFixture[str]):
    with RunFolder(finished):
        assert main(["search", "--resume", str(finished)]) == 8
    assert "in use by a search" in capsys.readouterr().err


def test_a_damaged_run_is_rebuilt_from_its_trials_when_the_command_is_given(finished: Path):
    before = load_run(finished)
    (finished / "run.json").write_text("{")
    command = ["search", "--resume", str(finished), "--trials", "1", "--confirm", "1"]
    assert main([*command, "--", *before.target.command]) == 0
    assert load_run(finished).trials == before.trials


@pytest.mark.parametrize("command", [[], ["--", sys.executable, "train.py"]])
def test_resuming_after_the_script_changed_is_refused(
    finished: Path, project: Path, command: list[str], capsys: pytest.CaptureFixture[str]
):
    (project / "train.py").write_text("# changed\n")
    assert main(["search", "--resume", str(finished), *command]) == 9
    assert "train.py has changed since the run" in capsys.readouterr().err


def test_a_finished_run_is_resumed_without_a_trial(finished: Path, capsys: pytest.CaptureFixture[str]):
    before = load_run(finished).trials
    assert main(["search", "--resume", str(finished), "--wait-quiet", "90s"]) == 0
    assert load_run(finished).trials == before
    assert load_run(finished).options.wait_quiet_s == 90.0
    assert "Written to" in capsys.readouterr().out
    assert (finished / "balanced.yaml").exists()
    assert (finished / "scaling.csv").exists()


def test_a_search_leaves_its_reports_beside_the_run(
    finished: Path, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project / "summary.md"))
    assert main(["search", "--resume", str(finished), "--github-summary"]) == 0
    assert (project / "summary.md").read_text() == (finished / "report.md").read_text()
    shown = capsys.readouterr().out
    written = " ".join(shown[shown.index("Written to") : shown.index("\n\nChange")].split())
    assert "report.html, report.md and " in written
    answer = view(load_run(finished)).answer
    assert answer in (finished / "report.md").read_text()
    assert answer.partition(": ")[2] in unescape((finished / "report.html").read_text())
    left = [(finished / name).read_bytes() for name in ("report.html", "report.md")]
    assert main(["report", str(finished), "--html", "--markdown"]) == 0
    assert [(finished / name).read_bytes() for name in ("report.html", "report.md")] == left


def test_a_report_that_can_not_be_drawn_loses_nothing(
    finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (finished / "report.html").mkdir()
    assert main(["search", "--resume", str(finished)]) == 8
    captured = capsys.readouterr()
    assert f"the run is kept: correct that, then tunekit report {finished} --html" in captured.err
    assert view(load_run(finished)).answer.split(":")[0] in captured.out, "the answer is shown all the same"
    assert (finished / "balanced.yaml").exists()
    assert load_run(finished).recommendations


def test_a_resumed_run_is_warned_of_the_machine_as_it_is_now(finished: Path, monkeypatch: pytest.MonkeyPatch):
    gone = Finding(code="gpu-hot", severity=Severity.WARNING, message="GPU 0 is hot")
    run = load_run(finished)
    (finished / "run.json").write_text(to_json(run.model_copy(update={"machine_findings": (gone,)})))
    now = Finding(code="small-shm", severity=Severity.WARNING, message="/dev/shm is small")
    monkeypatch.setattr("tunekit.cli.search.warnings_of", lambda host, gpu_option, ignored: (now,))
    assert main(["search", "--resume", str(finished)]) == 0
    resumed = load_run(finished)
    assert resumed.machine_findings == (now,)
    assert now in resumed.findings
    assert gone not in resumed.findings


def test_json_alone_is_on_standard_output(finished: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["search", "--json", "--resume", str(finished)]) == 0
    captured = capsys.readouterr()
    assert Run.model_validate_json(valid("search", captured.out)) == load_run(finished)
    assert "folder" in captured.err
    assert "Confirmed" not in captured.err, "the report is for those who read it"


# --- interrupted ---------------------------------------------------------------------------

CtrlCAt = Callable[[int | None], None]


@pytest.fixture
def ctrl_c_at(monkeypatch: pytest.MonkeyPatch) -> CtrlCAt:
    """Trials without processes; Ctrl-C comes in the one whose number is given."""
    learnt_on_cpu = learnt(config(), device_type="cpu")

    def script(number: int | None) -> None:
        def executor_for(run: Run, folder: RunFolder, *_: object) -> ScriptedExecutor:
            return ScriptedExecutor(
                folder.trials_folder, interrupt_at=number, learns=lambda spec: learnt_on_cpu
            )

        monkeypatch.setattr("tunekit.cli.search.executor_for", executor_for)

    return script


def start_in(folder: Path) -> int:
    words = ["search", "--trials", "3", "--out", str(folder), "--", sys.executable, "train.py"]
    return main(words)


def left_in(folder: Path) -> set[str]:
    """The names of what lies in a run's folder beside its trials."""
    return {path.name for path in folder.iterdir()} - {"trials", "run.json", ".lock", "study.journal"}


def test_data_that_can_not_be_written_is_an_error_with_a_remedy(
    project: Path, ctrl_c_at: CtrlCAt, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/no/cache")
    ctrl_c_at(None)
    assert main(["search", "--gpu", "cpu", "--out", str(project / "run")]) == TargetError.exit_code
    assert "or name another place for it in XDG_CACHE_HOME" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(("at", "marked"), [(1, "(status: interrupted)"), (7, "Not final (status: interr")])
def test_an_interrupted_search_leaves_its_reports_so_far(
    at: int, marked: str, project: Path, ctrl_c_at: CtrlCAt, capsys: pytest.CaptureFixture[str]
):
    folder = project / "run"
    ctrl_c_at(at)
    assert start_in(folder) == INTERRUPTED
    saved = load_run(folder)
    assert (saved.status, len(saved.trials)) == (RunStatus.INTERRUPTED, at)
    answer = view(saved).answer
    assert marked in answer
    assert left_in(folder) == {"report.html", "report.md"}
    after_verdict = answer.split(": ", 1)[-1]
    for name in ("report.html", "report.md"):
        assert after_verdict in unescape((folder / name).read_text())
    told = capsys.readouterr().out
    assert told.index(f"tunekit search --resume {folder}") < told.index("Report so far: ")
    assert f"Report so far: {folder}/report.html\n" in told


def test_a_resumed_search_writes_over_the_reports_so_far(project: Path, ctrl_c_at: CtrlCAt):
    folder = project / "run"
    ctrl_c_at(4)
    start_in(folder)
    ctrl_c_at(None)
    assert main(["search", "--resume", str(folder)]) == 0
    for name in ("report.html", "report.md"):
        text = unescape((folder / name).read_text())
        assert view(load_run(folder)).answer.partition(": ")[2] in text
        assert "status: interrupted" not in text


def test_an_interrupted_search_that_measured_nothing_leaves_no_report(
    project: Path, ctrl_c_at: CtrlCAt, capsys: pytest.CaptureFixture[str]
):
    ctrl_c_at(0)
    assert start_in(project / "run") == INTERRUPTED
    assert left_in(project / "run") == set()
    assert "report so far" not in capsys.readouterr().out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_ctrl_c_ends_the_drawing_and_leaves_no_half_report(
    number: signal.Signals,
    project: Path,
    ctrl_c_at: CtrlCAt,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    drawn = report_files.page

    def drawn_and_then_cut_off(*shown: Any) -> str:
        monkeypatch.setattr(codec.os, "fsync", lambda file: signal.raise_signal(number))
        return drawn(*shown)

    monkeypatch.setattr(report_files, "page", drawn_and_then_cut_off)
    ctrl_c_at(4)
    assert start_in(project / "run") == INTERRUPTED
    assert left_in(project / "run") == set()
    saved = load_run(project / "run")
    assert (saved.status, len(saved.trials)) == (RunStatus.INTERRUPTED, 4)
    captured = capsys.readouterr()
    assert "Traceback" not in captured.out + captured.err
    assert "report so far" not in captured.out


def test_a_second_hang_up_ends_nothing(project: Path, ctrl_c_at: CtrlCAt, monkeypatch: pytest.MonkeyPatch):
    drawn = report_files.page

    def drawn_in_a_lost_session(*shown: Any) -> str:
        signal.raise_signal(signal.SIGHUP)  # the shell's, after the kernel's
        return drawn(*shown)

    def hang_up(self: ScriptedExecutor, *words: object) -> TrialRecord:
        if len(self.specs) == 4:
            signal.raise_signal(signal.SIGHUP)
        return run(self, *words)

    run = ScriptedExecutor.run
    monkeypatch.setattr(report_files, "page", drawn_in_a_lost_session)
    ctrl_c_at(None)
    monkeypatch.setattr(ScriptedExecutor, "run", hang_up)
    assert start_in(project / "run") == INTERRUPTED
    assert left_in(project / "run") == {"report.html", "report.md"}
    assert load_run(project / "run").status is RunStatus.INTERRUPTED


def test_an_interrupted_search_says_why_it_leaves_no_report(
    project: Path, ctrl_c_at: CtrlCAt, capsys: pytest.CaptureFixture[str]
):
    (project / "run" / "report.html").mkdir(parents=True)
    ctrl_c_at(2)
    assert start_in(project / "run") == INTERRUPTED
    assert "report.html can't be written" in capsys.readouterr().out
    assert load_run(project / "run").status is RunStatus.INTERRUPTED


# --- run -----------------------------------------------------------------------------------


@pytest.fixture
def larger_batch(finished: Path) -> Path:
    """A config beside the run that takes twice the batch and another learning rate."""
    own = load_run(finished).baseline_config
    assert own is not None
    path = finished / "mine.yaml"
    path.write_text(f"batch_size: {2 * own.batch_size}\nlr: 0.2\n")
    return path


def dry_run_of(config: Path, *flags: str) -> int:
    """The exit code of `run` for the project's train.py, which must not run."""
    return main(["run", str(config), "--dry-run", *flags, "--", sys.executable, "train.py"])


def test_a_candidate_is_said_to_be_measured_and_not_confirmed(
    finished: Path, capsys: pytest.CaptureFixture[str]
):
    saved = load_run(finished)
    own = saved.baseline_config
    assert own is not None and saved.candidate is None
    found = own.changed(num_workers=own.num_workers + 1)
    kept = recommendation(of=own, is_baseline=True, speedup=interval(1.0))
    assert saved.baseline is not None and saved.baseline.rate_samples_per_s is not None
    tried = trial_record(1, 1.06 * saved.baseline.rate_samples_per_s, found)
    changed = saved.changed(recommendations=(kept,), trials=(saved.trials[0], tried))
    (finished / "run.json").write_text(to_json(changed.changed(candidate=candidate_of(changed))))
    path = finished / "candidate.yaml"
    path.write_text(f"num_workers: {found.num_workers}\n")
    assert dry_run_of(path) == 0
    told = capsys.readouterr().err
    assert "1.06x speedup" in told
    assert "not confirmed, so its rate is not checked" in told
    path.write_text(f"num_workers: {found.num_workers + 5}\n")
    assert dry_run_of(path) == 0
    assert "this exact config was not measured" in capsys.readouterr().err


@pytest.mark.parametrize("table", [("tunekit.toml", "[bind]"), ("pyproject.toml", "[tool.tunekit.bind]")])
def test_a_config_is_applied_with_the_bindings_of_the_settings_as_a_search_has_them(
    table: tuple[str, str], larger_batch: Path, project: Path, capsys: pytest.CaptureFixture[str]
):
    assert dry_run_of(larger_batch) == 2
    assert "lr has no binding (recommended: 0.2); add --bind" in capsys.readouterr().err
    name, heading = table
    (project / name).write_text(f"{heading}\nlr = '--lr {{}}'\nbatch_size = '--bs {{}}'\n")
    assert dry_run_of(larger_batch) == 0
    assert capsys.readouterr().out.split()[1:] == ["train.py", "--bs", "256", "--lr", "0.2"]


def test_a_binding_of_the_command_line_wins_over_the_settings_and_the_search(
    larger_batch: Path, project: Path, capsys: pytest.CaptureFixture[str]
):
    run_file = larger_batch.parent / "run.json"
    bound = load_run(larger_batch.parent)
    searched_with = bound.target.changed(bindings=(parse_binding("lr=--of-the-search {}"),))
    run_file.write_text(to_json(bound.changed(target=searched_with)))
    (project / "tunekit.toml").write_text("[bind]\nlr = '--of-the-file {}'\n")
    assert dry_run_of(larger_batch) == 0
    assert capsys.readouterr().out.split()[2:] == ["--of-the-search", "0.2"]
    assert dry_run_of(larger_batch, "--bind", "lr=--of-the-line {}") == 0
    assert capsys.readouterr().out.split()[2:] == ["--of-the-line", "0.2"]


# --- report --------------------------------------------------------------------------------


def test_a_saved_run_is_shown_again(finished: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["report", str(finished)]) == 0
    shown = capsys.readouterr().out
    assert "Tiers (measured)" not in shown
    assert f"{finished}/balanced.yaml" in shown
    assert main(["report", str(finished / "run.json"), "--full"]) == 0
    assert "Tiers (measured)" in capsys.readouterr().out


def test_a_saved_run_is_printed_as_json(finished: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["report", "--json", str(finished)]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(to_json(load_run(finished)))


def loaded_modules(*words: str) -> set[str]:
    """Run a command line in a process of its own and return what it imported."""
    code = (
        "import sys\n"
        "from tunekit.cli.main import main\n"
        "try:\n    code = main(sys.argv[1:])\n"
        "except SystemExit as error:\n    code = error.code\n"
        "print('\\n' + ' '.join(sys.modules))\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "line",
    [
        "report a",
        "compare a b --tier baseline",
        "plan --rate 180 --samples 1000 --epochs 1 --gpu a10g",
        "gpus a10g",
    ],
)
def test_what_only_reads_records_needs_no_torch(line: str, project: Path):
    for name in ("a", "b"):
        (project / name).mkdir()
        (project / name / "run.json").write_text(to_json(run()))
    assert not loaded_modules(*line.split()) & {"torch", "optuna", "numpy", "zarr"}


@pytest.mark.parametrize("verb", VERBS)
def test_help_loads_next_to_nothing(verb: str):
    heavy = {"torch", "optuna", "pynvml", "numpy", "zarr", "pydantic", "rich", "yaml", "psutil"}
    assert not loaded_modules(verb, "--help") & heavy


def test_quiet_shows_the_answer_alone_and_v_all_of_it(finished: Path, capsys: pytest.CaptureFixture[str]):
    shown = {}
    for flag in ("-q", "-v"):
        assert main(["search", "--resume", str(finished), flag]) == 0
        shown[flag] = capsys.readouterr().out
    assert "samples/s" in shown["-q"] and "\ntarget " not in shown["-q"]
    assert "\ntarget " in shown["-v"] and "Tiers (measured)" in shown["-v"]


def test_resuming_on_another_machine_is_refused(finished: Path, capsys: pytest.CaptureFixture[str]):
    text = (finished / "run.json").read_text()
    cpus = detect_host().cpus
    (finished / "run.json").write_text(text.replace(f'"cpus": {cpus},', f'"cpus": {cpus + 6},', 1))
    assert main(["search", "--resume", str(finished)]) == 2
    assert f"with {cpus + 6} CPUs" in capsys.readouterr().err


@pytest.mark.parametrize("whose", ["another machine's", "another user's"])
def test_the_command_of_a_run_from_elsewhere_has_to_be_given(
    whose: str,
    finished: Path,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    assert main(["search", "--resume", str(finished)]) == 0  # which leaves a config
    if whose == "another user's":
        monkeypatch.setattr("os.getuid", lambda: -1)
    else:
        there = detect_host().changed(hostname="elsewhere")
        (finished / "run.json").write_text(to_json(load_run(finished).changed(host=there)))
    for words in (["run", str(finished / "balanced.yaml")], ["search", "--resume", "run"]):
        assert main(words) == 2
    again = capsys.readouterr().err.rpartition("to run it: ")[2].strip()
    start = f"cd {project} && tunekit "
    assert again == f"{start}search --resume {finished} -- {sys.executable} train.py"
    words = again.removeprefix(start).split()
    assert [main(words), main([*words, "--epochs", "2"])] == [0, 9]
    monkeypatch.chdir(finished)
    assert main(words) == 2


def test_resuming_with_other_threads_is_refused(
    finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    were = {"OMP_NUM_THREADS": "6", "OMP_PLACES": "{0},{1}"}
    (finished / "run.json").write_text(to_json(load_run(finished).changed(thread_variables=were)))
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("MKL_NUM_THREADS", "7")
    monkeypatch.delenv("OMP_PLACES", raising=False)
    assert main(["search", "--resume", str(finished)]) == 2
    told = capsys.readouterr().err
    assert "OMP_NUM_THREADS was 6 and is 7, OMP_PLACES was {0},{1} and is unset" in told
    assert "MKL_NUM_THREADS was unset and is 7" in told


def test_what_one_host_adds_to_a_shared_search_that_has_ended_is_its_own(finished: Path):
    (finished / "run.json").write_text(to_json(load_run(finished).changed(shared_at="/mnt/shared")))
    assert main(["search", "--resume", str(finished)]) == 0
    assert load_run(finished).shared_at is None


def test_an_error_names_no_secret_and_gives_no_orders(capsys: pytest.CaptureFixture[str]):
    assert main(["report", "x", "--", "python", "--password", "Zq7Rk2Wv", "\x1b[2J\u202e"]) == 2
    told = capsys.readouterr().err
    assert r"--password *** \x1b[2J\u202e" in told
    assert "Zq7" not in told
    assert main(["report", "nowhere\x1b]0;x\x07"]) == 8
    assert r"nowhere\x1b]0;x\x07" in capsys.readouterr().err
