"""What is shown of GPU profiles: all in one table, or all of one."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from build_records import GIB, profile
from read_report import drawn
from recorded_catalog import recorded_catalog

from tunekit.machine.price_catalog import Refreshed, matched_prices
from tunekit.machine.profiles import ProfileFile, how_to_add, load_profile_files
from tunekit.records.host import Accelerator
from tunekit.records.prices import CatalogPrices
from tunekit.records.profile import FactConfidence, Instance, Profile, SpotPrice
from tunekit.report.blocks import Table
from tunekit.report.gpus import gpu_list, gpu_sheet, refreshed_prices

PATH = Path("profiles/a10g.yaml")


def offer(provider: str, name: str, usd_per_h: float | None, **overrides: Any) -> Instance:
    values: dict[str, Any] = {
        "provider": provider,
        "name": name,
        "gpus": 1,
        "vcpus": None,
        "ram_gb": None,
        "usd_per_h": usd_per_h,
        "region": None,
        "as_of": "2025-11-30",
        "source": "a table",
        "confidence": FactConfidence.HIGH,
    }
    return Instance(**(values | overrides))


def offers() -> tuple[Instance, ...]:
    """A small and a large machine, one with half a price, and prepaid units that look cheapest."""
    spot = SpotPrice(low_usd_per_h=0.377, high_usd_per_h=0.513, as_of="2026", where="us-east-1, us-west-2")
    aws = {"region": "us-east-1"}
    return (
        offer("aws", "g5.xlarge", 1.006, vcpus=4, ram_gb=16, spot=spot, **aws),
        offer("aws", "g5.48xlarge", 16.288, gpus=8, vcpus=192, ram_gb=768, **aws),
        offer(
            "somebody",
            "half",
            None,
            as_of="2026",
            source="a page",
            confidence=FactConfidence.LOW,
            notes="Only a part of the price is known.",
        ),
        offer(
            "colab",
            "A10G",
            0.1,
            compute_units_per_h=1,
            as_of="2026-03",
            source="a post",
            confidence=FactConfidence.MEDIUM,
        ),
    )


def a10g(**overrides: Any) -> Profile:
    return profile(instances=offers(), **overrides)


def shipped(one: Profile, is_yours: bool = False) -> ProfileFile:
    return ProfileFile(one, Path(f"profiles/{one.id}.yaml"), is_yours)


def gpu(name: str = "NVIDIA A10G", profile_id: str | None = "a10g", index: int = 0) -> Accelerator:
    return Accelerator(
        index=index,
        name=name,
        memory_bytes=int(22.5 * GIB),
        compute_capability="8.6",
        driver="550.1",
        profile_id=profile_id,
    )


def list_of(*profiles: ProfileFile, here: tuple[Accelerator, ...] = ()) -> Table:
    table = gpu_list(profiles, here)[0]
    assert isinstance(table, Table)
    return table


def cells(table: Table, column: str) -> list[str]:
    return [row[table.columns.index(column)] for row in table.rows]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, ProfileFile]:
    """The shipped profiles alone."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("TUNEKIT_PROFILES", raising=False)
    return load_profile_files()


# --- the list --------------------------------------------------------------------------------


def test_profiles_are_in_the_order_of_their_architectures_and_memory(files: dict[str, ProfileFile]) -> None:
    ids = cells(list_of(*reversed(files.values()), here=(gpu(),)), "id")
    assert ids[:6] == ["cpu", "mps-m1", "mps-m2", "mi300x", "k80", "p100-pcie-16"]
    assert [one.removesuffix(" (here)") for one in ids[18:32]] == [
        *("a30", "a100-pcie-40", "a100-sxm-40", "a100-pcie-80", "a100-sxm-80", "rtx3070", "rtx3080"),
        *("rtx3060", "a10", "a10g", "rtxa5000", "rtx3090", "a40", "rtxa6000"),
    ]
    assert ids[-6:] == ["b200", "gb200", "b300", "rtx5090", "rtxpro6000", "rtxpro6000-server"]


@pytest.mark.parametrize("width", [80, 100, 120, 160])
@pytest.mark.parametrize("here", [(), (gpu(),), (gpu("NVIDIA A100-SXM4-40GB", "a100-sxm-40"),)])
def test_no_line_is_wider_than_the_terminal(
    files: dict[str, ProfileFile], width: int, here: tuple[Accelerator, ...]
) -> None:
    texts = [drawn(gpu_list(files.values(), here), width)]
    texts += [drawn(gpu_sheet(file, here), width) for file in files.values()]
    paths = {str(file.path) for file in files.values()} | {str(next(iter(files.values())).path.parent)}
    for line in "\n".join(texts).splitlines():
        is_path = any(path in line for path in paths)
        assert len(line) <= width or is_path
        assert line == line.rstrip()


def test_the_cheapest_price_is_per_gpu_and_not_of_prepaid_units() -> None:
    by_eight = offer("x", "eight", 4.0, gpus=8)
    cheaper = profile(instances=(*offers(), by_eight))
    assert cells(list_of(shipped(cheaper)), "$/GPU-h") == ["0.500"]


def test_unknown_is_not_the_same_as_absent() -> None:
    card = profile(fp16_tflops=None, fp8_tflops=None, native_precisions=("fp32", "fp16"))
    table = list_of(shipped(card))
    assert (cells(table, "fp16"), cells(table, "fp8"), cells(table, "$/GPU-h")) == (["n/a"], ["-"], ["n/a"])
    chip = profile(compute_capability=None, bf16_tflops=None, native_precisions=("fp32",))
    assert cells(list_of(shipped(chip)), "bf16") == ["n/a"]


def test_a_machine_without_a_gpu_has_its_cpu() -> None:
    assert cells(list_of(shipped(profile("cpu"))), "id") == ["cpu (here)"]
    assert cells(list_of(shipped(profile("cpu")), here=(gpu(),)), "id") == ["cpu"]


def test_text_of_a_users_file_can_not_steer_the_terminal() -> None:
    evil = "\x1b[31m[red]x[/red]"
    file = shipped(a10g(notes=evil, device_names=(evil,), architecture=evil))
    text = drawn((*gpu_sheet(file, ()), *gpu_list([file], ())), 200)
    assert "\x1b" not in text
    assert "\\x1b[31m[red]x[/red]" in text


# --- whole outputs ---------------------------------------------------------------------------


def test_one_profile(files: dict[str, ProfileFile], golden: Callable[[str], object]) -> None:
    told = a10g(
        aliases=("g5",),
        notes="Not the A10.",
        achievable_bf16_fraction=0.95,
        compile_note="with care",
        torch_builds="cu126",
        nvlink_gb_per_s=0,
    )
    quota = offer("kaggle", "two", 0, gpus=2, hours_per_week=30, max_session_h=12)
    told = told.changed(instances=(*told.instances, quota))
    mine = ProfileFile(told, PATH, is_yours=True)
    unknown = replace(files["cpu"], path=Path("profiles/cpu.yaml"))
    sheets = ((mine, (gpu(), gpu(index=3))), (unknown, ()))
    assert "".join(drawn(gpu_sheet(file, here), 80) for file, here in sheets) == golden("gpu-sheets.txt")


def test_a_list_of_profiles(golden: Callable[[str], object]) -> None:
    mine, other = shipped(a10g(), is_yours=True), shipped(profile("t4"))
    here = (gpu(), gpu("NVIDIA L20", None, index=1))
    text = drawn(gpu_list([mine, other], here), 500).replace(how_to_add(), "HOW TO ADD ONE")
    assert text == golden("gpu-list.txt")


def test_what_a_refresh_got(files: dict[str, ProfileFile], golden: Callable[[str], object]) -> None:
    some, whole = [files[name].profile for name in ("h100-sxm", "t4")], recorded_catalog()
    nothing = Refreshed(CatalogPrices(catalog="gpuhunt 1", prices=()), (), ())
    several = (replace(matched_prices(whole, some), absent=("oracle", "vultr")), nothing)
    blocks = [refreshed_prices(one, Path("prices.json")) for one in several]
    assert "".join(drawn((block,), 80) for block in blocks) == golden("gpu-prices.txt")
