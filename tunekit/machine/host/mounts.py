"""Parses this process's mounts from /proc/self/mountinfo, see proc_pid_mountinfo(5)."""

import os
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

_OCTAL = re.compile(rb"\\([0-3][0-7]{2})")


class Mount(NamedTuple):
    """One mounted file system, or a part of one."""

    device: str
    """The device numbers, such as "259:2"; "0:N" for a file system without a block device."""
    root: PurePosixPath
    """The folder of the file system that appears at the mount point; not "/" for a bind mount."""
    point: PurePosixPath
    filesystem: str
    """Its type: "ext4", "nfs4", "fuse.sshfs", ..."""
    source: str
    """What is mounted, such as "/dev/sda1", "server:/export" or an arbitrary word."""
    options: str
    """The options of the file system, not those of the mount."""


def mounts_of(root: Path) -> list[Mount]:
    """Return the mounts in the kernel's order; malformed lines are skipped."""
    try:
        text = (root / "proc/self/mountinfo").read_bytes()
    except OSError:
        return []
    # Only line feeds end lines and only spaces end fields: names may contain any other byte unescaped.
    found = (_mount_in(line) for line in text.split(b"\n"))
    return [mount for mount in found if mount is not None]


def mount_under(path: PurePosixPath, mounts: Sequence[Mount]) -> Mount | None:
    """Return the mount that contains an absolute path without links; None if there is none.

    It is the one with the longest mount point; if two share a mount point, the later one hides the other.
    """
    holding = [mount for mount in reversed(mounts) if path.is_relative_to(mount.point)]
    return max(holding, key=lambda mount: len(mount.point.parts), default=None)


def _mount_in(line: bytes) -> Mount | None:
    before, _, after = line.partition(b" - ")
    fields, source = before.split(b" "), after.split(b" ", 2)
    if len(fields) < 6 or len(source) < 3:
        return None
    return Mount(
        device=_name(fields[2]),
        root=PurePosixPath(_name(fields[3])),
        point=PurePosixPath(_name(fields[4])),
        filesystem=_name(source[0]),
        source=_name(source[1]),
        options=_name(source[2]),
    )


def _name(field: bytes) -> str:
    """Decode a field: the kernel escapes spaces and the like as a backslash and three octal digits."""
    return os.fsdecode(_OCTAL.sub(lambda match: bytes([int(match[1], 8)]), field))
