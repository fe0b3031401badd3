"""The tables of five project documents, each by one command, and their figures beside the documents'.

Of the documents only some figures are known; the inputs assumed here are said at each test.
"""

from pathlib import Path

import pytest
from build_plans import row_on
from build_records import config

from tunekit.cli.main import main
from tunekit.predict.ram import buffer_bytes
from tunekit.records.codec import from_json
from tunekit.records.config import Precision
from tunekit.records.milestones import MilestonePlan
from tunekit.records.plan import Plan, RateSource


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["plan", *words, "--json"]) == 0
    return capsys.readouterr().out


def test_resnet50_on_an_a10g(capsys: pytest.CaptureFixture[str]):
    """Hours of 90 epochs of ImageNet, at an assumed 400 images/s in bf16: 115.3 M / 400 / 3600 = 80.1 h."""
    words = ("--rate", "400", "--samples", "1281167", "--epochs", "90")
    words += ("--gpu", "a10g", "--precision", "bf16")
    plan = from_json(printed(capsys, *words, "--only", "a10g", "--price", "g5.xlarge=1.006"), Plan)
    row = row_on(plan, "g5.xlarge")
    assert row.how is RateSource.GIVEN
    assert row.hours.value == pytest.approx(80.07, abs=0.01)
    assert row.usd_on_demand.value == pytest.approx(80.55, abs=0.02)


@pytest.mark.parametrize(("workers", "prefetch", "gb"), [(4, 2, 1.23), (8, 2, 2.47), (8, 4, 4.93)])
def test_ram_of_resnet50s_batches(workers: int, prefetch: int, gb: float):
    """A batch of 256 images of 3 x 224 x 224 float32 has 154.1 MB; workers x prefetch of them wait."""
    loader = config(num_workers=workers, prefetch_factor=prefetch, pin_memory=False)
    assert buffer_bytes(loader, 256 * 3 * 224 * 224 * 4) / 1e9 == pytest.approx(gb, abs=0.01)


LOWEST_USD, HIGHEST_USD = 380, 615
PPG = """
milestones:
  - {name: M1, data: x1, epochs: 20, runs: 4, hardware: l4}
  - {name: M2, data: x4, epochs: 20, runs: 2, hardware: l4}
  - {name: M3, data: x20, epochs: 20, hardware: a100-80}
"""


def test_ppg_milestones_from_the_rate_of_an_l4(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The document says $380 to $615 for M1 to M3, from the rate of an L4; rate and data are assumed here.

    Of 1 M windows at 400/s an epoch takes 0.694 h. M1 and M2 are 80 and 160 of them, and the 400 of M3
    take 277.8 h of an L4. An A100 is expected to be faster: an unknown loader no longer slows it down to the
    rate of the L4. At $0.80 and $2 an hour M1 and M2 cost $133.33, and M3 less than $555.
    """
    (tmp_path / "ppg.yaml").write_text(PPG)
    words = ("--rate", "400", "--samples", "1M", "--gpu", "l4", "--precision", "bf16", "--provider", "own")
    prices = ("--price", "l4=0.80", "--price", "a100-80=2.00", "--milestones", str(tmp_path / "ppg.yaml"))
    plan = from_json(printed(capsys, *words, *prices), MilestonePlan)
    first, second, third = plan.milestones
    assert [first.usd.value, second.usd.value] == pytest.approx([44.44, 88.89], abs=0.01)
    assert third.hours.value < 277.8 / 2
    assert third.usd.value == pytest.approx(2 * third.hours.value)
    # The document's range lies within this plan's, whose top is a loader that feeds no more than the L4.
    assert plan.usd.low < LOWEST_USD
    assert plan.usd.high > HIGHEST_USD


def test_clinicalbert_on_v100_and_a100(capsys: pytest.CaptureFixture[str]):
    """Assumed: 60 sequences/s in bf16 on an A100 of $4 an hour, a V100 of $3, 1 M sequences for 10 epochs.

    46.3 h on the A100 are $185. A V100 has no bf16 and trains in fp16 at a third of the A100's peak, so that
    the lower price by the hour is the higher price of the training.
    """
    words = ("--rate", "60", "--samples", "1M", "--epochs", "10", "--gpu", "a100-80", "--precision", "bf16")
    prices = ("--price", "a100-80=4", "--price", "v100-sxm-16=3", "--provider", "own")
    plan = from_json(printed(capsys, *words, *prices), Plan)
    newer, older = row_on(plan, "a100-80 at $4.00/h"), row_on(plan, "v100-sxm-16 at $3.00/h")
    assert newer.usd_on_demand.value == pytest.approx(185.19, abs=0.01)
    assert older.precision is Precision.FP16
    assert older.usd_on_demand.value > newer.usd_on_demand.value
    assert plan.rows[plan.choices[0].row] == newer


def test_spectrograms_on_a_colab_a100_with_t4_and_p100(capsys: pytest.CaptureFixture[str]):
    """Assumed: 900 spectrograms/s in bf16, 100 k for 50 epochs, which takes an A100 1.54 h.

    Colab sells units in packs of 100, so that dollars are those of whole packs on each of its GPUs.
    """
    words = ("--rate", "900", "--samples", "100k", "--epochs", "50")
    words += ("--gpu", "a100-40", "--precision", "bf16")
    only = ("--only", "a100-40", "--only", "t4", "--only", "p100")
    plan = from_json(printed(capsys, *words, *only), Plan)
    rows = {(row.provider, row.profile_id): row for row in plan.rows}
    a100, t4 = rows["colab", "a100-sxm-40"], rows["colab", "t4"]
    (p100,) = {row.precision for row in plan.rows if row.profile_id.startswith("p100")}
    # A P100 has no tensor cores, so autocast gives it little: its profile plans it in fp32.
    assert (t4.precision, p100) == (Precision.FP16, Precision.FP32)
    assert a100.hours.value == pytest.approx(1.543, abs=0.001)
    assert t4.hours.low > a100.hours.high
    assert a100.usd_on_demand.value == a100.purchase.usd


EHR = """
milestones:
  - {name: cheap, hours: 23..38, hardware: a10g at $0.40/h}
  - {name: dear, hours: 23..38, hardware: a10g at $1.00/h}
"""


def test_ehr_hours_at_two_prices_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The document says $9.20 to $15.20 at $0.40 an hour, which are 23 to 38 h, or $23 to $38 at $1.00."""
    (tmp_path / "ehr.yaml").write_text(EHR)
    words = ("--rate", "100", "--samples", "1M", "--gpu", "a10g", "--milestones", str(tmp_path / "ehr.yaml"))
    plan = from_json(printed(capsys, *words, "--price", "a10g=0.40", "--price", "a10g=1.00"), MilestonePlan)
    dollars = [(one.usd.low, one.usd.high) for one in plan.milestones if one.usd]
    assert dollars[0] == (pytest.approx(9.20), pytest.approx(15.20))
    assert dollars[1] == (pytest.approx(23.0), pytest.approx(38.0))
