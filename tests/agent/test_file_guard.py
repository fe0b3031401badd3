"""A real child process under the file guard: what it redirects, what it refuses, and that files stay."""

import builtins
import io
import json
import os
import shutil
import sqlite3
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from probing import picture, run_guarded


def make_tree(folder: Path) -> Path:
    (folder / "ck/deep").mkdir(parents=True)
    for name in ("a.txt", "b.txt", "ck/x", "ck/deep/z"):
        (folder / name).write_text(f"old {name}")
        os.utime(folder / name, (1000, 1000))
    (folder / "link").symlink_to("a.txt")
    return folder


@pytest.fixture
def user(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "user")


def printed(user: Path, code: str) -> list[str]:
    """Return what code prints under the guard; whatever it does, the user's files stay and none is new."""
    old = picture(user)
    lines, _ = run_guarded(user, user.parent / "trial", code)
    assert picture(user) == old
    return lines


def test_paths_come_in_every_form(user: Path) -> None:
    code = """
    import os, pathlib, tempfile
    with open(b"a.txt", "a") as stream: stream.write("+bytes")
    with pathlib.Path("a.txt").open("a") as stream: stream.write("+path")
    with open("link", "a") as stream: stream.write("+link")
    folder = os.open("ck", os.O_RDONLY)
    handle = os.open("x", os.O_WRONLY | os.O_APPEND, dir_fd=folder)
    os.write(handle, b"+folder"); os.close(handle)
    os.unlink("deep/z", dir_fd=folder)
    handle = os.open("a.txt", os.O_RDONLY); print(os.fdopen(handle).read())
    print(open("ck/x").read(), sorted(os.listdir(folder)), os.listdir("ck/deep"), os.path.getsize("a.txt"))
    with tempfile.TemporaryFile(dir=".") as made: made.write(b"x")
    with tempfile.TemporaryDirectory(dir=".") as made: open(made + "/t", "w").close()
    with tempfile.NamedTemporaryFile("w", dir=".") as made: made.write("x")
    print(sorted(os.listdir(".")), sorted(entry.path for entry in os.scandir("ck")), os.listdir(b"ck/deep"))
    """
    assert printed(user, code) == [
        "old a.txt+bytes+path+link",
        "old ck/x+folder ['deep', 'x'] [] 25",
        "['a.txt', 'b.txt', 'ck', 'link'] ['ck/deep', 'ck/x'] []",
    ]


def test_checkpoints_are_replaced_rotated_and_moved(user: Path) -> None:
    code = """
    import os, shutil
    open("ck/part", "w").write("new x"); os.replace("ck/part", "ck/x")
    os.remove("a.txt"); os.rename("b.txt", "c.txt"); shutil.copy2("c.txt", "d.txt")
    print(sorted(os.listdir(".")), open("ck/x").read(), open("c.txt").read(), os.path.exists("a.txt"))
    open("a.txt", "x").write("new a"); print(open("link").read())
    os.makedirs("out.tmp/run"); open("out.tmp/run/y", "w").write("y"); os.rename("out.tmp", "out")
    os.chdir("out/run"); print(os.path.basename(os.getcwd()), open("../../c.txt").read(), os.listdir("."))
    os.chdir("../.."); os.symlink("out/run", "latest"); open("latest/y", "a").write("+")
    print(open("out/run/y").read(), sorted(os.walk("out")))
    shutil.rmtree("out"); print(os.path.exists("out"))
    """
    assert printed(user, code) == [
        "['c.txt', 'ck', 'd.txt', 'link'] new x old b.txt False",
        "new a",
        "run old b.txt ['y']",
        "y+ [('out', ['run'], []), ('out/run', [], ['y'])]",
        "False",
    ]


def test_errors_are_those_of_the_operating_system(user: Path) -> None:
    code = """
    import os
    def attempt(act, *args):
        try: act(*args)
        except Exception as error: print(type(error).__name__)
    os.remove("a.txt")
    for act in (os.remove, open, os.stat): attempt(act, "a.txt")
    attempt(open, "b.txt", "x"); attempt(os.mkdir, "ck"); attempt(os.rename, "nothing", "b.txt")
    attempt(os.open, "b.txt", os.O_WRONLY | os.O_CREAT | os.O_EXCL); attempt(open, "none/x", "w")
    attempt(open, "none", "r+"); attempt(open, "ck", "w"); attempt(open, "b.txt", "q")
    attempt(os.remove, "a\\0b")
    """
    assert printed(user, code) == [
        *("FileNotFoundError",) * 3,
        *("FileExistsError", "FileExistsError", "FileNotFoundError"),
        *("FileExistsError", "FileNotFoundError"),
        *("FileNotFoundError", "IsADirectoryError", "ValueError", "ValueError"),
    ]


def test_what_goes_past_the_replaced_functions_or_changes_a_folder_is_refused(user: Path) -> None:
    old = picture(user)
    lines, events = run_guarded(
        user,
        user.parent / "trial",
        """
        import _io, os, posix, sqlite3, shutil
        def attempt(act, *args):
            try: print("went through", act(*args))
            except PermissionError as error: print(error.filename)
        attempt(_io.open, "a.txt", "w"); attempt(_io.FileIO, "new", "w"); attempt(posix.open, "a.txt", 1)
        attempt(posix.unlink, "a.txt"); attempt(posix.rename, "a.txt", "c.txt"); attempt(posix.rmdir, "ck")
        attempt(posix.truncate, "a.txt", 1); attempt(posix.chmod, "a.txt", 0); attempt(posix.utime, "a.txt")
        attempt(posix.link, "a.txt", "c.txt"); attempt(posix.chown, "a.txt", 1, 1)
        attempt(posix.mkdir, "new")
        attempt(sqlite3.Connection, "a.txt"); attempt(os.rename, "ck", "ck2"); attempt(os.rmdir, "ck/deep")
        attempt(os.link, "a.txt", "c.txt"); attempt(os.fchmod, os.open("a.txt", os.O_RDONLY), 0)
        attempt(shutil.rmtree, "ck")
        """,
    )
    a_file = str(user / "a.txt")
    assert lines == [
        *(a_file, str(user / "new"), *(a_file,) * 3, str(user / "ck"), *(a_file,) * 5, str(user / "new")),
        *(a_file, str(user / "ck"), str(user / "ck/deep"), a_file, a_file, str(user / "ck/deep")),
    ]
    assert {event["path"] for event in events} >= {a_file, str(user / "ck"), str(user / "new")}
    assert picture(user) == old


def test_a_file_too_large_to_copy_is_refused(user: Path) -> None:
    code = """
    from _tunekit_agent.file_guard import mirror
    mirror.LARGEST_COPY_BYTES = 3
    try: open("a.txt", "r+")
    except PermissionError as error: print("open it for reading only" in str(error))
    open("b.txt", "w").write("ab"); print(open("b.txt").read())
    """
    assert printed(user, code) == ["True", "ab"]


def test_all_processes_of_a_trial_see_the_same_files(user: Path) -> None:
    code = """
    import multiprocessing, os
    def work(number):
        os.makedirs("out/shared", exist_ok=True)
        with open(f"out/shared/{number}", "w") as stream: stream.write(str(number))
        with open("b.txt", "a") as stream: stream.write("+")
        return open("log").read(), open("a.txt").read(), os.path.exists("ck/x"), os.listdir("made")
    with multiprocessing.get_context("fork").Pool(4) as pool:
        pool.map(abs, range(8))  # all of them have started
        with open("log", "w") as stream: stream.write("log")
        with open("a.txt", "w") as stream: stream.write("new")
        os.mkdir("made"); open("made/one", "w").close(); os.remove("ck/x")
        print(set(map(repr, pool.map(work, range(8), 1))))
    print(sorted(os.listdir("out/shared")), open("b.txt").read())
    """
    numbers = [str(number) for number in range(8)]
    assert printed(user, code) == ["""{"('log', 'new', False, ['one'])"}""", f"{numbers} old b.txt{'+' * 8}"]
    assert printed(user, "print(open('log').read(), open('b.txt').read())") == [f"log old b.txt{'+' * 8}"]


def test_what_other_programs_write_is_not_the_trials(user: Path) -> None:
    code = """
    import subprocess
    subprocess.run("echo theirs > b.txt; echo new > c.txt", shell=True)
    for name in ("b.txt", "c.txt"): open(name, "a").write("+ours")
    print(open("b.txt").read().split(), open("c.txt").read().split())
    """
    lines, _ = run_guarded(user, user.parent / "trial", code)
    assert lines == ["['theirs', '+ours'] ['new', '+ours']"]
    assert [(user / name).read_text() for name in ("b.txt", "c.txt")] == ["theirs\n", "new\n"]


def test_a_link_in_the_trials_folder_frees_nothing_outside(user: Path) -> None:
    (user.parent / "trial").mkdir()
    (user.parent / "trial/out").symlink_to(user)
    assert printed(user, "open('../trial/out/a.txt', 'w').write('new'); print(open('a.txt').read())") == [
        "new"
    ]


def test_a_database_is_copied_with_its_journal_and_attaches_nothing(user: Path) -> None:
    writer = sqlite3.connect(user / "runs.db")
    writer.execute("pragma journal_mode = wal")
    writer.execute("create table runs (name text)")
    writer.execute("insert into runs values ('old')")
    writer.commit()
    code = """
    import sqlite3, pathlib
    def count(): return sqlite3.connect("runs.db").execute("select count(*) from runs").fetchone()[0]
    def add(connection):
        with connection: connection.execute("insert into runs values ('new')")
        connection.close()
    print(count()); add(sqlite3.connect("runs.db"))
    add(sqlite3.connect(f"file:{pathlib.Path('runs.db').resolve()}?cache=private", uri=True))
    add(sqlite3.connect("runs.db", factory=sqlite3.Connection)); print(count())
    connection = sqlite3.connect("runs.db", uri=True); connection.execute("vacuum")
    for statement in ("attach 'other.db' as o", "attach 'oth' || 'er.db' as o", "vacuum into 'other.db'"):
        try: connection.execute(statement)
        except sqlite3.DatabaseError: print("refused")
    connection.execute("attach ':memory:' as m"); connection.execute("create table m.t (x)")
    """
    assert printed(user, code) == ["1", "4", "refused", "refused", "refused"]
    code = """
    import sqlite3
    from _tunekit_agent.file_guard import mirror
    mirror.LARGEST_COPY_BYTES = 10
    connection = sqlite3.connect("runs.db")
    print(connection.execute("select name from runs").fetchall())
    try: connection.execute("insert into runs values ('new')")
    except sqlite3.OperationalError as error: print(error)
    """
    lines, _ = run_guarded(user, user.parent / "other", code)
    assert lines == ["[('old',)]", "attempt to write a readonly database"]
    writer.close()


def test_modules_that_the_script_wrote_can_be_imported(user: Path) -> None:
    code = """
    import os, sys, importlib
    os.mkdir("made"); open("made/written.py", "w").write("VALUE = 7")
    sys.path.insert(0, os.path.abspath("made")); importlib.invalidate_caches()
    print(importlib.import_module("written").VALUE)
    """
    assert printed(user, code) == ["7"]


def test_replaced_functions_can_be_pickled_and_still_take_descriptors(user: Path) -> None:
    code = """
    import os, pickle, shutil
    for function in (open, os.remove, os.stat, os.open, os.scandir):
        assert pickle.loads(pickle.dumps(function)) is function
    print(shutil.rmtree.avoids_symlink_attacks, {os.open, os.unlink, os.stat} <= os.supports_dir_fd)
    """
    assert printed(user, code) == ["True True"]


def test_asking_for_a_module_keeps_what_waits_for_its_import(user: Path) -> None:
    code = """
    import importlib.util
    from _tunekit_agent import imports
    imports.when_imported("wave", lambda module: print("imported", module.__name__))
    print(importlib.util.find_spec("wave").name); import wave
    """
    assert printed(user, code) == ["wave", "imported wave"]


_PATHS = st.sampled_from(
    ("a.txt", "b.txt", "ck/x", "ck/deep/z", "n.txt", "ck/n", "new/n", "link", "ck", "new")
)
_OPERATIONS = st.one_of(
    st.tuples(st.just("write"), _PATHS, st.sampled_from(("w", "a", "r+", "x", "w+"))),
    st.tuples(st.just("os_write"), _PATHS, st.sampled_from(("O_TRUNC", "O_APPEND", "O_EXCL", "O_CREAT"))),
    st.tuples(st.sampled_from(("remove", "rmdir", "mkdir", "makedirs", "rmtree", "listdir", "stat")), _PATHS),
    st.tuples(st.sampled_from(("rename", "replace", "link", "symlink", "copy", "move")), _PATHS, _PATHS),
    st.tuples(st.sampled_from(("chmod", "truncate")), _PATHS, st.sampled_from((0o600, 0o755))),
    st.tuples(st.just("utime"), _PATHS),
)
_ATTEMPT = """
import json, os, shutil
def write(path, mode): open(path, mode).write("new")
def os_write(path, flag): os.write(os.open(path, os.O_WRONLY | getattr(os, flag), 0o644), b"new")
own = {"write": write, "os_write": os_write, "rmtree": shutil.rmtree}
own |= {"copy": shutil.copy2, "move": shutil.move}
for name, *args in json.loads(%r):
    try: own.get(name, getattr(os, name, None))(*args)
    except (OSError, shutil.Error): pass
for folder, folders, names in os.walk("."):
    for name in names:
        path = os.path.join(folder, name)
        if os.path.exists(path): os.stat(path), open(path).read()
"""


@given(st.lists(_OPERATIONS, max_size=15))
@example(
    [("remove", "a.txt"), ("symlink", "a.txt", "ck/n"), ("link", "ck/n", "a.txt"), ("write", "ck/n", "w")]
)
@example([("remove", "a.txt"), ("mkdir", "a.txt"), ("rmdir", "a.txt"), ("write", "link", "a")])
@example([("rename", "link", "b.txt"), ("write", "b.txt", "w"), ("replace", "b.txt", "ck/x")])
def test_whatever_a_script_tries_the_users_files_stay_and_it_reads_what_it_lists(
    operations: list[Any],
) -> None:
    with TemporaryDirectory() as temporary:
        assert printed(make_tree(Path(temporary) / "user"), _ATTEMPT % json.dumps(operations)) == []


def python_of(version: str) -> str | None:
    """Return an interpreter of that version that starts: one on PATH, or one that pyenv keeps."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [*kept.glob(f"{version}.*/bin/python"), shutil.which(f"python{version}")]
    for python in filter(None, found):
        if subprocess.run([python, "-c", ""], capture_output=True).returncode == 0:
            return str(python)
    return None


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.12", "3.13"])
def test_other_pythons_are_guarded_as_well(version: str, user: Path) -> None:
    python = python_of(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    old = picture(user)
    code = """
    import os, pathlib, tempfile, shutil
    with open("a.txt", "a") as stream: stream.write("+one")
    pathlib.Path("ck/n").write_text("n"); os.makedirs("out/deep"); os.replace("b.txt", "out/deep/b")
    pathlib.Path("ck/x").unlink(); pathlib.Path("a.txt").touch(); shutil.copytree("ck", "ck2")
    with tempfile.NamedTemporaryFile("w", dir=".") as made: made.write("x")
    with os.scandir("ck") as entries: print(sorted((entry.name, entry.is_dir()) for entry in entries))
    print(sorted(os.walk("out")), sorted(map(str, pathlib.Path("ck2").rglob("*"))), open("link").read())
    """
    lines, _ = run_guarded(user, user.parent / "trial", code, python)
    assert lines == [
        "[('deep', True), ('n', False)]",
        "[('out', ['deep'], []), ('out/deep', [], ['b'])] ['ck2/deep', 'ck2/deep/z', 'ck2/n'] old a.txt+one",
    ]
    assert picture(user) == old


def test_redirecting_alone_guards_nothing(
    user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from _tunekit_agent import file_guard

    (tmp_path / "rewritten.txt").write_text("rewritten")
    monkeypatch.setattr("builtins.open", builtins.open)  # put back when the test is over
    monkeypatch.setattr("io.open", io.open)
    file_guard.redirect({str(user / "a.txt"): str(tmp_path / "rewritten.txt")})
    assert (user / "a.txt").read_text() == (user / "link").read_text() == "rewritten"
    assert (user / "b.txt").read_text() == "old b.txt"
    (user / "b.txt").write_text("changed")
    assert (user / "b.txt").read_text() == "changed"
