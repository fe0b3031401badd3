"""Which profile a device is, by the name that its driver reports."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machine.shipped import PROFILES

from tunekit.machine.profiles import find_profile, match_device
from tunekit.records.profile import Profile

REAL = {
    "Tesla T4": "t4",
    "NVIDIA L4": "l4",
    "NVIDIA A10G": "a10g",
    "NVIDIA A10": "a10",
    "NVIDIA A40": "a40",
    "NVIDIA A100-PCIE-40GB": "a100-pcie-40",
    "NVIDIA A100-SXM4-40GB": "a100-sxm-40",
    "NVIDIA A100 80GB PCIe": "a100-pcie-80",
    "NVIDIA A100-SXM4-80GB": "a100-sxm-80",
    "Tesla V100-SXM2-16GB": "v100-sxm-16",
    "Tesla V100-SXM2-32GB": "v100-sxm-32",
    "Tesla V100-PCIE-16GB": "v100-pcie-16",
    "Tesla P100-PCIE-16GB": "p100-pcie-16",
    "Tesla K80": "k80",
    "NVIDIA GeForce RTX 3090": "rtx3090",
    "NVIDIA GeForce RTX 4080": "rtx4080",
    "NVIDIA GeForce RTX 4090": "rtx4090",
    "NVIDIA GeForce RTX 5090": "rtx5090",
    "NVIDIA L40S": "l40s",
    "NVIDIA L40": "l40",
    "NVIDIA RTX A6000": "rtxa6000",
    "NVIDIA GeForce RTX 3060": "rtx3060",
    "AMD Instinct MI300X": "mi300x",
    "NVIDIA H100 PCIe": "h100-pcie",
    "NVIDIA H100 80GB HBM3": "h100-sxm",
    "NVIDIA H200": "h200",
    "NVIDIA B200": "b200",
    "NVIDIA H100 NVL": "h100-nvl",
    "NVIDIA H200 NVL": "h200-nvl",
    "NVIDIA GH200 480GB": "gh200-96",
    "NVIDIA GH200 144G HBM3e": "gh200-144",
    "NVIDIA GB200": "gb200",
    "NVIDIA B300 SXM6 AC": "b300",
    "NVIDIA H20": "h20",
    "NVIDIA A30": "a30",
    "NVIDIA RTX 6000 Ada Generation": "rtx6000ada",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "rtxpro6000",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "rtxpro6000-server",
    "NVIDIA RTX A5000": "rtxa5000",
    "NVIDIA GeForce RTX 2080 Ti": "rtx2080ti",
    "NVIDIA GeForce RTX 3070": "rtx3070",
    "NVIDIA GeForce RTX 3080": "rtx3080",
    "NVIDIA GeForce GTX 1080 Ti": "gtx1080ti",
    "NVIDIA TITAN RTX": "titanrtx",
    "NVIDIA TITAN Xp": "titanxp",
    "Quadro RTX 6000": "rtx6000-turing",
    "Quadro RTX 8000": "rtx8000",
    "Tesla P40": "p40",
    "Tesla V100-PCIE-32GB": "v100-pcie-32",
    "GRID T4-8Q": "t4",
    "NVIDIA A10-24Q": "a10",
    "Apple M1": "mps-m1",
    "Apple M2": "mps-m2",
}
"""Names as nvidia-smi and _CudaDeviceProperties print them in public logs; Apple's as macOS gives them."""

OTHERS = [
    *("NVIDIA L40G", "NVIDIA L20", "NVIDIA A100X", "NVIDIA A100", "NVIDIA A800-SXM4-80GB", "NVIDIA T4G"),
    *("NVIDIA A10M", "NVIDIA H100", "NVIDIA GH200", "NVIDIA GB300", "NVIDIA RTX 6000"),
    *("Tesla V100S-PCIE-32GB", "Tesla P100-SXM2-16GB", "NVIDIA GeForce RTX 4080 SUPER"),
    *("NVIDIA GeForce RTX 4090 D", "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA RTX 4000 Ada Generation"),
    *("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "MIG 1g.5gb", "GRID T4-8", "NVIDIA A10G-24Q", "Apple M1 Pro"),
    *("AMD Instinct MI300A", "NVIDIA", "Tesla", "GPU", "- -", ""),
]
"""Devices that have no profile, most of them only a letter away from one that has."""

VENDOR_WORDS = {"nvidia", "corporation", "tesla", "geforce", "gpu"}

models = st.sampled_from([*REAL])
blanks = st.text(alphabet=" \t-_", max_size=3)


def matched_id(name: str, profiles: Mapping[str, Profile] = PROFILES) -> str | None:
    profile = match_device(name, profiles)
    return None if profile is None else profile.id


def bare(name: str) -> str:
    """Return the name without its vendor's words."""
    return " ".join(word for word in name.split() if word.lower() not in VENDOR_WORDS)


def test_every_profile_of_an_accelerator_has_its_real_name_here() -> None:
    assert set(REAL.values()) == set(PROFILES) - {"cpu"}


@pytest.mark.parametrize(("name", "profile_id"), REAL.items())
def test_a_name_that_drivers_report_matches_its_profile(name: str, profile_id: str) -> None:
    assert matched_id(name) == profile_id


@pytest.mark.parametrize("name", OTHERS)
def test_another_device_is_never_guessed(name: str) -> None:
    assert matched_id(name) is None


@given(
    models,
    st.sampled_from(["", "NVIDIA ", "Tesla ", "NVIDIA Tesla ", "nvidia corporation ", "NVIDIA GeForce "]),
    st.sampled_from(["", " GPU"]),
    st.booleans(),
    blanks,
    blanks,
    st.lists(st.booleans(), min_size=60, max_size=60),
)
def test_case_blanks_and_vendor_words_do_not_change_the_device(
    model: str, prefix: str, suffix: str, is_bare: bool, before: str, after: str, is_upper: list[bool]
) -> None:
    name = prefix + (bare(model) if is_bare else model) + suffix
    mixed = "".join(
        letter.upper() if upper else letter.lower() for letter, upper in zip(name, is_upper, strict=False)
    )
    assert matched_id(before + mixed.replace(" ", f" {before}") + after) == REAL[model]


@given(models, st.data())
def test_a_name_without_one_of_its_words_is_another_device(model: str, data: st.DataObject) -> None:
    kept = bare(model).replace("-", " ").split()
    dropped = data.draw(st.integers(0, len(kept) - 1))
    assert matched_id(" ".join(kept[:dropped] + kept[dropped + 1 :])) != REAL[model]


def test_of_two_profiles_with_one_device_name_the_first_wins() -> None:
    mine = PROFILES["rtx4090"].model_copy(update={"id": "mine", "device_names": ("RTX 4090",)})
    assert matched_id("NVIDIA GeForce RTX 4090", {"mine": mine, **PROFILES}) == "mine"
    assert matched_id("NVIDIA GeForce RTX 4090", {**PROFILES, "mine": mine}) == "rtx4090"


# --- what a person types after --gpu ---------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "profile_id"),
    [
        ("a100", "a100-sxm-40"),
        ("a100-80", "a100-sxm-80"),
        (" CPU ", "cpu"),
        ("rtx 4090", "rtx4090"),
        ("4090", "rtx4090"),
        ("h100", "h100-sxm"),
        ("H100 SXM5", "h100-sxm"),
        ("nvidia v100-32", "v100-sxm-32"),
        ("m2", "mps-m2"),
        ("a6000", "rtxa6000"),
        ("RTX A6000", "rtxa6000"),
        ("3060", "rtx3060"),
        ("A100 SXM4 80GB", "a100-sxm-80"),
    ],
)
def test_a_profile_is_found_however_its_name_is_spelt(name: str, profile_id: str) -> None:
    assert find_profile(name, PROFILES).id == profile_id


def test_an_id_wins_over_another_profiles_alias() -> None:
    greedy = PROFILES["t4"].model_copy(update={"id": "greedy", "aliases": ("l4",)})
    assert find_profile("l4", {"greedy": greedy, **PROFILES}).id == "l4"
