"""A trial's second safety net: whatever its processes write, none of the user's files changes.

It runs as a script that uses only the standard library, and becomes the command:

    python -I -S sandbox.py SPEC_JSON -- COMMAND...

There are two kinds. The kernel enforces both, for ordinary users and for every program:

    overlay   a mount namespace in which an overlayfs covers every file system: writes go to the trial's
              layer, reads come from the user's files at full speed
    landlock  writing is denied except in the trial's own folders, where the agent's file guard redirects
              Python's writes. The kernel doesn't cover times, modes and extended attributes

An overlay needs the right to mount: root's, or a new user namespace (Linux 5.11), in which the user keeps
their id. Containers often have neither; then Landlock remains (Linux 5.13).

Sources: the kernel's documentation, filesystems/overlayfs and userspace-api/landlock; user_namespaces(7),
mount_namespaces(7), pivot_root(2).
"""

import contextlib
import ctypes
import errno
import json
import os
import platform
import re
import signal
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

OVERLAY, LANDLOCK, NONE = "overlay", "landlock", "none"
REFUSED_STATUS = 125
"""Exit status if the sandbox could not be set up and the command was not started."""
NOT_STARTED_STATUS = 127

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
_MS_MOVE, _MS_RELATIME, _ST_RELATIME, _MNT_DETACH = 8192, 1 << 21, 4096, 2
_KEPT_FLAGS = 2 | 4 | 8 | 1024 | 2048
"""nosuid, nodev, noexec, noatime, nodiratime: remounting another user's mount must keep these flags."""
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446
_LANDLOCK_VERSION_FLAG, _RULE_PATH_BENEATH = 1, 1
_LANDLOCK_WRITES = (
    (1, (1, *range(4, 13))),  # write a file; remove and make entries of every kind
    (2, (13,)),  # link and rename from one folder to another
    (3, (14,)),  # truncate
)
"""Versions of the kernel's interface, each with the bits of the rights that it introduced."""
_KERNEL_FILE_SYSTEMS = frozenset(
    "autofs binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts devtmpfs efivarfs fusectl hugetlbfs "  # noqa: SIM905
    "mqueue nsfs proc pstore rpc_pipefs securityfs selinuxfs sysfs tracefs".split()
)
"""File systems that contain devices, processes and settings, but no user's files."""
_AS_THEY_ARE = ("/dev", "/proc", "/sys")
_SHARED_MEMORY = "/dev/shm"
_SEGMENTS = ("torch_", "sem.", "psm_", "nccl-")
"""Name prefixes of memory that running processes share by torch, semaphores, multiprocessing and NCCL."""
_DROPPED_CAPABILITIES = (2, 19, 21)
"""CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE, CAP_SYS_ADMIN: ways out of a mount namespace."""
_PR_CAPBSET_DROP, _CAPABILITY_VERSION_3 = 24, 0x20080522
_PROBE_LIMIT_S = 20.0
_REMOVED = "tunekit:removed"
"""Target of a link in the agent's layer that marks a removed file."""

_libc = ctypes.CDLL(None, use_errno=True)


class SandboxError(Exception):
    """The kernel refused a step of the set-up; the message says which and why."""


def _check(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise SandboxError(f"{what}: {os.strerror(code)}")
    return result


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind, data)]
    what = f"mounting {kind or 'a view'} at {target}"
    _check(_libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]), what)


class Mount:
    """A line of mountinfo: the mount point, the file system, and whether it is read-only."""

    def __init__(self, line: str) -> None:
        words, _, rest = line.partition(" - ")
        fields = words.split(" ")
        self.point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4])
        self.kind = rest.split(" ")[0]
        self.is_read_only = "ro" in fields[5].split(",")


def read_mounts() -> dict[str, Mount]:
    """Return this process's mounts by mount point, outer before inner."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as stream:
        found = {mount.point: mount for mount in map(Mount, stream.read().splitlines())}
    return {point: found[point] for point in sorted(found)}


def _is_beneath(path: str, folder: str) -> bool:
    return path != folder and path.startswith(folder.rstrip("/") + "/")


class OverlayNet:
    """Puts every file system of this process under an overlay.

    Args:
        layer: the trial's layer folder, on a file system that overlayfs can write to; created if missing.
        kept: folders without an overlay, where writes are permanent.
        shared: folders -> layers that collect the writes of all trials there, such as download caches.
        startup_files: paths -> texts of additional files for processes in the sandbox, where they can be
            written.
    """

    def __init__(
        self, layer: str, kept: Sequence[str], shared: Mapping[str, str], startup_files: Mapping[str, str]
    ) -> None:
        self._layer, self._kept, self._shared = layer, kept, shared
        self._startup_files = startup_files
        self._stage = f"{layer}/root"
        self._in_user_namespace = False
        self._layers = 0
        self._mounts: dict[str, Mount] = {}

    def enter(self) -> None:
        """Move this process into the sandbox.

        Raises:
            SandboxError: the kernel refuses.
        """
        folder = os.getcwd()
        sockets = _bound_sockets()
        self._unshare()
        _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
        self._mounts = read_mounts()
        os.makedirs(self._stage, exist_ok=True)
        self._cover("/")
        # An absolute link would lead from the stage to the user's files, so every path is resolved first.
        for path, layer in self._shared.items():
            self._share(os.path.realpath(path), layer)
        self._cover_shared_memory()
        self._keep_settings()
        for path in map(os.path.realpath, (*self._kept, *sockets)):
            if os.path.lexists(self._stage + path):
                _mount(path, self._stage + path, None, _MS_BIND)
                if path in sockets:
                    self._remount_read_only(self._stage + path)
        for path, text in self._startup_files.items():
            place = self._stage + os.path.realpath(path)
            with contextlib.suppress(OSError), open(place, "w", encoding="utf-8") as stream:
                stream.write(text)
        self._become_root()
        os.chdir(folder)

    def _unshare(self) -> None:
        if _libc.unshare(_CLONE_NEWNS) == 0:
            return
        uid, gid = os.geteuid(), os.getegid()
        _check(_libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS), "making a user namespace")
        self._in_user_namespace = True
        try:
            for name, text in {
                "setgroups": "deny",
                "uid_map": f"{uid} {uid} 1",
                "gid_map": f"{gid} {gid} 1",
            }.items():
                with open(f"/proc/self/{name}", "w", encoding="ascii") as stream:
                    stream.write(text)
        except OSError as error:
            raise SandboxError(f"keeping the user's id in a user namespace: {error.strerror}") from error

    def _cover(self, path: str) -> None:
        """Lay an overlay over a folder, and over every mount beneath it.

        If the kernel refuses because of the mounts beneath, as it does in a user namespace, the folder
        becomes read-only, and each of its subfolders gets an overlay.
        """
        beneath = [point for point in self._mounts if _is_beneath(point, path)]
        try:
            self._overlay(path, path)
        except SandboxError:
            if path == "/":
                _mount("/", self._stage, None, _MS_BIND | _MS_REC)
            self._make_read_only(path)
            inner = self._folders_in(path) if beneath else []
            is_hidden = False
        else:
            inner = [point for point in beneath if not any(_is_beneath(point, other) for other in beneath)]
            is_hidden = True
        for one in inner:
            self._lay_inner(one, is_hidden)

    def _lay_inner(self, path: str, is_hidden: bool) -> None:
        """Put a folder or mount in its place: unchanged if it is a kernel file system, else covered."""
        mount = self._mounts.get(path)
        if is_hidden and not os.path.lexists(self._stage + path):
            return
        as_it_is = path in _AS_THEY_ARE or (
            mount and (mount.kind in _KERNEL_FILE_SYSTEMS or mount.is_read_only)
        )
        if is_hidden:
            _mount(path, self._stage + path, None, _MS_BIND | _MS_REC)
        if as_it_is:
            return
        if os.path.isdir(path):
            self._cover(path)
        else:
            self._make_read_only(path)

    def _cover_shared_memory(self) -> None:
        """Protect what is in /dev/shm: its folders by overlays, its files read-only, its links pinned.

        New files there must be real memory for speed, so they are the only writes that are permanent.
        """
        with contextlib.suppress(OSError):
            shared = _shared_names()
            for entry in os.scandir(os.path.realpath(_SHARED_MEMORY)):
                if not os.path.lexists(self._stage + entry.path) or (
                    entry.name.startswith(_SEGMENTS) and entry.name in shared
                ):
                    continue
                with contextlib.suppress(SandboxError, OSError):  # it may be gone by now
                    if entry.is_dir(follow_symlinks=False):
                        self._overlay(entry.path, entry.path)
                    elif entry.is_symlink():
                        self._pin_link(self._stage + entry.path)
                    else:
                        _mount(entry.path, self._stage + entry.path, None, _MS_BIND)
                        self._remount_read_only(self._stage + entry.path)

    def _pin_link(self, path: str) -> None:
        """Mount a link onto itself, so that it can't be removed or replaced."""
        link = os.open(path, os.O_PATH | os.O_NOFOLLOW)
        try:
            _mount(f"/proc/self/fd/{link}", f"/proc/self/fd/{link}", None, _MS_BIND)
        finally:
            os.close(link)

    def _keep_settings(self) -> None:
        """Make the kernel's settings and control groups read-only, as they are in containers."""
        with contextlib.suppress(SandboxError):  # only root could write to them anyway
            _mount("/proc/sys", f"{self._stage}/proc/sys", None, _MS_BIND)
        for place in ("/proc/sys", *(point for point in self._mounts if f"{point}/".startswith("/sys/"))):
            with contextlib.suppress(SandboxError, OSError):
                self._remount_read_only(self._stage + place)

    def _folders_in(self, path: str) -> list[str]:
        try:
            entries = [entry for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return []
        return [f"{path.rstrip('/')}/{entry.name}" for entry in entries]

    def _overlay(self, lower: str, place: str, layer: str | None = None, is_volatile: bool = True) -> None:
        """Lay an overlay over a folder; by default with a new layer in the trial's folder."""
        if layer is None:
            layer = f"{self._layer}/{self._layers}"
            self._layers += 1
        upper, work = f"{layer}/upper{place.rstrip('/')}", f"{layer}/work"
        os.makedirs(upper, exist_ok=True)
        os.makedirs(work, exist_ok=True)
        status = os.stat(lower)
        with contextlib.suppress(OSError):  # only root can change a folder's owner
            os.chmod(upper, stat.S_IMODE(status.st_mode))  # the overlay shows the layer's mode and owner
            os.chown(upper, status.st_uid, status.st_gid)
        folders = f"lowerdir={_escaped(lower)},upperdir={_escaped(upper)},workdir={_escaped(work)}"
        options = [folders, "userxattr" if self._in_user_namespace else "redirect_dir=on"]
        if is_volatile:
            try:  # a discarded layer need not reach the disk; Linux 5.10
                _mount("overlay", self._stage + place, "overlay", 0, ",".join([*options, "volatile"]))
                return
            except SandboxError:
                pass
        _mount("overlay", self._stage + place, "overlay", 0, ",".join(options))

    def _share(self, path: str, layer: str) -> None:
        """Lay an overlay over a folder, with a layer that outlives the trial; the folder may be missing."""
        if any(_is_beneath(point, path) for point in self._mounts) or path.startswith(_AS_THEY_ARE):
            return
        lower = path
        if not os.path.isdir(path):
            lower = f"{layer}/empty"
            try:
                os.makedirs(lower, exist_ok=True)
                os.makedirs(self._stage + path, exist_ok=True)
            except OSError:
                return
        with contextlib.suppress(SandboxError):  # then each trial downloads again
            self._overlay(lower, path, layer, is_volatile=False)

    def _make_read_only(self, path: str) -> None:
        if path != "/" and path not in self._mounts:
            return  # it belongs to a mount that is already read-only
        self._remount_read_only(self._stage + path.rstrip("/"))

    def _remount_read_only(self, place: str) -> None:
        flags = os.statvfs(place).f_flag
        kept = flags & _KEPT_FLAGS | (_MS_RELATIME if flags & _ST_RELATIME else 0)
        _mount(None, place, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | kept)

    def _become_root(self) -> None:
        os.chdir(self._stage)
        number = _PIVOT_ROOT.get(platform.machine())
        if number is not None and _libc.syscall(number, b".", b".") == 0:
            _check(_libc.umount2(b".", _MNT_DETACH), "detaching the old root")
        else:  # an initial RAM disk can't be replaced as the root
            _mount(".", "/", None, _MS_MOVE)
            os.chroot(".")
        os.chdir("/")


def _escaped(path: str) -> str:
    return re.sub(r"([\\:,])", r"\\\1", path)


def _bound_sockets() -> list[str]:
    """Return the listening sockets in the file system, which an overlay would cut off."""
    found = set()
    with contextlib.suppress(OSError), open("/proc/net/unix", errors="surrogateescape") as stream:
        for line in stream.readlines()[1:]:
            path = line.rstrip("\n").split(" ", 7)[-1].strip()
            if path.startswith("/") and not path.startswith(tuple(f"{one}/" for one in _AS_THEY_ARE)):
                with contextlib.suppress(OSError):  # it may be gone
                    if stat.S_ISSOCK(os.lstat(path).st_mode):
                        found.add(path)
    return sorted(found)


def _shared_names() -> set[str]:
    """Return the entries of /dev/shm that a running process maps for writing, or that contain such a file."""
    found: set[str] = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/maps", errors="replace") as stream:
            found.update(re.findall(rf" rw-s .*{_SHARED_MEMORY}/([^/\n]+)", stream.read()))
    return found


def _drop_capabilities() -> None:
    """Drop the capabilities that lead out of the mount namespace, for root's child processes too."""
    for number in _DROPPED_CAPABILITIES:
        _libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)  # refused if there is nothing to drop
    header, words = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    _check(_libc.capget(header, words), "reading capabilities")
    mask = sum(1 << number for number in _DROPPED_CAPABILITIES)
    for place in range(3):  # effective, permitted, inheritable
        words[place] &= ~mask
    _check(_libc.capset(header, words), "dropping capabilities")


def _enter_landlock(kept: Sequence[str]) -> None:
    """Forbid this process to write outside some folders and files.

    Raises:
        SandboxError: the kernel has no Landlock.
    """
    version = _check(_libc.syscall(_LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_VERSION_FLAG), "Landlock")
    rights = sum(1 << bit for since, bits in _LANDLOCK_WRITES if since <= version for bit in bits)
    attributes = struct.pack("<Q", rights)
    ruleset = _check(
        _libc.syscall(_LANDLOCK_CREATE_RULESET, attributes, len(attributes), 0), "making Landlock's rules"
    )
    for path in (*kept, *_AS_THEY_ARE):
        try:
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        of_file = rights if os.path.isdir(path) else rights & (1 << 1 | 1 << 14)
        rule = struct.pack("<Qi", of_file, opened)
        _check(_libc.syscall(_LANDLOCK_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0), f"allowing {path}")
        os.close(opened)
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "giving up new privileges")
    _check(_libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0), "putting Landlock's rules in force")
    os.close(ruleset)


def probe(folder: str, kinds: Sequence[str] = (OVERLAY, LANDLOCK)) -> tuple[str, dict[str, str]]:
    """Return the best sandbox that works here, and why a better one doesn't.

    Each kind is actually tried: a child process in it writes to a file outside.

    Args:
        folder: the folder for the trials' layers; must exist.
        kinds: the kinds to try, best first.

    Returns:
        The kind, and for each failed kind, why it doesn't work.
    """
    reasons: dict[str, str] = {}
    for kind in kinds:
        why_not = _why_not(kind, folder)
        if why_not is None:
            return kind, reasons
        reasons[kind] = why_not
    return NONE, reasons


def _why_not(kind: str, folder: str) -> str | None:
    from tunekit.trial.keeper import remove_tree  # noqa: PLC0415 - as a script, this file has no package

    try:
        place = tempfile.mkdtemp(prefix=".tunekit-probe-", dir=folder)
    except OSError as error:
        return f"{folder} can't be written: {error.strerror}"
    victim, kept = f"{place}/victim", f"{place}/kept"
    try:
        os.mkdir(kept)
        with open(victim, "w", encoding="ascii") as stream:
            stream.write("old")
        spec = {"kind": kind, "layer": f"{place}/layer", "kept": [kept], "shared": {}, "startup_files": {}}
        return _why_not_held(spec, victim, kept)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        remove_tree(place)


_PROBE_SCRIPT = """
import sys
victim, kept = sys.argv[1:]
open(kept + "/written", "w").close()
try:
    open(victim, "w").write("new")
except OSError:
    pass
"""


def _why_not_held(spec: dict[str, Any], victim: str, kept: str) -> str | None:
    inner = [sys.executable, "-I", "-S", "-c", _PROBE_SCRIPT, victim, kept]
    ran = subprocess.run(
        [sys.executable, "-I", "-S", __file__, json.dumps(spec), "--", *inner],
        capture_output=True,
        timeout=_PROBE_LIMIT_S,
        check=False,
    )
    if ran.returncode:
        lines = ran.stderr.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else f"exit status {ran.returncode}"
    with open(victim, encoding="ascii") as stream:
        if stream.read() != "old":
            return "a file outside could be changed"
    return None if os.path.exists(f"{kept}/written") else "the trial's own folder could not be written"


def written_in(layer: str) -> Iterator[tuple[str, bool]]:
    """Yield what was written to a trial's layer: each entry's path, and whether it was removed.

    Folders are left out, except removed ones. Without an overlay, the agent fills such a layer.
    """
    folders = [] if os.path.islink(layer) else [layer]
    while folders:
        try:
            entries = sorted(os.scandir(folders.pop()), key=lambda entry: entry.name)
        except OSError:  # missing, locked by the script, or too deep for a path
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
                continue
            _, _, kind, *path = entry.path[len(layer) :].split("/", 3)
            if kind == "upper" and path:
                yield f"/{path[0]}", _is_whiteout(entry.path)


def _is_whiteout(path: str) -> bool:
    try:
        status = os.lstat(path)
        is_link = stat.S_ISLNK(status.st_mode)
        return (
            os.readlink(path) == _REMOVED if is_link else stat.S_ISCHR(status.st_mode) and not status.st_rdev
        )
    except OSError:
        return False


def main() -> None:
    """Become a command in a sandbox."""
    spec, command = json.loads(sys.argv[1]), sys.argv[3:]
    parent = os.getppid()
    try:
        if spec["kind"] == LANDLOCK:
            _enter_landlock(spec["kept"])
        else:
            OverlayNet(spec["layer"], spec["kept"], spec["shared"], spec["startup_files"]).enter()
        _drop_capabilities()
    except (SandboxError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(REFUSED_STATUS)
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # a change of credentials may have cleared it
    if os.getppid() != parent:
        sys.exit(REFUSED_STATUS)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and the command would too
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]} could not be started: {os.strerror(error.errno or errno.ENOENT)}\n")
        sys.exit(NOT_STARTED_STATUS)


if __name__ == "__main__":
    main()
