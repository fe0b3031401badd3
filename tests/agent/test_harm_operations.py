"""Random file operations leave the user's files alone and give what they would have given."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from probing import Probe, picture, probing

FILES = ("a.txt", "b.txt", "ck/x", "ck/y", "ck/deep/z")
FOLDERS = ("ck", "ck/deep", "new", "empty", ".")
PATHS = (*FILES, "n.txt", "ck/n", "new/n", "link")

_path = st.sampled_from(PATHS)
_folder = st.sampled_from(FOLDERS)
_text = st.sampled_from(("", "one", "longer text"))
_operation = st.one_of(
    st.tuples(st.just("write"), _path, st.sampled_from(("w", "a", "r+", "x", "w+")), _text),
    st.tuples(st.just("os_write"), _path, st.sampled_from(("O_TRUNC", "O_APPEND", "O_EXCL")), _text),
    st.tuples(st.just("read"), _path),
    st.tuples(st.sampled_from(("remove", "unlink", "size", "exists")), _path),
    st.tuples(st.sampled_from(("rename", "replace", "copy")), _path, _path),
    st.tuples(st.sampled_from(("rmdir", "mkdir")), st.sampled_from(FOLDERS[:-1])),
    st.tuples(st.sampled_from(("list", "scan", "exists")), _folder),
    st.tuples(st.just("rmtree"), st.sampled_from(FOLDERS[:-1])),
    st.tuples(st.just("truncate"), _path, st.sampled_from((0, 2))),
    st.tuples(st.just("walk"), st.just(".")),
)


@pytest.fixture(scope="module")
def probe() -> Iterator[Probe]:
    with probing() as started:
        yield started


def make_tree(root: Path) -> None:
    for name in FILES:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"old {name}")
        os.utime(path, (1000, 1000))
    (root / "empty").mkdir()
    (root / "link").symlink_to("a.txt")


def only_old(pictured: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    return {name: seen for name, seen in pictured.items() if name in old}


@given(st.lists(_operation, max_size=12))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(
    [("write", "a.txt", "a", "one"), ("replace", "a.txt", "b.txt"), ("read", "b.txt"), ("remove", "a.txt")]
)
@example([("rmtree", "ck"), ("mkdir", "ck"), ("list", "ck"), ("write", "ck/x", "a", "one"), ("read", "ck/x")])
@example([("rename", "link", "b.txt"), ("write", "b.txt", "w", "one"), ("read", "a.txt"), ("list", ".")])
@example([("rename", "a.txt", "n.txt"), ("write", "n.txt", "r+", "one"), ("exists", "a.txt"), ("walk", ".")])
@example([("rename", "link", "ck/x"), ("copy", "a.txt", "ck/x"), ("read", "ck/a.txt")])
@example([("rename", "link", "a.txt"), ("os_write", "a.txt", "O_EXCL", ""), ("read", "a.txt")])
@example([("remove", "a.txt"), ("os_write", "link", "O_EXCL", ""), ("scan", ".")])
@example([("mkdir", "empty"), ("rmtree", "empty")])
def test_old_files_stay_and_the_script_sees_what_it_did(probe: Probe, operations: list[Any]) -> None:
    with TemporaryDirectory() as temporary:
        guarded, diverted, plain = (Path(temporary) / name for name in ("guarded", "diverted", "plain"))
        for root in (guarded, diverted, plain):
            make_tree(root)
            root.with_suffix(".trial").mkdir()
        old = picture(guarded), picture(diverted)
        expected = probe.run(plain, None, operations)
        seen = probe.run(guarded, guarded.with_suffix(".trial"), operations)
        assert only_old(picture(guarded), old[0]) == old[0]
        assert seen == expected
        seen = probe.run(diverted, diverted.with_suffix(".trial"), operations, divert_new=True)
        assert picture(diverted) == old[1]
        assert seen == expected


_harmful = st.one_of(
    _operation,
    st.tuples(st.just("chmod"), st.sampled_from((*PATHS, *FOLDERS)), st.sampled_from((0o600, 0o755))),
    st.tuples(st.just("utime"), st.sampled_from((*PATHS, *FOLDERS)), st.just((5, 5))),
    st.tuples(st.sampled_from(("link", "symlink", "rename")), st.sampled_from((*PATHS, *FOLDERS)), _path),
    st.tuples(
        st.sampled_from(("rename", "renames")), _folder, st.sampled_from((*FOLDERS, "other", "ck/other"))
    ),
    st.tuples(st.just("makedirs"), st.sampled_from(("ck/deep", "new/sub"))),
)


@given(st.lists(_harmful, max_size=15))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example([("remove", "a.txt"), ("symlink", "a.txt", "ck/n"), ("link", "ck/n", "a.txt")])
def test_nothing_that_a_script_tries_changes_an_old_file(probe: Probe, operations: list[Any]) -> None:
    for divert_new in (False, True):
        with TemporaryDirectory() as temporary:
            root, trial = Path(temporary) / "root", Path(temporary) / "trial"
            make_tree(root)
            trial.mkdir()
            old = picture(root)
            seen = probe.run(root, trial, operations, divert_new=divert_new)
            assert (picture(root) if divert_new else only_old(picture(root), old)) == old
            assert isinstance(seen, list), seen


def python_of(version: str) -> str | None:
    """Return an interpreter of that version that starts: one on PATH, or one that pyenv keeps."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [*kept.glob(f"{version}.*/bin/python"), shutil.which(f"python{version}")]
    for python in filter(None, found):
        if subprocess.run([python, "-c", ""], capture_output=True).returncode == 0:
            return str(python)
    return None


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.12", "3.13"])
def test_other_pythons_are_guarded_as_well(version: str, tmp_path: Path) -> None:
    python = python_of(version)
    operations = [
        ("write", "a.txt", "a", "one"),
        ("rmtree", "ck"),
        ("makedirs", "ck/deep"),
        ("replace", "b.txt", "a.txt"),
        ("walk", "."),
    ]
    roots = tmp_path / "guarded", tmp_path / "plain"
    for root in roots:
        make_tree(root)
    (tmp_path / "trial").mkdir()
    old = picture(roots[0])
    if python is None:
        pytest.skip(f"no Python {version} here")
    with probing(python) as probe:
        plain = probe.run(roots[1], None, operations)
        assert probe.run(roots[0], tmp_path / "trial", operations) == plain
    assert only_old(picture(roots[0]), old) == old
