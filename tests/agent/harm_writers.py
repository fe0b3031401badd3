"""Ways in which trainings write with the standard library and numpy: each over files that may be old.

Each writer works in the current folder, can run there again, and returns what it reads back.
"""

import bz2
import configparser
import contextlib
import csv
import dbm.dumb
import fileinput
import glob
import gzip
import io
import json
import logging.handlers
import lzma
import mailbox
import mmap
import os
import pathlib
import pickle
import shelve
import shutil
import sqlite3
import stat
import subprocess
import sys
import tarfile
import tempfile
import wave
import zipfile


def tree(top="."):
    """Return every name below a folder."""
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(top) for name in names)


def texts():
    with open("x.json", "w") as stream:
        json.dump([1, 2], stream)
    with open("x.pkl", "wb") as stream:
        pickle.dump([1, 2], stream)
    with open("x.csv", "w", newline="") as stream:
        csv.writer(stream).writerows([[1, 2], [3, 4]])
    parser = configparser.ConfigParser()
    parser["a"] = {"b": "c"}
    with io.open("x.ini", "w") as stream:  # noqa: UP020 - the name that scripts may use
        parser.write(stream)
    with open("x.log", "a") as stream:
        print("line", file=stream)
    return [pathlib.Path(name).read_bytes().decode("latin-1") for name in ("x.json", "x.csv", "x.ini")]


def compressed():
    for module in (gzip, bz2, lzma):
        with module.open(f"{module.__name__}.out", "wb") as stream:
            stream.write(b"data")
        with module.open(f"{module.__name__}.out", "at") as stream:
            stream.write("more")
    bz2.BZ2File("b", "w").close()
    lzma.LZMAFile("l", "w").close()
    gzip.GzipFile("g", "w").close()
    return [module.open(f"{module.__name__}.out").read().decode() for module in (gzip, bz2, lzma)]


def archives():
    pathlib.Path("member").write_text("content")
    with zipfile.ZipFile("x.zip", "w") as archive:
        archive.write("member")
    with zipfile.ZipFile("x.zip", "a") as archive:
        archive.writestr("other", "text")
    for mode in ("w", "w:gz", "w:bz2", "w:xz"):
        with tarfile.open("x.tar", mode) as archive:
            archive.add("member")
    with tarfile.open("x.tar") as archive:
        archive.extractall("taken", **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    with zipfile.ZipFile("x.zip") as archive:
        archive.extractall("taken")
    shutil.make_archive("made", "zip", "taken")
    shutil.unpack_archive("made.zip", "unpacked")
    return [tree("taken"), tree("unpacked"), sorted(zipfile.ZipFile("made.zip").namelist())]


def shelves():
    with contextlib.closing(shelve.Shelf(dbm.dumb.open("shelf", "c"))) as shelf:
        shelf["count"] = shelf.get("count", 0) + 1
        seen = shelf["count"]
    box = mailbox.mbox("box")
    box.clear()
    box.add("From: a\n\ntext\n")
    box.flush()
    box.close()
    with wave.open("x.wav", "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(1)
        sound.setframerate(8000)
        sound.writeframes(b"abc")
    return [seen, os.path.getsize("x.wav"), tree()]


def logs():
    handlers = [
        logging.FileHandler("plain.log", delay=True),
        logging.FileHandler("fresh.log", "w"),
        logging.handlers.RotatingFileHandler("rotating.log", maxBytes=20, backupCount=2),
        logging.handlers.TimedRotatingFileHandler("timed.log", when="S", backupCount=1),
        logging.handlers.WatchedFileHandler("watched.log"),
    ]
    for handler in handlers:
        for number in range(5):
            handler.emit(logging.makeLogRecord({"msg": f"line number {number}"}))
        handler.close()
    return [sorted(glob.glob("rot*")), open("rotating.log").read(), open("watched.log").read()]


def atomic():
    with tempfile.NamedTemporaryFile("w", dir=".", delete=False) as stream:
        stream.write("atomic")
    os.replace(stream.name, "state")
    with tempfile.NamedTemporaryFile("w", dir=".", suffix=".gone") as stream:
        stream.write("gone")
        assert os.path.exists(stream.name)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        pathlib.Path(folder, "inside").touch()
        inside = os.listdir(folder)
    with tempfile.TemporaryFile(dir=".") as stream:
        stream.write(b"unnamed")
        stream.seek(0)
        unnamed = stream.read().decode()
    with tempfile.SpooledTemporaryFile(max_size=1, dir=".") as stream:
        stream.write(b"spooled")
    handle, name = tempfile.mkstemp(dir=".")
    os.write(handle, b"low")
    os.close(handle)
    os.rename(name, "low")
    return [open("state").read(), inside, unnamed, os.path.getsize("low"), sorted(os.listdir("."))]


def paths():
    here = pathlib.Path("folder/deeper")
    here.mkdir(parents=True, exist_ok=True)
    (here / "text").write_text("text")
    (here / "bytes").write_bytes(b"bytes")
    (here / "touched").touch()
    (here / "text").replace(here / "replaced")
    (here / "touched").rename(here / "renamed")
    (here / "bytes").unlink()
    with contextlib.suppress(FileExistsError):
        (here / "link").symlink_to("replaced")
    (here / "gone").unlink(missing_ok=True)
    (here / "replaced").chmod(0o640)
    latest = here.parent / "latest"
    latest.unlink(missing_ok=True)
    latest.symlink_to("deeper")
    seen = (latest / "link").read_text()
    return [seen, sorted(path.name for path in here.iterdir()), sorted(map(str, pathlib.Path().rglob("*")))]


def copies():
    os.makedirs("source/sub", exist_ok=True)
    for name in ("source/a", "source/sub/b"):
        pathlib.Path(name).write_text(name)
    shutil.copy("source/a", "copied")
    shutil.copy2("source/a", "copied2")
    shutil.copyfile("source/a", "copied3")
    shutil.rmtree("tree", ignore_errors=True)
    shutil.copytree("source", "tree")
    shutil.copytree("source", "tree", dirs_exist_ok=True)
    shutil.rmtree("moved", ignore_errors=True)
    shutil.copytree("tree", "moving")
    shutil.move("moving", "moved")
    shutil.move("copied2", "copied4")
    shutil.rmtree("tree/sub")
    return [tree(), open("moved/sub/b").read(), os.path.exists("moving")]


def descriptors():
    for flags in (os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_TRUNC, os.O_RDWR):
        handle = os.open("low", flags, 0o644)
        os.write(handle, b"0123456789")
        os.close(handle)
    with open("low", "r+b") as low, open("low2", "w+b") as other:
        os.sendfile(other.fileno(), low.fileno(), 0, 4)
        with contextlib.suppress(OSError):  # not on every file system
            os.copy_file_range(low.fileno(), other.fileno(), 4, 0, 4)
        os.ftruncate(low.fileno(), 6)
        os.posix_fallocate(other.fileno(), 0, 8)
        os.pwrite(low.fileno(), b"x", 0)
        os.fchmod(low.fileno(), 0o600)
    os.truncate("low", 5)
    with open("low", "r+b") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_WRITE) as mapped:
        mapped[:2] = b"ab"
        mapped.flush()
    return [open("low").read(), os.path.getsize("low2"), os.stat("low").st_mode]


def in_place():
    pathlib.Path("edited").write_text("one\ntwo\n")
    with fileinput.input("edited", inplace=True, backup=".bak") as lines:
        for line in lines:
            print(line.upper(), end="")
    return [open("edited").read(), sorted(os.listdir("."))]


def databases():
    for name in ("main.db", "old's.db", "third.db"):
        with contextlib.closing(sqlite3.connect(name)) as base, base:
            base.execute("create table if not exists t (x)")
    base = sqlite3.connect("main.db")
    base.execute("attach 'old''s.db' as other")
    base.execute("insert into other.t values (1)")
    base.execute("ATTACH /* as */ DATABASE ? AS [third]", ("third.db",))
    base.execute("insert into third.t values (2)")
    base.commit()
    base.executescript(
        "detach third; -- attach\n attach 'thi' || ('rd.db') as \"as\"; insert into \"as\".t values (3);"
    )
    base.cursor().execute("insert into t select x from other.t")
    base.commit()
    for name in ("copy.db", "copy2.db"):
        pathlib.Path(name).unlink(missing_ok=True)
    base.execute("vacuum main into ?", ("copy.db",))
    base.execute('VACUUM INTO "copy2.db"')
    memory = sqlite3.connect(":memory:")
    memory.execute("attach 'main.db' as m")
    seen = memory.execute("select count(*) from m.t").fetchone()
    with contextlib.closing(sqlite3.connect("backup.db")) as backup:
        base.backup(backup)
    names = ("main.db", "old's.db", "third.db", "copy.db", "copy2.db", "backup.db")
    counts = [sqlite3.connect(name).execute("select count(*) from t").fetchone()[0] for name in names]
    quoted = base.execute("select 'attach x as y; vacuum into z'").fetchone()[0]
    return [seen, counts, quoted, isinstance(base, sqlite3.Connection), sorted(os.listdir("."))]


def folders():
    os.makedirs("out/ck", exist_ok=True)
    with open("out/ck/x", "w") as stream:
        stream.write("1")
    os.makedirs("out.tmp/ck")
    pathlib.Path("out.tmp/ck/x").write_text("2")
    shutil.rmtree("out")
    os.rename("out.tmp", "out")
    os.rename("out/ck", "out/ck-1")
    before = os.getcwd()
    os.chdir("out")
    pathlib.Path("beside").write_text("3")
    names = sorted(os.listdir(".")), os.path.relpath(os.getcwd(), before), os.path.exists("../out/ck-1/x")
    os.chdir("ck-1")
    up = open("../beside").read()
    os.chdir(before)
    child = "import os; print(sorted(os.listdir('.')), end='')"
    reported = subprocess.run(
        [sys.executable, "-S", "-c", child], cwd="out", stdout=subprocess.PIPE, text=True
    )
    with open("out/ck-1/x") as stream:
        seen = stream.read()
    os.mkdir("out/empty")
    os.rmdir("out/empty")
    os.removedirs("out/ck-1") if not os.listdir("out/ck-1") else None
    return [names, up, reported.stdout, seen, tree(), [entry.name for entry in os.scandir("out/ck-1")]]


def generated_module():
    os.makedirs("generated", exist_ok=True)
    pathlib.Path("generated/made_module.py").write_text("VALUE = 7\n")
    sys.path.insert(0, os.path.abspath("generated"))
    import importlib

    importlib.invalidate_caches()
    return importlib.import_module("made_module").VALUE


def links():
    pathlib.Path("file").write_text("linked")
    for name in ("hard", "soft"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
    os.link("file", "hard")
    os.symlink("file", "soft")
    with open("soft", "a") as stream:
        stream.write("+")
    os.mkfifo("pipe")
    piped = stat.S_ISFIFO(os.stat("pipe").st_mode)
    os.remove("pipe")
    return [
        piped,
        open("file").read(),
        os.readlink("soft"),
        os.path.realpath("soft") == os.path.abspath("file"),
    ]


def arrays():
    import numpy

    rows = numpy.arange(6)
    numpy.save("rows.npy", rows)
    numpy.savez("rows.npz", a=rows)
    numpy.savez_compressed("packed.npz", a=rows)
    numpy.savetxt("rows.txt", rows, "%d")
    rows.tofile("rows.bin")
    mapped = numpy.memmap("rows.bin", rows.dtype, "r+")
    mapped[0] = 9
    mapped.flush()
    made = numpy.lib.format.open_memmap("mapped.npy", "w+", rows.dtype, (3,))
    made[:] = 5
    made.flush()
    loaded = numpy.load("mapped.npy", mmap_mode="r+")
    loaded[1] = 6
    loaded.flush()
    return [
        numpy.fromfile("rows.bin", rows.dtype).tolist(),
        numpy.load("mapped.npy").tolist(),
        sorted(os.listdir(".")),
    ]


WRITERS = {
    function.__name__: function
    for function in (
        texts,
        compressed,
        archives,
        shelves,
        logs,
        atomic,
        paths,
        copies,
        descriptors,
        in_place,
        databases,
        folders,
        generated_module,
        links,
        arrays,
    )
}
