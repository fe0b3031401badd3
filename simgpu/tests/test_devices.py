"""The device files: what the profiles say, in the words that the C sources read."""

import re
import shutil
from dataclasses import fields
from pathlib import Path

import pytest

from simgpu.devices import FOLDER, Device, file_text, known_devices, read_profiles, write_files
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


def test_every_key_is_documented() -> None:
    text = (FOLDER / "FORMAT.md").read_text()
    documented = {
        re.sub(r"^(\w+?)_\.\.\.", r"\1_flops_per_s", name) for name in re.findall(r"`([\w.]+)`", text)
    }
    assert keys_of_the_sources() <= documented


@pytest.fixture(scope="module")
def devices() -> dict[str, Device]:
    return read_profiles(PROFILES)


def test_a_device_has_a_rate_where_its_profile_has_one(devices: dict[str, Device]) -> None:
    t4 = devices["t4"]
    assert (t4.tf32_flops_per_s, t4.bf16_flops_per_s, t4.fp8_flops_per_s) == (0, 0, 0)
    assert t4.fp16_flops_per_s == pytest.approx(65e12 * 0.81)
    assert devices["a10g"].bf16_flops_per_s == pytest.approx(70e12 * 0.95)  # the profile's own fraction


@pytest.mark.parametrize(
    ("name", "datasheet"),
    [("t4", 130e12), ("a10g", 140e12), ("a100-sxm-80", 624e12), ("h100-sxm", 1979e12), ("rtx4090", 661e12)],
)
def test_int8_agrees_with_the_datasheet(devices: dict[str, Device], name: str, datasheet: float) -> None:
    device = devices[name]
    fraction = {"a10g": 0.95, "a100-sxm-80": 0.87, "h100-sxm": 0.8}.get(name, 0.81)
    assert device.int8_flops_per_s / fraction == pytest.approx(datasheet, rel=0.01)


@pytest.mark.parametrize(
    ("name", "datasheet"),
    [
        ("t4", 0.25e12),
        ("v100-sxm-16", 7.8e12),
        ("a100-sxm-80", 19.5e12),
        ("h100-sxm", 67e12),
        ("b200", 40e12),
    ],
)
def test_fp64_agrees_with_the_datasheet(devices: dict[str, Device], name: str, datasheet: float) -> None:
    fraction = {"a100-sxm-80": 0.87, "h100-sxm": 0.8, "b200": 0.78}.get(name, 0.81)
    assert devices[name].fp64_flops_per_s / fraction == pytest.approx(datasheet, rel=0.02)


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


def test_links_are_those_of_the_datasheets(devices: dict[str, Device]) -> None:
    links = {name: device.nvlinks for name, device in devices.items() if device.nvlinks}
    assert links == {
        "a100-sxm-40": 12, "a100-sxm-80": 12, "a40": 4, "b200": 18, "h100-sxm": 18, "h200": 18,
        "rtx3090": 4, "rtxa6000": 4, "v100-sxm-16": 6, "v100-sxm-32": 6,
    }  # fmt: skip


def test_every_device_is_sane(devices: dict[str, Device]) -> None:
    for device in devices.values():
        assert device.context_bytes < device.memory_bytes <= device.driver_bytes
        assert device.shared_bytes_per_block <= device.shared_bytes_per_sm
        assert device.fp32_flops_per_s > 0
        assert 0 < device.idle_w < device.limit_w
        assert device.queue_depth <= 4096


def test_written_files_are_read_again(tmp_path: Path) -> None:
    written = write_files(PROFILES, tmp_path)
    read = known_devices(tmp_path)
    assert len(read) == len(written) >= 20
    assert read["a10g"]["name"] == "NVIDIA A10G"
    assert list(read["a10g"]) == KEYS


def test_a_folder_without_profiles_is_named(tmp_path: Path) -> None:
    with pytest.raises(SimgpuError, match=str(tmp_path)):
        read_profiles(tmp_path)


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
