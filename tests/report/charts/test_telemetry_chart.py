"""What the machine did over a trial's time: which trials, which figures, how many points of them."""

from collections.abc import Mapping, Sequence

import pytest
from build_records import GIB, baseline_record, config, confirm_records, recommendation, run, trial_record

from tunekit.machine.telemetry.series import Series
from tunekit.records.run import Run
from tunekit.report.blocks import Timeline
from tunekit.report.charts.telemetry import MAX_POINTS, telemetry_chart

fast = config(batch_size=256, num_workers=4)
BEST = recommendation(of=fast, search_trial=1, confirm_trials=(100, 101))
PHASES = ("starting", "measuring")


def searched() -> Run:
    trials = (
        baseline_record(0, 500.0, config()),
        trial_record(1, 1000.0, fast),
        *confirm_records([1000.0, 990.0], fast),
    )
    return run(trials=trials, recommendations=(BEST,))


def sampled(seconds: int = 20, cores: float = 2.0, **more: Series) -> tuple[Series, ...]:
    """A trial that takes so many cores all along, reads nothing, and is measured in its second half."""
    times = [float(t_s) for t_s in range(seconds)]
    host = Series(
        "host",
        ("t_s", "cpu_s", "pss_bytes", "read_bytes"),
        tuple((t_s, cores * t_s, 2.0 * GIB, 0.0) for t_s in times),
    )
    loop = Series(
        "loop",
        ("t_s", "phase", "batches", "wait_s"),
        tuple((t_s, float(t_s >= seconds / 2), 5.0 * t_s, 0.25 * t_s) for t_s in times),
        PHASES,
    )
    return (host, loop, *more.values())


def gpu(index: int, busy: float, taken_bytes: float, seconds: int = 20) -> Series:
    rows = tuple((float(t_s), busy, taken_bytes) for t_s in range(seconds))
    return Series(f"gpu{index}", ("t_s", "utilization_percent", "tree_bytes"), rows)


def chart(saved: Mapping[int, Sequence[Series]]) -> Timeline:
    (drawn,) = telemetry_chart(searched(), BEST, lambda number: saved.get(number, ()))
    return drawn


def values(of: Timeline, title: str) -> dict[str, tuple[float | None, ...]]:
    (panel,) = (one for one in of.panels if one.title == title)
    return {trace.name: trace.values for trace in panel.traces}


def test_the_baseline_and_the_answers_tier_stand_on_one_axis_with_their_windows():
    drawn = chart({0: sampled(cores=1.0), 100: sampled(40, cores=3.0)})
    assert drawn.names == ("baseline", "balanced")
    assert [(one.name, one.start_s, one.end_s) for one in drawn.windows] == [
        ("baseline", 10.0, 19.0),
        ("balanced", 20.0, 39.0),
    ]
    assert "baseline by trial 0, balanced by trial 100" in drawn.summary


def test_a_counter_is_shown_as_how_fast_it_grows():
    shown = values(chart({0: sampled(cores=1.5)}), "CPU, cores")
    assert shown == {"baseline": pytest.approx([1.5] * 19)}
    assert values(chart({0: sampled()}), "data wait, %") == {"baseline": pytest.approx([25.0] * 19)}
    assert values(chart({0: sampled()}), "RAM, GiB")["baseline"] == (2.0,) * 20


def test_a_wait_lies_before_the_batch_that_it_was_for():
    # The loop last told something 0.5 s before the batch came that it waited 2 s for.
    rows = ((0.0, 0.0, 0.0), (2.0, 1.0, 0.5), (2.5, 1.0, 2.5), (4.5, 1.0, 2.7))
    told = Series("loop", ("t_s", "phase", "wait_s"), rows, PHASES)
    drawn = chart({0: (sampled()[0], told)})
    assert values(drawn, "data wait, %") == {"baseline": pytest.approx([100.0, 100.0, 10.0])}


def test_what_was_nothing_all_along_has_no_panel():
    shown = [panel.title for panel in chart({0: sampled()}).panels]
    assert shown == ["CPU, cores", "RAM, GiB", "data wait, %", "samples/s"]


def test_a_rate_is_the_mean_between_two_reports_of_the_loop():
    rows = ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (2.0, 1.0, 8.0), (3.0, 1.0, 8.0), (4.0, 1.0, 16.0))
    told = Series("loop", ("t_s", "phase", "batches"), rows, PHASES)
    assert values(chart({0: (sampled()[0], told)}), "samples/s") == {"baseline": (4.0 * 128, 4.0 * 128)}


def test_a_gpu_that_did_not_train_is_not_averaged_in():
    saved = sampled(own=gpu(0, 90.0, 4.0 * GIB), other=gpu(1, 60.0, 2.0 * GIB), idle=gpu(2, 0.0, 0.0))
    drawn = chart({0: saved})
    assert values(drawn, "GPU busy, %")["baseline"] == pytest.approx([75.0] * 20)
    assert values(drawn, "GPU memory, GiB")["baseline"] == pytest.approx([3.0] * 20)


def test_the_table_has_the_highest_of_all_that_was_sampled_however_few_points_are_drawn():
    seconds = 20_000
    rows = [(float(t_s), 50.0, 2.0 * GIB) for t_s in range(seconds)]
    rows[7_003] = (7_003.0, 100.0, 6.0 * GIB)
    spiked = Series("gpu0", ("t_s", "utilization_percent", "tree_bytes"), tuple(rows))
    drawn = chart({0: sampled(seconds, own=spiked)})
    (busy,) = values(drawn, "GPU busy, %").values()
    assert len(busy) <= MAX_POINTS + 1
    assert max(busy) < 51
    table = {row[0]: row[1:] for row in drawn.table.rows}
    assert drawn.table.columns == ("", "baseline, mean of the window", "baseline, highest sampled")
    assert table["GPU busy, %"] == ("50.0", "100")
    assert table["GPU memory, GiB"] == ("2.00", "6.00")


def test_the_mean_of_a_counter_is_its_growth_over_the_window():
    rows = ((0.0, 0.0, 0.0), (10.0, 1.0, 8.0), (11.0, 1.0, 16.0), (20.0, 1.0, 26.0))
    told = Series("loop", ("t_s", "phase", "batches"), rows, PHASES)
    table = {row[0]: row[1:] for row in chart({0: (sampled(21)[0], told)}).table.rows}
    assert table["samples/s"] == ("230", "1,024")


@pytest.mark.parametrize("rows", [(), ((0.0, 0.0, 0.0),), ((0.0, 0.0, 0.0), (None, 1.0, 1.0))])
def test_a_series_that_was_cut_off_is_passed_over(rows):
    host, loop = sampled()
    damaged = Series("loop", ("t_s", "phase", "batches"), rows, PHASES)
    saved = {0: (host, loop), 100: (host, damaged)}
    assert chart(saved).names == ("baseline",)
