"""What is shown of GPU profiles: all in one table, or all of one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from build_records import GIB, profile
from read_report import drawn
from recorded_catalog import recorded_catalog

from tunekit.machine.price_catalog import Refreshed, matched_prices
from tunekit.machine.profiles import ProfileFile, load_profile_files
from tunekit.records.host import Accelerator
from tunekit.records.prices import CatalogPrices
from tunekit.records.profile import FactConfidence, Instance, Profile, SpotPrice
from tunekit.report.blocks import Table
from tunekit.report.gpus import gpu_list, gpu_sheet, refreshed_prices

PATH = Path("profiles/a10g.yaml")

SHEET_AT_80 = """
a10g: NVIDIA A10G
This machine has one: GPU 0 with 22.5 GiB.
Other names: g5
Not the A10.
File: profiles/a10g.yaml (yours; it hides shipped/a10g.yaml)

Figures
architecture           Ampere
compute capability     8.6
multiprocessors        80
memory, by the driver  22.5 GiB
memory, by torch       22.1 GiB
bandwidth              600 GB/s
fp32                   31.2 TFLOPS
tf32, dense            35 TFLOPS
fp16, dense            70 TFLOPS
bf16, dense            70 TFLOPS
fp8, dense             none
reached in bf16        95% of the dense rate
native precisions      fp32 tf32 bf16 fp16
torch.compile          yes*
power limit            300 W
PCIe                   4.0 x16
NVLink                 n/a

Software
torch.compile: with care
torch builds: cu126

Sources of the figures, and how far they can be trusted
memory (high): test
rates (high): test
device (high): test
software (high): test

Machines
provider       machine      GPUs  vCPUs  RAM GB    $/h  $/GPU-h  as of
aws us-east-1  g5.xlarge       1      4      16   1.01     1.01  2025-11-30
aws us-east-1  g5.48xlarge     8    192     768  16.29     2.04  2025-11-30
somebody       half            1    n/a     n/a    n/a      n/a  2026
colab          A10G            1    n/a     n/a  0.100    0.100  2026-03

Prices in USD as seen on the day shown; they move within weeks.
g5.xlarge: Spot 0.377 to 0.513 $/h, seen 2026 in us-east-1, us-west-2.
half: Only a part of the price is known.
A10G: 1 prepaid compute units/h.

Sources of the prices
g5.xlarge, g5.48xlarge: a table (high)
half: a page (low)
A10G: a post (medium)
"""


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


def list_of(*profiles: ProfileFile, here: tuple[Accelerator, ...] = (), width: int = 120) -> Table:
    table = gpu_list(profiles, here, width)[0]
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
    assert [one.removesuffix(" (here)") for one in ids[9:20]] == [
        *("t4", "rtx3060", "a10", "a10g", "rtx3090"),
        *("a100-pcie-40", "a100-sxm-40", "a40", "rtxa6000", "a100-pcie-80", "a100-sxm-80"),
    ]
    assert ids[-6:] == ["l40s", "h100-pcie", "h100-sxm", "h200", "rtx5090", "b200"]


@pytest.mark.parametrize("width", [80, 100, 120, 160])
@pytest.mark.parametrize("here", [(), (gpu(),), (gpu("NVIDIA A100-SXM4-40GB", "a100-sxm-40"),)])
def test_no_line_is_wider_than_the_terminal(
    files: dict[str, ProfileFile], width: int, here: tuple[Accelerator, ...]
) -> None:
    texts = [drawn(gpu_list(files.values(), here, width), width)]
    texts += [drawn(gpu_sheet(file, here, width), width) for file in files.values()]
    paths = {str(file.path) for file in files.values()} | {str(next(iter(files.values())).path.parent)}
    for line in "\n".join(texts).splitlines():
        is_path = any(path in line for path in paths)
        assert len(line) <= width or is_path
        assert line == line.rstrip()


def test_a_wide_terminal_shows_more_columns(files: dict[str, ProfileFile]) -> None:
    narrow = list_of(*files.values(), width=80).columns
    assert narrow == (
        *("id", "GiB", "GB/s", "fp32", "tf32", "fp16", "bf16"),
        *("compile", "$/GPU-h", "as of"),
    )
    wide = list_of(*files.values(), width=120).columns
    assert set(wide) - set(narrow) == {"name", "fp8", "from"}


def test_the_cheapest_price_is_per_gpu_and_not_of_prepaid_units() -> None:
    table = list_of(shipped(a10g()))
    assert (cells(table, "$/GPU-h"), cells(table, "as of"), cells(table, "from")) == (
        ["1.01"],
        ["2025-11"],
        ["aws"],
    )
    by_eight = offer("x", "eight", 4.0, gpus=8)
    cheaper = profile(instances=(*offers(), by_eight))
    assert cells(list_of(shipped(cheaper)), "$/GPU-h") == ["0.500"]


def test_a_free_quota_is_no_price_per_gpu_and_says_its_limits() -> None:
    quota = offer("kaggle", "two", 0, gpus=2, hours_per_week=30, max_session_h=12)
    file = shipped(profile(instances=(*offers(), quota)))
    assert cells(list_of(file), "$/GPU-h") == ["1.01"]
    sheet = drawn(gpu_sheet(file, (), 80), 80)
    assert "free     free" in sheet
    assert "two: At most 30 h a week. A session lasts 12 h at most." in sheet


def test_unknown_is_not_the_same_as_absent() -> None:
    card = profile(fp16_tflops=None, fp8_tflops=None, native_precisions=("fp32", "fp16"))
    table = list_of(shipped(card))
    assert (cells(table, "fp16"), cells(table, "fp8"), cells(table, "$/GPU-h")) == (["n/a"], ["-"], ["n/a"])
    chip = profile(compute_capability=None, bf16_tflops=None, native_precisions=("fp32",))
    assert cells(list_of(shipped(chip)), "bf16") == ["n/a"]


def test_what_is_here_and_what_is_yours_is_marked() -> None:
    mine, other = shipped(a10g(), is_yours=True), shipped(profile("t4"))
    assert cells(list_of(mine, other, here=(gpu(),)), "id") == ["a10g (here, yours)", "t4"]
    assert cells(list_of(mine, other), "id") == ["a10g (yours)", "t4"]


def test_a_machine_without_a_gpu_has_its_cpu() -> None:
    assert cells(list_of(shipped(profile("cpu"))), "id") == ["cpu (here)"]
    assert cells(list_of(shipped(profile("cpu")), here=(gpu(),)), "id") == ["cpu"]


def test_a_gpu_that_is_here_without_a_profile_is_told() -> None:
    text = drawn(gpu_list([shipped(a10g())], (gpu("NVIDIA L20", None),), 120), 120)
    assert "This machine has NVIDIA L20 (22.5 GiB), which has no profile." in text
    assert "a10g (here)" not in text


def test_below_the_table_it_says_how_to_add_a_profile() -> None:
    text = " ".join(drawn(gpu_list([shipped(a10g())], (), 80), 80).split())
    assert "tunekit gpus NAME" in text
    assert "to ~/.config/tunekit/profiles and fill in what you know" in text
    assert "TUNEKIT_PROFILES" in text


# --- one profile -----------------------------------------------------------------------------


def test_everything_of_one_profile_at_80_columns() -> None:
    told = a10g(
        aliases=("g5",),
        notes="Not the A10.",
        achievable_bf16_fraction=0.95,
        compile_note="with care",
        torch_builds="cu126",
    )
    file = ProfileFile(told, PATH, is_yours=True, hides=(Path("shipped/a10g.yaml"),))
    assert drawn(gpu_sheet(file, (gpu(),), 80), 80) == SHEET_AT_80


def test_a_profile_that_claims_nothing_shows_what_is_unknown(files: dict[str, ProfileFile]) -> None:
    text = drawn(gpu_sheet(files["cpu"], (), 80), 80)
    assert "Every machine has one." in text
    for name in (
        "architecture",
        "memory, by torch",
        "bandwidth",
        "fp32",
        "bf16, dense",
        "power limit",
        "PCIe",
    ):
        (line,) = [line for line in text.splitlines() if line.startswith(f"{name}  ")]
        assert line.split()[-1] == "n/a"
    assert "rates (none): none; no figure is claimed" in text
    assert "No price is known." in text


def test_several_of_it_here_are_counted() -> None:
    text = drawn(gpu_sheet(shipped(a10g()), (gpu(), gpu(index=3)), 80), 80)
    assert "This machine has 2: GPU 0 with 22.5 GiB, GPU 3 with 22.5 GiB." in text


def test_a_device_without_nvlink_has_none() -> None:
    assert "NVLink                 none" in drawn(gpu_sheet(shipped(profile(nvlink_gb_per_s=0)), (), 80), 80)


def test_text_of_a_users_file_can_not_steer_the_terminal() -> None:
    evil = "\x1b[31m[red]x[/red]"
    file = shipped(a10g(notes=evil, device_names=(evil,), architecture=evil))
    text = drawn((*gpu_sheet(file, (), 200), *gpu_list([file], (), 200)), 200)
    assert "\x1b" not in text
    assert "\\x1b[31m[red]x[/red]" in text


# --- what a refresh got ----------------------------------------------------------------------

REFRESHED_AT_80 = """
Prices
4 machines priced by gpuhunt 0.1.34, of 2026-11-20.
Saved in prices.json: they take the place of older shipped prices until you
  delete it.
Without a price there, and so as shipped: 10 machines, aws p5.4xlarge, gcp
  a3-highgpu-1g, lambda gpu_1x_h100_sxm5, lambda gpu_8x_h100_sxm5, runpod H100
  SXM secure, aws g4dn.2xlarge, aws g4dn.4xlarge, aws g4dn.12xlarge, colab T4,
  kaggle T4 x2.
Nothing was to be had of oracle, vultr.
Left out: 43 rows of machines or regions that no profile has.
More than 3x off what is shipped, so look it up before you book: aws p5.48xlarge
  at 14.04 $/h in us-east-1, shipped 55.04.
"""


def test_what_a_refresh_got_at_80_columns(files: dict[str, ProfileFile]) -> None:
    some = [files[name].profile for name in ("h100-sxm", "t4")]
    told = matched_prices(recorded_catalog(), some)
    told = replace(told, absent=("oracle", "vultr"))
    assert drawn((refreshed_prices(told, Path("prices.json")),), 80) == REFRESHED_AT_80


def test_what_is_kept_of_an_earlier_refresh_is_counted_apart(files: dict[str, ProfileFile]) -> None:
    some = [files[name].profile for name in ("h100-sxm", "t4")]
    whole = recorded_catalog()
    earlier = matched_prices(whole, some).prices
    rows = tuple(one for one in whole.rows if one.provider != "aws")
    partial = replace(whole, rows=rows, absent=("aws",), is_dated_by_files=True)
    told = matched_prices(partial, some, earlier)
    text = " ".join(drawn((refreshed_prices(told, Path("prices.json")),), 80).split())
    assert "2 machines priced by gpuhunt 0.1.34, of 2026-11-20 by its files' dates." in text
    kept = "Nothing was to be had of aws; kept from an earlier refresh: 2 machines, of 2026-11-20."
    assert kept in text


def test_a_refresh_that_matched_nothing_is_short() -> None:
    nothing = Refreshed(CatalogPrices(catalog="gpuhunt 1", prices=()), (), 0, (), ())
    text = drawn((refreshed_prices(nothing, Path("prices.json")),), 80)
    first = "0 machines priced by gpuhunt 1."
    last = "Saved in prices.json: they take the place of older shipped prices until you delete it."
    assert " ".join(text.split()) == f"Prices {first} {last}"
