"""The functions that delete, rename, link and mark directory entries, as plans over the overlay."""

from __future__ import annotations

import errno
import os
import posix
import shutil
import stat
from typing import Any, Callable

from .denied import answer
from .overlay import Overlay
from .paths import follow, status_of


def _done() -> None:
    """Stand for a call that changes nothing on disk."""


def _is_folder(status: os.stat_result | None) -> bool:
    return status is not None and stat.S_ISDIR(status.st_mode)


class Entries:
    """Plans for everything that changes a directory entry; see files.guarded.

    Args:
        overlay: what the script sees.
    """

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay

    # --- deleting and making ---------------------------------------------------------------

    def remove(self, original: Callable, path: Any, *, dir_fd: int | None = None) -> Any:
        """Plan os.remove: what is old is hidden instead."""
        overlay = self._overlay
        entry = overlay.locator.entry(path, dir_fd)
        if entry is None or overlay.is_free(entry):
            return None
        overlay.locator.forget()
        with overlay.lock:
            if entry in overlay.removed:
                raise answer(errno.ENOENT, path)
            if entry in overlay.diverted:
                self._discard(entry)
                return _done
            status = status_of(entry)
            if status is None or not overlay.existed(entry):
                return None
            if _is_folder(status):
                raise answer(errno.EISDIR, path)
            overlay.hide(entry)
            return _done

    def _discard(self, entry: str) -> None:
        """Delete a copy, and a new file that it may stand for."""
        overlay = self._overlay
        copy = overlay.diverted[entry]
        if status_of(copy) is not None:
            posix.unlink(copy)
        self._forget(entry)

    def _forget(self, entry: str) -> None:
        self._overlay.drop(entry)
        if entry not in self._overlay.removed and status_of(entry) is not None:
            posix.unlink(entry)

    def rmdir(self, original: Callable, path: Any, *, dir_fd: int | None = None) -> Any:
        """Plan os.rmdir: an old folder is hidden, if the script finds it empty."""
        overlay = self._overlay
        entry = overlay.locator.entry(path, dir_fd)
        if entry is None or overlay.is_free(entry):
            return None
        overlay.locator.forget()
        with overlay.lock:
            if entry in overlay.removed:
                raise answer(errno.ENOENT, path)
            status = status_of(entry)
            if not _is_folder(status):
                if status is None and entry not in overlay.diverted:
                    return None
                raise answer(errno.ENOTDIR, path)
            physical = posix.listdir(entry)
            if overlay.names_in(entry, physical):
                raise answer(errno.ENOTEMPTY, path)
            if not physical and not overlay.existed(entry):
                return None
            overlay.hide(entry)
            return _done

    def mkdir(self, original: Callable, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> Any:
        """Plan os.mkdir: a hidden folder comes back, empty."""
        overlay = self._overlay
        entry = overlay.locator.entry(path, dir_fd)
        if entry is None or overlay.is_free(entry):
            return None
        with overlay.lock:
            if os.path.dirname(entry) in overlay.removed:
                raise answer(errno.ENOENT, path)
            if entry in overlay.removed:
                if not _is_folder(status_of(entry)):
                    overlay.deny("making a folder where a file was", entry, "give it another name")
                overlay.show(entry)
                return _done
            if entry in overlay.diverted:
                raise answer(errno.EEXIST, path)
            return self._making(entry, lambda: original(path, mode, dir_fd=dir_fd))

    def _making(self, entry: str, make: Callable) -> Callable:
        """Return a step that makes a new entry and lists it."""
        self._overlay.remember_parent(entry)

        def step():
            make()
            self._overlay.born(entry)

        return step

    # --- renaming --------------------------------------------------------------------------

    def rename(
        self,
        original: Callable,
        src: Any,
        dst: Any,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
    ) -> Any:
        """Plan os.rename: what it would replace is covered, what it would take away is hidden."""
        overlay = self._overlay
        source = overlay.locator.entry(src, src_dir_fd)
        goal = overlay.locator.entry(dst, dst_dir_fd)
        if source is None or goal is None or (overlay.is_free(source) and overlay.is_free(goal)):
            return None
        overlay.locator.forget()
        with overlay.lock:
            if not overlay.is_visible(source):
                raise answer(errno.ENOENT, src)
            if not overlay.has_folder(os.path.dirname(goal)):
                raise answer(errno.ENOENT, dst)
            if source == goal:
                return _done
            make = lambda: original(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)  # noqa: E731
            if source not in overlay.diverted and _is_folder(status_of(source)):
                return self._rename_folder(source, goal, dst, make)
            return self._rename_file(source, goal, dst, make)

    def _rename_file(self, source: str, goal: str, dst: Any, make: Callable) -> Any:
        overlay = self._overlay
        if goal not in overlay.removed and goal not in overlay.diverted and _is_folder(status_of(goal)):
            raise answer(errno.EISDIR, dst)
        covers = goal in overlay.removed or goal in overlay.diverted or overlay.existed(goal)
        if not covers and source not in overlay.diverted and not overlay.existed(source):
            return self._making(goal, make) if status_of(goal) is None else None
        target = goal if overlay.is_free(goal) else overlay.place(goal)
        self._move_content(source, target)
        self._forget(source)
        if target != goal:
            overlay.put(goal, target)
            overlay.tell("diverted", goal)
        return _done

    def _move_content(self, source: str, target: str) -> None:
        """Put at the target what the script finds at the source; an old source stays."""
        overlay = self._overlay
        content = overlay.diverted.get(source, source)
        part = f"{overlay.folder}/renaming-{os.getpid()}-{id(target)}"
        status = posix.lstat(content)
        if stat.S_ISLNK(status.st_mode):
            posix.symlink(posix.readlink(content), part)
        elif content != source or not overlay.existed(source):
            shutil.move(content, part)
        elif stat.S_ISREG(status.st_mode):
            overlay.copy_file(overlay.redirected.get(source, source), part, source)
        else:
            overlay.deny("renaming what is no plain file", source, "write to a new name")
        if status_of(target) is not None:
            posix.unlink(target)
        shutil.move(part, target)

    def _rename_folder(self, source: str, goal: str, dst: Any, make: Callable) -> Any:
        overlay = self._overlay
        if overlay.existed(source):
            overlay.deny("renaming a folder", source, "write to a new name")
        if goal in overlay.removed and _is_folder(status_of(goal)):
            return lambda: self._fill_folder(source, goal)
        if goal in overlay.removed:
            overlay.deny("putting a folder where a file was", goal, "give it another name")
        if goal in overlay.diverted:
            raise answer(errno.ENOTDIR, dst)
        if overlay.existed(goal):
            if not _is_folder(status_of(goal)):
                raise answer(errno.ENOTDIR, dst)
            if overlay.names_in(goal, posix.listdir(goal)):
                raise answer(errno.ENOTEMPTY, dst)
            return lambda: self._fill_folder(source, goal)
        step = self._making(goal, make) if status_of(goal) is None else make

        def renamed():
            step()
            self._rename_copies(source, goal)

        return renamed

    def _fill_folder(self, source: str, goal: str) -> None:
        """Rename a new folder over an old empty one, name by name: the old one itself stays."""
        self._overlay.show(goal)
        for name in os.listdir(source):
            if os.path.isdir(f"{source}/{name}") and not os.path.islink(f"{source}/{name}"):
                os.makedirs(f"{goal}/{name}", exist_ok=True)
                self._fill_folder(f"{source}/{name}", f"{goal}/{name}")
            else:
                os.rename(f"{source}/{name}", f"{goal}/{name}")
        if os.path.isdir(source):
            os.rmdir(source)

    def _rename_copies(self, source: str, goal: str) -> None:
        """Let the copies that belong into a renamed folder follow it."""
        overlay = self._overlay
        with overlay.lock:
            for entry in [entry for entry in overlay.diverted if entry.startswith(f"{source}/")]:
                copy = overlay.diverted.pop(entry)
                moved = goal + entry[len(source) :]
                target = overlay.place(moved)
                posix.rename(copy, target)
                overlay.put(moved, target)

    # --- linking ---------------------------------------------------------------------------

    def link(
        self,
        original: Callable,
        src: Any,
        dst: Any,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
        follow_symlinks: bool = True,
    ) -> Any:
        """Plan os.link: a link to an old file would change that file's status, so it becomes a copy."""
        overlay = self._overlay
        source = overlay.locator.entry(src, src_dir_fd)
        goal = overlay.locator.entry(dst, dst_dir_fd)
        if source is None or goal is None or (overlay.is_free(source) and overlay.is_free(goal)):
            return None
        with overlay.lock:
            if not overlay.is_visible(source):
                raise answer(errno.ENOENT, src)
            if overlay.is_visible(goal):
                raise answer(errno.EEXIST, dst)
            if not overlay.has_folder(os.path.dirname(goal)):
                raise answer(errno.ENOENT, dst)
            content = overlay.diverted.get(source, source)
            if _is_folder(status_of(content)):
                raise answer(errno.EPERM, src)
            real = follow(source) if content == source else overlay.linked(source, content)
            if not overlay.is_visible(real):
                raise answer(errno.ENOENT, src)
            covers = goal in overlay.removed
            if content == source and not covers and not overlay.existed(source) and not overlay.existed(real):
                return self._making(
                    goal,
                    lambda: original(
                        src,
                        dst,
                        src_dir_fd=src_dir_fd,
                        dst_dir_fd=dst_dir_fd,
                        follow_symlinks=follow_symlinks,
                    ),
                )
            target = overlay.place(goal) if covers else goal
            if covers and status_of(target) is not None:
                posix.unlink(target)
            overlay.copy_file(overlay.diverted.get(real, real), target, source)
            if covers:
                overlay.put(goal, target)
                overlay.tell("diverted", goal)
            else:
                overlay.born(goal)
            return _done

    def symlink(
        self,
        original: Callable,
        src: Any,
        dst: Any,
        target_is_directory: bool = False,
        *,
        dir_fd: int | None = None,
    ) -> Any:
        """Plan os.symlink: where something old was deleted, the link is made in the trial's folder."""
        overlay = self._overlay
        goal = overlay.locator.entry(dst, dir_fd)
        if goal is None or overlay.is_free(goal):
            return None
        overlay.locator.forget()
        with overlay.lock:
            if goal in overlay.diverted:
                raise answer(errno.EEXIST, dst)
            if os.path.dirname(goal) in overlay.removed:
                raise answer(errno.ENOENT, dst)
            if goal not in overlay.removed:
                return self._making(goal, lambda: original(src, dst, target_is_directory, dir_fd=dir_fd))
            if _is_folder(status_of(goal)):
                overlay.deny("making a link where a folder was", goal, "give it another name")
            target = overlay.place(goal)
            if status_of(target) is not None:
                posix.unlink(target)
            posix.symlink(os.fsdecode(src), target)
            overlay.put(goal, target)
            overlay.tell("diverted", goal)
            return _done

    # --- marking ---------------------------------------------------------------------------

    def truncate(self, original: Callable, path: Any, length: int) -> Any:
        """Plan os.truncate: a write that keeps what comes before."""
        copy, _ = self._overlay.write_path(path, create=False)
        return None if copy is None else lambda: original(copy, length)

    def own_attribute(self, original: Callable, path: Any, *args: Any, **kwargs: Any) -> Any:
        """Plan os.lchown, which marks a link itself."""
        return self._mark(original, False, path, *args, **kwargs)

    def attribute(self, original: Callable, path: Any, *args: Any, **kwargs: Any) -> Any:
        """Plan os.chmod and its like: old files keep their mode, owner, times and attributes."""
        return self._mark(original, kwargs.get("follow_symlinks", True), path, *args, **kwargs)

    def _mark(self, original: Callable, follows: bool, path: Any, *args: Any, **kwargs: Any) -> Any:
        overlay = self._overlay
        dir_fd = kwargs.get("dir_fd")
        entry = overlay.locator.entry(path, dir_fd)
        if entry is None or overlay.is_free(entry):
            return None
        with overlay.lock:
            if isinstance(path, int):
                hidden, copy = False, None  # the descriptor is a file, whatever its name stands for
            else:
                if follows and entry not in overlay.removed and entry not in overlay.diverted:
                    entry = follow(entry)
                hidden, copy = entry in overlay.removed, overlay.diverted.get(entry)
            if hidden:
                raise answer(errno.ENOENT, path)
            if copy is not None:
                kwargs.pop("dir_fd", None)
                target = overlay.linked(entry, copy) if follows else copy
                if target != copy:
                    return self._mark(original, follows, target, *args, **kwargs) or (
                        lambda: original(target, *args, **kwargs)
                    )
                return lambda: original(copy, *args, **kwargs)
            if not overlay.existed(entry):
                return None
            overlay.tell("denied", entry)
            return _done
