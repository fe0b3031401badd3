"""Ways of the rest of Python's standard library."""

import dbm
import dbm.dumb
import logging
import logging.handlers
import py_compile
import readline
import shutil
import sqlite3
from pathlib import Path

from catalogue import NEW, OLD, Place, check, gone, over_and_new, see, way

SHUTIL, FORMATS, SQLITE = "shutil", "formats", "sqlite"


# --- shutil ----------------------------------------------------------------------------------


@way(SHUTIL, plant=lambda at: at.have(at.folder / "source" / "one.txt", NEW))
def shutil_copytree(at: Place) -> None:
    shutil.copytree(at.folder / "source", at.tree, dirs_exist_ok=True)
    shutil.copytree(at.folder / "source", at.new)
    see(at.tree / "one.txt")
    see(at.new / "one.txt")


@way(SHUTIL)
def shutil_rmtree(at: Place) -> None:
    shutil.rmtree(at.tree)
    gone(at.tree)


# --- formats ---------------------------------------------------------------------------------


def _plant_dbm(at: Place) -> None:
    with dbm.open(str(at.folder / "usual"), "n") as kept:
        kept["epoch"] = "0"


@way(FORMATS, plant=_plant_dbm)
def dbm_open(at: Place) -> None:
    for name in ("usual", "other"):
        with dbm.open(str(at.folder / name), "c") as kept:
            kept["epoch"] = "1"
        with dbm.open(str(at.folder / name), "r") as kept:
            check(kept["epoch"] == b"1", repr(kept["epoch"]))


def _emit(handler: logging.Handler) -> None:
    handler.emit(logging.makeLogRecord({"msg": "loss 0.1, long enough to rotate"}))
    handler.close()


@way(FORMATS, plant=lambda at: at.have(at.folder / "old.txt.1"))
def logging_rotating(at: Place) -> None:
    _emit(logging.handlers.RotatingFileHandler(at.old, maxBytes=20, backupCount=1))
    see(at.folder / "old.txt.1", OLD)
    see(at.old, b"loss 0.1, long enough to rotate\n")


@over_and_new(FORMATS)
def readline_history(path: Path) -> None:
    readline.add_history("python train.py")
    readline.write_history_file(path)


@way(FORMATS, plant=lambda at: at.have(at.folder / "module.py", b"VALUE = 1\n"))
def py_compile_module(at: Place) -> None:
    check(Path(py_compile.compile(str(at.folder / "module.py"), doraise=True)).exists(), "no bytecode")


# --- sqlite ----------------------------------------------------------------------------------


def _plant_database(at: Place) -> None:
    base = sqlite3.connect(at.folder / "old.db")
    with base:
        base.execute("create table runs (name text)")
        base.execute("insert into runs values ('an old one')")
    base.close()


def _rows(path: Path) -> int:
    base = sqlite3.connect(path)
    (count,) = base.execute("select count(*) from runs").fetchone()
    base.close()
    return int(count)


def _insert(path: Path, before: str = "select 1") -> None:
    base = sqlite3.connect(path)
    base.execute(before)
    with base:
        base.execute("create table if not exists runs (name text)")
        base.execute("insert into runs values ('this one')")
    base.close()


@way(SQLITE, plant=_plant_database)
def sqlite_insert(at: Place) -> None:
    _insert(at.folder / "old.db")
    check(_rows(at.folder / "old.db") == 2, "no new row")


@way(SQLITE, plant=_plant_database)
def sqlite_wal(at: Place) -> None:
    _insert(at.folder / "old.db", "pragma journal_mode=wal")
    check(_rows(at.folder / "old.db") == 2, "no new row")


@way(SQLITE, plant=_plant_database)
def sqlite_attach(at: Place) -> None:
    base = sqlite3.connect(":memory:")
    base.execute("attach ? as other", (str(at.folder / "old.db"),))
    with base:
        base.execute("insert into other.runs values ('this one')")
    base.close()
    check(_rows(at.folder / "old.db") == 2, "no new row")


@way(SQLITE, plant=_plant_database)
def sqlite_vacuum_into(at: Place) -> None:
    base = sqlite3.connect(at.folder / "old.db")
    base.execute("vacuum into ?", (str(at.folder / "new.db"),))
    base.close()
    check(_rows(at.folder / "new.db") == 1, "no copy")
