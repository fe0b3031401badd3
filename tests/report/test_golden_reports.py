"""Whole reports of a search in every medium."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from build_records import config, cpu, host, interval, recommendation, trial_record
from build_reports import full_plan, full_run, full_series
from build_searched import walked
from outcomes import finished
from read_report import drawn, page_text

from tunekit.export.yaml_config import knobs_yaml
from tunekit.records.recommendation import NoiseFloor, Tier
from tunekit.records.run import Run
from tunekit.report.html.page import page
from tunekit.report.markdown import MAX_LINES, markdown
from tunekit.report.run import in_comment, on_page
from tunekit.report.summary_html import summary_html

FOLDER = Path("reports/x")


def on_a_laptop() -> Run:
    """A run for an A10G that was measured on a CPU, whose two tiers have the same config."""
    fast = config(batch_size=96, num_workers=1, channels_last=True)
    best = {"peak_reserved_bytes": None, "device_memory_bytes": None, "speedup": interval(1.953, 0.127)}
    return full_run(
        measured_on="cpu",
        host=host(accelerators=(), cpus=2, cpus_total=2),
        trials=(
            trial_record(0, 187.3, config(batch_size=16), role="baseline", device=cpu()),
            trial_record(1, 365.2, fast, device=cpu()),
        ),
        recommendations=(
            recommendation(Tier.CONSERVATIVE, fast, **best),
            recommendation(Tier.BALANCED, fast, same_as=Tier.CONSERVATIVE, **best),
        ),
        noise_floor=NoiseFloor(relative=0.053, pairs=1, processes=2),
        prediction=None,
        why_not_predicted="the loop could not be traced",
    )


RUNS: dict[str, Callable[[], Run]] = {
    "searched": walked,
    "full": full_run,
    "laptop": on_a_laptop,
    "empty": lambda: finished(OWN_KEPT, trials=()),
}
OWN_KEPT = recommendation(of=config(), is_baseline=True)


@pytest.fixture(params=RUNS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def in_terminal(of: Run, width: int) -> str:
    return drawn(on_page(of, str(FOLDER)).blocks, width)


def comment(of: Run) -> str:
    configs = [(one.tier.value, knobs_yaml(one, of.target)) for one in of.recommendations]
    return markdown(in_comment(of, full_plan(), configs), MAX_LINES, 4)


def test_a_report_on_a_terminal(name: str, golden: Callable[[str], object]):
    assert in_terminal(RUNS[name](), 80) == golden(f"{name}.txt")


def test_a_report_on_a_wide_terminal(golden: Callable[[str], object]):
    assert in_terminal(full_run(), 120) == golden("full.120.txt")


@pytest.mark.parametrize("name", ["searched", "full"])
def test_a_report_as_markdown(name: str, golden: Callable[[str], object]):
    assert comment(RUNS[name]()) == golden(f"{name}.md")


@pytest.mark.parametrize("name", ["full", "laptop"])
def test_a_report_as_a_page(name: str, golden: Callable[[str], object]):
    yaml = (("balanced", "batch_size: 256\nlr: 0.2"),)
    report = on_page(RUNS[name](), str(FOLDER), full_plan(), yaml, full_series)
    assert page_text(page(report, b"{}")) == golden(f"{name}.page.txt")


def test_a_report_in_a_notebook(golden: Callable[[str], object]):
    assert re.sub(r"(?=<(?:p|li|tr|table|ul)\b)", "\n", summary_html(full_run())) == golden(
        "full.notebook.html"
    )
