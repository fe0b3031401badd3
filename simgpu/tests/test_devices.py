"""The device files: what the profiles say, in the words that the C sources read."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from simgpu.devices import FOLDER, Device, file_text, read_profiles

ROOT = Path(__file__).resolve().parents[2]
PROFILES = ROOT / "profiles"


def test_the_files_are_what_the_profiles_give() -> None:
    """Else: python -m simgpu devices --from profiles."""
    made = {f"{name}.conf": file_text(name, device) for name, device in read_profiles(PROFILES).items()}
    lying = {path.name: path.read_text() for path in FOLDER.glob("*.conf")}
    assert lying == made


def test_the_sources_read_every_key() -> None:
    source = (ROOT / "simgpu" / "src" / "devices.c").read_text()
    read = re.findall(r"\b(?:FIELD|NEEDED|RATE)\((\w+),", source)
    assert {field.name for field in fields(Device)} <= set(read)


def test_copies_follow_the_generation_of_pcie() -> None:
    devices = read_profiles(PROFILES)
    rates = [devices[name].pinned_bytes_per_s for name in ("t4", "a10g", "h100-sxm")]
    assert rates == pytest.approx([12.6e9, 25.2e9, 50.4e9], rel=0.01)
