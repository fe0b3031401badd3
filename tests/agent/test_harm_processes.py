"""A real child process under the guard: the traps between a script and the operating system."""

import builtins
import io
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from probing import picture, run_guarded


@pytest.fixture
def user(tmp_path: Path) -> Path:
    folder = tmp_path / "user"
    (folder / "ck").mkdir(parents=True)
    for name in ("a.txt", "b.txt", "ck/x", "ck/y"):
        (folder / name).write_text(f"old {name}")
        os.utime(folder / name, (1000, 1000))
    return folder


def paths_of(events: list[dict[str, Any]], action: str) -> set[str]:
    return {event["path"] for event in events if event["action"] == action}


def test_paths_come_in_every_form(user: Path, tmp_path: Path) -> None:
    old = picture(user)
    printed, _ = run_guarded(
        user,
        tmp_path / "trial",
        """
        import os, pathlib, tempfile
        with open(b"a.txt", "a") as stream: stream.write("+bytes")
        with pathlib.Path("a.txt").open("a") as stream: stream.write("+path")
        folder = os.open("ck", os.O_RDONLY)
        handle = os.open("x", os.O_WRONLY | os.O_APPEND, dir_fd=folder)
        os.write(handle, b"+folder"); os.close(handle)
        os.unlink("y", dir_fd=folder)
        handle = os.open("a.txt", os.O_RDONLY); print(os.fdopen(handle).read())
        print(open("ck/x").read(), os.listdir(folder), os.path.getsize("a.txt"))
        handle = os.open(".", os.O_TMPFILE | os.O_RDWR); os.close(handle)
        with tempfile.TemporaryDirectory(dir=".") as made: open(made + "/t", "w").close()
        with tempfile.NamedTemporaryFile("w", dir=".") as made: made.write("x")
        handle = os.open("b.txt", os.O_RDONLY)
        os.fchmod(handle, 0o600); os.utime(handle); os.chmod(handle, 0o600)
        print(sorted(os.listdir(".")), [entry.name for entry in os.scandir("ck")])
        """,
    )
    assert printed.splitlines() == [
        "old a.txt+bytes+path",
        "old ck/x+folder ['x'] 20",
        "['a.txt', 'b.txt', 'ck'] ['x']",
    ]
    assert picture(user) == old


def test_errors_are_those_of_the_operating_system(user: Path, tmp_path: Path) -> None:
    printed, events = run_guarded(
        user,
        tmp_path / "trial",
        """
        import os, shutil
        def attempt(act, *args):
            try: act(*args)
            except Exception as error: print(type(error).__name__, getattr(error, "filename", None))
        os.remove("a.txt")
        attempt(os.remove, "a.txt"); attempt(open, "a.txt"); attempt(os.stat, "a.txt")
        attempt(open, "b.txt", "x"); attempt(os.rmdir, "ck"); attempt(os.mkdir, "ck")
        attempt(os.open, "b.txt", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        attempt(os.remove, "ck"); attempt(os.rename, "nothing", "b.txt"); attempt(os.remove, 3.5)
        attempt(open, "b.txt", "q"); attempt(os.remove, "a\\0b")
        """,
    )
    assert printed.splitlines() == [
        *("FileNotFoundError a.txt",) * 3,
        "FileExistsError b.txt",
        "OSError ck",
        "FileExistsError ck",
        "FileExistsError b.txt",
        "IsADirectoryError ck",
        "FileNotFoundError nothing",
        "TypeError None",
        "ValueError None",
        "ValueError None",
    ]
    assert paths_of(events, "denied") == {str(user / "a.txt")}


def test_what_goes_past_the_replaced_functions_is_refused(user: Path, tmp_path: Path) -> None:
    old = picture(user)
    printed, events = run_guarded(
        user,
        tmp_path / "trial",
        """
        import _io, posix, sqlite3
        def attempt(act, *args):
            try: print("went through", act(*args))
            except OSError as error: print(type(error).__name__, error.filename)
        attempt(_io.open, "a.txt", "w"); attempt(posix.open, "a.txt", 1); attempt(posix.unlink, "a.txt")
        attempt(posix.rename, "a.txt", "c.txt"); attempt(posix.rmdir, "ck")
        attempt(posix.truncate, "a.txt", 1); attempt(posix.chmod, "a.txt", 0); attempt(posix.utime, "a.txt")
        attempt(posix.link, "a.txt", "c.txt"); attempt(posix.chown, "a.txt", 1, 1)
        attempt(sqlite3.Connection, "a.txt")
        posix.mkdir("new"); posix.rmdir("new"); _io.open("new", "w").close(); posix.rename("new", "newer")
        print(_io.open("a.txt").read())
        """,
    )
    assert printed.splitlines() == [
        *(f"HarmDenied {user / 'a.txt'}",) * 4,
        f"HarmDenied {user / 'ck'}",
        *(f"HarmDenied {user / 'a.txt'}",) * 6,
        "old a.txt",
    ]
    assert paths_of(events, "denied") == {str(user / "a.txt"), str(user / "ck")}
    assert {name: seen for name, seen in picture(user).items() if name in old} == old


def test_a_denial_tells_what_where_and_the_remedy(user: Path, tmp_path: Path) -> None:
    printed, _ = run_guarded(
        user,
        tmp_path / "trial",
        """
        import os
        try: os.rename("ck", "ck.bak")
        except PermissionError as error: print(error)
        """,
    )
    assert "renaming a folder" in printed
    assert str(user / "ck") in printed
    assert "write to a new name" in printed


def test_forked_children_are_guarded_and_see_what_was_diverted(user: Path, tmp_path: Path) -> None:
    old = picture(user)
    printed, _ = run_guarded(
        user,
        tmp_path / "trial",
        """
        import multiprocessing, os
        def work(_):
            os.remove("b.txt")
            with open("ck/x", "w") as stream: stream.write("worker")
            return open("a.txt").read() + open("ck/x").read()
        with open("a.txt", "a") as stream: stream.write("+main")
        with multiprocessing.get_context("fork").Pool(1) as pool: print(pool.map(work, [0]))
        """,
    )
    assert printed == "['old a.txt+mainworker']\n"
    assert picture(user) == old


def test_a_later_process_of_the_trial_sees_what_an_earlier_one_wrote(user: Path, tmp_path: Path) -> None:
    run_guarded(
        user, tmp_path / "trial", "open('a.txt', 'a').write('+first'); open('new.txt', 'w').write('new')"
    )
    printed, events = run_guarded(
        user,
        tmp_path / "trial",
        """
        open('new.txt', 'a').write('er')
        open('a.txt', 'a').write('+second')
        print(open('a.txt').read(), open('new.txt').read())
        """,
    )
    assert printed == "old a.txt+first+second newer\n"
    assert (user / "new.txt").read_text() == "newer"
    assert paths_of(events, "diverted") == {str(user / "a.txt")}


def test_what_somebody_else_changes_while_the_trial_runs_stays_theirs(user: Path, tmp_path: Path) -> None:
    printed, events = run_guarded(
        user,
        tmp_path / "trial",
        """
        import os, subprocess
        subprocess.run("touch a.txt; echo theirs > b.txt; echo new > c.txt", shell=True)
        for name in ("a.txt", "b.txt", "c.txt"):
            with open(name, "a") as stream: stream.write("+ours")
        os.replace("a.txt", "ck/x"); os.remove("c.txt")
        print(open("ck/x").read(), open("b.txt").read().split(), os.path.exists("c.txt"))
        """,
    )
    assert printed == "old a.txt+ours ['theirs', '+ours'] False\n"
    contents = [(user / name).read_text() for name in ("a.txt", "b.txt", "c.txt", "ck/x")]
    assert contents == ["old a.txt", "theirs\n", "new\n", "old ck/x"]
    assert paths_of(events, "diverted") == {str(user / name) for name in ("a.txt", "b.txt", "c.txt", "ck/x")}


def test_what_a_program_puts_into_a_folder_that_the_trial_made_is_the_trials(
    user: Path, tmp_path: Path
) -> None:
    run_guarded(
        user,
        tmp_path / "trial",
        """
        import os, subprocess
        os.makedirs("new/deep"); subprocess.run(["cp", "a.txt", "new/deep/a.txt"])
        with open("new/deep/a.txt", "a") as stream: stream.write("+ours")
        os.rename("new", "newer")
        """,
    )
    assert (user / "newer/deep/a.txt").read_text() == "old a.txt+ours"
    assert (user / "a.txt").read_text() == "old a.txt"


@pytest.mark.parametrize("divert_new", [False, True])
def test_processes_that_run_beside_each_other_see_the_same_files(
    divert_new: bool, user: Path, tmp_path: Path
) -> None:
    old = picture(user)
    printed, _ = run_guarded(
        user,
        tmp_path / "trial",
        """
        import multiprocessing, os, shutil
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
        shutil.rmtree("out"); shutil.rmtree("made"); os.remove("log")
        """,
        divert_new=divert_new,
    )
    assert printed.splitlines() == [
        """{"('log', 'new', False, ['one'])"}""",
        f"{[str(number) for number in range(8)]} old b.txt{'+' * 8}",
    ]
    assert picture(user) == old


def test_what_a_large_attached_database_would_take_is_refused(user: Path, tmp_path: Path) -> None:
    with sqlite3.connect(user / "runs.db") as runs:
        runs.execute("create table runs (name text)")
    runs.close()
    old = picture(user)
    printed, _ = run_guarded(
        user,
        tmp_path / "trial",
        """
        import sqlite3
        from _tunekit_agent.file_guard import overlay
        overlay.LARGEST_COPY_BYTES = 10
        try: sqlite3.connect(":memory:").execute("attach 'runs.db' as runs")
        except PermissionError as error: print(error)
        memory = sqlite3.connect(":memory:", uri=True)
        memory.execute("attach 'file:runs.db?mode=ro' as runs")
        print(memory.execute("select count(*) from runs.runs").fetchone())
        """,
    )
    assert "attach it by a URI with mode=ro" in printed
    assert printed.splitlines()[-1] == "(0,)"
    assert picture(user) == old


def test_a_database_is_copied_with_its_journal_and_a_large_one_is_read(user: Path, tmp_path: Path) -> None:
    writer = sqlite3.connect(user / "runs.db")
    writer.execute("pragma journal_mode = wal")
    writer.execute("create table runs (name text)")
    writer.execute("insert into runs values ('old')")
    writer.commit()
    old = picture(user)
    printed, _ = run_guarded(
        user,
        tmp_path / "trial",
        """
        import sqlite3, pathlib
        def count(): return sqlite3.connect("runs.db").execute("select count(*) from runs").fetchone()[0]
        def add(connection):
            with connection: connection.execute("insert into runs values ('new')")
            connection.close()
        print(count()); add(sqlite3.connect("runs.db")); print(count())
        add(sqlite3.connect(f"file:{pathlib.Path('runs.db').resolve()}?cache=private", uri=True))
        print(count())
        """,
    )
    assert printed == "1\n2\n3\n"
    assert picture(user) == old
    printed, _ = run_guarded(
        user,
        tmp_path / "other",
        """
        import sqlite3
        from _tunekit_agent.file_guard import overlay
        overlay.LARGEST_COPY_BYTES = 10
        connection = sqlite3.connect("runs.db")
        print(connection.execute("select name from runs").fetchall())
        try: connection.execute("insert into runs values ('new')")
        except sqlite3.OperationalError as error: print(error)
        """,
    )
    assert printed.splitlines() == ["[('old',)]", "attempt to write a readonly database"]
    writer.close()


def test_a_folder_saved_beside_and_swapped_in_takes_the_old_ones_place(user: Path, tmp_path: Path) -> None:
    old = picture(user)
    printed, _ = run_guarded(
        user,
        tmp_path / "trial",
        """
        import os, shutil
        os.makedirs("ck.tmp/deep")
        for name in ("x", "z", "deep/w"): open(f"ck.tmp/{name}", "w").write("new")
        shutil.rmtree("ck"); os.rename("ck.tmp", "ck")
        print([(top, sorted(names)) for top, _, names in os.walk("ck")], os.path.exists("ck.tmp"))
        print(open("ck/x").read(), open("ck/deep/w").read())
        """,
    )
    assert printed.splitlines() == ["[('ck', ['x', 'z']), ('ck/deep', ['w'])] False", "new new"]
    assert {name: seen for name, seen in picture(user).items() if name in old} == old


def test_replaced_functions_can_be_pickled_and_still_take_descriptors(user: Path, tmp_path: Path) -> None:
    printed, _ = run_guarded(
        user,
        tmp_path / "trial",
        """
        import os, pickle, shutil
        for function in (open, os.remove, os.stat, os.open, os.scandir):
            assert pickle.loads(pickle.dumps(function)) is function
        print(shutil.rmtree.avoids_symlink_attacks, {os.open, os.unlink, os.stat} <= os.supports_dir_fd)
        """,
    )
    assert printed == "True True\n"


def test_reads_see_rewritten_configs(user: Path, tmp_path: Path) -> None:
    (tmp_path / "rewritten.txt").write_text("rewritten")
    printed, events = run_guarded(
        user,
        tmp_path / "trial",
        """
        import pathlib
        print(open("a.txt").read(), pathlib.Path("a.txt").read_text(), open("b.txt").read())
        """,
        {str(user / "a.txt"): str(tmp_path / "rewritten.txt")},
    )
    assert printed == "rewritten rewritten old b.txt\n"
    assert events == []


def test_redirecting_alone_guards_nothing(
    user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from _tunekit_agent import file_guard

    (tmp_path / "rewritten.txt").write_text("rewritten")
    monkeypatch.setattr("builtins.open", builtins.open)  # put back when the test is over
    monkeypatch.setattr("io.open", io.open)
    file_guard.redirect({str(user / "a.txt"): str(tmp_path / "rewritten.txt")})
    assert (user / "a.txt").read_text() == "rewritten"
    assert (user / "b.txt").read_text() == "old b.txt"
    (user / "b.txt").write_text("changed")
    assert (user / "b.txt").read_text() == "changed"


def test_without_anything_to_redirect_open_is_left_alone() -> None:
    from _tunekit_agent import file_guard

    before = builtins.open, io.open
    file_guard.redirect({})
    assert (builtins.open, io.open) == before
