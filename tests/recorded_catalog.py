"""A small catalogue in files that gpuhunt's own writer made: some machines of each provider.

One price is far off (p5.48xlarge), two machines are in no profile (GH200, two T4), one is a cluster, one has
no GPU.
"""

import csv
from collections.abc import Iterator
from pathlib import Path

from tunekit.machine.price_catalog import Catalog, CatalogRow

CATALOG_FOLDER = Path(__file__).parent / "machine" / "gpuhunt_catalog"
DAY = "2026-11-20"


def recorded_catalog() -> Catalog:
    """Return what the files hold, read without gpuhunt."""
    files = {path.stem.replace("lambdalabs", "lambda"): path for path in sorted(CATALOG_FOLDER.glob("*.csv"))}
    rows = tuple(row for provider, path in files.items() for row in _rows(provider, path))
    return Catalog("gpuhunt 0.1.34", rows, dict.fromkeys(files, DAY))


def _rows(provider: str, path: Path) -> Iterator[CatalogRow]:
    with path.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            gpus = int(line["gpu_count"])
            if gpus and not line["flags"].startswith("runpod-cluster"):
                yield CatalogRow(
                    provider,
                    line["instance_name"],
                    line["location"],
                    gpus,
                    line["gpu_name"],
                    float(line["price"]),
                    line["spot"] == "True",
                )
