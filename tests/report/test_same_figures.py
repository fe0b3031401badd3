"""A number reads the same wherever it is shown: on the terminal, in the page, in the Markdown."""

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from any_records import absurd_runs
from build_records import config, cpu, host, interval, recommendation, trial_record
from build_reports import full_plan, full_run, many_trials
from build_searched import walked
from hypothesis import given
from read_report import ReadRun, drawn, view

from tunekit.plan.from_run import plan_of_run
from tunekit.records.recommendation import NoiseFloor, Tier
from tunekit.records.run import Run
from tunekit.report.blocks import Table
from tunekit.report.html.page import page
from tunekit.report.markdown import markdown
from tunekit.report.run import in_comment, in_full, on_page


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


def kept() -> Run:
    own = recommendation(Tier.BALANCED, config(), is_baseline=True, speedup=interval(1.0))
    return full_run(recommendations=(own,), missing_tiers=())


RUNS = {
    "searched": walked,
    "full": full_run,
    "laptop": on_a_laptop,
    "kept": kept,
    "unfinished": lambda: full_run(recommendations=(), model=None, prediction=None),
    "many": lambda: many_trials(40),
}


@pytest.fixture(params=RUNS.values(), ids=RUNS.keys())
def of(request: pytest.FixtureRequest) -> Run:
    return request.param()


def sentences(shown: ReadRun) -> Iterator[str]:
    yield from (shown.answer, shown.headroom, shown.how_measured, *shown.changes)
    yield from (*shown.missing_tiers, *shown.bottleneck.lines)


def cells(table: Table) -> Iterator[str]:
    yield from (cell.strip() for row in (table.columns, *table.rows) for cell in row)


def terminal_text(of: Run) -> str:
    return drawn(in_full(of, Path("reports/train")), 400)


def text_of_markdown(text: str) -> str:
    plain = re.sub(r"&#8203;|</?(?:span|sub|br)>", "", text)
    return re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", plain)


def text_of_page(text: str) -> str:
    body = re.sub(r"<(script|style|svg)\b.*?</\1>", " ", text, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split()).replace(" : ", ": ")


def test_every_medium_shows_the_same_sentences_and_figures(of: Run):
    shown = view(of, "reports/train", full_plan())
    comment = text_of_markdown(markdown(in_comment(of)))
    page_text = text_of_page(page(on_page(of), b"{}"))
    assert shown.price in terminal_text(of)
    for told in (*sentences(shown), *cells(shown.tiers)):
        assert told in terminal_text(of)
        assert " ".join(told.split()) in page_text
    for told in (*sentences(shown), *cells(shown.short_tiers)):
        assert told in comment


def test_a_figure_that_is_another_would_be_seen(of: Run):
    """The texts that are looked for are figures, not words that stand anywhere."""
    shown = view(of)
    told = [one for one in (*sentences(shown), *cells(shown.short_tiers)) if re.search(r"\d", one)]
    assert len(told) >= 3
    text = text_of_markdown(markdown(in_comment(of)))
    for one in told:
        assert one not in text.replace(one, re.sub(r"\d", "#", one))


@given(absurd_runs())
def test_figures_of_any_size_are_written_in_few_letters(absurd: Run):
    shown = view(absurd, "reports/train", plan_of_run(absurd))
    text = terminal_text(absurd)
    assert markdown(in_comment(absurd))
    told = [*sentences(shown), *cells(shown.tiers), *cells(shown.telemetry), text]
    told += [cell for row in shown.trials.rows for cell in row.cells]
    told += [text for block in shown.section("plan") for text in getattr(block, "lines", ())]
    for one in told:
        assert not re.search(r"\b(inf|nan)\b", one)
        assert not re.search(r"\d{22}|(\d{3},){6}", re.sub(r" --[a-z-]+ \d+", "", one))  # as it was typed
