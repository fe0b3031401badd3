"""Every figure of the answer says whether it was measured or predicted."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from build_records import config, interval, largest_seen, options, recommendation, trial_record
from build_reports import full_run
from build_searched import walked

from tunekit.records.config import KNOBS
from tunekit.records.interval import Interval
from tunekit.records.recommendation import NoiseFloor, SetAside, Tier
from tunekit.records.run import Objective, Run
from tunekit.report.blocks import Block, Changes, Commands, Lead, Line, Passage
from tunekit.report.run import in_full, on_one_screen

FAST = config(batch_size=256, num_workers=4)
FOLDER = Path("reports/train")
FIGURE = re.compile(r"(?<![\w./-])\d")
"""One that begins a number; those in names and paths are none."""
SETTING = re.compile(rf"\b(?:{'|'.join(KNOBS)}): \S+ -> [\w.-]+|\btrial \d+|\S*/\S+\.yaml")
"""A knob's values, the number of a trial, and a file."""


def kept(high: float, floor: float = 0.02, **more: Any) -> Run:
    """A run whose answer keeps the baseline's config in place of another."""
    ratio = Interval(value=1.02, low=0.97, high=high)
    aside = SetAside(config=FAST, search_trial=1, confirm_trials=(2, 3), speedup=ratio)
    own = recommendation(of=config(), is_baseline=True, speedup=interval(1.0), set_aside=aside)
    noise = NoiseFloor(relative=floor, pairs=4, processes=5)
    return full_run(**({"recommendations": (own,), "noise_floor": noise} | more))


def own_alone(*trials: Any) -> Run:
    own = recommendation(of=config(), is_baseline=True, speedup=interval(1.0))
    return full_run(recommendations=(own,), **({"trials": trials} if trials else {}))


def one_tier(of: Any = FAST, **more: Any) -> Run:
    return full_run(recommendations=(recommendation(of=of, **more),))


def planned() -> Run:
    asked = options(objective=Objective.FINISH_TIME, epochs=100, epochs_given=True)
    tiers = (
        recommendation(of=FAST, finish_time_s=5040.0),
        recommendation(Tier.AGGRESSIVE, config(batch_size=512)),
    )
    return full_run(recommendations=tiers, options=asked)


def aggressive_alone() -> Run:
    own = recommendation(of=config(), is_baseline=True, speedup=interval(1.0))
    return full_run(recommendations=(own, recommendation(Tier.AGGRESSIVE, FAST)))


BASELINE = trial_record(0, 500.0, config(), role="baseline", overrides={"is_baseline_config": True})
RUNS: dict[str, Callable[[], Run]] = {
    "confirmed": walked,
    "everything": full_run,
    "planned": planned,
    "no rule": lambda: one_tier(learning_rate=None),
    "no VRAM": lambda: one_tier(peak_reserved_bytes=None),
    "no workers": lambda: one_tier(config(num_workers=0), buffer_bytes=0),
    "largest samples": lambda: one_tier(largest=largest_seen()),
    "slower": lambda: one_tier(speedup=interval(0.8)),
    "no speed-up": lambda: one_tier(speedup=None),
    "aggressive alone": aggressive_alone,
    "no gain": lambda: kept(high=1.04),
    "inconclusive": lambda: kept(high=1.2),
    "busy": lambda: kept(high=1.9, floor=0.17),
    "busy in spite of waiting": lambda: kept(high=1.9, floor=0.17, options=options(wait_quiet_s=60.0)),
    "not confirmed": own_alone,
    "slower in one process": lambda: own_alone(BASELINE, trial_record(1, 400.0, FAST)),
    "nothing else measured": lambda: own_alone(BASELINE),
    "all others failed": lambda: own_alone(BASELINE, trial_record(1, None, FAST)),
}


def texts(blocks: tuple[Block, ...]) -> Iterator[str]:
    for block in blocks:
        match block:
            case Lead() | Line():
                yield block.text
            case Changes() | Passage(title="Change"):
                yield from block.lines
            case Commands():
                yield from (line for line in block.lines if re.search(r"\blr to \d", line))


def figures_of(run: Run) -> list[str]:
    """The sentences of the answer that hold figures."""
    said = dict.fromkeys((*texts(on_one_screen(run, FOLDER)), *texts(in_full(run, FOLDER))))
    return [text for text in said if FIGURE.search(SETTING.sub("", text))]


@pytest.mark.parametrize("of", RUNS.values(), ids=RUNS)
def test_every_sentence_of_the_answer_with_a_figure_says_measured_or_predicted(of: Callable[[], Run]):
    said = figures_of(of())
    assert len(said) >= 3
    assert [text for text in said if not re.search(r"measured|predicted", text, re.IGNORECASE)] == []


@pytest.mark.parametrize("of", RUNS.values(), ids=RUNS)
def test_what_is_free_of_each_memory_is_marked(of: Callable[[], Run]):
    (headroom,) = [text for text in figures_of(of()) if text.startswith("Headroom: ")]
    marked = re.findall(r"\d+% of (?:VRAM|[\d.]+ GiB RAM) \((?:measured|predicted)\b", headroom)
    assert len(marked) == len(re.findall(r"\d%", headroom)) >= 1


def test_a_learning_rate_is_marked_as_predicted_wherever_it_stands():
    told = [text for text in figures_of(full_run()) if re.search(r"\blr\b", text)]
    assert len(told) == 2
    assert all("predicted" in text for text in told)
