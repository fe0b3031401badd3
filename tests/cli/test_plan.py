"""`tunekit plan`: from a run or a rate on the command line to hours and dollars."""

from pathlib import Path

import pytest
from build_fits import fit, fits_run
from build_records import baseline_record, host, interval, options, recommendation, run
from json_schemas import valid

from tunekit.cli.main import main
from tunekit.machine import detect
from tunekit.records.codec import from_json, to_json
from tunekit.records.plan import Plan, RateSource

RATE = ["plan", "--rate", "180", "--samples", "1281167", "--epochs", "90", "--gpu", "a10g"]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A finished run on an A10G: 180 samples/s over a data set of ImageNet's size."""
    finished = run(
        recommendations=(recommendation(rate_samples_per_s=interval(180.0)),),
        trials=(baseline_record(epoch_samples=1_281_167),),
        options=options(epochs=90),
    )
    (tmp_path / "run.json").write_text(to_json(finished))
    return tmp_path


def planned(capsys: pytest.CaptureFixture[str], *words: str) -> Plan:
    assert main([*words, "--json"]) == 0
    return from_json(valid("plan", capsys.readouterr().out), Plan)


def test_a_rate_may_be_iterations_of_a_batch(capsys: pytest.CaptureFixture[str]):
    words = ["plan", "--rate", "1.5it/s", "--batch-size", "120", *RATE[3:]]
    asked = planned(capsys, *words).request
    assert asked.rate_samples_per_s.value == pytest.approx(180.0)
    assert (asked.samples_per_step, asked.source) == (120, "--rate 1.5it/s --batch-size 120")
    slow = planned(capsys, "plan", "--rate", "2s/it", "--batch-size", "360", *RATE[3:]).request
    assert slow.rate_samples_per_s.value == pytest.approx(180.0)


def test_a_saved_run_is_planned(saved: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["plan", str(saved), "--full"]) == 0
    shown = capsys.readouterr().out
    assert f"tunekit run {saved}/balanced.yaml" in shown
    assert "90 epochs of 1,281,167 samples, at 180 samples/s (175 to 185) in" in " ".join(shown.split())
    assert "5.0 GiB of memory" in shown


def test_its_report_is_written_as_a_page_and_as_markdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    page, comment = tmp_path / "plan.html", tmp_path / "plan.md"
    assert main([*RATE, "--html", str(page), "--markdown", str(comment)]) == 0
    assert "90 epochs of 1,281,167 samples, at 180 samples/s" in " ".join(capsys.readouterr().out.split())
    assert "at 180 samples/s in fp32" in page.read_text()
    assert "at 180 samples/s in fp32, assumed" in comment.read_text()
    assert main([*RATE, "--html", "-"]) == 0
    assert capsys.readouterr().out.startswith("<!DOCTYPE html>")


def test_every_flag_reaches_the_plan(capsys: pytest.CaptureFixture[str]):
    plan = planned(
        capsys,
        *(*RATE[:3], *RATE[5:]),
        *("--gpus", "2", "--precision", "bf16", "--max-session", "6h", "--no-checkpoints"),
        *("--scaling", "0.5..0.9", "--provider", "AWS", "--samples", "1281.167k"),
        *("--only", "A10G", "--only", "a100-80", "--max-hours", "1000", "--spot"),
    )
    asked = plan.request
    assumed = asked.assumptions
    assert (asked.measured_gpus, asked.precision, asked.precision_is_assumed) == (2, "bf16", False)
    assert (assumed.max_session_s, assumed.checkpoint_cost_s) == (6 * 3600, None)
    assert asked.samples_per_epoch == 1_281_167
    assert (assumed.scaling_low, assumed.scaling_high, assumed.scaling_is_given) == (0.5, 0.9, True)
    assert (asked.providers, asked.only) == (("aws",), ("a10g", "a100-sxm-80"))
    assert (asked.max_hours, asked.may_use_spot) == (1000.0, True)
    assert {row.profile_id for row in plan.rows} == {"a10g", "a100-sxm-80"}


def test_the_memory_need_can_be_given(saved: Path, capsys: pytest.CaptureFixture[str]):
    plan = planned(capsys, *RATE, "--precision", "bf16", "--memory-gib", "18.5")
    assert plan.request.peak_reserved_bytes == 18.5 * 1024**3
    assert {row.fits for row in plan.rows if row.profile_id == "t4"} == {False}
    of_run = planned(capsys, "plan", str(saved), "--memory-gib", "18.5").request
    assert of_run.peak_reserved_bytes == plan.request.peak_reserved_bytes


def test_without_gpu_the_one_that_is_here_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(detect, "detect_host", lambda **asked: host())
    plan = planned(capsys, *RATE[:-2])
    assert plan.request.measured_on == "a10g"
    assert plan.rows[0].how is RateSource.GIVEN


def test_without_gpu_and_without_one_here_it_has_to_be_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(detect, "detect_host", lambda **asked: host(accelerators=()))
    assert main(RATE[:-2]) == 2
    assert "say where the rate was measured: --gpu a10g, or --gpu cpu" in capsys.readouterr().err


def test_a_loader_rate_settles_what_the_loader_feeds(capsys: pytest.CaptureFixture[str]):
    """The A10G's usual machine has 4 CPUs, so 180 samples/s are at least 45 from each."""
    words, on_aws = (*RATE, "--only", "h100-sxm"), ("--provider", "aws")
    unknown = planned(capsys, *words, *on_aws)
    assert "loader-unknown" in {one.code for one in unknown.findings}
    settled = planned(capsys, *words, *on_aws, "--loader-rate", "20")
    assert "loader-unknown" not in {one.code for one in settled.findings}
    given = planned(capsys, *words, "--loader-rate", "20")
    assert {row.vcpus for row in given.rows if row.may_wait_for_loader} == {None}
    for row in given.rows[1:]:
        loader = row.loader_samples_per_s
        assert loader is not None
        assert not row.vcpus or loader.low == loader.high == pytest.approx(20.0 * row.vcpus)


def test_a_folder_of_fits_is_planned_by_its_predictions(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    rate = interval(400.0, 0.3)
    fitted = fits_run((fit("a10g", 22.1, (219, 250, 294), compute=rate), fit("l4", 22, (219, 250, 294))))
    (tmp_path / "fits.json").write_text(to_json(fitted))
    words = ("plan", str(tmp_path), "--gpu", "A10G", "--samples", "1.28M", "--epochs", "100")
    plan = planned(capsys, *words)
    assert (plan.rows[0].how, plan.request.measured_on) == (RateSource.PREDICTED, "a10g")
    assert plan.request.rate_samples_per_s == rate
    assert plan.choices


def test_own_prices_are_those_of_an_instance_or_of_machines_of_ones_own(capsys: pytest.CaptureFixture[str]):
    prices = ("--price", "a10g=0.40", "--price", "A10G=1", "--price", "g5.xlarge=0.5")
    plan = planned(capsys, *RATE, *prices, "--only", "a10g")
    usd = {row.instance: row.usd_on_demand.value for row in plan.rows if row.usd_on_demand}
    hours = 1_281_167 * 90 / 180 / 3600
    expected = {"a10g at $0.40/h": 0.40 * hours, "A10G at $1.00/h": hours, "g5.xlarge": 0.5 * hours}
    assert {name: usd[name] for name in expected} == pytest.approx(expected)
    assert not any(row.is_stale for row in plan.rows if row.instance in expected)
