"""The kernel's net under a trial: real processes under it write in every way, and no file outside changes."""

import ctypes
import functools
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tunekit.trial import sandbox
from tunekit.trial.keeper import remove_tree

_DROP_FROM_BOUNDING_SET, _SYS_ADMIN = 24, 21
_libc = ctypes.CDLL(None)


def _without_mount_rights() -> None:
    """Take the right to mount from this child, so that it needs a user namespace as an ordinary user does."""
    _libc.prctl(_DROP_FROM_BOUNDING_SET, _SYS_ADMIN, 0, 0, 0)


@functools.cache
def _reasons(folder: str) -> dict[str, str | None]:
    kinds = (sandbox.OVERLAY, sandbox.LANDLOCK)
    return {kind: sandbox.probe(folder, (kind,))[1].get(kind) for kind in kinds}


class Place:
    """A folder of the user's, a trial's folder beside it, and programs that run under a net."""

    def __init__(self, folder: Path, kind: str, prepare: Callable[[], None] | None) -> None:
        self.kind, self._prepare = kind, prepare
        self.user, self.trial = folder / "user", folder / "trial"
        self.user.mkdir()
        self.trial.mkdir()
        (self.user / "data").mkdir()
        for name in ("old.txt", "gone.txt", "data/sample.bin"):
            (self.user / name).write_text("old")
        self.kept: list[str] = []
        self.shared: dict[str, str] = {}
        self.startup_files: dict[str, str] = {}

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command under the net in the user's folder."""
        spec = {
            "kind": self.kind,
            "layer": str(self.trial / "layer"),
            "kept": [str(self.trial), *self.kept],
            "shared": self.shared,
            "startup_files": self.startup_files,
        }
        return subprocess.run(
            [sys.executable, "-I", "-S", sandbox.__file__, json.dumps(spec), "--", *command],
            cwd=self.user,
            text=True,
            capture_output=True,
            preexec_fn=self._prepare,
            timeout=60,
        )

    def contents(self) -> dict[str, str]:
        """Return every file of the user's with its text."""
        return {
            str(path.relative_to(self.user)): path.read_text() if path.is_file() else ""
            for path in sorted(self.user.rglob("*"))
        }


@pytest.fixture(params=[("overlay", False), ("overlay", True), ("landlock", False)], ids=str)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    kind, is_ordinary = request.param
    why_not = _reasons(str(tmp_path))[kind]
    if why_not is not None and "TUNEKIT_NEEDS_SANDBOX" not in os.environ:
        pytest.skip(f"{kind} does not hold here: {why_not}")
    return Place(tmp_path, kind, _without_mount_rights if is_ordinary else None)


@pytest.fixture
def overlaid(place: Place) -> Place:
    if place.kind != sandbox.OVERLAY:
        pytest.skip("only an overlay lets the processes write")
    return place


CHANGES = """
echo new > old.txt; echo more >> data/sample.bin; rm -f gone.txt; mkdir out; echo x > out/new; mv data moved
echo new > /proc/$PPID/root$PWD/old.txt; nsenter -t $PPID -m rm $PWD/gone.txt; umount -l $PWD; umount -l /
ln -sf /dev/null old.txt; cp /bin/sh tool; truncate -s 0 data/sample.bin; touch fresh; echo t > $1/kept
"""


def test_no_program_changes_a_file_of_the_users_or_leaves_one(place: Place) -> None:
    before = place.contents()
    ran = place.run("sh", "-c", CHANGES, "sh", str(place.trial))
    assert place.contents() == before
    assert (place.trial / "kept").read_text() == "t\n", ran.stderr


def test_under_an_overlay_the_processes_see_what_they_wrote(overlaid: Place) -> None:
    ran = overlaid.run("sh", "-c", "echo new > old.txt; rm gone.txt; cat old.txt; ls; cat data/sample.bin")
    assert ran.stdout.split() == ["new", "data", "old.txt", "old"]
    assert ran.stderr == ""


def test_what_was_written_is_listed_and_the_layer_goes(overlaid: Place) -> None:
    overlaid.run("sh", "-c", "echo new > old.txt; rm gone.txt; mkdir out; chmod 000 out; touch fresh")
    layer = overlaid.trial / "layer"
    written = dict(sandbox.written_in(str(layer)))
    assert {Path(path).name: gone for path, gone in written.items()} == {
        "old.txt": False,
        "fresh": False,
        "gone.txt": True,
    }
    assert str(overlaid.user / "old.txt") in written
    remove_tree(str(layer))
    assert not layer.exists()


SHARED_MEMORY_CHANGES = """
echo new > "$1/rows"; cat "$1/rows"; echo new > "$1.txt"; echo s > "$1.new" && cat "$1.new"; rm "$1.new"
rm "$1.link"; echo new > /proc/sys/kernel/hostname; mkdir /sys/fs/cgroup/tunekit-test
"""


def test_what_lies_in_shared_memory_is_kept_and_new_segments_work(overlaid: Place) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="torch_tunekit-test-") as name:
        rows, file, link = Path(name, "rows"), Path(f"{name}.txt"), Path(f"{name}.link")
        link.symlink_to(rows)
        rows.write_text("old")
        file.write_text("old")
        try:
            told = overlaid.run("sh", "-c", SHARED_MEMORY_CHANGES, "sh", name)
            assert told.stdout.split() == ["new", "s"]
            assert told.stderr.count("Read-only file system") == 3, told.stderr
            assert [rows.read_text(), file.read_text(), link.read_text()] == ["old", "old", "old"]
        finally:
            file.unlink()
            link.unlink()


def test_a_layer_for_downloads_serves_the_next_trial(overlaid: Place) -> None:
    cache = overlaid.user / "cache"
    overlaid.shared = {str(cache): str(overlaid.trial / "downloads")}
    (overlaid.trial / "downloads").mkdir()
    overlaid.run("sh", "-c", "echo weights > cache/model; echo other > fresh")
    remove_tree(str(overlaid.trial / "layer"))
    ran = overlaid.run("sh", "-c", "cat cache/model; ls fresh")
    assert ran.stdout == "weights\n"
    assert not cache.exists()


def test_processes_find_the_startup_files_that_nobody_else_sees(overlaid: Place) -> None:
    added = overlaid.user / "added.pth"
    overlaid.startup_files = {str(added): "import sys\n", "/nowhere/at/all": "lost"}
    assert overlaid.run("cat", "added.pth").stdout == "import sys\n"
    assert not added.exists()


def test_folders_named_by_links_are_covered_where_they_really_lie(overlaid: Place) -> None:
    """A link with a whole path leads out of the net while it is set up: to an environment elsewhere, say."""
    beside = overlaid.trial.parent
    for name in ("environment", "cache", "kept"):
        (beside / name).mkdir()
        (beside / f"{name}-link").symlink_to(beside / name)
    added = beside / "environment-link" / "added.pth"
    overlaid.startup_files = {str(added): "import sys\n"}
    overlaid.shared = {str(beside / "cache-link"): str(overlaid.trial / "downloads")}
    overlaid.kept = [str(beside / "kept-link")]
    (overlaid.trial / "downloads").mkdir()
    writes = "cat ../environment-link/added.pth; echo x > ../cache-link/model; echo x > ../kept-link/kept"
    assert overlaid.run("sh", "-c", writes).stdout == "import sys\n"
    assert list((beside / "environment").iterdir()) == list((beside / "cache").iterdir()) == []
    assert (beside / "kept" / "kept").read_text() == "x\n"
    assert overlaid.run("cat", "../cache-link/model").stdout == "x\n"


def test_a_socket_that_listens_in_the_file_system_is_still_reached(place: Place) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place.trial.parent / "s"))
        server.listen()
        client = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1]); print('reached')"
        ran = place.run(sys.executable, "-c", client, str(place.trial.parent / "s"))
    assert ran.stdout == "reached\n", ran.stderr


def test_a_net_that_the_kernel_refuses_starts_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path, sandbox.OVERLAY, None)
    place.trial = Path("/proc/no-layer-here")
    ran = place.run("touch", str(tmp_path / "x"))
    assert ran.returncode == sandbox.REFUSED_STATUS
    assert not (tmp_path / "x").exists()
    assert "/proc/no-layer-here" in ran.stderr


def test_a_kind_that_does_not_hold_is_told_with_its_reason(tmp_path: Path) -> None:
    kind, reasons = sandbox.probe(str(tmp_path / "missing"))
    assert kind == sandbox.NONE
    assert set(reasons) == {sandbox.OVERLAY, sandbox.LANDLOCK}
    assert "can't be written" in reasons[sandbox.OVERLAY]
