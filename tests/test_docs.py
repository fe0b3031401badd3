"""README and docs: tunekit takes every command, those that need no training run, no link is dead."""

import ast
import contextlib
import importlib.util
import io
import os
import re
import shlex
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import zarr
from build_comparisons import measured_again
from build_fits import fit, fits_run
from build_records import interval
from recorded_catalog import recorded_catalog

from tunekit.cli.main import main
from tunekit.cli.parser import build_parser
from tunekit.cli.settings import load_settings
from tunekit.cli.trials import fixed_knob
from tunekit.cli.verbs import VERBS
from tunekit.machine.profiles import load_profiles
from tunekit.records.codec import to_json
from tunekit.session.folder import load_run
from tunekit.trial.binding_syntax import parse_binding

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
CODES = DOCS / "codes.md"
"""Tables of all codes, which tests/cli/test_explain_verb.py makes of texts that are no Markdown."""
PAGES = (ROOT / "README.md", *sorted(set(DOCS.glob("*.md")) - {CODES}))
REPORTS = ROOT / "reports"

README_LINES = 130
PAGE_LINES = 150
LARGEST_PICTURE_BYTES = 300_000

FIRST, AGAIN = "first", "again"
STAND_INS = {
    "reports/train-2026-01-31": FIRST,
    "reports/before": FIRST,
    "reports/after": AGAIN,
    "perf/reference": FIRST,
    "run": AGAIN,
    "runs/4711": FIRST,
    "BEFORE": FIRST,
    "AFTER": AGAIN,
    "RUN": FIRST,
    "FOLDER": FIRST,
}
"""Folders of the docs that the reader's own searches have written, and the run in the place of each."""
READER_PATHS = {
    "NAME": "t4",
    "CODE": "data-bound",
    "/data/imagenet": "data",
    "/content/drive/MyDrive/data": "data",
    "FILE": "file.html",
}
"""Other words of the docs that stand for something of the reader's."""
RUNS = {"report", "export", "plan", "gpus", "compare", "doctor", "schema", "explain"}
"""Verbs that train nothing and fetch nothing."""
DOCTOR_CODES = {0, 11, 12}
"""What the machine that runs the tests may look like."""
FLAGS_OF_OTHERS = {"--exclusive", "--time", "--batching"}
"""Of sbatch, and of a workload's script."""
NEEDS_A_GPU = "--calibrate"


VERBS_BY_NAME = {f"tunekit {verb}" for verb in VERBS}
"""How a sentence names a verb; as a command it stands in a code block."""


class Command(NamedTuple):
    """A command of tunekit in a page."""

    page: str
    text: str

    @property
    def words(self) -> list[str]:
        """tunekit's own words, without the training command."""
        words = shlex.split(re.split(r" [|>] ", self.text)[0], comments=True)
        return words[1 : words.index("--")] if "--" in words else words[1:]

    @property
    def has_target(self) -> bool:
        return " -- " in self.text


def fences(text: str) -> Iterator[tuple[str, str]]:
    """Yield the language and text of each code block, also of those within a list."""
    for indent, language, body in re.findall(r"^( *)```(\w+)\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL):
        yield language, re.sub(rf"^{indent}", "", body, flags=re.MULTILINE)


def code_lines(text: str) -> Iterator[str]:
    """Yield every command of a page: of its code blocks and of the code in its sentences."""
    for language, body in fences(text):
        if language in ("bash", "yaml"):
            for line in body.replace("\\\n", " ").splitlines():
                yield from line.strip().removeprefix("- run: ").split(" && ")
    sentences = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    yield from (one for one in re.findall(r"`([^`\n]+)`", sentences) if one not in VERBS_BY_NAME)


def texts() -> Iterator[Command]:
    for page in PAGES:
        yield from (Command(page.name, line) for line in code_lines(page.read_text()))


COMMANDS = [one for one in texts() if re.match(rf"(\.venv/bin/)?tunekit ({'|'.join(VERBS)})\b", one.text)]
MODULES = [one for one in texts() if re.match(r"(\.venv/bin/)?python3? -m ", one.text)]
BY_TEXT = {one.text: one for one in COMMANDS}
RUNNABLE = [one for one in BY_TEXT.values() if one.words[0] in RUNS and NEEDS_A_GPU not in one.words]
SNIPPETS = [
    (page.name, body) for page in PAGES for language, body in fences(page.read_text()) if language == "python"
]


def shown(one: Command) -> str:
    return f"{one.page}: {one.text}"


def flags_of(verb: str) -> set[str]:
    help_text = io.StringIO()
    with contextlib.redirect_stdout(help_text), contextlib.suppress(SystemExit):
        main([verb, "--help"])
    return set(re.findall(r"--[a-z-]+", help_text.getvalue()))


def exit_code(words: list[str]) -> int | str | None:
    """Return how tunekit ends; flags such as --codes and --help end it while they are read."""
    try:
        return main(words)
    except SystemExit as ended:
        return ended.code


@pytest.fixture(scope="module")
def saved_runs() -> dict[str, str]:
    """The example run, and one of the same script on the same machine that is as fast."""
    run = load_run(REPORTS / "example-images")
    assert run.baseline is not None
    again = measured_again(run, own_rates=(189, 187, 191), rates=(355, 352, 358))
    return {FIRST: to_json(run), AGAIN: to_json(again.changed(trials=(run.baseline, *again.trials)))}


@pytest.fixture
def reader(saved_runs: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A reader's project: the training script, the data set and the runs that the docs speak of."""
    for folder, example in STAND_INS.items():
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "run.json").write_text(saved_runs[example])
        (tmp_path / folder / "balanced.yaml").write_text(
            (REPORTS / "example-images/balanced.yaml").read_text()
        )
    (tmp_path / "reports" / "fits").mkdir()
    fitted = fits_run((fit("a10g", 22.1, (219, 250, 294), compute=interval(400.0, 0.3)),))
    (tmp_path / "reports" / "fits" / "fits.json").write_text(to_json(fitted))
    (tmp_path / "train.py").write_text("import torch\n")
    milestones = next(body for language, body in fences((DOCS / "plan.md").read_text()) if language == "yaml")
    (tmp_path / "milestones.yaml").write_text(milestones)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "samples.bin").write_bytes(os.urandom(1 << 20))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("tunekit.cli.gpus.fetch_catalog", recorded_catalog)
    return tmp_path


def test_readme_and_each_page_are_short() -> None:
    lines = {page.name: len(page.read_text().splitlines()) for page in PAGES[1:]}
    assert len(PAGES[0].read_text().splitlines()) <= README_LINES
    assert {name: count for name, count in lines.items() if count > PAGE_LINES} == {}


def test_the_pages_hold_commands_of_every_verb() -> None:
    assert {one.words[0] for one in COMMANDS} == set(VERBS)


@pytest.mark.parametrize("command", COMMANDS, ids=shown)
def test_every_command_is_one_that_its_verb_takes(command: Command) -> None:
    try:
        options = build_parser().parse_args(command.words)
    except SystemExit as ended:  # --codes, which needs no more
        assert ended.code == 0
        return
    for binding in getattr(options, "bind", []):
        parse_binding(binding)
    for text in set(getattr(options, "fix", [])) - {"KNOB=VALUE"}:
        fixed_knob(text)
    gpu = getattr(options, "gpu", None)
    assert gpu in (None, "auto", "cpu") or gpu in load_profiles()


def test_every_binding_of_the_table_is_understood() -> None:
    page = (DOCS / "bindings-and-knobs.md").read_text()
    rows = re.findall(r"^\| (`.*=.*`) \|", page.partition("| `--bind` |")[2], re.MULTILINE)
    written = [one.strip("'").replace(r"\|", "|") for row in rows for one in re.findall(r"`([^`]+)`", row)]
    assert len([parse_binding(one) for one in written]) >= len(rows) > 0


def test_the_settings_file_is_one_that_tunekit_reads(tmp_path: Path) -> None:
    page = (DOCS / "bindings-and-knobs.md").read_text()
    (written,) = [body for language, body in fences(page) if language == "toml"]
    (tmp_path / "pyproject.toml").write_text(written)
    settings = load_settings(tmp_path, ("python", "jobs/train.py"))
    assert settings["bind"] == ["lr=--lr {}", "batch_size=--bs {}"]


@pytest.mark.parametrize("command", MODULES, ids=shown)
def test_every_module_that_is_run_exists(command: Command) -> None:
    words = shlex.split(command.text)
    assert importlib.util.find_spec(words[words.index("-m") + 1])


def test_every_flag_that_a_sentence_names_is_one_of_some_verb() -> None:
    known = {flag for verb in VERBS for flag in flags_of(verb)} | FLAGS_OF_OTHERS
    named = {flag for one in texts() for flag in re.findall(r"^--[a-z-]+", one.text)}
    assert named - known == set()


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("command", RUNNABLE, ids=shown)
def test_what_needs_no_training_runs(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    words = [READER_PATHS.get(word, word) for word in command.words]
    target = ["--", sys.executable, "train.py"] if command.has_target else []
    code = exit_code([*words, *target])
    output, errors = capsys.readouterr()
    assert code in (DOCTOR_CODES if words[0] == "doctor" else {0}), errors
    assert output.strip() or "--html" in words


@pytest.mark.parametrize(("page", "snippet"), SNIPPETS)
def test_every_snippet_shows_or_reads_what_the_run_folder_holds(
    page: str, snippet: str, reader: Path
) -> None:
    series = {"t_s": [0.0, 0.5], "cpu_s": [0.0, 0.9]}
    store = zarr.open_group(reader / "reports/train-2026-01-31/telemetry.zarr", mode="w")
    host = store.create_array("0003/host", data=np.array(list(series.values())).T)
    host.attrs["columns"] = list(series)
    names: dict[str, Any] = {}
    shown = [value for value in values_of(snippet, page, names) if value is not None]
    assert all(value._repr_html_() for value in shown)  # as a notebook shows it
    assert len(shown) == sum(isinstance(one, ast.Expr) for one in ast.parse(snippet).body)
    assert shown or {name: list(names[name]) for name in series} == series


def values_of(snippet: str, page: str, names: dict[str, Any]) -> Iterator[object]:
    """Run a snippet, filling the names that it binds, and yield what each bare expression in it gives."""
    for statement in ast.parse(snippet).body:
        if isinstance(statement, ast.Expr):
            yield eval(compile(ast.Expression(statement.value), page, "eval"), names)
        else:
            exec(compile(ast.Module([statement], []), page, "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    for link in (one for one in links if not one.startswith("https://")):
        name, _, anchor = link.partition("#")
        to = (page.parent / name).resolve() if name else page
        assert to.exists(), link
        assert not anchor or anchor in anchors(to), link


def anchors(page: Path) -> set[str]:
    """Return what headings of a page are called in a link, as GitHub has it."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_of_the_checkout_that_is_named_is_there(page: Path) -> None:
    named = re.findall(r"`((?:benchmarks|docs|profiles|tests)/[\w./-]+)`", page.read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "README.md").read_text()
    assert [page.name for page in DOCS.glob("*.md") if f"]({page.name})" not in index] == ["README.md"]


def test_pictures_are_small_and_fetch_nothing() -> None:
    pictures = sorted((DOCS / "images").iterdir())
    assert [one.name for one in pictures] == ["answer.svg", "report.png"]
    assert all(one.stat().st_size < LARGEST_PICTURE_BYTES for one in pictures)
    assert "url(http" not in pictures[0].read_text()
    assert "@font-face" not in pictures[0].read_text()


def test_the_picture_of_the_terminal_shows_what_the_terminal_shows() -> None:
    spec = importlib.util.spec_from_file_location("pictures", DOCS / "pictures.py")
    assert spec is not None and spec.loader is not None
    pictures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pictures)
    assert letters(pictures.ANSWER.read_text()) == letters(pictures.answer_svg())


def letters(svg: str) -> str:
    return unescape("".join(re.findall(r"<text[^>]*>([^<]*)</text>", svg)))
