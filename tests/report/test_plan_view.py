"""A plan on a terminal: answer first, every figure with where it comes from, whole at 80 columns."""

from typing import Any

import pytest
from build_plans import exactly, instance, plan_of, plan_request, spot_price, twice_as_fast
from build_records import interval, profile
from read_report import Read
from read_report import drawn as drawn_blocks

from tunekit.records.plan import Plan, PlanAssumptions
from tunekit.records.profile import Profile
from tunekit.report.blocks import Table
from tunekit.report.plan import plan_report

AT_80 = """
Cheapest and balanced: colab Twice, 1x a10g-twice: $63.91 ($55.50 to $73.66) for
639 compute units, 91.3 h (79.3 to 105), predicted; in 8 (7 to 9) sessions of
12h 00m at most; a checkpoint every 26m 20s; its loader has to feed 360
samples/s; price of 2026-02-28.
Fastest: aws g5.12xlarge, 4x a10g: $282 ($245 to $325) on demand, 49.7 h (43.2
to 57.3), predicted; its loader has to feed 644 samples/s; price of 2025-04-01,
stale.
90 epochs of 1,281,167 samples, from 180 samples/s (175 to 185) measured on 1x
a10g in bf16 (a test).
Cheapest: least expected dollars of 4 machines with a price; balanced: least
dollars x hours; fastest: least expected hours of 4 machines.

Machines by dollars on demand (~ predicted, * price older than 90 days)
machine              GPUs           hours  on demand      spot  units  sessions
(as measured)        1x a10g          178       n/a       n/a
colab Twice          1x a10g-twice  ~91.3   ~$63.91       n/a    ~639        ~8
lambda gpu_1x_twice  1x a10g-twice  ~89.0     ~$133       n/a
aws g5.xlarge        1x a10g          178      $179   ~$75.11*
aws g5.12xlarge      4x a10g        ~49.7     ~$282*      n/a
prices seen: aws 2025-04-01 or 2026-02-28 (spot 2024), colab 2026-02-28, lambda
  2026-02-28
ranges and details: on a wider terminal, or with --json

Assumed, not measured
  on more GPUs each has 80% to 100% of its rate (--scaling), with the same batch
    each, and as many epochs do
  the script resumes from checkpoints of 30.0 s each (--checkpoint-cost,
    --no-checkpoints)
  a restart takes 5m 00s (--restart-cost)
  a spot machine is taken away every 4h 00m on average (--interrupted-every)
  a Colab session lasts 12h 00m at most (--max-session); its hours count a
    checkpoint after every interval
  dollars are for the hours of training: no storage, transfer, set-up or tax

Sources
  colab Twice, aws g5.12xlarge: a price list
  speed of another GPU: roofline (Williams et al. 2009, CACM 52(4)), each bound
    widened by 11.8%, the mean error of Habitat (Yu et al. 2021, USENIX ATC)
  checkpoints: Young 1974, CACM 17(9); Daly 2006, FGCS 22(3)

warning: 2 prices older than 90 days, 1 of them on spot, the oldest of 2024;
look them up before you book; correct them in ~/.config/tunekit/profiles
note: Predicted rates are those of the GPU; a loader that can't keep up makes
them lower (it is unknown how many CPUs fed the measured rate); run tunekit
search on the machine before the long training
note: Colab promises neither a certain GPU nor that a session lasts; keep the
checkpoints where they outlive the session
"""

AT_120 = """Machines by dollars on demand (~ predicted, * price older than 90 days)
machine              GPUs           hours         range  on demand             range      spot  units  sessions
(as measured)        1x a10g          178    173 to 183       n/a                         n/a
colab Twice          1x a10g-twice  ~91.3   79.3 to 105   ~$63.91   $55.50 to $73.66      n/a    ~639        ~8
lambda gpu_1x_twice  1x a10g-twice  ~89.0   77.3 to 103     ~$133       $116 to $154      n/a
aws g5.xlarge        1x a10g          178    173 to 183      $179       $174 to $185  ~$75.11*
aws g5.12xlarge      4x a10g        ~49.7  43.2 to 57.3     ~$282*      $245 to $325      n/a
"""  # noqa: E501


def view_plan(plan: Plan, width: int = 80, every_row: bool = False) -> Read:
    return Read(plan_report(plan, width, every_row))


def drawn(plan: Plan, width: int, every_row: bool = False) -> str:
    return drawn_blocks(plan_report(plan, width, every_row).blocks, width)


def imagenet(**overrides: Any) -> Plan:
    """Two A10G machines, one of them with a spot price, a GPU twice as fast, and Colab."""
    a10g = profile(
        achievable_bf16_fraction=0.8,
        instances=(
            instance(spot=spot_price(0.3, 0.5, "2024")),
            instance(name="g5.12xlarge", gpus=4, vcpus=48, usd_per_h=5.672, as_of="2025-04-01"),
        ),
    )
    twice = twice_as_fast(
        achievable_bf16_fraction=0.8,
        instances=(
            instance(provider="lambda", name="gpu_1x_twice", usd_per_h=1.5, vcpus=30),
            instance(provider="colab", name="Twice", usd_per_h=0.7, compute_units_per_h=7.0, vcpus=None),
        ),
    )
    return plan_of(a10g, twice, request=plan_request(**({"rate_samples_per_s": interval(180.0)} | overrides)))


def test_a_plan_at_80_columns():
    assert drawn(imagenet(), 80) == AT_80


def test_the_same_plan_at_120_columns_has_the_ranges():
    wide = drawn(imagenet(), 120)
    assert AT_120 in wide
    assert "on a wider terminal" not in wide


@pytest.mark.parametrize("width", [80, 100, 120, 200])
@pytest.mark.parametrize("asked", [{}, {"may_use_spot": True}, {"measured_on": "cpu"}, {"measured_gpus": 8}])
def test_no_line_is_wider_than_the_terminal_nor_ends_in_spaces(width: int, asked: dict[str, Any]):
    for line in drawn(imagenet(**asked), width).splitlines():
        assert len(line) <= width
        assert line == line.rstrip()


def cells(table: Table, column: str) -> list[str]:
    return [row[table.columns.index(column)].strip() for row in table.rows]


def test_a_narrow_terminal_keeps_machine_hours_and_both_prices():
    shown = view_plan(imagenet(), width=20).tables[0]
    assert shown.columns == ("machine", "GPUs", "hours", "on demand", "spot")


def test_a_range_of_hours_never_stands_without_the_one_of_dollars():
    for width in range(60, 160):
        assert view_plan(imagenet(), width).tables[0].columns.count("range") in (0, 2)


def test_every_figure_says_whether_it_is_predicted():
    table = view_plan(imagenet(), width=200).tables[0]
    assert cells(table, "hours") == ["178", "~91.3", "~89.0", "178", "~49.7"]
    assert cells(table, "samples/s") == ["180", "~360", "~360", "180", "~644"]
    assert cells(table, "on demand") == ["n/a", "~$63.91", "~$133", "$179", "~$282*"]
    assert cells(table, "spot") == ["n/a", "n/a", "n/a", "~$75.11*", "n/a"]
    assert "(~ predicted, * price older than 90 days)" in table.title


def test_marks_that_are_not_in_the_table_are_not_explained():
    asked = plan_request(only=("a10g",))
    assert view_plan(plan_of(profile(instances=(instance(),)), request=asked)).tables[0].title == (
        "Machines by dollars on demand"
    )


@pytest.mark.parametrize("width", [80, 120])
def test_the_days_of_the_prices_stand_below_by_provider(width: int):
    assert view_plan(imagenet(), width).passage()[0] == (
        "prices seen: aws 2025-04-01 or 2026-02-28 (spot 2024), colab 2026-02-28, lambda 2026-02-28"
    )


def test_a_price_that_only_spot_has_is_dated_too():
    plan = plan_of(profile(instances=(instance(usd_per_h=None, spot=spot_price(as_of="2026-01")),)))
    assert view_plan(plan).passage()[0] == "prices seen: aws (spot 2026-01)"
    assert not any("prices" in line for line in view_plan(imagenet(measured_on="cpu")).passage())


def test_units_and_sessions_stand_in_the_rows_of_colab_alone():
    table = view_plan(imagenet(), width=80).tables[0]
    assert cells(table, "units") == ["", "~639", "", "", ""]
    assert cells(table, "sessions") == ["", "~8", "", "", ""]


def test_an_answer_says_what_the_loader_has_to_feed_where_that_is_more_than_measured():
    fast = profile(instances=(instance(),)), twice_as_fast(instances=(instance(name="2x"),))
    assert "; its loader has to feed 360 samples/s; price of" in view_plan(plan_of(*fast)).answers[0]
    short = plan_of(*fast, request=plan_request(measured_vcpus_per_gpu=4))
    assert "; its CPUs may not feed 360 samples/s; price of" in view_plan(short).answers[0]
    same = plan_of(fast[0])
    assert "feed" not in view_plan(same).answers[0]


@pytest.mark.parametrize(
    ("longest_h", "said"),
    [
        (12, "in 8 (7 to 9) sessions of 12h 00m at most; a checkpoint every 26m 20s; its loader"),
        (3, "in 32 (28 to 37) sessions of 3h 00m at most; a checkpoint every 12m 55s; its loader"),
        (300, "89.0 h (77.3 to 103), predicted; its loader has to feed 360 samples/s; price of 2026-02-28."),
    ],
)
def test_an_answer_on_colab_has_units_sessions_and_checkpoints(longest_h: int, said: str):
    assumed = PlanAssumptions(max_session_s=longest_h * 3600.0)
    answer = view_plan(imagenet(providers=("colab",), assumptions=assumed)).answers[0]
    assert answer.startswith("Cheapest, balanced and fastest: colab Twice, 1x a10g-twice: $6")
    assert " compute units, " in answer
    assert said in answer


def test_a_machine_that_is_best_at_two_things_is_named_once():
    plan = plan_of(profile(instances=(instance(),)))
    (answer,) = view_plan(plan).answers
    assert answer == (
        "Cheapest, balanced and fastest: aws g5.xlarge, 1x a10g: $179 on demand, 178 h, measured; "
        "price of 2026-02-28."
    )


def test_a_price_that_is_old_says_so_beside_its_figure():
    plan = plan_of(profile(instances=(instance(as_of="2025-01-01"),)))
    shown = view_plan(plan)
    assert "price of 2025-01-01, stale" in shown.answers[0]
    assert shown.tables[0].title == "Machines by dollars on demand (* price older than 90 days)"
    assert cells(shown.tables[0], "on demand") == ["n/a", "$179*"]


def test_a_choice_on_spot_is_called_predicted_though_its_rate_was_measured():
    plan = plan_of(profile(instances=(instance(spot=spot_price()),)), request=plan_request(may_use_spot=True))
    cheapest = view_plan(plan).answers[0]
    assert cheapest.startswith(
        "Cheapest and balanced: aws g5.xlarge, 1x a10g: $77.57 spot, 194 h, predicted; a checkpoint"
    )


def test_a_rate_of_a_cpu_says_why_there_are_no_dollars_and_what_to_do():
    shown = view_plan(imagenet(measured_on="cpu", rate_samples_per_s=exactly(180.0)))
    assert shown.answers == (
        "Where it was measured (1x cpu): 178 h, measured.",
        "Nothing is known of other machines: the rate was measured on a CPU, so the hours on a GPU are "
        "unknown; search on a machine with a GPU and plan from that run, or give a rate that you saw on one: "
        "tunekit plan --rate R --samples 1281167 --epochs 90 --gpu t4.",
    )
    assert len(shown.quiet) == 1
    assert shown.notes == ()
    assert cells(shown.tables[0], "machine") == ["(as measured)"]
    assert shown.passage() == ("4 more machines, without a rate: --all",)


def test_machines_without_a_rate_are_shown_when_all_is_asked_for():
    table = view_plan(imagenet(measured_on="cpu"), every_row=True).tables[0]
    assert cells(table, "hours") == ["178", *["n/a"] * 4]


@pytest.mark.parametrize(
    ("gpu", "asked", "said"),
    [
        (profile(instances=()), {}, "No other machine is known to be offered."),
        (twice_as_fast(), {"only": ("a10g-twice",)}, "no price is known of 1 machine: a10g-twice; add one"),
        (
            profile(instances=(instance(provider="colab", compute_units_per_h=5.0),)),
            {"assumptions": PlanAssumptions(checkpoint_cost_s=None)},
            "the training does not fit into sessions on colab g5.xlarge (it is longer than a session",
        ),
        (
            profile(instances=(instance(),)),
            {"max_hours": 1.0},
            "1 machine that needs more than 1 h is left out",
        ),
    ],
)
def test_a_plan_without_a_choice_says_why(gpu: Profile, asked: dict[str, Any], said: str):
    plan = plan_of(*({"a10g": profile()} | {gpu.id: gpu}).values(), request=plan_request(**asked))
    where, why = view_plan(plan).answers
    assert where == "Where it was measured (1x a10g): 178 h, measured."
    assert said in why


def test_the_table_is_short_unless_all_is_asked_for():
    offered = tuple(instance(name=f"m{number}", usd_per_h=1.0 + number) for number in range(40))
    plan = plan_of(profile(instances=offered))
    short = view_plan(plan)
    assert len(short.tables[0].rows) == 16
    assert short.passage()[1] == "25 more machines: --all, or narrow with --only and --provider"
    everything = view_plan(plan, every_row=True)
    assert len(everything.tables[0].rows) == 41
    assert everything.passage() == ("prices seen: aws 2026-02-28",)


def test_a_chosen_machine_is_in_the_table_however_far_down():
    slow = tuple(instance(name=f"m{number}", usd_per_h=1.0) for number in range(30))
    fast = twice_as_fast(instances=(instance(name="fast", usd_per_h=1000.0),))
    names = [row[0] for row in view_plan(plan_of(profile(instances=slow), fast)).tables[0].rows]
    assert "aws fast" in names


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ({"precision_is_assumed": True}, "the rate was measured in bf16 (--precision)"),
        ({}, "on more GPUs each has 80% to 100% of its rate (--scaling), with the same batch each"),
        ({}, "the script resumes from checkpoints of 30.0 s each"),
        (
            {"assumptions": PlanAssumptions(checkpoint_cost_s=None)},
            "the script writes no checkpoints (--no-checkpoints)",
        ),
        ({}, "a spot machine is taken away every 4h 00m on average (--interrupted-every)"),
        ({}, "a Colab session lasts 12h 00m at most (--max-session)"),
    ],
)
def test_what_was_assumed_is_listed_with_its_flag(asked: dict[str, Any], line: str):
    assert any(one.startswith(line) for one in view_plan(imagenet(**asked)).passage("Assumed, not measured"))


def test_nothing_is_listed_that_the_plan_does_not_rest_on():
    plan = plan_of(profile(instances=(instance(),)))
    assert view_plan(plan).passage("Assumed, not measured") == (
        "dollars are for the hours of training: no storage, transfer, set-up or tax",
    )
    assert view_plan(plan).passage("Sources") == ("aws g5.xlarge: a price list",)


@pytest.mark.parametrize(
    ("measured_gpus", "line"),
    [
        (1, "on more GPUs each has 80% to 100% of its rate (--scaling), with the same batch each"),
        (2, "as many epochs do; on fewer GPUs each has 100% to 125% of its rate"),
        (4, "on fewer GPUs each has 100% to 125% of its rate (--scaling)"),
    ],
)
def test_every_number_of_gpus_says_what_was_assumed_of_it(measured_gpus: int, line: str):
    lines = view_plan(imagenet(measured_gpus=measured_gpus)).passage("Assumed, not measured")
    assert any(line in one for one in lines)
    assert any("on more GPUs" in one for one in lines) == (measured_gpus < 4)


def test_as_many_gpus_of_another_kind_may_scale_otherwise():
    fast = twice_as_fast(instances=(instance(name="four", gpus=4),))
    asked = plan_request(measured_gpus=4)
    (line, *_) = view_plan(plan_of(profile(), fast, request=asked)).passage("Assumed, not measured")
    assert line.startswith("as many GPUs of another kind have 80% to 125% of it (--scaling)")


def test_sessions_that_are_too_short_still_say_what_was_assumed():
    assumed = PlanAssumptions(max_session_s=600.0, restart_cost_s=900.0)
    asked = plan_request(assumptions=assumed)
    colab = instance(provider="colab", compute_units_per_h=5.0)
    lines = view_plan(plan_of(profile(instances=(colab,)), request=asked)).passage("Assumed, not measured")
    assert "a Colab session lasts 10m 00s at most (--max-session)" in lines
    assert "a restart takes 15m 00s (--restart-cost)" in lines


def test_a_given_memory_need_is_an_assumption_with_its_flag():
    asked = {"peak_reserved_bytes": 8 * 1024**3, "peak_is_given": True}
    assert "another GPU would need the 8.0 GiB of memory (--memory-gib)" in view_plan(
        imagenet(**asked)
    ).passage("Assumed, not measured")


def test_a_gpu_that_may_not_hold_it_is_marked():
    small = twice_as_fast(memory_bytes=16 * 1024**3, torch_memory_bytes=None, instances=(instance(),))
    unknown = view_plan(plan_of(profile(), small), width=80)
    assert cells(unknown.tables[0], "GPUs") == ["1x a10g", "1x a10g-twice?"]
    assert "? may not fit its memory" in unknown.tables[0].title
    assert "; its memory may be too small; " in unknown.answers[0]
    asked = plan_request(peak_reserved_bytes=20 * 1024**3)
    known = view_plan(plan_of(profile(), small, request=asked), width=80)
    assert cells(known.tables[0], "GPUs") == ["1x a10g", "1x a10g-twice!"]
    assert "! does not fit it" in known.tables[0].title


def test_with_spot_the_title_says_what_the_machines_stand_by():
    shown = view_plan(imagenet(may_use_spot=True), width=80)
    assert shown.tables[0].title.startswith("Machines by the lower of on demand and spot (")
    assert "spot" in shown.tables[0].columns
    assert cells(shown.tables[0], "machine")[1:3] == ["colab Twice", "aws g5.xlarge"]


def test_a_spot_price_has_a_day_of_its_own():
    machine = instance(spot=spot_price(0.2, 0.2, "2024"))
    shown = view_plan(
        plan_of(profile(instances=(machine,)), request=plan_request(may_use_spot=True)), width=200
    )
    assert shown.answers[0].endswith("; spot price of 2024, stale.")
    assert shown.answers[1].endswith("; price of 2026-02-28.")
    assert cells(shown.tables[0], "price of") == ["", "2026-02-28, spot 2024"]
