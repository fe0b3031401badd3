"""What reading a data set costs, the layout that a search recommends, and where to keep the data."""

from tunekit.records.checkup import StorageKind
from tunekit.records.data_layout import (
    ArrayAccess,
    DataReport,
    FilesOfKind,
    LayoutSearch,
    LayoutTrial,
    Place,
    PlaceKind,
)
from tunekit.report.blocks import (
    Basis,
    Block,
    Column,
    Commands,
    Facts,
    Lead,
    Line,
    Report,
    field_text,
    found_blocks,
    table_of,
)
from tunekit.report.doctor import storage_text
from tunekit.report.text import UNKNOWN, factor_text, gain_text
from tunekit.trial.typed_commands import quoted
from tunekit.units import bytes_text, count_text, rate_text, share_text, short_rate_text

_HOW_COLD = {
    True: "Cold: evicted from the page cache before each read.",
    False: "The page cache could not be emptied: all rates are warm.",
    None: "Cold: evicted from the page cache before each read; the kernel can't confirm reads from storage.",
}


def data_report(report: DataReport, path: str) -> Report:
    """Return the report on a data set.

    Args:
        report: the measurements and the search.
        path: the data set as the user typed it.
    """
    access, search, sizes = report.access, report.search, report.access.sizes
    arrays = tuple(one for one in access.arrays if one.rates.random_warm)
    is_in_memory = report.storage.kind is StorageKind.MEMORY
    after = () if report.rewritten is None else (report.rewritten,)
    facts = [("storage", storage_text(report.storage))]
    if sizes is not None:
        middle = f"median {bytes_text(sizes.median)}, 95% below {bytes_text(sizes.p95)}"
        facts.append(("file sizes", f"{middle}, largest {bytes_text(sizes.largest)}"))
    left_out = count_text(access.arrays_left_out, "smaller array")
    blocks: tuple[Block, ...] = (
        *map(Lead, _answers(report)),
        Line("" if search is None else _how_searched(search, is_in_memory), is_quiet=True),
        Facts(tuple(facts)),
        table_of("Arrays", _ARRAYS, access.arrays),
        Line(f"{left_out} not listed" if access.arrays_left_out else "", is_quiet=True),
        table_of("Samples/s of one process", _RATES, arrays, Basis.MEASURED),
        Line(_HOW_COLD[not is_in_memory and arrays[0].rates.is_cold] if arrays else "", is_quiet=True),
        table_of("After the rewrite: samples/s of one process", _RATES, after, Basis.MEASURED),
        table_of("Files", _KINDS, access.kinds, Basis.MEASURED),
        table_of("Layouts", _TRIALS, () if search is None else search.trials, Basis.MEASURED),
        table_of("Where to keep it", _PLACES, report.places),
        *found_blocks(report.findings),
    )
    if search is not None and search.recommended and report.rewrite is None:
        stem = path.rstrip("/").removesuffix(".zarr")
        new = quoted("../new.zarr" if stem == "." else f"{stem}-new.zarr")
        blocks += (Commands("Next", (f"tunekit data {quoted(path)} --rewrite {new}",)),)
    return Report("Data set", blocks)


def _answers(report: DataReport) -> list[str]:
    if report.rewrite is None:
        search = report.search
        return [f"No layout searched: {report.why_not_searched}." if search is None else _answer(search)]
    done, after = report.rewrite, report.rewritten
    resumed = f" ({done.resumed_blocks} before an interruption)" if done.resumed_blocks else ""
    blocks = f"{count_text(done.blocks, 'block')}{resumed}"
    answers = [f"Wrote {done.path}: {bytes_text(done.stored_bytes)}, {blocks}, verified bit for bit."]
    before = next((one for one in report.access.arrays if after and one.path == after.path), None)
    old, new = (one and one.rates.random_cold for one in (before, after))
    if after and old and new:
        rates = f"{rate_text(old)} -> {rate_text(new)} samples/s ({factor_text(new / old)})"
        answers.append(f"{after.name}: random reads {rates}.")
    return answers


def _answer(search: LayoutSearch) -> str:
    name, best = search.array or "the array", search.best
    if best is None or best.layout is None:
        return f"Keep the layout of {name}: no other was faster."
    gain = gain_text(search.speedup)
    if search.recommended is None:
        return f"Keep the layout of {name}: {gain} with {best.layout.text} is within the noise."
    return f"{name}: {gain} of random reads with {best.layout.text}."


def _how_searched(search: LayoutSearch, is_in_memory: bool) -> str:
    is_warm = is_in_memory or search.trials[0].is_cold is False
    cold = "warm, as the page cache can't be emptied" if is_warm else "cold"
    what = f"{count_text(search.slice_samples, 'sample')} ({bytes_text(search.slice_bytes)})"
    proved = f"; noise of {len(search.rounds)} rounds {share_text(search.noise)}" if search.noise else ""
    return f"Measured on {what}, {cold}, in {count_text(len(search.trials), 'layout')}{proved}."


def _shape_text(shape: tuple[int, ...] | None) -> str:
    return UNKNOWN if shape is None else " x ".join(map(str, shape)) or "scalar"


def _ratio_text(factor: float | None) -> str:
    return UNKNOWN if factor is None else f"{rate_text(factor)}x"


_ARRAYS: tuple[Column[ArrayAccess], ...] = (
    Column("array", field_text("name"), is_numeric=False),
    Column("shape", field_text("shape", _shape_text)),
    Column("dtype", field_text("dtype"), is_numeric=False),
    Column("chunk", field_text("chunks", _shape_text)),
    Column("shard", field_text("shards", _shape_text), is_optional=True),
    Column("codec", lambda one: ", ".join(one.codecs) or "none", is_numeric=False),
    Column("on disk", field_text("stored_bytes", bytes_text)),
    Column("ratio", field_text("compression_ratio", _ratio_text)),
    Column("sample", field_text("sample_bytes", bytes_text)),
    Column("chunks read", field_text("chunks_per_sample", "{:,}".format)),
    Column("bytes read", field_text("read_bytes_per_sample", bytes_text)),
    Column("decoded", field_text("decoded_bytes_per_sample", bytes_text)),
    Column("amplification", field_text("read_amplification", _ratio_text)),
)

_RATES: tuple[Column[ArrayAccess], ...] = (
    Column("array", field_text("name"), is_numeric=False),
    Column("random cold", field_text("rates.random_cold", short_rate_text)),
    Column("warm", field_text("rates.random_warm", short_rate_text)),
    Column("by chunk cold", field_text("rates.chunks_cold", short_rate_text)),
    Column("warm", field_text("rates.chunks_warm", short_rate_text)),
    Column("in RAM", field_text("rates.in_ram", short_rate_text)),
    Column("decode MB/s", field_text("rates.decode_mb_per_s", rate_text)),
)

_KINDS: tuple[Column[FilesOfKind], ...] = (
    Column("kind", lambda one: one.extension or "(none)", is_numeric=False),
    Column("share", field_text("share", share_text)),
    Column("mean", field_text("mean_bytes", bytes_text)),
    Column("decoded", field_text("decoded_bytes", bytes_text)),
    Column("files/s cold", field_text("cold_files_per_s", rate_text)),
    Column("warm", field_text("warm_files_per_s", rate_text)),
    Column("MB/s warm", field_text("warm_mb_per_s", rate_text)),
    Column("problem", field_text("problem", missing=""), is_numeric=False, is_optional=True),
)

_PLACE_WORDS = {
    PlaceKind.LOCAL_DISK: "copy to local disk",
    PlaceKind.RAM: "keep in RAM",
    PlaceKind.VRAM: "keep in VRAM",
}
_PLACES: tuple[Column[Place], ...] = (
    Column("place", lambda one: _PLACE_WORDS[one.kind], is_numeric=False),
    Column("verdict", field_text("verdict"), is_numeric=False),
    Column("needs", field_text("needs_bytes", bytes_text)),
    Column("available", field_text("free_bytes", bytes_text)),
    Column("loading speedup, at most", field_text("speedup", _ratio_text)),
    Column("MB/s here", field_text("source_mb_per_s", rate_text), is_optional=True),
    Column("MB/s there", field_text("place_mb_per_s", rate_text), is_optional=True),
)

_TRIALS: tuple[Column[LayoutTrial], ...] = (
    Column("layout", field_text("layout.text", missing="present"), is_numeric=False),
    Column("samples/s", field_text("rate_samples_per_s", rate_text)),
    Column("size", field_text("size_ratio", _ratio_text)),
    Column("amplification", field_text("read_amplification", _ratio_text)),
    Column("problem", field_text("problem", missing=""), is_numeric=False, is_optional=True),
)
