import re
from pathlib import Path

import pytest
import yaml
from machine.shipped import FILES, PROFILES, read

from tunekit.records.profile import FactConfidence, Profile


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_shipped_file_is_a_profile_named_like_its_file(path: Path) -> None:
    assert read(path).id == path.stem


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_shipped_file_names_every_field(path: Path) -> None:
    assert set(yaml.safe_load(path.read_text(encoding="utf-8"))) == set(Profile.model_fields) - {
        "is_read_from_device"
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_native_precisions_agree_with_the_rates(path: Path) -> None:
    profile = read(path)
    assert "fp32" in profile.native_precisions
    if not profile.is_cpu:
        figures = {name: getattr(profile, f"{name}_tflops") for name in ("tf32", "fp16", "bf16", "fp8")}
        with_a_rate = {name for name, rate in figures.items() if rate is not None}
        assert set(profile.native_precisions) - {"fp32"} == with_a_rate


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_torch_never_sees_more_memory_than_the_driver(path: Path) -> None:
    profile = read(path)
    if profile.memory_bytes is not None and profile.torch_memory_bytes is not None:
        assert 0.95 * profile.memory_bytes < profile.torch_memory_bytes <= profile.memory_bytes


def test_every_price_says_when_and_where_it_was_read() -> None:
    offers = [instance for profile in PROFILES.values() for instance in profile.instances]
    assert len(offers) == 72
    for offer in offers:
        assert offer.source.strip()
        assert offer.usd_per_h is not None or offer.notes
        if offer.spot and offer.usd_per_h:
            assert offer.spot.high_usd_per_h < offer.usd_per_h


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_group_without_confidence_claims_nothing(path: Path) -> None:
    profile = read(path)
    facts = profile.facts
    claims = {
        facts.memory: (profile.memory_bytes, profile.torch_memory_bytes, profile.bandwidth_gb_per_s),
        facts.rates: (profile.fp32_tflops, profile.fp16_tflops, profile.achievable_bf16_fraction),
        facts.device: (profile.architecture, profile.multiprocessors, profile.tdp_w),
        facts.software: (profile.compile_supported, profile.torch_builds),
    }
    for group, figures in claims.items():
        if group.confidence is FactConfidence.NONE:
            assert set(figures) == {None}


def test_names_and_aliases_belong_to_one_profile_each() -> None:
    profiles = [read(path) for path in FILES]
    names = [re.sub("[^a-z0-9]", "", name) for profile in profiles for name in (profile.id, *profile.aliases)]
    devices = [name for profile in profiles for name in profile.device_names]
    assert len(names) == len(set(names))
    assert len(devices) == len(set(devices))
