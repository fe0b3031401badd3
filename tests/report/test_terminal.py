"""The view on a terminal: whole at 80 columns, and text as text."""

import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from build_loops import threads
from build_records import config, interval, options, recommendation, run, trial_record
from build_reports import full_run
from build_searched import walked
from read_report import drawn as drawn_blocks
from rich.console import Console

from tunekit.records.finding import Finding
from tunekit.records.interval import Interval
from tunekit.records.recommendation import MissingTier, NoiseFloor, SetAside, Tier
from tunekit.records.run import Objective, Run
from tunekit.records.target import Target
from tunekit.report.run import in_full, on_one_screen
from tunekit.report.terminal import hang
from tunekit.report.trials import trials_table

FOLDER = Path("reports/train-2026-01-02")
WRITTEN = tuple(
    FOLDER / name for name in ("conservative.yaml", "balanced.yaml", "aggressive.yaml", "run.json")
)

AT_80 = """
Confirmed (high confidence): Balanced is 1.96x (1.86 to 2.06) as fast as your
baseline: 980 samples/s (955 to 1,005) instead of 500 (measured).
Headroom: 77% of VRAM (measured: 5.0 GiB of 22.0 GiB reserved), 97% of 32.0 GiB
RAM (predicted: loader's buffer 3.9 MiB Safe).
Price: on a machine that is billed by the hour, every epoch costs 51% of what it
costs now (49% to 54%; predicted from the speed-up).
Measured on a10g: 11 trials in 10m 00s, 3 confirming rounds, noise floor 1.6%.

Change
  batch_size: 128 -> 512
  num_workers: 2 -> 4
  lr: 0.1 -> 0.4 (predicted: linear rule for 4x the batch, with warm-up)

Tiers (measured)
                          baseline  conservative = balanced = aggressive
batch_size                     128                                   512
num_workers                      2                                     4
prefetch_factor                  2                                     2
pin_memory                     off                                   off
persistent_workers              on                                    on
compile                        off                                   off
precision                     fp32                                  fp32
channels_last                  off                                   off
samples/s                      500                                   980
it/s                          3.91                                  1.91
speed-up                         1                                 1.96x
  95% range                                                 1.86 to 2.06
epoch                       1m 40s                                51.0 s
buffer (predicted)  500.0 KiB Safe                          3.9 MiB Safe
VRAM reserved              5.0 GiB                               5.0 GiB
lr (predicted)                 0.1                                   0.4

Bottleneck
baseline: compute-bound, 0% of step time is data wait; the loader allows 1,903
  samples/s, training 510 (predicted)
balanced: compute-bound, 0% of step time is data wait; the loader allows 3,734
  samples/s, training 995 (predicted); beyond these knobs, faster only with less
  training work per sample, or another GPU
model error 20.6% (leave-one-out, n=5)

Trials (figures are measured)
11 trials: 11 measured. In all of them: prefetch 2, pinned off, persistent on,
  compile off, precision fp32, channels_last off, accumulate 1.
trial  for                   batch  workers     samples/s (range)  data wait
    0  baseline                128        2      500 (495 to 505)         0%
    1  search                  512        4  1,000 (990 to 1,010)         0%
    2  search                   98        2      702 (695 to 709)         0%
    3  search                   99        2      703 (696 to 710)         0%
    4  search                  100        2      704 (697 to 711)         0%
   50  confirm 1 (baseline)    128        2      500 (495 to 505)         0%
   51  confirm 2 (baseline)    128        2      505 (500 to 510)         0%
   52  confirm 3 (baseline)    128        2      495 (490 to 500)         0%
   70  confirm 1               512        4      980 (970 to 990)         0%
   71  confirm 2               512        4      970 (960 to 980)         0%
   72  confirm 3               512        4    990 (980 to 1,000)         0%

trial  VRAM reserved  RAM peak    took  outcome
    0        5.0 GiB   1.0 GiB  20.0 s  measured
    1        5.0 GiB   1.0 GiB  20.0 s  measured
    2        5.0 GiB   1.0 GiB  20.0 s  measured
    3        5.0 GiB   1.0 GiB  20.0 s  measured
    4        5.0 GiB   1.0 GiB  20.0 s  measured
   50        5.0 GiB   1.0 GiB  20.0 s  measured
   51        5.0 GiB   1.0 GiB  20.0 s  measured
   52        5.0 GiB   1.0 GiB  20.0 s  measured
   70        5.0 GiB   1.0 GiB  20.0 s  measured
   71        5.0 GiB   1.0 GiB  20.0 s  measured
   72        5.0 GiB   1.0 GiB  20.0 s  measured

Multi-GPU scaling, balanced (predicted; * the rule of your optimizer)
GPUs  batch  workers  RAM buffer  RAM per host  lr linear *  lr sqrt
   1    512        4     3.9 MiB       1.0 GiB          0.4      0.2
   2  1,024        8     7.8 MiB       2.0 GiB          0.8   0.2828
   4  2,048       16    15.6 MiB       4.0 GiB          1.6      0.4
   8  4,096       32    31.2 MiB       8.0 GiB          3.2   0.5657

Next
  set lr to 0.4 (predicted) in your script, or bind it (--bind), then:
  tunekit run reports/train-2026-01-02/balanced.yaml --keep-lr
"""


def drawn(shown: Run, width: int, folder: Path = FOLDER) -> str:
    return drawn_blocks(in_full(shown, folder), width)


def test_a_run_at_80_columns():
    assert drawn(walked(), 80) == AT_80


def without_trials(text: str) -> str:
    above, trials, rest = text.partition("Trials (figures are measured)\n")
    assert trials
    return above + rest[rest.index("Multi-GPU") :]


def test_a_run_at_120_columns_has_the_same_tables_and_longer_sentences():
    wide, narrow = drawn(walked(), 120), AT_80
    assert without_trials(wide).split() == without_trials(narrow).split()
    assert len(without_trials(wide).splitlines()) < len(without_trials(narrow).splitlines())
    (table,) = (part for part in narrow.split("\n\n") if part.startswith("Tiers (measured)"))
    assert table in wide


def trial_lines(shown: Run, width: int) -> list[list[str]]:
    """The titles and rows of each part of the table of trials."""
    _, _, text = drawn(shown, width).partition("Trials (figures are measured)\n")
    parts = [
        [line for line in part.splitlines() if re.match(r"trial  | *\d+  ", line)]
        for part in text.split("\n\n")
    ]
    return [part for part in parts if part and part[0].startswith("trial  ")]


@pytest.mark.parametrize("width", [60, 80, 120, 250])
def test_every_trial_stands_with_all_its_cells_at_any_width(width: int):
    table = trials_table(full_run())
    parts = trial_lines(full_run(), width)
    assert len(table.columns) == 11 and {"device_oom", "measured"} <= {row.cells[-1] for row in table.rows}
    assert (len(parts) == 1) is (width == 250)
    assert max(len(line) for part in parts for line in part) <= width
    titles, *rows = list(zip(*parts, strict=True))
    for cells, lines in zip(
        (table.columns, *(row.cells for row in table.rows)), (titles, *rows), strict=True
    ):
        number, first, *others = ("  ".join(lines)).split(maxsplit=2)[0], *lines
        assert all(line.split()[0] == number for line in (first, *others))
        assert all(cell in "  ".join(lines) for cell in cells)


def test_a_knob_that_never_varies_is_said_once_above_the_trials():
    text = drawn(walked(), 250)
    told = (
        "prefetch 2, pinned off, persistent on, compile off, precision fp32, channels_last off, accumulate 1"
    )
    assert text.count(f"In all of them: {told}.") == 1
    ((titles, *_),) = trial_lines(walked(), 250)
    assert "batch" in titles and "workers" in titles
    assert not any(name in titles for name in ("prefetch", "pinned", "compile", "precision"))


ONE_SCREEN = """
Confirmed (high confidence): Balanced is 1.96x (1.86 to 2.06) as fast as your
baseline: 980 samples/s (955 to 1,005) instead of 500 (measured).
Bottleneck: compute-bound, 0% data wait (measured).
Headroom: 77% of VRAM (measured: 5.0 GiB of 22.0 GiB reserved), 97% of 32.0 GiB
RAM (predicted: loader's buffer 3.9 MiB Safe).
Measured on a10g: 11 trials in 10m 00s, 3 confirming rounds, noise floor 1.6%.
Written to reports/train-2026-01-02/: 4 files.

Change
  batch_size: 128 -> 512
  num_workers: 2 -> 4
  lr: 0.1 -> 0.4 (predicted: linear rule for 4x the batch, with warm-up)

Next
  set lr to 0.4 (predicted) in your script, or bind it (--bind), then:
  tunekit run reports/train-2026-01-02/balanced.yaml --keep-lr
  all figures: tunekit report reports/train-2026-01-02 --full
"""


def test_the_answer_takes_one_screen():
    assert drawn_blocks(on_one_screen(walked(), FOLDER, WRITTEN), 80) == ONE_SCREEN


def everything() -> Run:
    """A run with all that a screen can show: an error, other tiers, many changes, a prediction."""
    changed = config(
        batch_size=512, num_workers=4, prefetch_factor=8, pin_memory=True, compile=True, precision="bf16"
    )
    best = recommendation(Tier.BALANCED, changed, finish_time_s=5040.0)
    tiers = (recommendation(Tier.CONSERVATIVE, config(num_workers=4)), best)
    asked = options(gpu="a10g", objective=Objective.FINISH_TIME, epochs=100, epochs_given=True)
    return full_run(
        recommendations=(*tiers, recommendation(Tier.AGGRESSIVE, config(batch_size=1024))), options=asked
    )


def left_open(wait_quiet_s: float | None = None) -> Run:
    """A run with all that a screen can show, whose answer is to keep the baseline's config for now."""
    changed = config(
        batch_size=512, num_workers=4, prefetch_factor=8, pin_memory=True, compile=True, precision="bf16"
    )
    ratio = Interval(value=1.83, low=0.24, high=13.73)
    aside = SetAside(config=changed, search_trial=1, confirm_trials=(2, 3), speedup=ratio)
    own = recommendation(of=config(), is_baseline=True, speedup=interval(1.0), set_aside=aside)
    noise = NoiseFloor(relative=0.17, pairs=4, processes=5)
    return full_run(
        recommendations=(own,), noise_floor=noise, options=options(gpu="a10g", wait_quiet_s=300.0)
    )


@pytest.mark.parametrize(
    "of",
    [walked, everything, left_open, lambda: left_open(300.0)],
    ids=["usual", "everything", "left open", "left open in spite of waiting"],
)
def test_one_screen_has_24_lines_and_the_command_for_the_rest(of: Callable[[], Run]):
    shown = drawn_blocks(on_one_screen(of(), FOLDER, WRITTEN), 80)
    assert len(shown.splitlines()) <= 24
    assert f": tunekit report {FOLDER} --full\n" in shown


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal_nor_ends_in_spaces(width: int):
    notes = (Finding(code="a-note", severity="warning", message="word " * 60, remedy="rest " * 40),)
    for line in drawn(walked().model_copy(update={"findings": notes}), width).splitlines():
        assert len(line) <= width
        assert line == line.rstrip()


@pytest.mark.parametrize("width", [20, 40, 60])
def test_no_figure_is_cut_on_a_narrow_terminal(width: int):
    text = drawn(walked(), width)
    assert "\u2026" not in text
    tables = [part for part in AT_80.split("\n\n") if part.startswith(("Tiers", "Multi-GPU scaling"))]
    assert len(tables) == 2
    assert all(line in text for table in tables for line in table.splitlines()[1:])
    sentences = AT_80[AT_80.index("baseline: compute-bound") : AT_80.index("Trials")]
    assert " ".join(sentences.split()) in " ".join(text.split())


def test_a_command_is_never_broken():
    long = Target(
        name="train",
        command=("python", "train.py", *(f"--option-{number}=value" for number in range(20))),
        working_dir="/",
        script=None,
        script_sha256=None,
    )
    elsewhere = {"target": long, "measured_on": "cpu"}
    text = drawn(walked().model_copy(update=elsewhere), 80)
    assert " ".join(long.command) in text


@pytest.mark.parametrize(
    "name", ["[red]", "[/]", "[bold]x[/bold]", ":smile:", "[link=http://x]y", "{0}", "%s", "\\[red]"]
)
def test_markup_in_a_name_is_text(name: str):
    target = Target(name="t", command=("python", name), working_dir="/", script=None, script_sha256=None)
    shown = walked().model_copy(
        update={
            "target": target,
            "measured_on": name,
            "findings": (Finding(code="a-note", severity="info", message=f"about {name}"),),
        }
    )
    folder, file = Path("reports") / name, Path(f"{Path(name).name}.yaml")
    text = drawn(shown, 120, folder)
    assert f"Measured on {name}:" in text
    assert f"note a-note: about {name}" in text
    assert f"Written to {folder}/: 1 file." in drawn_blocks(on_one_screen(shown, folder, (file,)), 120)


def test_newlines_and_endless_names_are_shown_and_wrapped():
    endless = "x" * 10_000
    shown = walked().model_copy(
        update={
            "measured_on": endless,
            "findings": (Finding(code="a-note", severity="info", message="two\nlines"),),
        }
    )
    text = drawn(shown, 80)
    assert text.count("x") >= 10_000
    assert "note a-note: two\\nlines\n" in text
    assert max(len(line) for line in text.splitlines()) <= 80


def hung(text: str, first: str = "", rest: str = "  ", width: int = 24) -> str:
    out = io.StringIO()
    hang(Console(width=width, file=out, color_system=None, highlight=False), text, first, rest)
    return out.getvalue()


def test_lines_are_measured_by_the_columns_that_their_letters_take():
    assert hung("\u2e80" * 8 + " " + "\u2e80" * 5) == "\u2e80" * 8 + "\n  " + "\u2e80" * 5 + "\n"


@pytest.mark.parametrize(("severity", "word"), [("info", "note"), ("warning", "warning"), ("error", "error")])
def test_a_finding_is_called_what_the_doctor_calls_it(severity: str, word: str):
    told = Finding(code="some", severity=severity, message="something")
    assert f"\n{word} some: something\n" in drawn(walked().model_copy(update={"findings": (told,)}), 80)


def test_further_lines_stand_further_in():
    assert hung("every line after the first") == "every line after the\n  first\n"
    assert hung("two GPUs and eight cores", "GPU  ", "     ") == "GPU  two GPUs and eight\n     cores\n"
    assert hung("two\nlines", "- ") == "- two\\nlines\n"
    assert hung("", "GPU  ") == "GPU\n"


@pytest.mark.parametrize("width", [80, 120])
def test_a_finding_of_a_search_has_lines_of_its_own(width: int):
    told = Finding(
        code="waits", severity="warning", message="it waits", evidence="17 ms", remedy="more workers"
    )
    text = drawn(walked().model_copy(update={"findings": (told,)}), width)
    assert "\n\nwarning waits: it waits\n  seen: 17 ms\n  do: more workers\n\nNext\n" in text


def test_the_threads_that_computed_stand_with_what_set_them():
    of = trial_record(0, 500.0, config(), threads=threads(2, OMP_NUM_THREADS="2"))
    text = drawn(run(trials=(of,)), 80)
    assert "\nCPU threads: 2 intra-op, 2 inter-op (OMP_NUM_THREADS=2)\n" in text
    assert "CPU threads" not in drawn(walked(), 80)


def test_a_path_is_never_broken():
    path = "/a-long/" + "folder-" * 10
    assert hung(f"it lies in {path} there") == f"it lies in\n  {path}\n  there\n"


def test_escape_sequences_do_not_reach_the_terminal():
    target = Target(name="t", command=("echo", "\x1b[2J"), working_dir="/", script=None, script_sha256=None)
    notes = (Finding(code="a-note", severity="info", message="\x1b]0;title\x07"),)
    text = drawn(walked().model_copy(update={"target": target, "findings": notes}), 80)
    assert "\x1b" not in text
    assert "\x07" not in text


def test_a_run_without_anything_is_drawn():
    text = drawn_blocks(on_one_screen(run(trials=()), FOLDER), 80)
    assert "No recommendation yet" in text
    assert "Written to" not in text
    assert f"tunekit search --resume {FOLDER}" in text


def test_it_says_why_a_tier_is_missing_where_trials_can_tell():
    reason = "every config failed when it was run again"
    missing = tuple(MissingTier(tier=tier, reason=reason) for tier in (Tier.CONSERVATIVE, Tier.AGGRESSIVE))
    assert f"\n\nno conservative or aggressive: {reason}\n\n" in drawn(run(missing_tiers=missing), 80)
    assert reason not in drawn(run(missing_tiers=missing, trials=(trial_record(1, None),)), 80)


def test_a_kept_baseline_has_no_changes_to_make():
    own = recommendation(Tier.BALANCED, config(), is_baseline=True)
    noise = NoiseFloor(relative=0.01, pairs=2, processes=3)
    text = drawn(run(recommendations=(own,), noise_floor=noise), 80)
    assert "No config was confirmed to be faster than your own" in text
    assert "\nChange\n" not in text
