"""`tunekit gpus`: every profile, or one."""

import sys
from pathlib import Path

import pytest
import yaml
from json_schemas import valid
from recorded_catalog import DAY, recorded_catalog

from tunekit.cli.main import main
from tunekit.errors import PricesError
from tunekit.machine.price_catalog import Catalog, matched_prices
from tunekit.machine.prices import save_prices
from tunekit.machine.profiles import load_profile_files, load_profiles, shipped_profiles
from tunekit.records.codec import from_json
from tunekit.records.profile import GpuProfiles


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("TUNEKIT_PROFILES", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.fixture
def own_t4(home: Path) -> Path:
    """A profile of the user's that has the id of a shipped one."""
    folder = home / ".config" / "tunekit" / "profiles"
    folder.mkdir(parents=True)
    content = yaml.safe_load(load_profile_files()["t4"].path.read_text(encoding="utf-8"))
    path = folder / "t4.yaml"
    path.write_text(yaml.safe_dump(content | {"notes": "Measured here.", "tdp_w": 71}), encoding="utf-8")
    return path


def test_every_profile_has_a_line(capsys: pytest.CaptureFixture[str]):
    assert main(["gpus"]) == 0
    lines = capsys.readouterr().out.splitlines()
    first_words = {line.split()[0] for line in lines if line.strip()}
    assert first_words >= set(load_profiles())
    assert all(len(line) <= 80 for line in lines if "profiles" not in line)


@pytest.mark.parametrize(
    "words", [["a100"], ["A100-SXM-40"], ["nvidia", "a100"], ["NVIDIA", "A100-SXM4-40GB"]]
)
def test_one_profile_is_shown_by_any_of_its_names(words: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["gpus", *words]) == 0
    shown = capsys.readouterr().out
    assert "a100-sxm-40: NVIDIA A100-SXM4-40GB" in shown
    assert "bf16, dense            312 TFLOPS" in shown
    assert "gpu_1x_a100_sxm4" in shown
    assert "p4d.24xlarge: Spot 9.83 $/h, seen 2024." in shown
    assert "profiles/a100-sxm-40.yaml" in shown.replace("\n  ", "")
    assert "(shipped)" in shown


def test_the_profiles_are_printed_as_json(capsys: pytest.CaptureFixture[str]):
    assert main(["gpus", "--json"]) == 0
    printed = from_json(valid("gpus", capsys.readouterr().out), GpuProfiles).profiles
    assert {profile.id: profile for profile in printed} == load_profiles()


def test_a_file_that_is_no_profile_is_named(own_t4: Path, capsys: pytest.CaptureFixture[str]):
    own_t4.write_text("id: t4\n")
    assert main(["gpus"]) == 10
    assert f"{own_t4} is not a profile" in capsys.readouterr().err


def test_several_profiles_are_shown_one_after_the_other(capsys: pytest.CaptureFixture[str]):
    assert main(["gpus", "t4", "a10g", "T4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines if line.startswith(("t4: ", "a10g: "))] == [
        "t4: Tesla T4",
        "a10g: NVIDIA A10G",
    ]
    assert main(["gpus", "t4", "a10g", "--json"]) == 0
    assert [one.id for one in from_json(valid("gpus", capsys.readouterr().out), GpuProfiles).profiles] == [
        "t4",
        "a10g",
    ]


# --- current prices --------------------------------------------------------------------------


@pytest.fixture
def catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    """What gpuhunt would fetch, where it is not installed either."""
    monkeypatch.setattr("tunekit.cli.gpus.fetch_catalog", recorded_catalog)


@pytest.mark.usefixtures("catalog")
def test_a_refresh_saves_prices_and_shows_them(home: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["gpus", "a10g", "--refresh"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert (home / ".config" / "tunekit" / "prices.json").is_file()
    assert f"aws us-east-1 g5.xlarge 1 4 16 1.01 1.01 {DAY}" in shown
    assert f"g5.xlarge, g5.12xlarge: gpuhunt 0.1.34, its catalogue of {DAY}" in shown
    assert main(["gpus", "a10g"]) == 0
    assert f"16 1.01 1.01 {DAY}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.usefixtures("catalog")
def test_with_json_the_profiles_alone_are_on_standard_output(capsys: pytest.CaptureFixture[str]):
    assert main(["gpus", "t4", "--refresh", "--json"]) == 0
    captured = capsys.readouterr()
    assert from_json(captured.out, GpuProfiles).profiles == (load_profiles()["t4"],)
    assert "19 machines priced by gpuhunt" in captured.err


def test_a_refresh_without_gpuhunt_ends_with_how_to_install_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setitem(sys.modules, "gpuhunt", None)
    assert main(["gpus", "--refresh"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "pip install gpuhunt" in captured.err
    assert not (home / ".config").exists()


def test_a_refresh_without_prices_leaves_the_earlier_ones(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def fails() -> Catalog:
        raise PricesError("no network")

    save_prices(matched_prices(recorded_catalog(), shipped_profiles()).prices)
    before = load_profiles()
    monkeypatch.setattr("tunekit.cli.gpus.fetch_catalog", fails)
    assert main(["gpus", "--refresh"]) == 1
    assert capsys.readouterr().err == "tunekit: no network\n"
    assert load_profiles() == before
