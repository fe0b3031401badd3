"""`tunekit data`: what reading a data set costs, a faster layout, and where to keep it."""

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.status import Status

from tunekit import __version__
from tunekit.cli.report_files import check_report_files, drawn, present
from tunekit.diagnose.data_layout import data_findings
from tunekit.diagnose.places import places
from tunekit.errors import UsageError
from tunekit.machine import detect
from tunekit.machine.profiles import find_profile
from tunekit.machine.storage.data_access import access_apart
from tunekit.machine.storage.inspect import inspect_storage_apart
from tunekit.machine.storage.layout_bench import LayoutBench, slice_limit, work_folder
from tunekit.machine.storage.rewrite import begun_plan, rewrite, unfinished
from tunekit.records.checkup import Storage, StorageKind
from tunekit.records.data_layout import ArrayAccess, DataAccess, DataReport, Layout, LayoutSearch
from tunekit.records.finding import without_findings
from tunekit.report.data import data_report
from tunekit.report.terminal import shown_text
from tunekit.tune.layouts import MAX_SLICE_BYTES, MAX_TRIALS, ROUNDS, search_layouts, slice_samples
from tunekit.units import MIB

USUAL_BUDGET_S = 60.0
_MAX_ACCESS_S = 8.0
_MAX_WINDOW_S = 1.0
_LOCAL_BYTES = 64 * MIB
"""Size of the file that the local disk is measured with."""
_VARIABLE_LENGTH = ("StringDType()", "object")
_SIZE_GUESS = 1.5
"""Assumed size of a layout that was not measured, as a multiple of the present size."""


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Measure a data set, search a layout or rewrite the store, show the report and return 0.

    Raises:
        UsageError: a flag, the data set or the new folder can't be used. TunekitError: a measurement fails,
        or the rewritten store differs.
    """
    check_report_files(options)
    typed = _typed_layout(options)
    console = Console(stderr=True, highlight=False)
    with console.status("inspecting the storage") as status:
        report = _Run(options, console, status).report(typed)
    report = without_findings(report, options.ignored)
    path = str(options.path)
    shown = drawn(report, lambda seen, _: data_report(seen, path), "data.json", options.full_paths)
    present(options, report, shown)
    return 0


def _typed_layout(options: argparse.Namespace) -> Layout | None:
    """Return the layout that --chunks, --shards and --codec give, if any."""
    given = [f"--{name}" for name in ("chunks", "shards", "codec") if getattr(options, name) is not None]
    if not given:
        return None
    if options.rewrite is None:
        raise UsageError(f"{given[0]} needs --rewrite NEW, the folder to write in that layout")
    if options.chunks is None:
        raise UsageError(f"{given[0]} needs --chunks N, the samples per chunk")
    if options.shards and options.shards % options.chunks:
        raise UsageError(
            f"--shards must be a multiple of --chunks, got {options.shards} and {options.chunks}; "
            f"write --shards {-(-options.shards // options.chunks) * options.chunks}"
        )
    return Layout(chunk_samples=options.chunks, shard_samples=options.shards, codec=options.codec)


@dataclass
class _Run:
    """One run of the verb."""

    options: argparse.Namespace
    console: Console
    status: Status

    def report(self, typed: Layout | None) -> DataReport:
        source, new, host = self.options.path, self.options.rewrite, detect.detect_host()
        vram_bytes = next((gpu.usable_bytes for gpu in host.accelerators), None)
        if self.options.gpu:
            vram_bytes = find_profile(self.options.gpu).capacity_bytes
        budget_s = self.options.budget or USUAL_BUDGET_S
        end_s = time.monotonic() + budget_s
        storage = inspect_storage_apart(source)
        begun = None if new is None else begun_plan(source, new)
        self._say("reading samples, cold and warm")
        access = access_apart(source, min(_MAX_ACCESS_S, budget_s / 4))
        if new is not None and not access.arrays:
            raise UsageError(f"--rewrite needs a zarr store with arrays, and {str(source)!r} has none")
        search, layouts, why_not = None, dict[str, Layout](), "not a zarr store"
        if access.arrays:
            array = _chosen(access, self.options.array)
            if begun is not None and typed in (None, *begun.layouts.values()):
                layouts, why_not = begun.layouts, "an unfinished rewrite is resumed"
            elif typed is not None:
                if not array.chunks_per_sample:
                    raise UsageError(f"{array.name} has no samples to store; choose another with --array")
                layouts, why_not = {array.path: typed}, "--chunks gave one"
            elif not (why_not := _why_not_searched(array)):
                search = self._search(source, new or source, array, end_s)
                layouts = {array.path: search.recommended} if search.recommended else {}
        local, free_bytes = self._local_disk(source, storage)
        report = DataReport(
            tunekit_version=__version__,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            storage=storage,
            access=access,
            search=search,
            why_not_searched=None if search else why_not,
            places=places(storage, access, local, free_bytes, host.ram_available_bytes, vram_bytes),
            findings=data_findings(storage, access, host.ram_limit_bytes),
        )
        return report if new is None or not layouts else self._rewritten(report, source, new, layouts)

    def _say(self, what: str) -> None:
        """Show what is being done, as a line where there is no terminal."""
        self.status.update(what)
        if not self.console.is_terminal:
            self.console.print(shown_text(what), soft_wrap=True)

    def _search(self, source: Path, near: Path, array: ArrayAccess, end_s: float) -> LayoutSearch:
        budget_s = max(1.0, end_s - time.monotonic())
        window_s = min(_MAX_WINDOW_S, budget_s / (4 * MAX_TRIALS))
        with work_folder(near) as folder:
            samples = slice_samples(array, min(MAX_SLICE_BYTES, slice_limit(folder)))
            if samples < 2:
                raise UsageError(
                    f"{str(folder.parent)!r} has no space for two samples of {array.name}; free some, "
                    "or choose a layout with --rewrite NEW --chunks N"
                )
            bench = LayoutBench(source, array, samples, folder, window_s, self._say)
            deadline_s = end_s - 2 * ROUNDS * window_s
            limit = self.options.max_size
            return search_layouts(array, samples, limit, bench.measure, bench.again, deadline_s)

    def _local_disk(self, source: Path, storage: Storage) -> tuple[Storage | None, int]:
        """Return the disk of temporary files, measured, and its free space; None if the data is on it."""
        place = Path(tempfile.gettempdir())
        free_bytes = shutil.disk_usage(place).free
        is_same = place.stat().st_dev == source.stat().st_dev
        if is_same or storage.kind is StorageKind.MEMORY or free_bytes < 4 * _LOCAL_BYTES:
            return None, free_bytes
        self._say(f"reading a file in {place}, to compare")
        with tempfile.NamedTemporaryFile(prefix="tunekit-") as file:
            file.write(os.urandom(_LOCAL_BYTES))
            file.flush()
            os.fsync(file.fileno())
            local = inspect_storage_apart(Path(file.name))
        return (None if local.kind is StorageKind.MEMORY else local), free_bytes

    def _rewritten(
        self, report: DataReport, source: Path, new: Path, layouts: Mapping[str, Layout]
    ) -> DataReport:
        shown_s = 0.0

        def progress(doing: str, done: int, blocks: int) -> None:
            nonlocal shown_s
            if self.console.is_terminal or time.monotonic() > shown_s:
                shown_s = time.monotonic() + 2.0
                self._say(f"{doing} {new}: block {done + 1:,} of {blocks:,}")

        try:
            done = rewrite(source, new, layouts, _expected_bytes(report, layouts), progress)
        except KeyboardInterrupt:
            self.status.stop()
            kept = f"interrupted; to resume from {unfinished(new)}, run the same command again"
            self.console.print(shown_text(kept), soft_wrap=True)
            raise
        self._say(f"reading samples of {new}")
        after = access_apart(new, _MAX_ACCESS_S)
        changed = next((one for one in after.arrays if one.path in layouts), None)
        return report.changed(rewrite=done, rewritten=changed)


def _chosen(access: DataAccess, name: str | None) -> ArrayAccess:
    """Return the named array; by default the slowest of the arrays with as many samples as the largest."""
    if name is not None:
        known = {one.path: one for one in access.arrays}
        if name not in known:
            raise UsageError(f"no array {name!r}; there are: {', '.join(known)}")
        return known[name]
    largest = access.arrays[0]
    rated = [one for one in access.arrays if one.rates.random_cold and one.shape[:1] == largest.shape[:1]]
    return min(rated, key=lambda one: one.rates.random_cold or 0.0, default=largest)


def _why_not_searched(array: ArrayAccess) -> str:
    if array.dtype in _VARIABLE_LENGTH:
        return f"{array.name} has text of variable length"
    reason = "it has only one sample" if array.shape[:1] == (1,) else array.why_not_measured
    return f"{array.name}: {reason}" if reason else ""


def _expected_bytes(report: DataReport, layouts: Mapping[str, Layout]) -> int:
    """Return the expected size of a rewritten store, by the measured layout, else by a high guess."""
    ratio = report.search.best.size_ratio if report.search and report.search.best else None
    total = 0.0
    for one in report.access.arrays:
        factor = 1.0 if one.path not in layouts else ratio or _SIZE_GUESS
        is_plain = one.path in layouts and layouts[one.path].codec == "none"
        total += max(one.stored_bytes * factor, one.decoded_bytes * is_plain)
    return round(total)
