"""The device files: what the profiles say, in the words that the C sources read."""

import re
import shutil
from dataclasses import fields
from pathlib import Path

import pytest

from simgpu.devices import FOLDER, Device, file_text, read_profiles
from simgpu.errors import SimgpuError

ROOT = Path(__file__).resolve().parents[2]
PROFILES = ROOT / "profiles"
KEYS = [field.name for field in fields(Device)]


def test_the_files_are_what_the_profiles_give() -> None:
    """Else: python -m simgpu devices --from profiles."""
    made = {f"{name}.conf": file_text(name, device) for name, device in read_profiles(PROFILES).items()}
    lying = {path.name: path.read_text() for path in FOLDER.glob("*.conf")}
    assert lying == made


def keys_of_the_sources() -> set[str]:
    source = (ROOT / "simgpu" / "src" / "devices.c").read_text()
    return set(re.findall(r"\b(?:FIELD|NEEDED|RATE)\((\w+),", source))


def test_the_sources_read_every_key() -> None:
    assert set(KEYS) <= keys_of_the_sources()


@pytest.fixture(scope="module")
def devices() -> dict[str, Device]:
    return read_profiles(PROFILES)


def test_copies_follow_generation_and_lanes(devices: dict[str, Device]) -> None:
    by_generation = {3: devices["t4"], 4: devices["a10g"], 5: devices["h100-sxm"]}
    rates = [by_generation[generation].pinned_bytes_per_s for generation in (3, 4, 5)]
    assert rates == [
        pytest.approx(12.6e9, rel=0.01),
        pytest.approx(25.2e9, rel=0.01),
        pytest.approx(50.4e9, rel=0.01),
    ]
    for device in devices.values():
        assert device.pageable_bytes_per_s < device.pinned_bytes_per_s / 2


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('compute_capability: "11.0"', r"11\.0, which _CAPABILITIES lacks"),
        ("id: a10h", "_CLOCKS_AND_CACHE lacks"),
    ],
)
def test_a_profile_that_the_tables_lack_is_named(tmp_path: Path, line: str, says: str) -> None:
    shutil.copy(PROFILES / "a10g.yaml", tmp_path)
    path = tmp_path / "a10g.yaml"
    path.write_text(re.sub(rf"^{line.partition(':')[0]}:.*", line, path.read_text(), flags=re.MULTILINE))
    with pytest.raises(SimgpuError, match=says):
        read_profiles(tmp_path)
