"""`tunekit.search` and `tunekit.profile`: the verbs from Python, their errors, interrupts and progress."""

import ast
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import psutil
import pytest
from nbclient import NotebookClient

import tunekit
from tunekit.cli.parser import build_parser
from tunekit.errors import RunFolderError, TargetError, TunekitError, UnknownGpuError, UsageError
from tunekit.records.run import FixedKnob, KnobRange, LoopProfile, Run, RunStatus

DOCS = Path(__file__).resolve().parents[1] / "docs"
NOTEBOOK = DOCS / "notebook.ipynb"
SCRIPT = next(
    "".join(cell["source"]).partition("\n")[2]
    for cell in json.loads(NOTEBOOK.read_text())["cells"]
    if "%%writefile" in "".join(cell["source"])
)
"""The training script of the notebook."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "options", "kind", "message"),
    [
        ("python train.py", {"budgt": "20s"}, UsageError, "no option --budgt; did you mean --budget?"),
        ("python train.py", {"fix": {"batchsize": 8}}, UsageError, "--fix batchsize=8: no knob"),
        (
            "python train.py",
            {"range": {"batch_size": (9, 8)}},
            UsageError,
            "--range batch_size=9..8: write it",
        ),
        (["python", "train.py"], {"gpu": "a100x"}, UnknownGpuError, "no GPU profile is named 'a100x'"),
        ("python tran.py", {}, TargetError, "did you mean train.py?"),
        ((), {"resume": "nowhere"}, RunFolderError, "no run in nowhere"),
    ],
)
def test_an_error_is_that_of_the_command_line(
    command: str | list[str],
    options: dict[str, object],
    kind: type[TunekitError],
    message: str,
    project: Path,
):
    with pytest.raises(kind) as raised:
        tunekit.search(command, **options)
    assert type(raised.value) is kind
    assert message in str(raised.value)
    assert not (project / "reports").exists()


def test_a_folder_that_holds_a_run_is_not_written_over(project: Path):
    (project / "old").mkdir()
    (project / "old" / "run.json").touch()
    with pytest.raises(UsageError, match="old already holds a run; use --resume old"):
        tunekit.search("python train.py", out="old")


# --- interrupted -----------------------------------------------------------------------------

_SEARCH = (
    "import sys, tunekit\n"
    "tunekit.search([sys.executable, 'train.py'], budget='5m', window=0.5, out='found', skip_data_check=True)"
)


@pytest.fixture
def searching(project: Path) -> Iterator[subprocess.Popen[str]]:
    """A Python that searches, after its baseline."""
    command = [sys.executable, "-c", _SEARCH]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as caller:
        assert caller.stdout is not None
        assert any("baseline" in line for line in caller.stdout)
        yield caller
        caller.kill()


@pytest.mark.real
def test_an_interrupt_keeps_the_finished_trials_and_says_how_to_go_on(
    searching: subprocess.Popen[str], project: Path
):
    os.kill(searching.pid, signal.SIGINT)
    shown, errors = searching.communicate(timeout=60)
    assert errors.splitlines()[-1] == (
        "KeyboardInterrupt: finished trials are kept; continue with tunekit.search(resume='found')"
    )
    assert "interrupted; 1 finished trial in found" in shown
    saved = tunekit.load("found")
    assert saved.record.status is RunStatus.INTERRUPTED
    assert saved.record.trials[0].measurement is not None


@pytest.mark.real
def test_a_search_ends_with_the_python_that_started_it(searching: subprocess.Popen[str]):
    below = psutil.Process(searching.pid).children(recursive=True)
    assert below
    searching.kill()
    assert psutil.wait_procs(below, timeout=60)[1] == []


# --- the docs --------------------------------------------------------------------------------


@pytest.mark.real
def test_the_notebook_of_the_docs_runs_in_a_real_kernel(project: Path):
    text = NOTEBOOK.read_text().replace('budget=\\"4m\\"', 'budget=\\"30s\\"')
    notebook = nbformat.reads(text, as_version=4)
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": "."}}
    ).execute()
    searched, drawn, table, outcome, profiled = [
        cell.outputs for cell in notebook.cells if cell.cell_type == "code"
    ][1:]
    progress, report = searched
    assert progress.output_type == "display_data"
    lines = progress.data["text/plain"].splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["host", "target", "device"]
    assert any(" baseline: batch 16" in line for line in lines)
    assert "\x1b" not in progress.data["text/plain"]
    assert report.data["text/plain"].endswith("--full")
    assert report.data["text/html"].startswith("<div>")
    assert "application/vnd.plotly.v1+json" in drawn[0].data
    assert "samples_per_s" in table[0].data["text/html"]
    (folder,) = project.glob("reports/train-2*")
    assert folder.name in outcome[0].data["text/plain"]
    assert "Step time" in profiled[-1].data["text/html"]

    found, loop = (
        tunekit.load(folder).record,
        tunekit.load(next(project.glob("reports/train-profile-*"))).record,
    )
    assert (type(found), type(loop)) == (Run, LoopProfile)
    assert found.status is loop.status is RunStatus.FINISHED
    assert found.options.fixed == (FixedKnob(knob="precision", value="fp32"),)
    assert found.options.ranges == (KnobRange(knob="batch_size", low=16, high=256),)
    assert (found.options.budget_s, loop.options.window_s) == (30.0, 1.0)


def test_every_option_in_the_docs_is_one_of_the_verb():
    cells = [
        "".join(cell["source"])
        for cell in json.loads(NOTEBOOK.read_text())["cells"]
        if cell["cell_type"] == "code"
    ]
    fenced = (DOCS / "python.md").read_text().split("```py\n")[1:]
    sources = [*cells, *(one.partition("```")[0].replace("\n  ", "\n") for one in fenced)]
    calls = [
        (node.func.attr, keyword.arg)
        for source in sources
        if not source.startswith("%%")
        for node in ast.walk(ast.parse(source.strip()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        for keyword in node.keywords
    ]
    for verb, option in [one for one in calls if one[0] in ("search", "profile")]:
        flags = next(iter(build_parser()._subparsers._group_actions)).choices[verb]._option_string_actions
        assert f"--{option.replace('_', '-')}" in flags
    assert len(calls) > 8
