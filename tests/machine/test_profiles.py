import shutil
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from machine.shipped import FOLDER, PROFILES

import tunekit.machine.profiles as module
from tunekit.errors import DamagedRecordError, UsageError
from tunekit.machine.gpu.calibrate import load_calibrations
from tunekit.machine.profiles import (
    load_profile_files,
    load_profiles,
    profile_folders,
    profile_from_device,
)
from tunekit.records.profile import Profile
from tunekit.units import GIB

WriteProfile = Callable[..., Path]

MISSING = object()
"""Stands for a field that is left out."""


def offer(as_of: object, spot_as_of: object = None) -> dict[str, object]:
    """A machine as a profile's file has it."""
    spot = spot_as_of and {"low_usd_per_h": 0.1, "high_usd_per_h": 0.2, "as_of": spot_as_of}
    figures = {"gpus": 1, "vcpus": None, "ram_gb": None, "usd_per_h": 1.0, "spot": spot, "region": None}
    named = {"provider": "aws", "name": "x", "as_of": as_of, "source": "seen", "confidence": "low"}
    return figures | named


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("TUNEKIT_PROFILES", raising=False)
    return tmp_path


@pytest.fixture
def user_folder(home: Path) -> Path:
    folder = home / ".config" / "tunekit" / "profiles"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def write_profile(user_folder: Path) -> WriteProfile:
    def write(filename: str = "mine.yaml", folder: Path = user_folder, **changes: object) -> Path:
        content = yaml.safe_load((FOLDER / "t4.yaml").read_text(encoding="utf-8")) | changes
        content = {key: value for key, value in content.items() if value is not MISSING}
        path = folder / filename
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        return path

    return write


def test_the_users_folders_come_before_the_shipped_one(
    user_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = tmp_path / "named"
    named.mkdir()
    monkeypatch.setenv("TUNEKIT_PROFILES", str(named))
    assert profile_folders() == [named, user_folder, FOLDER]


def test_a_variable_that_names_no_folder_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNEKIT_PROFILES", str(home / "typo"))
    with pytest.raises(UsageError, match=r"TUNEKIT_PROFILES: '.*typo' is not a folder"):
        load_profiles()


def test_a_user_without_a_home_still_has_the_shipped_profiles(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("TUNEKIT_PROFILES", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert profile_folders() == [FOLDER]


def test_a_home_that_cannot_be_looked_into_counts_as_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", f"/{'x' * 256}")  # fails for root too
    assert load_profiles()
    assert load_calibrations() == ()


def test_an_installed_wheel_reads_the_profiles_inside_the_package(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = home / "site-packages" / "tunekit"
    (package / "machine").mkdir(parents=True)
    shutil.copytree(FOLDER, package / "profiles")
    monkeypatch.setattr(module, "__file__", str(package / "machine" / "profiles.py"))
    assert profile_folders()[-1] == package / "profiles"
    assert "h200" in load_profiles()


def test_a_profile_says_which_file_it_is_from(
    write_profile: WriteProfile, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_profile("t4.yaml")
    named = write_profile("my-t4.yaml", folder=home)
    monkeypatch.setenv("TUNEKIT_PROFILES", str(home))
    files = load_profile_files()
    assert (files["t4"].path, files["t4"].is_yours) == (named, True)
    assert (files["l4"].path, files["l4"].is_yours) == (FOLDER / "l4.yaml", False)
    assert load_profiles() == {profile_id: file.profile for profile_id, file in files.items()}


BAD: list[dict[str, Any]] = [
    {"memory_bytes": -1},
    {"compute_capability": 7.5},
    {"bandwith": 300},
    {"id": "No Good"},
    {"instances": [{"provider": "aws", "name": "x", "gpus": 1}]},
    {"memory_bytes": 24},
    {"memory_bytes": "10 GiB"},
    {"bf16_tflops": "65 T"},
    {"native_precisions": ["fp32", "int8"]},
    {"instances": [offer("2025-02-30")]},
    {"instances": [offer("2026", spot_as_of="2025-02-30")]},
    {"instances": [offer("2025") | {"hours_per_week": 200}]},
    {"torch_memory_bytes": MISSING},
    {"facts": MISSING},
]


def test_a_bad_field_is_named_with_its_file(
    write_profile: WriteProfile, golden: Callable[[str], object]
) -> None:
    said = []
    for changes in BAD:
        path = write_profile(**changes)
        with pytest.raises(DamagedRecordError) as caught:
            load_profiles()
        said.append(str(caught.value).replace(str(path), "mine.yaml"))
    assert "\n".join([*said, ""]) == golden("bad-profiles.txt")


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        (date(2025, 11, 30), "2025-11-30"),
        (datetime(2025, 11, 30, 8, tzinfo=UTC), "2025-11-30"),
        (2025, "2025"),
        ("2025-11", "2025-11"),
    ],
)
def test_a_date_needs_no_quotes(write_profile: WriteProfile, seen: object, text: str) -> None:
    write_profile(instances=[offer(seen, spot_as_of=seen)])
    (machine,) = load_profiles()["t4"].instances
    assert machine.as_of == text
    assert machine.spot is not None
    assert machine.spot.as_of == text


@pytest.mark.parametrize("text", ["- a\n- list", "id: !!python/object:os.system x", "[" * 5000])
def test_a_file_that_is_no_mapping_is_damaged(user_folder: Path, text: str) -> None:
    path = user_folder / "bad.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DamagedRecordError, match=r"bad\.yaml"):
        load_profiles()


def test_two_files_of_one_folder_with_one_id_are_told(write_profile: WriteProfile) -> None:
    write_profile("one.yaml", id="mine")
    write_profile("two.yaml", id="mine")
    with pytest.raises(DamagedRecordError, match=r"two.yaml and .*one.yaml both have id 'mine'"):
        load_profiles()


@given(
    st.text(min_size=1),
    st.integers(1 << 20, 1 << 45),
    st.none() | st.sampled_from(["3.7", "8.6", "9.0", "?"]),
)
def test_any_device_yields_a_profile_that_claims_no_rate(
    name: str, memory_bytes: int, capability: str | None
) -> None:
    profile = profile_from_device(name, memory_bytes, capability)
    assert isinstance(profile, Profile)
    assert profile.device_names == (name,)
    assert profile.memory_bytes == memory_bytes
    rates = (profile.fp32_tflops, profile.bf16_tflops, profile.bandwidth_gb_per_s, profile.tdp_w)
    assert rates == (None,) * 4
    assert profile.instances == ()


@pytest.mark.parametrize(
    ("capability", "native", "compiles"),
    [
        (None, ("fp32",), None),
        ("2.1", ("fp32",), False),
        ("7.0", ("fp32", "fp16"), True),
        ("8.6", ("fp32", "tf32", "bf16", "fp16"), True),
        ("8.9", ("fp32", "tf32", "bf16", "fp16", "fp8"), True),
        ("15.0", ("fp32", "tf32", "bf16", "fp16", "fp8"), True),
    ],
)
def test_the_compute_capability_tells_what_the_device_computes(
    capability: str | None, native: tuple[str, ...], compiles: bool | None
) -> None:
    profile = profile_from_device("NVIDIA Something", GIB, capability)
    assert profile.id == "nvidia-something"
    assert profile.native_precisions == native
    assert profile.compile_supported is compiles
    assert profile.notes is not None
    assert "unknown" in profile.notes


def test_the_native_precisions_of_shipped_devices_follow_from_their_capability() -> None:
    for profile in PROFILES.values():
        if profile.compute_capability is not None:
            read = profile_from_device("x", None, profile.compute_capability)
            assert read.native_precisions == profile.native_precisions
            assert read.compile_supported is profile.compile_supported
