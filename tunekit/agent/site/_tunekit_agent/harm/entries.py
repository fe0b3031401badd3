"""The functions that delete, make, rename, link and mark directory entries, as plans over the overlay."""

from __future__ import annotations

import contextlib
import errno
import os
import posix
import stat
from typing import Any, Callable

from .denied import answer
from .overlay import Overlay
from .paths import is_folder, move, status_of, wipe


def _done() -> None:
    """Stand for a call that changes nothing on disk."""


class Entries:
    """Plans for everything that changes a directory entry; see files.guarded.

    Args:
        overlay: what the script sees.
    """

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay

    def _own(self, original: Callable, path: Any, dir_fd: int | None, *args: Any) -> tuple:
        """Return the entry, None where nothing has to be decided; and the call as it is then made."""
        overlay = self._overlay
        entry, is_elsewhere = overlay.find(path, dir_fd)
        if entry is None:
            return None, None
        here = (lambda: original(entry, *args)) if is_elsewhere else None
        if overlay.is_free(entry):
            return None, here
        if overlay.is_in_new_folder(entry):
            return None, lambda: original(overlay.copy_of(entry), *args)
        return entry, here

    # --- deleting and making ---------------------------------------------------------------

    def remove(self, original: Callable, path: Any, *, dir_fd: int | None = None) -> Any:
        """Plan os.remove: what is old is hidden instead."""
        overlay = self._overlay
        entry, here = self._own(original, path, dir_fd)
        if entry is None:
            return here
        with overlay.journal:
            overlay.locator.forget()
            if entry in overlay.removed:
                raise answer(errno.ENOENT, path)
            status = status_of(overlay.physical(entry))
            if entry in overlay.diverted and not is_folder(status):
                wipe(overlay.copy_of(entry))
                self._forget(entry)
                return _done
            if entry not in overlay.diverted and not overlay.existed(entry):
                return here
            if is_folder(status):
                raise answer(errno.EISDIR, path)
            overlay.hide(entry)
            return _done

    def _forget(self, entry: str) -> None:
        """Let nothing be at an entry for which something in the mirror stood."""
        overlay = self._overlay
        if overlay.is_in_new_folder(entry):
            return
        overlay.drop(entry)
        status = status_of(entry)
        if status is not None and entry not in overlay.removed:
            (posix.rmdir if is_folder(status) else posix.unlink)(entry)

    def rmdir(self, original: Callable, path: Any, *, dir_fd: int | None = None) -> Any:
        """Plan os.rmdir: an old folder is hidden, if the script finds it empty."""
        overlay = self._overlay
        entry, here = self._own(original, path, dir_fd)
        if entry is None:
            return here
        with overlay.journal:
            overlay.locator.forget()
            if entry in overlay.removed:
                raise answer(errno.ENOENT, path)
            physical = overlay.physical(entry)
            status = status_of(physical)
            if status is None:
                return here
            if not is_folder(status):
                raise answer(errno.ENOTDIR, path)
            names = posix.listdir(physical)
            if overlay.names_in(entry, names):
                raise answer(errno.ENOTEMPTY, path)
            if entry in overlay.diverted:
                posix.rmdir(physical)
                overlay.drop(entry)
                return _done
            if not names and not overlay.existed(entry):
                return here
            overlay.hide(entry)
            return _done

    def mkdir(self, original: Callable, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> Any:
        """Plan os.mkdir: a hidden folder comes back, empty; where nothing can be made the mirror gets it."""
        overlay = self._overlay
        entry, here = self._own(original, path, dir_fd, mode)
        if entry is None:
            return here
        with overlay.journal:
            parent = os.path.dirname(entry)
            if parent in overlay.removed:
                raise answer(errno.ENOENT, path)
            if entry in overlay.diverted:
                raise answer(errno.EEXIST, path)
            if entry in overlay.removed and is_folder(status_of(entry)):
                overlay.show(entry)
                return _done
            if entry in overlay.removed or self._is_new_for_mirror(entry):
                posix.mkdir(overlay.place(entry), mode)
                overlay.put(entry)
                return _done
            return self._making(entry, here or (lambda: original(path, mode, dir_fd=dir_fd)))

    def node(self, original: Callable, path: Any, *args: Any, **kwargs: Any) -> Any:
        """Plan os.mkfifo and os.mknod."""
        overlay = self._overlay
        entry, here = self._own(original, path, kwargs.get("dir_fd"), *args)
        if entry is None:
            return here
        with overlay.journal:
            if entry not in overlay.removed and not self._is_new_for_mirror(entry):
                return self._making(entry, here or (lambda: original(path, *args, **kwargs)))
            kwargs.pop("dir_fd", None)
            original(overlay.place(entry), *args, **kwargs)
            overlay.put(entry)
            return _done

    def _is_new_for_mirror(self, entry: str) -> bool:
        """Return whether the entry is missing, could be made, and has to be made in the mirror."""
        overlay = self._overlay
        return (
            overlay.goes_to_mirror(entry)
            and not overlay.is_visible(entry)
            and overlay.has_folder(os.path.dirname(entry))
        )

    def _making(self, entry: str, make: Callable) -> Callable:
        """Return a step that makes a new entry, remembers and lists it."""

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
        source, source_elsewhere = overlay.find(src, src_dir_fd)
        goal, goal_elsewhere = overlay.find(dst, dst_dir_fd)
        if source is None or goal is None:
            return None
        make = lambda: original(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)  # noqa: E731
        if source_elsewhere or goal_elsewhere or self._is_its_own(source) or self._is_its_own(goal):
            make = lambda: original(overlay.physical(source), overlay.physical(goal))  # noqa: E731
        if self._is_its_own(source) and self._is_its_own(goal):
            return make
        with overlay.journal:
            overlay.locator.forget()
            if not overlay.is_visible(source):
                raise answer(errno.ENOENT, src)
            if not overlay.has_folder(os.path.dirname(goal)):
                raise answer(errno.ENOENT, dst)
            if source == goal:
                return _done
            if is_folder(status_of(overlay.physical(source))):
                return self._rename_folder(source, goal, src, dst, make)
            return self._rename_file(source, goal, dst, make)

    def _is_its_own(self, entry: str) -> bool:
        """Return whether the trial may do at an entry what it likes, and nobody has to know."""
        return self._overlay.is_free(entry) or self._overlay.is_in_new_folder(entry)

    def _needs_cover(self, source: str, goal: str) -> bool:
        """Return whether a rename can't be made as asked."""
        overlay = self._overlay
        return (
            goal in overlay.removed
            or overlay.is_diverted(goal)
            or overlay.is_diverted(source)
            or overlay.existed(goal)
            or overlay.existed(source)
            or (overlay.goes_to_mirror(goal) and not overlay.is_free(goal))
        )

    def _rename_file(self, source: str, goal: str, dst: Any, make: Callable) -> Any:
        overlay = self._overlay
        if overlay.has_folder(goal):
            raise answer(errno.EISDIR, dst)
        if not self._needs_cover(source, goal):
            return self._making(goal, make)
        target = overlay.physical(goal) if self._is_its_own(goal) else overlay.place(goal)
        self._move_content(source, target)
        self._settle(source, goal)
        return _done

    def _settle(self, source: str, goal: str) -> None:
        """Note that what was at the source is in place for the goal."""
        overlay = self._overlay
        if not overlay.is_free(source):
            self._forget(source)
        if not self._is_its_own(goal):
            overlay.put(goal)

    def _move_content(self, source: str, target: str) -> None:
        """Put at the target what the script finds at the source; an old source stays."""
        overlay = self._overlay
        content = overlay.physical(source)
        part = f"{overlay.folder}/renaming-{os.getpid()}-{id(target)}"
        status = posix.lstat(content)
        if stat.S_ISLNK(status.st_mode):
            posix.symlink(posix.readlink(content), part)
            if content != source:
                wipe(content)
        elif content != source or not overlay.existed(source):
            move(content, part)
        elif stat.S_ISREG(status.st_mode):
            overlay.copy_file(overlay.redirected.get(source, source), part, source)
        else:
            overlay.deny("renaming what is no plain file", source, "write to a new name")
        wipe(target)
        move(part, target)

    def _rename_folder(self, source: str, goal: str, src: Any, dst: Any, make: Callable) -> Any:
        overlay = self._overlay
        if goal.startswith(f"{source}/"):
            raise answer(errno.EINVAL, src)
        if not overlay.is_diverted(source) and overlay.existed(source):
            overlay.deny("renaming a folder", source, "write to a new name")
        if overlay.is_visible(goal):
            if not overlay.has_folder(goal):
                raise answer(errno.ENOTDIR, dst)
            if overlay.names_in(goal, posix.listdir(overlay.physical(goal))):
                raise answer(errno.ENOTEMPTY, dst)
        if not self._needs_cover(source, goal):

            def renamed():
                make()
                overlay.moved(source, goal)
                overlay.born(goal)

            return renamed
        self._gather(source)
        target = overlay.physical(goal) if self._is_its_own(goal) else overlay.place(goal)
        wipe(target)
        move(overlay.physical(source), target)
        self._settle(source, goal)
        return _done

    def _gather(self, folder: str) -> None:
        """Bring what stands for entries of a folder that the trial made into the folder itself."""
        overlay = self._overlay
        if overlay.is_diverted(folder):
            return
        start = f"{folder}/"
        changed = sorted(entry for entry in (*overlay.removed, *overlay.diverted) if entry.startswith(start))
        if any(map(overlay.existed, changed)):
            overlay.deny("renaming a folder", folder, "write to a new name")
        for entry in changed:
            wipe(entry)
            move(overlay.copy_of(entry), entry)
            overlay.show(entry)

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
        source, source_elsewhere = overlay.find(src, src_dir_fd)
        goal, goal_elsewhere = overlay.find(dst, dst_dir_fd)
        if source is None or goal is None:
            return None
        if not source_elsewhere and not goal_elsewhere and overlay.is_free(source) and overlay.is_free(goal):
            return None
        with overlay.journal:
            if not overlay.is_visible(source):
                raise answer(errno.ENOENT, src)
            if overlay.is_visible(goal):
                raise answer(errno.EEXIST, dst)
            if not overlay.has_folder(os.path.dirname(goal)):
                raise answer(errno.ENOENT, dst)
            real = overlay.follow(source)[0]
            if overlay.has_folder(source) or overlay.has_folder(real):
                raise answer(errno.EPERM, src)
            if not overlay.is_visible(real):
                raise answer(errno.ENOENT, src)
            in_mirror = not self._is_its_own(goal) and (
                goal in overlay.removed or overlay.goes_to_mirror(goal)
            )
            target = overlay.place(goal) if in_mirror else overlay.physical(goal)
            self._link_or_copy(real, target)
            if in_mirror:
                overlay.put(goal)
            else:
                overlay.born(goal if target == goal else None)
            return _done

    def _link_or_copy(self, real: str, target: str) -> None:
        overlay = self._overlay
        content = overlay.physical(real)
        wipe(target)
        if content != real or not overlay.existed(real):
            with contextlib.suppress(OSError):  # another file system
                posix.link(content, target)
                return
        overlay.copy_file(overlay.redirected.get(content, content), target, real)

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
        goal, is_elsewhere = overlay.find(dst, dir_fd)
        if goal is None:
            return None
        if self._is_its_own(goal):
            is_moved = is_elsewhere or overlay.is_diverted(goal)
            return (lambda: original(src, overlay.physical(goal))) if is_moved else None
        with overlay.journal:
            overlay.locator.forget()
            if goal in overlay.diverted:
                raise answer(errno.EEXIST, dst)
            if os.path.dirname(goal) in overlay.removed:
                raise answer(errno.ENOENT, dst)
            if goal not in overlay.removed and not self._is_new_for_mirror(goal):
                shown, folder = (goal, None) if is_elsewhere else (dst, dir_fd)
                return self._making(goal, lambda: original(src, shown, target_is_directory, dir_fd=folder))
            posix.symlink(src, overlay.place(goal))
            overlay.put(goal)
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
        entry, is_elsewhere = overlay.find(path, kwargs.get("dir_fd"))
        if entry is None:
            return None
        if isinstance(path, int):  # the descriptor is a file, whatever its name stands for
            follows = False
        elif follows:
            entry, is_elsewhere = overlay.follow(entry, is_elsewhere)
        if not isinstance(path, int) and entry in overlay.removed:
            raise answer(errno.ENOENT, path)
        is_moved = not isinstance(path, int) and overlay.is_diverted(entry)
        if not is_moved and overlay.existed(entry):
            overlay.tell("denied", entry)
            return _done
        if not is_moved and not is_elsewhere:
            return None
        kwargs.pop("dir_fd", None)
        return lambda: original(overlay.physical(entry), *args, **kwargs)
