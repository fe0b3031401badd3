import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from shipped import FOLDER, PROFILES

import tunekit.hardware.profiles as module
from tunekit.errors import DamagedRecordError, UnknownGpuError, UsageError
from tunekit.hardware.profiles import (
    find_profile,
    load_profiles,
    match_device,
    profile_folders,
    profile_from_device,
)
from tunekit.records.profile import Profile
from tunekit.units import GIB

MODELS = [
    ("T4", "t4"),
    ("L4", "l4"),
    ("A10G", "a10g"),
    ("A100-PCIE-40GB", "a100-pcie-40"),
    ("A100-SXM4-40GB", "a100-sxm-40"),
    ("A100 80GB PCIe", "a100-pcie-80"),
    ("A100-SXM4-80GB", "a100-sxm-80"),
    ("H200", "h200"),
]
WriteProfile = Callable[..., Path]


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
    with pytest.raises(UsageError, match=r"TUNEKIT_PROFILES names '.*typo', which is no folder"):
        load_profiles()


def test_a_user_without_a_home_still_has_the_shipped_profiles(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("TUNEKIT_PROFILES", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert profile_folders() == [FOLDER]


def test_an_installed_wheel_reads_the_profiles_inside_the_package(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = home / "site-packages" / "tunekit"
    (package / "hardware").mkdir(parents=True)
    shutil.copytree(FOLDER, package / "profiles")
    monkeypatch.setattr(module, "__file__", str(package / "hardware" / "profiles.py"))
    assert profile_folders()[-1] == package / "profiles"
    assert "h200" in load_profiles()


def test_a_users_profile_wins_over_the_shipped_one(write_profile: WriteProfile) -> None:
    write_profile("t4.yaml", notes="mine")
    assert load_profiles()["t4"].notes == "mine"


def test_the_named_folder_wins_over_the_one_in_the_home(
    write_profile: WriteProfile, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_profile("t4.yaml", notes="home")
    write_profile("t4.yaml", folder=home, notes="named")
    monkeypatch.setenv("TUNEKIT_PROFILES", str(home))
    assert load_profiles()["t4"].notes == "named"


def test_a_users_new_device_is_found_and_matched(write_profile: WriteProfile) -> None:
    write_profile(id="rtx4090", device_names=["NVIDIA GeForce RTX 4090"], aliases=["4090"])
    profiles = load_profiles()
    assert find_profile("4090").id == "rtx4090"
    assert match_device("GeForce RTX 4090", profiles) == profiles["rtx4090"]
    assert match_device("NVIDIA GeForce RTX 4090 D", profiles) is None
    assert match_device("NVIDIA GeForce RTX 4090 Laptop GPU", profiles) is None


def test_other_files_in_a_folder_are_not_read(user_folder: Path) -> None:
    (user_folder / "README.md").write_text(": not yaml :", encoding="utf-8")
    (user_folder / ".t4.yaml.swp.yaml").write_text("half", encoding="utf-8")
    assert set(load_profiles()) == {path.stem for path in FOLDER.glob("*.yaml")}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"memory_bytes": -1}, "memory_bytes: Input should be greater than 0, got -1"),
        ({"compute_capability": 7.5}, "compute_capability: .*, got 7.5; put it in quotes"),
        ({"bandwith": 300}, "bandwith is no field of a profile"),
        ({"id": "No Good"}, "id: "),
        ({"instances": [{"provider": "aws"}]}, "instances.0.name is missing"),
    ],
)
def test_a_bad_field_is_named_with_its_file(
    write_profile: WriteProfile, changes: dict[str, object], message: str
) -> None:
    path = write_profile(**changes)
    with pytest.raises(DamagedRecordError, match=message) as caught:
        load_profiles()
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "- a\n- list", "id: [", "id: !!python/object:os.system x", "a: 2025-13-45", "\0", "[" * 5000]
)
def test_a_file_that_is_no_mapping_is_damaged(user_folder: Path, text: str) -> None:
    path = user_folder / "bad.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DamagedRecordError, match=r"bad\.yaml"):
        load_profiles()


def test_a_file_that_is_no_text_is_damaged(user_folder: Path) -> None:
    (user_folder / "bad.yaml").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(DamagedRecordError, match=r"bad\.yaml"):
        load_profiles()


def test_two_files_of_one_folder_with_one_id_are_told(write_profile: WriteProfile) -> None:
    write_profile("one.yaml", id="mine")
    write_profile("two.yaml", id="mine")
    with pytest.raises(DamagedRecordError, match=r"two.yaml and .*one.yaml both have id 'mine'"):
        load_profiles()


@pytest.mark.parametrize(
    ("name", "profile_id"),
    [
        ("a100", "a100-sxm-40"),
        ("a100-40", "a100-sxm-40"),
        ("a100-80", "a100-sxm-80"),
        ("A10G", "a10g"),
        (" CPU ", "cpu"),
    ],
)
def test_a_profile_is_found_by_id_or_alias_in_any_case(name: str, profile_id: str) -> None:
    assert find_profile(name, PROFILES).id == profile_id


def test_an_id_wins_over_another_profiles_alias() -> None:
    greedy = PROFILES["t4"].model_copy(update={"id": "greedy", "aliases": ("l4",)})
    assert find_profile("l4", {"greedy": greedy, **PROFILES}).id == "l4"


def test_an_unknown_gpu_lists_near_names_and_how_to_add_one() -> None:
    with pytest.raises(UnknownGpuError) as caught:
        find_profile("a10", PROFILES)
    message = str(caught.value)
    assert "'a10'" in message
    assert "near: a10g" in message
    assert "~/.config/tunekit/profiles" in message


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA L40S",
        "NVIDIA L40",
        "NVIDIA A10",
        "NVIDIA A100X",
        "NVIDIA A100",
        "NVIDIA T400 4GB",
        "NVIDIA T4G",
        "NVIDIA H200 NVL",
        "NVIDIA GH200 480GB",
        "NVIDIA H100 80GB HBM3",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "NVIDIA A100-SXM-64GB",
        "GRID T4-8Q",
        "NVIDIA A10G-24Q",
        "NVIDIA",
        "",
    ],
)
def test_another_device_is_never_guessed(name: str) -> None:
    assert match_device(name, PROFILES) is None


@pytest.mark.parametrize(
    ("name", "profile_id"),
    [
        ("NVIDIA A100-SXM4-40GB", "a100-sxm-40"),
        ("A100-SXM4-40GB", "a100-sxm-40"),
        ("A100-SXM-80GB", "a100-sxm-80"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80"),
        ("NVIDIA H200", "h200"),
        ("Tesla T4", "t4"),
        ("NVIDIA T4", "t4"),
    ],
)
def test_a_name_that_drivers_report_matches(name: str, profile_id: str) -> None:
    matched = match_device(name, PROFILES)
    assert matched is not None
    assert matched.id == profile_id


def test_of_two_profiles_with_one_device_name_the_first_wins() -> None:
    mine = PROFILES["t4"].model_copy(update={"id": "mine"})
    assert match_device("Tesla T4", {"mine": mine, **PROFILES}) == mine


blanks = st.text(alphabet=" \t-_", max_size=3)
prefixes = st.sampled_from(["", "NVIDIA ", "Tesla ", "NVIDIA Tesla ", "nvidia corporation "])


@given(st.sampled_from(MODELS), prefixes, blanks, blanks, st.lists(st.booleans(), min_size=30, max_size=30))
def test_case_blanks_and_vendor_words_do_not_change_the_device(
    model: tuple[str, str], prefix: str, before: str, after: str, is_upper: list[bool]
) -> None:
    name = "".join(
        letter.upper() if upper else letter.lower()
        for letter, upper in zip(prefix + model[0], is_upper * 2, strict=False)
    )
    matched = match_device(before + name.replace(" ", f" {before}") + after, PROFILES)
    assert matched is not None
    assert matched.id == model[1]


@given(
    st.sampled_from(MODELS),
    prefixes,
    st.text(alphabet="abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=6),
    st.sampled_from(["{model}{more}", "{more}{model}", "{model} {more}", "{model}-{more}", "{more} {model}"]),
)
def test_one_more_letter_or_token_is_another_device(
    model: tuple[str, str], prefix: str, more: str, shape: str
) -> None:
    if more in ("nvidia", "tesla", "gpu"):
        return
    assert match_device(prefix + shape.format(model=model[0], more=more), PROFILES) is None


@given(st.text(alphabet="bcdeijkmnopqrsvwxyz 356789-", max_size=30))
def test_an_unrelated_name_never_matches(name: str) -> None:
    assert match_device(name, PROFILES) is None


@given(st.text(min_size=1), st.integers(1, 1 << 45), st.none() | st.sampled_from(["3.7", "8.6", "9.0", "?"]))
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
    ("capability", "architecture", "native", "compiles"),
    [
        (None, None, ("fp32",), None),
        ("3.7", None, ("fp32",), False),
        ("6.0", "Pascal", ("fp32",), False),
        ("7.0", "Volta", ("fp32", "fp16"), True),
        ("8.6", "Ampere", ("fp32", "tf32", "bf16", "fp16"), True),
        ("8.9", "Ada", ("fp32", "tf32", "bf16", "fp16", "fp8"), True),
        ("12.0", "Blackwell", ("fp32", "tf32", "bf16", "fp16", "fp8"), True),
        ("15.0", None, ("fp32", "tf32", "bf16", "fp16", "fp8"), True),
    ],
)
def test_the_compute_capability_tells_what_the_device_computes(
    capability: str | None, architecture: str | None, native: tuple[str, ...], compiles: bool | None
) -> None:
    profile = profile_from_device("NVIDIA Something", GIB, capability)
    assert profile.id == "nvidia-something"
    assert profile.architecture == architecture
    assert profile.native_precisions == native
    assert profile.compile_supported is compiles
    assert profile.notes is not None
    assert "unknown" in profile.notes


def test_the_native_precisions_of_shipped_devices_follow_from_their_capability() -> None:
    for profile in PROFILES.values():
        if not profile.is_cpu:
            read = profile_from_device("x", None, profile.compute_capability)
            assert read.native_precisions == profile.native_precisions
            assert read.architecture == profile.architecture
