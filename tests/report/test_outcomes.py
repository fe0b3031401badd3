"""What a search shows of every outcome."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from build_records import baseline_record, config, confirm_records, recommendation
from outcomes import FAST, MANY, NEAR, OUTCOMES, SOME, WIDE, finished, left_open
from read_report import drawn, view

from tunekit.records.config import KNOBS
from tunekit.records.interval import Interval
from tunekit.records.recommendation import Tier
from tunekit.records.run import Run
from tunekit.report.blocks import Block, Changes, Commands, Lead, Line, Passage
from tunekit.report.run import on_one_screen, on_page

FOLDER = Path("reports/x")
FIGURE = re.compile(r"(?<![\w./-])\d")
"""One that begins a number; those in names and paths are none."""
SETTING = re.compile(
    rf"\b(?:{'|'.join(KNOBS)}): \S+ -> [\w.-]+|\btrial \d+|\S*/\S+\.yaml|^Other tiers: .*|--[a-z-]+ \w+"
    r"|losses: .*|largest samples .*|No recommendation: .*"
)
"""What needs no mark: a knob's values, the number of a trial, a file, a flag."""


def screen(of: Run) -> str:
    return drawn(on_one_screen(of, FOLDER, (FOLDER / "balanced.yaml",)), 100)


def test_every_outcome_on_one_screen(golden: Callable[[str], object]):
    assert "\n".join(f"=== {name}\n{screen(of())}" for name, of in OUTCOMES.items()) == golden("outcomes.txt")


@pytest.mark.parametrize("of", OUTCOMES.values(), ids=OUTCOMES)
def test_one_screen_has_24_lines_and_the_command_for_the_rest(of: Callable[[], Run]):
    shown = drawn(on_one_screen(of(), FOLDER, (FOLDER / "balanced.yaml",)), 80)
    assert len(shown.splitlines()) <= 24
    assert f": tunekit report {FOLDER} --full\n" in shown


def texts(blocks: tuple[Block, ...]) -> Iterator[str]:
    for block in blocks:
        match block:
            case Lead():
                yield block.sentence
            case Line():
                yield block.text
            case Changes() | Passage(title="Change"):
                yield from block.lines
            case Commands():
                yield from (line for line in block.lines if re.search(r"\blr to \d", line))


@pytest.mark.parametrize("of", OUTCOMES.values(), ids=OUTCOMES)
def test_every_sentence_with_a_figure_says_measured_or_predicted(of: Callable[[], Run]):
    said = dict.fromkeys((*texts(on_one_screen(of(), FOLDER)), *texts(on_page(of(), str(FOLDER)).blocks)))
    figures = [text for text in said if FIGURE.search(SETTING.sub("", text))]
    assert [text for text in figures if not re.search(r"measured|predicted", text, re.IGNORECASE)] == []


@pytest.mark.parametrize("floor", [0.02, 0.09, 0.17])
@pytest.mark.parametrize("ratio", [WIDE, MANY, SOME, NEAR], ids=["wide", "many", "some", "near"])
def test_a_search_that_waited_for_quiet_is_not_advised_to_wait(ratio: Interval, floor: float):
    shown = view(left_open(ratio, floor, waited_s=60.0))
    assert not any(re.search("--wait-quiet(?! 1m)", text) for text in (shown.answer, *shown.next_steps))


@pytest.mark.parametrize(
    ("batches", "columns"),
    [
        ((256, 256, 256), {"conservative = balanced = aggressive": "256"}),
        ((256, 256, 512), {"conservative = balanced": "256", "aggressive": "512"}),
        ((256, 512, 256), {"balanced": "512", "conservative = aggressive": "256"}),
        ((64, 256, 512), {"balanced": "256", "conservative": "64", "aggressive": "512"}),
    ],
)
def test_tiers_with_one_config_are_one_column(batches: tuple[int, ...], columns: dict[str, str]):
    configs = [config(batch_size=batch) for batch in batches]
    shown = view(finished(*(recommendation(tier, of) for tier, of in zip(Tier, configs, strict=True))))
    sizes = next(row for row in shown.tiers.rows if row[0] == "batch_size")
    assert dict(zip(shown.tiers.columns[2:], sizes[2:], strict=True)) == columns
    assert [row[0] for row in shown.short_tiers.rows] == ["baseline", *columns]
    assert {column for _, column in shown.tiers.changed} == set(range(2, 2 + len(columns)))


def test_failed_trials_are_grouped_by_kind_and_message():
    shown = view(OUTCOMES["kept: all failed"]()).passage()
    assert [line for line in shown if "trial" in line and "ended as" in line] == [
        "note: 2 trials of 4 ended as worker_crash: KeyError: 'label'; look at the data"
    ]


def test_the_baselines_rate_is_that_of_its_fresh_processes():
    again = tuple(
        record.changed(is_baseline_config=True)
        for record in confirm_records([400.0, 400.0], config(), first_number=50)
    )
    rows = {row[0]: row[1:] for row in view(finished(trials=(baseline_record(), *again))).tiers.rows}
    assert rows["samples/s"][0] == "400"


def test_a_range_that_is_too_wide_is_not_printed():
    wide = Interval(value=36.9, low=0.3, high=4000.0)
    rows = {row[0]: row[1:] for row in view(finished(recommendation(of=FAST, speedup=wide))).tiers.rows}
    assert rows["  95% range"] == ("", "too wide")


def test_what_a_config_makes_of_its_gpu_is_shown_where_it_is_known() -> None:
    known = {"tokens_per_s": 512_000.0, "flops_per_s": 61.4e12, "mfu": 0.4912, "joules_per_sample": 0.25}
    rows = {row[0]: row[1:] for row in view(finished(recommendation(of=FAST, **known))).tiers.rows}
    shown = [rows[name][-1] for name in ("tokens/s", "TFLOP/s per GPU", "MFU", "J/sample")]
    assert shown == ["512,000", "61.4", "49.1%", "0.25"]
    rows = {row[0]: row[1:] for row in view(finished(recommendation(of=FAST, mfu=0.5))).tiers.rows}
    assert {"MFU"} == rows.keys() & {"tokens/s", "TFLOP/s per GPU", "MFU", "J/sample"}
