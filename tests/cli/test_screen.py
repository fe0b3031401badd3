"""What a search shows while it runs: hostile names are text."""

import io
from pathlib import Path

import pytest
from build_checkups import gpu
from build_records import GIB, config, confirm_records, failure, host, options, run, trial_record
from rich.console import Console

from tunekit.cli.screen import SearchScreen, device_text
from tunekit.records.trial import OutcomeKind, TrialRole
from tunekit.trial.executor import TrialSpec
from tunekit.trial.watch import TrialProgress

SMALL = config(batch_size=8, num_workers=0)


def test_markup_and_escapes_are_text():
    out = io.StringIO()
    screen = SearchScreen(console=Console(file=out, width=80, color_system=None, highlight=False))
    broken = failure(OutcomeKind.SCRIPT_ERROR, message="[/red] \x1b[2J")
    with screen:
        screen.opened(run(), Path("[red]"))
        screen.trial_ended(trial_record(1, None, overrides={"failure": broken}))
        screen.interrupted(Path("[/red]"), "tunekit search --resume [/red]")
    shown = out.getvalue()
    assert "folder  [red]" in shown
    assert r"[/red] \x1b[2J" in shown
    assert "finished trials in [/red]" in shown
    assert "tunekit search --resume [/red]\n" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("memory_gib", "told"),
    [
        (140, "no NVIDIA A10G found; measuring on h200, its memory capped to 22.1 GiB"),
        (16, "no NVIDIA A10G found; measuring on h200"),
    ],
)
def test_a_larger_device_is_shown_with_the_memory_of_the_emulated_one(memory_gib: int, told: str):
    here = host(accelerators=(gpu(memory_bytes=memory_gib * GIB),))
    assert device_text(run(measured_on="h200", host=here)) == told
    assert device_text(run(host=here)) == "NVIDIA A10G"


def test_the_best_so_far_follows_what_confirms_it_and_trials_are_counted():
    own, other = config(batch_size=8), config(batch_size=16)
    trials = (trial_record(0, 1000.0, own, role=TrialRole.BASELINE), trial_record(1, 1100.0, other))
    console = Console(file=io.StringIO(), width=80, color_system=None)
    with SearchScreen(console=console) as screen:
        screen.opened(run(trials=trials, options=options(max_trials=3)), Path("x"))
        assert screen._below_status() == "2 of 3 trials done, best 1,100 samples/s"
        screen.trial_ended(confirm_records([700.0], other)[0])
        assert screen._below_status() == "2 of 3 trials done, best 1,000 samples/s"


def test_the_live_line_keeps_its_counter_where_it_is_cut():
    out = io.StringIO()
    console = Console(file=out, width=80, color_system=None, highlight=False, force_terminal=True)
    with SearchScreen(console=console) as screen:
        spec = TrialSpec(3, TrialRole.SEARCH, SMALL)
        screen.trial_started(spec, "promises to take a quarter of the time of the best", 60.0)
        screen.trial_moved(TrialProgress("floors", 1234, 1.0))
        assert "1,234 batches" in out.getvalue()


def test_a_shared_search_is_shown_with_what_other_hosts_do():
    out = io.StringIO()
    screen = SearchScreen(console=Console(file=out, width=80, color_system=None, highlight=False))
    with screen:
        screen.shared("/mnt/[x]", "node-a", is_only_group=False)
        screen.trial_of_another_ended(trial_record(3, 2000.0, SMALL), "node-b")
        screen.trial_of_another_ended(trial_record(4, None, SMALL), "node-b")
        assert screen._below_status().endswith("best 2,000 samples/s")
        screen.left_to("node-b", Path("/mnt/[x]/node-b"), 7)
    assert [line.rstrip() for line in out.getvalue().splitlines()] == [
        "shared  /mnt/[x], as node-a",
        "        other hosts here differ in command, hardware, driver or torch: not mixed",
        "trial   result                         config",
        "    3   2,000 samples/s, 250 it/s (measured)  batch 8, workers 0, fp32, on node-b",
        "    4   device_oom: CUDA out of memory  batch 8, workers 0, fp32, on node-b",
        "done    7 trials measured here; node-b finishes the search; its report: /mnt/[x]/node-b",
    ]
