"""A run at a glance: before and after, the tiles, what there is to gain."""

import re

from any_records import runs
from build_records import (
    baseline_record,
    config,
    confirm_records,
    cpu,
    recommendation,
    run,
    trial_record,
)
from hypothesis import given

from tunekit.recommend.recommendation import answer_of
from tunekit.records.attribution import StepParts
from tunekit.records.recommendation import NoiseFloor
from tunekit.records.run import Run
from tunekit.report.answer import headroom_text
from tunekit.report.blocks import Tile
from tunekit.report.bottleneck import bottleneck_text
from tunekit.report.overview import tiles

fast = config(batch_size=256, num_workers=4)
BEST = recommendation(of=fast, search_trial=1, confirm_trials=(100, 101))


def searched(*others, **overrides) -> Run:
    parts = StepParts(data_wait_s=3.2, compute_s=6.4, optimizer_s=2.4, other_s=0.8)
    fed = parts.changed(data_wait_s=0.32, compute_s=9.28)
    trials = (
        baseline_record(0, 500.0, config(), parts=parts),
        trial_record(1, 1000.0, fast),
        *confirm_records([1000.0, 1000.0], fast, parts=fed),
    )
    values = {
        "trials": trials,
        "recommendations": (BEST, *others),
        "noise_floor": NoiseFloor(relative=0.02, pairs=2, processes=3),
    }
    return run(**(values | overrides))


def by_label(of: Run, best=BEST) -> dict[str, Tile]:
    return {tile.label: tile for tile in tiles(of, best).items}


def test_tile_and_bottleneck_tell_the_same_data_wait_where_processes_differ():
    confirmed = []
    for number, wait_s in enumerate([0.2, 4.0, 0.6], start=100):
        parts = StepParts(data_wait_s=wait_s, compute_s=10 - wait_s, optimizer_s=0, other_s=0)
        confirmed += confirm_records([1000.0], fast, parts=parts, first_number=number)
    best = BEST.changed(confirm_trials=(100, 101, 102))
    of = searched(trials=(*searched().trials[:2], *confirmed), recommendations=(best,))
    shown = by_label(of, best)["data wait"]
    assert (shown.before, shown.value) == ("25%", "6%")
    assert re.findall(r"(\d+%) data wait", bottleneck_text(of, best)) == ["25%", "6%"]


@given(runs())
def test_tile_and_answer_tell_the_same_headroom(any_run: Run):
    best = answer_of(any_run.recommendations)
    shown = {tile.label: tile for tile in tiles(any_run, best).items}
    for label, words in (("VRAM free", "of VRAM"), ("RAM free", "of .* RAM")):
        if label in shown:
            assert re.search(f"{shown[label].value} {words}", headroom_text(any_run, best))


def test_a_tile_that_nobody_knows_is_left_out():
    lone = recommendation(of=fast, speedup=None, peak_reserved_bytes=None, device_memory_bytes=None)
    trials = (baseline_record(0, 500.0, config(), device=cpu()), trial_record(1, 1000.0, fast, device=cpu()))
    shown = by_label(searched(trials=trials, recommendations=(lone,)), lone)
    assert list(shown) == ["it/s", "RAM free", "data wait"]
    assert shown["RAM free"].note == "of 32.0 GiB, buffer predicted"
    unbuffered = lone.changed(buffer_bytes=0)
    measured = by_label(searched(trials=trials, recommendations=(unbuffered,)), unbuffered)
    assert measured["RAM free"].note == "of 32.0 GiB"
    assert tiles(run(trials=()), None).items == ()
