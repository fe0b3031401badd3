"""Refreshed prices: saved in the user's folder, laid over the shipped profiles and over nothing else."""

from pathlib import Path

import pytest
import yaml
from recorded_catalog import DAY, recorded_catalog

from tunekit.errors import DamagedRecordError, UsageError
from tunekit.machine.price_catalog import matched_prices
from tunekit.machine.prices import PRICES_FILE, load_prices, prices_path, save_prices
from tunekit.machine.profiles import load_profile_files, load_profiles, shipped_profiles
from tunekit.records.profile import Instance


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("TUNEKIT_PROFILES", raising=False)
    return tmp_path


def refresh() -> Path:
    return save_prices(matched_prices(recorded_catalog(), shipped_profiles()).prices)


def machine(profile_id: str, name: str) -> Instance:
    (found,) = [one for one in load_profiles()[profile_id].instances if one.name == name]
    return found


def test_without_a_refresh_the_shipped_prices_hold():
    assert load_prices() is None
    assert load_profiles() == {one.id: one for one in shipped_profiles()}


def test_a_refresh_replaces_prices_and_deleting_its_file_brings_the_shipped_ones_back(home: Path):
    before = load_profiles()
    path = refresh()
    assert path == Path(PRICES_FILE).expanduser() == home / ".config" / "tunekit" / "prices.json"
    t4 = machine("t4", "g4dn.xlarge")
    assert (t4.usd_per_h, t4.as_of, t4.region, t4.is_refreshed) == (0.526, DAY, "us-east-1", True)
    assert t4.spot is not None
    assert (t4.spot.low_usd_per_h, t4.spot.as_of) == (0.2066, DAY)
    assert t4.source == f"gpuhunt 0.1.34, its catalogue of {DAY}"
    assert machine("t4", "g4dn.2xlarge").as_of == "2025-11-30"
    changed = [profile_id for profile_id, one in load_profiles().items() if one != before[profile_id]]
    assert changed == sorted({one.profile_id for one in load_prices().prices})  # type: ignore[union-attr]
    path.unlink()
    assert load_profiles() == before


def test_a_profile_of_the_users_own_keeps_its_prices(home: Path):
    refresh()
    own = home / ".config" / "tunekit" / "profiles"
    own.mkdir()
    content = yaml.safe_load(load_profile_files()["t4"].path.read_text(encoding="utf-8"))
    content["instances"][0]["usd_per_h"] = 0.4
    (own / "t4.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    assert machine("t4", "g4dn.xlarge").usd_per_h == 0.4
    assert not any(one.is_refreshed for one in load_profiles()["t4"].instances)


def test_a_damaged_file_is_told_with_the_way_back():
    path = refresh()
    path.write_text('{"schema_version": 1, "catalog": "x", "prices": [{}]}', encoding="utf-8")
    way_back = r"prices\.json .*; delete it to go back to the shipped prices"
    with pytest.raises(DamagedRecordError, match=way_back):
        load_profiles()


def test_a_folder_that_cant_be_written_is_told(home: Path):
    (home / ".config").write_text("a file", encoding="utf-8")
    with pytest.raises(UsageError, match="make it writable"):
        refresh()


def test_a_user_without_a_home_has_the_shipped_prices_and_saves_none(monkeypatch: pytest.MonkeyPatch):
    def homeless(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", homeless)
    assert prices_path() is None
    assert load_prices() is None
    with pytest.raises(UsageError, match="set HOME to one"):
        refresh()
