"""Ways of the rest of Python's standard library."""

import bz2
import cProfile
import compileall
import configparser
import csv
import dbm
import dbm.dumb
import faulthandler
import gzip
import json
import logging
import logging.handlers
import lzma
import mailbox
import os
import pickle
import plistlib
import py_compile
import readline
import shelve
import shutil
import sqlite3
import ssl
import stat
import tarfile
import tracemalloc
import wave
import zipfile
from pathlib import Path
from xml.etree import ElementTree

from catalogue import NEW, OLD, OLD_TIME_S, Place, check, gone, over_and_new, see, way

PATHLIB, SHUTIL, ARCHIVES, FORMATS, SQLITE = "pathlib", "shutil", "archives", "formats", "sqlite"


# --- pathlib ---------------------------------------------------------------------------------


@over_and_new(PATHLIB)
def path_write_text(path: Path) -> None:
    path.write_text(NEW.decode())


@over_and_new(PATHLIB)
def path_write_bytes(path: Path) -> None:
    path.write_bytes(NEW)


@over_and_new(PATHLIB)
def path_open(path: Path) -> None:
    with path.open("ab") as stream:
        stream.write(NEW)


@way(PATHLIB)
def path_touch(at: Place) -> None:
    for path in (at.old, at.new):
        path.touch()
        check(path.stat().st_mtime > OLD_TIME_S, path.name)


@way(PATHLIB)
def path_unlink(at: Place) -> None:
    at.old.unlink()
    gone(at.old)


@way(PATHLIB)
def path_rename(at: Place) -> None:
    at.old.rename(at.new)
    gone(at.old)
    see(at.new, OLD)


@way(PATHLIB)
def path_replace(at: Place) -> None:
    (at.tree / "one.txt").replace(at.old)
    gone(at.tree / "one.txt")


@way(PATHLIB)
def path_rmdir(at: Place) -> None:
    at.empty.rmdir()
    gone(at.empty)


@way(PATHLIB)
def path_chmod(at: Place) -> None:
    at.old.chmod(0o600)
    check(stat.S_IMODE(at.old.stat().st_mode) == 0o600, oct(at.old.stat().st_mode))


@way(PATHLIB)
def path_mkdir(at: Place) -> None:
    (at.new / "a").mkdir(parents=True)
    check((at.new / "a").is_dir(), "no folder")


@way(PATHLIB)
def path_symlink_to(at: Place) -> None:
    at.new.symlink_to(at.old)
    see(at.new, OLD)


@way(PATHLIB)
def path_hardlink_to(at: Place) -> None:
    at.new.hardlink_to(at.old)
    see(at.new, OLD)


# --- shutil ----------------------------------------------------------------------------------


def _source(path: Path) -> Path:
    return path.parent / "tree" / "source.txt"


def _copied(at: Place, copy: object) -> None:
    for path in (at.old, at.new):
        copy(_source(at.old), path)
        see(path)


def _plant_source(at: Place) -> None:
    at.have(_source(at.old), NEW)


@way(SHUTIL, plant=_plant_source)
def shutil_copyfile(at: Place) -> None:
    _copied(at, shutil.copyfile)


@way(SHUTIL, plant=_plant_source)
def shutil_copy(at: Place) -> None:
    _copied(at, shutil.copy)


@way(SHUTIL, plant=_plant_source)
def shutil_copy2(at: Place) -> None:
    _copied(at, shutil.copy2)


@way(SHUTIL, plant=lambda at: os.chmod(at.tree / "one.txt", 0o600))
def shutil_copymode(at: Place) -> None:
    shutil.copymode(at.tree / "one.txt", at.old)
    check(stat.S_IMODE(at.old.stat().st_mode) == 0o600, oct(at.old.stat().st_mode))


@way(SHUTIL, plant=lambda at: os.utime(at.tree / "one.txt", (5, 5)))
def shutil_copystat(at: Place) -> None:
    shutil.copystat(at.tree / "one.txt", at.old)
    check(at.old.stat().st_mtime == 5, str(at.old.stat().st_mtime))


@way(SHUTIL, plant=lambda at: at.have(at.folder / "source" / "one.txt", NEW))
def shutil_copytree(at: Place) -> None:
    shutil.copytree(at.folder / "source", at.tree, dirs_exist_ok=True)
    shutil.copytree(at.folder / "source", at.new)
    see(at.tree / "one.txt")
    see(at.new / "one.txt")


@way(SHUTIL)
def shutil_move(at: Place) -> None:
    shutil.move(at.old, at.new)
    gone(at.old)
    see(at.new, OLD)


@way(SHUTIL)
def shutil_move_folder(at: Place) -> None:
    shutil.move(at.tree, at.empty)
    gone(at.tree)
    see(at.empty / "tree" / "one.txt", OLD)


@way(SHUTIL)
def shutil_rmtree(at: Place) -> None:
    shutil.rmtree(at.tree)
    gone(at.tree)


@way(SHUTIL, plant=lambda at: at.have(at.folder / "packed.tar.gz"))
def shutil_make_archive(at: Place) -> None:
    for name in ("packed", "other"):
        shutil.make_archive(str(at.folder / name), "gztar", at.tree)
        check(tarfile.is_tarfile(at.folder / f"{name}.tar.gz"), name)


def _plant_archive(at: Place) -> None:
    with zipfile.ZipFile(at.folder / "packed.zip", "w") as packed:
        packed.writestr("one.txt", NEW)
        packed.writestr("three.txt", NEW)


@way(SHUTIL, plant=_plant_archive)
def shutil_unpack_archive(at: Place) -> None:
    shutil.unpack_archive(at.folder / "packed.zip", at.tree)
    see(at.tree / "one.txt")
    see(at.tree / "three.txt")


# --- archives --------------------------------------------------------------------------------


@over_and_new(ARCHIVES)
def gzip_open(path: Path) -> None:
    with gzip.open(path, "wb") as stream:
        stream.write(NEW)


@over_and_new(ARCHIVES)
def bz2_open(path: Path) -> None:
    with bz2.open(path, "wb") as stream:
        stream.write(NEW)


@over_and_new(ARCHIVES)
def lzma_open(path: Path) -> None:
    with lzma.open(path, "wb") as stream:
        stream.write(NEW)


@over_and_new(ARCHIVES)
def zipfile_w(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("one.txt", NEW)


@way(ARCHIVES, plant=_plant_archive)
def zipfile_a(at: Place) -> None:
    with zipfile.ZipFile(at.folder / "packed.zip", "a") as packed:
        packed.writestr("four.txt", NEW)
    check("four.txt" in zipfile.ZipFile(at.folder / "packed.zip").namelist(), "no new member")


@way(ARCHIVES, plant=_plant_archive)
def zipfile_extractall(at: Place) -> None:
    with zipfile.ZipFile(at.folder / "packed.zip") as packed:
        packed.extractall(at.tree)
    see(at.tree / "one.txt")


@over_and_new(ARCHIVES)
def tarfile_w(path: Path) -> None:
    with tarfile.open(path, "w") as packed:
        packed.add(path.parent / "tree", "tree")


def _plant_tar(at: Place) -> None:
    source = at.have(at.folder / "source" / "one.txt", NEW)
    with tarfile.open(at.folder / "packed.tar", "w") as packed:
        packed.add(source, "one.txt")
        packed.add(source, "three.txt")


@way(ARCHIVES, plant=_plant_tar)
def tarfile_extractall(at: Place) -> None:
    with tarfile.open(at.folder / "packed.tar") as packed:
        packed.extractall(at.tree)
    see(at.tree / "one.txt")
    see(at.tree / "three.txt")


# --- formats ---------------------------------------------------------------------------------


@over_and_new(FORMATS)
def json_dump(path: Path) -> None:
    with open(path, "w") as stream:
        json.dump({"epoch": 1}, stream)


@over_and_new(FORMATS)
def pickle_dump(path: Path) -> None:
    with open(path, "wb") as stream:
        pickle.dump({"epoch": 1}, stream)


@over_and_new(FORMATS)
def csv_writer(path: Path) -> None:
    with open(path, "a", newline="") as stream:
        csv.writer(stream).writerow([1, 0.5])


@over_and_new(FORMATS)
def configparser_write(path: Path) -> None:
    parser = configparser.ConfigParser()
    parser["train"] = {"lr": "0.1"}
    with open(path, "w") as stream:
        parser.write(stream)


@over_and_new(FORMATS)
def plistlib_dump(path: Path) -> None:
    with open(path, "wb") as stream:
        plistlib.dump({"epoch": 1}, stream)


@over_and_new(FORMATS)
def element_tree_write(path: Path) -> None:
    ElementTree.ElementTree(ElementTree.Element("run")).write(path)


@over_and_new(FORMATS)
def wave_open(path: Path) -> None:
    with wave.open(str(path), "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", "not compressed"))
        sound.writeframes(b"\0\0")


def _plant_shelf(at: Place) -> None:
    with dbm.dumb.open(str(at.folder / "shelf"), "n") as kept:
        kept["epoch"] = "0"


@way(FORMATS, plant=_plant_shelf)
def dbm_dumb(at: Place) -> None:
    with dbm.dumb.open(str(at.folder / "shelf"), "w") as kept:
        kept["epoch"] = "1"
    with dbm.dumb.open(str(at.folder / "shelf"), "r") as kept:
        check(kept["epoch"] == b"1", repr(kept["epoch"]))


@way(FORMATS, plant=_plant_shelf)
def dbm_dumb_anew(at: Place) -> None:
    with dbm.dumb.open(str(at.folder / "shelf"), "n") as kept:
        kept["loss"] = "1"
    with dbm.dumb.open(str(at.folder / "shelf"), "r") as kept:
        check(list(kept) == [b"loss"], repr(list(kept)))


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


@way(FORMATS, plant=_plant_dbm)
def shelve_open(at: Place) -> None:
    with shelve.open(str(at.folder / "usual"), "n") as shelf:
        shelf["epoch"] = 1
    with shelve.open(str(at.folder / "usual"), "r") as shelf:
        check(shelf["epoch"] == 1, repr(shelf["epoch"]))


@way(FORMATS, plant=lambda at: mailbox.mbox(at.folder / "box").close())
def mailbox_add(at: Place) -> None:
    box = mailbox.mbox(at.folder / "box")
    box.add("Subject: done\n\nThe run has ended.\n")
    box.close()
    check(len(mailbox.mbox(at.folder / "box")) == 1, "no message")


def _emit(handler: logging.Handler) -> None:
    handler.emit(logging.makeLogRecord({"msg": "loss 0.1, long enough to rotate"}))
    handler.close()


@over_and_new(FORMATS)
def logging_file_handler(path: Path) -> None:
    _emit(logging.FileHandler(path))


@over_and_new(FORMATS)
def logging_file_handler_afresh(path: Path) -> None:
    _emit(logging.FileHandler(path, mode="w"))


@way(FORMATS, plant=lambda at: at.have(at.folder / "old.txt.1"))
def logging_rotating(at: Place) -> None:
    _emit(logging.handlers.RotatingFileHandler(at.old, maxBytes=20, backupCount=1))
    see(at.folder / "old.txt.1", OLD)
    see(at.old, b"loss 0.1, long enough to rotate\n")


@way(FORMATS)
def logging_timed_rotating(at: Place) -> None:
    handler = logging.handlers.TimedRotatingFileHandler(at.old, when="D")
    handler.rolloverAt = 0
    _emit(handler)
    check(len(list(at.folder.glob("old.txt.*"))) == 1, "nothing rotated")


@over_and_new(FORMATS)
def profile_dump_stats(path: Path) -> None:
    profiler = cProfile.Profile()
    profiler.runcall(sum, [1])
    profiler.dump_stats(path)


@over_and_new(FORMATS)
def tracemalloc_dump(path: Path) -> None:
    tracemalloc.start()
    tracemalloc.take_snapshot().dump(str(path))
    tracemalloc.stop()


@over_and_new(FORMATS)
def faulthandler_dump(path: Path) -> None:
    with open(path, "w") as stream:
        faulthandler.dump_traceback(stream)


@over_and_new(FORMATS)
def readline_history(path: Path) -> None:
    readline.add_history("python train.py")
    readline.write_history_file(path)


@way(FORMATS, plant=lambda at: at.have(at.folder / "keys.log", b""))
def ssl_key_log(at: Place) -> None:
    for path in (at.folder / "keys.log", at.new):
        ssl.create_default_context().keylog_filename = str(path)  # OpenSSL writes a first line
        check(path.read_bytes().startswith(b"# TLS"), path.name)


@way(FORMATS, plant=lambda at: at.have(at.folder / "module.py", b"VALUE = 1\n"))
def py_compile_module(at: Place) -> None:
    check(Path(py_compile.compile(str(at.folder / "module.py"), doraise=True)).exists(), "no bytecode")


@way(FORMATS, plant=lambda at: at.have(at.folder / "module.py", b"VALUE = 1\n"))
def compileall_folder(at: Place) -> None:
    compileall.compile_dir(at.folder, quiet=2, legacy=True)
    check((at.folder / "module.pyc").exists(), "no bytecode")


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


@way(SQLITE)
def sqlite_new_database(at: Place) -> None:
    _insert(at.folder / "new.db")
    check(_rows(at.folder / "new.db") == 1, "no row")


@way(SQLITE, plant=_plant_database)
def sqlite_wal(at: Place) -> None:
    _insert(at.folder / "old.db", "pragma journal_mode=wal")
    check(_rows(at.folder / "old.db") == 2, "no new row")


@way(SQLITE, plant=_plant_database)
def sqlite_uri(at: Place) -> None:
    base = sqlite3.connect(f"file:{at.folder / 'old.db'}?mode=rw", uri=True)
    with base:
        base.execute("delete from runs")
    base.close()
    check(_rows(at.folder / "old.db") == 0, "the row is still there")


@way(SQLITE, plant=_plant_database)
def sqlite_attach(at: Place) -> None:
    base = sqlite3.connect(":memory:")
    base.execute("attach ? as other", (str(at.folder / "old.db"),))
    with base:
        base.execute("insert into other.runs values ('this one')")
    base.close()
    check(_rows(at.folder / "old.db") == 2, "no new row")


@way(SQLITE)
def sqlite_attach_new(at: Place) -> None:
    base = sqlite3.connect(":memory:")
    base.execute("attach ? as other", (str(at.folder / "new.db"),))
    with base:
        base.execute("create table other.runs (name text)")
    base.close()
    check(_rows(at.folder / "new.db") == 0, "no table")


@way(SQLITE, plant=_plant_database)
def sqlite_vacuum_into(at: Place) -> None:
    base = sqlite3.connect(at.folder / "old.db")
    base.execute("vacuum into ?", (str(at.folder / "new.db"),))
    base.close()
    check(_rows(at.folder / "new.db") == 1, "no copy")


@way(SQLITE, plant=_plant_database)
def sqlite_backup(at: Place) -> None:
    source = sqlite3.connect(":memory:")
    source.execute("create table runs (name text)")
    base = sqlite3.connect(at.folder / "old.db")
    source.backup(base)
    source.close()
    base.close()
    check(_rows(at.folder / "old.db") == 0, "the row is still there")
