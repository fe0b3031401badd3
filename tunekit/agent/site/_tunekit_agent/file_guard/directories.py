"""The functions that delete, make, rename, link and mark directory entries, as plans over the overlay."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import posix
import stat
from typing import Any, Callable

from .overlay import Overlay, answer
from .paths import is_folder, move, status_of, wipe

_REMEDY = "write to a new name"


def _done() -> None:
    """Stand for a call that changes nothing on disk."""


class _Call:
    """One call for a directory entry.

    Attributes:
        here: makes the call where the entry is, None where that is what the call would do anyway.
        make: makes the call at the entry.
    """

    def __init__(
        self, original: Callable, entry: str, path: Any, here: Callable | None, make: Callable
    ) -> None:
        self.original, self.entry, self.path, self.here, self.make = original, entry, path, here, make


def _on_entry(plan: Callable) -> Callable:
    """Find the entry that a call is about, and plan only what concerns the overlay: within its journal."""

    @functools.wraps(plan)
    def guarded(self, original, path, *args, dir_fd=None, **kwargs):
        overlay = self._overlay
        entry, is_elsewhere = overlay.find(path, dir_fd)
        if entry is None:
            return None
        here = (lambda: original(entry, *args, **kwargs)) if is_elsewhere else None
        if overlay.is_free(entry):
            return here
        if overlay.is_in_new_folder(entry):
            return lambda: original(overlay.copy_of(entry), *args, **kwargs)
        make = here or (lambda: original(path, *args, dir_fd=dir_fd, **kwargs))
        with overlay.journal:
            overlay.locator.forget()
            return plan(self, _Call(original, entry, path, here, make), *args, **kwargs)

    return guarded


def _on_two_entries(leaves_own: bool) -> Callable:
    """Find source and goal of a call, and plan only what concerns the overlay: within its journal.

    Args:
        leaves_own: whether a call is made as it is where source and goal are the trial's own.
    """

    def decorated(plan: Callable) -> Callable:
        @functools.wraps(plan)
        def guarded(self, original, src, dst, *, src_dir_fd=None, dst_dir_fd=None, **kwargs):
            overlay = self._overlay
            source, source_elsewhere = overlay.find(src, src_dir_fd)
            goal, goal_elsewhere = overlay.find(dst, dst_dir_fd)
            if source is None or goal is None:
                return None
            is_elsewhere = source_elsewhere or goal_elsewhere
            if not is_elsewhere and overlay.is_free(source) and overlay.is_free(goal):
                return None
            if is_elsewhere or self._is_its_own(source) or self._is_its_own(goal):
                make = lambda: original(overlay.physical(source), overlay.physical(goal))  # noqa: E731
            else:
                folders = {"src_dir_fd": src_dir_fd, "dst_dir_fd": dst_dir_fd}
                make = functools.partial(original, src, dst, **folders)
            if leaves_own and self._is_its_own(source) and self._is_its_own(goal):
                return make
            with overlay.journal:
                overlay.locator.forget()
                if not overlay.is_visible(source):
                    raise answer(errno.ENOENT, src)
                if not overlay.has_folder(os.path.dirname(goal)):
                    raise answer(errno.ENOENT, dst)
                calls = [_Call(original, *named, None, make) for named in ((source, src), (goal, dst))]
                return plan(self, *calls, **kwargs)

        return guarded

    return decorated


class Directories:
    """Plans for everything that changes a directory entry; see `stand_ins.guarded`."""

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay

    # --- deleting and making -------------------------------------------------------------------

    @_on_entry
    def remove(self, call: _Call) -> Any:
        """Plan os.remove: what is old is hidden instead."""
        overlay, entry = self._overlay, call.entry
        status = self._status(call)
        if overlay.has_copy(entry) and not is_folder(status):
            wipe(overlay.copy_of(entry))
            self._forget(entry)
            return _done
        if not overlay.has_copy(entry) and not overlay.existed(entry):
            return call.here
        if is_folder(status):
            raise answer(errno.EISDIR, call.path)
        overlay.hide(entry)
        return _done

    def _status(self, call: _Call) -> os.stat_result | None:
        """Return the status of what the script finds at an entry; the script's own error if it deleted it."""
        if self._overlay.is_removed(call.entry):
            raise answer(errno.ENOENT, call.path)
        return status_of(self._overlay.physical(call.entry))

    def _forget(self, entry: str) -> None:
        overlay = self._overlay
        if overlay.is_in_new_folder(entry):
            return
        overlay.drop(entry)
        status = status_of(entry)
        if status is not None and not overlay.is_removed(entry):
            (posix.rmdir if is_folder(status) else posix.unlink)(entry)

    @_on_entry
    def rmdir(self, call: _Call) -> Any:
        """Plan os.rmdir: an old folder is hidden, if the script finds it empty."""
        overlay, entry = self._overlay, call.entry
        status = self._status(call)
        if status is None:
            return call.here
        if not is_folder(status):
            raise answer(errno.ENOTDIR, call.path)
        physical = overlay.physical(entry)
        names = posix.listdir(physical)
        if overlay.names_in(entry, names):
            raise answer(errno.ENOTEMPTY, call.path)
        if overlay.has_copy(entry):
            posix.rmdir(physical)
            overlay.drop(entry)
            return _done
        if not names and not overlay.existed(entry):
            return call.here
        overlay.hide(entry)
        return _done

    @_on_entry
    def mkdir(self, call: _Call, mode: int = 0o777) -> Any:
        """Plan os.mkdir: a hidden folder comes back, empty; where nothing can be made the mirror gets it."""
        overlay, entry = self._overlay, call.entry
        self._insist_on_new(call)
        if overlay.is_removed(entry) and is_folder(status_of(entry)):
            overlay.show(entry)
            return _done
        if not self._goes_to_mirror(entry):
            return self._making(entry, call.make)
        return self._make_in_mirror(call, mode)

    @_on_entry
    def node(self, call: _Call, *args: Any, **kwargs: Any) -> Any:
        if not self._goes_to_mirror(call.entry):
            return self._making(call.entry, call.make)
        return self._make_in_mirror(call, *args, **kwargs)

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
        return self._symlink(functools.partial(original, src), dst, dir_fd=dir_fd)

    @_on_entry
    def _symlink(self, call: _Call) -> Any:
        self._insist_on_new(call)
        if not self._goes_to_mirror(call.entry):
            return self._making(call.entry, call.make)
        return self._make_in_mirror(call)

    def _insist_on_new(self, call: _Call) -> None:
        overlay = self._overlay
        if overlay.is_removed(os.path.dirname(call.entry)):
            raise answer(errno.ENOENT, call.path)
        if overlay.has_copy(call.entry):
            raise answer(errno.EEXIST, call.path)

    def _make_in_mirror(self, call: _Call, *args: Any, **kwargs: Any) -> Callable:
        call.original(self._overlay.place(call.entry), *args, **kwargs)
        self._overlay.put(call.entry)
        return _done

    def _goes_to_mirror(self, entry: str) -> bool:
        overlay = self._overlay
        if overlay.is_removed(entry):
            return True
        is_new = overlay.goes_to_mirror(entry) and not overlay.is_visible(entry)
        return is_new and overlay.has_folder(os.path.dirname(entry))

    def _making(self, entry: str, make: Callable) -> Callable:

        def step():
            make()
            self._overlay.born(entry)

        return step

    # --- renaming and linking ------------------------------------------------------------------

    @_on_two_entries(leaves_own=True)
    def rename(self, source: _Call, goal: _Call) -> Any:
        """Plan os.rename: what it would replace is covered, what it would take away is hidden."""
        if source.entry == goal.entry:
            return _done
        if is_folder(status_of(self._overlay.physical(source.entry))):
            return self._rename_folder(source, goal)
        return self._rename_file(source, goal)

    @_on_two_entries(leaves_own=False)
    def link(self, source: _Call, goal: _Call, follow_symlinks: bool = True) -> Any:
        """Plan os.link: a link to an old file would change that file's status, so it becomes a copy."""
        overlay, new = self._overlay, goal.entry
        if overlay.is_visible(new):
            raise answer(errno.EEXIST, goal.path)
        real = overlay.follow(source.entry)[0]
        if overlay.has_folder(source.entry) or overlay.has_folder(real):
            raise answer(errno.EPERM, source.path)
        if not overlay.is_visible(real):
            raise answer(errno.ENOENT, source.path)
        in_mirror = not self._is_its_own(new) and (overlay.is_removed(new) or overlay.goes_to_mirror(new))
        target = overlay.place(new) if in_mirror else overlay.physical(new)
        self._link_or_copy(real, target)
        if in_mirror:
            overlay.put(new)
        else:
            overlay.born(new if target == new else None)
        return _done

    def _is_its_own(self, entry: str) -> bool:
        """Return whether the trial may do at an entry what it likes, and nobody has to know."""
        return self._overlay.is_free(entry) or self._overlay.is_in_new_folder(entry)

    def _needs_cover(self, source: str, goal: str) -> bool:
        overlay = self._overlay
        return (
            overlay.is_removed(goal)
            or overlay.is_diverted(goal)
            or overlay.is_diverted(source)
            or overlay.existed(goal)
            or overlay.existed(source)
            or (overlay.goes_to_mirror(goal) and not overlay.is_free(goal))
        )

    def _rename_file(self, source: _Call, goal: _Call) -> Any:
        if self._overlay.has_folder(goal.entry):
            raise answer(errno.EISDIR, goal.path)
        if not self._needs_cover(source.entry, goal.entry):
            return self._making(goal.entry, goal.make)
        self._move_content(source.entry, self._place_for(goal.entry))
        self._settle(source.entry, goal.entry)
        return _done

    def _place_for(self, goal: str) -> str:
        overlay = self._overlay
        return overlay.physical(goal) if self._is_its_own(goal) else overlay.place(goal)

    def _settle(self, source: str, goal: str) -> None:
        if not self._overlay.is_free(source):
            self._forget(source)
        if not self._is_its_own(goal):
            self._overlay.put(goal)

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
            overlay.deny("renaming what is no plain file", source, _REMEDY)
        wipe(target)
        move(part, target)

    def _rename_folder(self, from_call: _Call, to_call: _Call) -> Any:
        overlay, source, goal = self._overlay, from_call.entry, to_call.entry
        if goal.startswith(f"{source}/"):
            raise answer(errno.EINVAL, from_call.path)
        if not overlay.is_diverted(source) and overlay.existed(source):
            overlay.deny("renaming a folder", source, _REMEDY)
        if overlay.is_visible(goal):
            if not overlay.has_folder(goal):
                raise answer(errno.ENOTDIR, to_call.path)
            if overlay.names_in(goal, posix.listdir(overlay.physical(goal))):
                raise answer(errno.ENOTEMPTY, to_call.path)
        if not self._needs_cover(source, goal):

            def renamed():
                to_call.make()
                overlay.moved(source, goal)
                overlay.born(goal)

            return renamed
        self._gather(source)
        target = self._place_for(goal)
        wipe(target)
        move(overlay.physical(source), target)
        self._settle(source, goal)
        return _done

    def _gather(self, folder: str) -> None:
        overlay = self._overlay
        if overlay.is_diverted(folder):
            return
        start = f"{folder}/"
        changed = sorted(entry for entry in overlay.known if entry.startswith(start))
        if any(map(overlay.existed, changed)):
            overlay.deny("renaming a folder", folder, _REMEDY)
        for entry in changed:
            wipe(entry)
            move(overlay.copy_of(entry), entry)
            overlay.show(entry)

    def _link_or_copy(self, real: str, target: str) -> None:
        overlay = self._overlay
        content = overlay.physical(real)
        wipe(target)
        if content != real or not overlay.existed(real):
            with contextlib.suppress(OSError):  # another file system
                posix.link(content, target)
                return
        overlay.copy_file(overlay.redirected.get(content, content), target, real)

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
        if not isinstance(path, int) and overlay.is_removed(entry):
            raise answer(errno.ENOENT, path)
        is_moved = not isinstance(path, int) and overlay.is_diverted(entry)
        if not is_moved and overlay.existed(entry):
            overlay.tell("denied", entry)
            return _done
        if not is_moved and not is_elsewhere:
            return None
        kwargs.pop("dir_fd", None)
        return lambda: original(overlay.physical(entry), *args, **kwargs)
