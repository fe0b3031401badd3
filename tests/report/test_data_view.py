"""`tunekit data`: what is shown of stores, searches, rewrites and folders."""

from collections.abc import Callable

import pytest
from build_data import FAST, array_access, data_report, layout_search
from read_report import drawn

from tunekit.records.data_layout import DataAccess, FileSizes, FilesOfKind, Rewrite
from tunekit.report.data import data_report as view

REWRITE = Rewrite(
    path="/new",
    layouts={"signals": FAST},
    arrays=1,
    blocks=8,
    resumed_blocks=3,
    stored_bytes=1 << 30,
    checksum="ab",
)
AFTER = array_access(rates=array_access().rates.changed(random_cold=900))
JPEG = FilesOfKind(extension=".jpg", share=0.75, mean_bytes=1e5, cold_files_per_s=150, warm_files_per_s=200)
FOLDER = DataAccess(
    kinds=(JPEG, FilesOfKind(extension="", share=0.25, mean_bytes=10)),
    sizes=FileSizes(smallest=1, median=1000, p95=100_000, largest=1_000_000),
)
REPORTS = {
    "searched": data_report(),
    "kept": data_report(search=layout_search(verdict="inconclusive")),
    "rewritten": data_report(
        search=None, why_not_searched="flags gave a layout", rewrite=REWRITE, rewritten=AFTER
    ),
    "folder": data_report(access=FOLDER, search=None, why_not_searched="not a zarr store", places=()),
}


@pytest.mark.parametrize("width", [80, 120])
def test_a_data_set_is_shown(width: int, golden: Callable[[str], object]) -> None:
    shown = [f"--- {name} ---\n{drawn(view(one, 'my data').blocks, width)}" for name, one in REPORTS.items()]
    assert "\n".join(shown) == golden(f"data.{width}.txt")
