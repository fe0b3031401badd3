"""Current prices: what gpuhunt has in its own files, and which of it are machines of the profiles."""

import gc
import io
import os
import shutil
import threading
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from recorded_catalog import CATALOG_FOLDER, DAY, recorded_catalog

from tunekit.errors import PricesError
from tunekit.machine.price_catalog import (
    FOLDER_VARIABLE,
    Catalog,
    fetch_catalog,
    matched_prices,
)
from tunekit.machine.profiles import shipped_profiles
from tunekit.records.prices import CatalogPrice
from tunekit.records.profile import Profile

# gpuhunt leaves it to Python to close its files and connections.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")

URL_VARIABLE = "GPUHUNT_CATALOG_URL"
"""gpuhunt's own: another server than the usual one."""
TODAY = date(2026, 11, 23)


@pytest.fixture(autouse=True)
def leaves_nothing_open() -> Iterator[None]:
    """What gpuhunt left open is closed before the next test, which allows none of that."""
    yield
    gc.collect()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """gpuhunt's files, written on one day."""
    pytest.importorskip("gpuhunt")
    copy = tmp_path / "catalog"
    shutil.copytree(CATALOG_FOLDER, copy)
    written = datetime.fromisoformat(DAY).replace(hour=12, tzinfo=UTC).timestamp()
    for path in copy.iterdir():
        os.utime(path, (written, written))
    monkeypatch.setenv(FOLDER_VARIABLE, str(copy))
    return copy


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    """gpuhunt's server, with the catalogues of two providers, the second of a version that is no day."""
    pytest.importorskip("gpuhunt")
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)

    versions = {"aws": "20261119-2", "lambdalabs": "next"}

    class Published(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            provider, *rest = self.path.strip("/").split("/")
            version = versions.get(provider)
            if version is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(version.encode() if rest == ["version"] else _zipped(provider))

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Published) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        monkeypatch.setenv(URL_VARIABLE, f"http://127.0.0.1:{running.server_port}")
        yield running
        running.shutdown()
        thread.join()


def _zipped(provider: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.write(CATALOG_FOLDER / f"{provider}.csv", f"{provider}.csv")
    return packed.getvalue()


def prices(catalog: Catalog, *profiles: Profile) -> dict[str, CatalogPrice]:
    matched = matched_prices(catalog, profiles).prices.prices
    return {f"{one.provider} {one.name}": one for one in matched}


# --- what gpuhunt has ------------------------------------------------------------------------


def test_gpuhunts_files_are_read_as_they_stand(folder: Path):
    fetched = fetch_catalog(TODAY)
    recorded = recorded_catalog()
    assert sorted(fetched.rows) == sorted(recorded.rows)
    assert fetched.as_of == recorded.as_of
    assert fetched.name.startswith("gpuhunt ")
    assert fetched.absent == ()


def test_a_provider_without_a_file_or_without_rows_is_absent(folder: Path):
    (folder / "gcp.csv").unlink()
    lines = (folder / "azure.csv").read_text(encoding="utf-8").splitlines()
    (folder / "azure.csv").write_text(lines[0] + "\n", encoding="utf-8")
    fetched = fetch_catalog(TODAY)
    assert fetched.absent == ("azure", "gcp")
    assert {one.provider for one in fetched.rows} == set(fetched.as_of) == {"aws", "lambda", "runpod"}


def test_catalogues_come_over_the_network_with_the_day_of_their_version(server: ThreadingHTTPServer):
    fetched = fetch_catalog(TODAY)
    assert fetched.as_of == {"aws": "2026-11-19", "lambda": "2026-11-23"}
    assert fetched.absent == ("azure", "gcp", "runpod")
    recorded = [one for one in recorded_catalog().rows if one.provider in fetched.as_of]
    assert sorted(fetched.rows) == sorted(recorded)


def test_a_network_that_fails_says_where_and_what_helps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    pytest.importorskip("gpuhunt")
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv(URL_VARIABLE, "http://127.0.0.1:9")  # the port of "discard", where nobody listens
    with pytest.raises(PricesError) as raised:
        fetch_catalog(TODAY)
    said = str(raised.value)
    assert "from the network" in said
    assert "refused" in said
    assert "prices are unchanged" in said
    assert FOLDER_VARIABLE in said
    assert capsys.readouterr().err == ""


# --- which of it are machines of the profiles ------------------------------------------------


def test_machines_of_every_provider_are_found_in_the_catalogue(golden: Callable[[str], object]):
    found = prices(recorded_catalog(), *shipped_profiles())
    lines = [f"{name}: {one.usd_per_h} in {one.region}" for name, one in sorted(found.items())]
    assert "\n".join([*lines, ""]) == golden("catalogue.txt")
    assert {one.as_of for one in found.values()} == {DAY}


def test_the_spot_price_is_a_range_over_the_zones_of_the_region():
    spot = prices(recorded_catalog(), *shipped_profiles())["gcp a2-highgpu-1g"].spot
    assert spot is not None
    assert (spot.low_usd_per_h, spot.high_usd_per_h) == (1.80, 1.94)
    assert (spot.where, spot.as_of) == ("us-central1-a, us-central1-f", DAY)


def test_what_is_left_as_it_was_is_counted():
    catalog = recorded_catalog()
    profiles = shipped_profiles()
    told = matched_prices(catalog, profiles)
    machines = [one for each in profiles for one in each.instances]
    assert len(told.prices.prices) + len(told.without) == len(machines)
    # It has the first in another region only; the others are no machines of those that it lists.
    assert {"aws g6e.xlarge", "aws p3.2xlarge", "colab T4", "kaggle T4 x2"} <= set(told.without)
