"""A plan on a terminal: answer first, every figure with where it comes from, whole at 80 columns."""

from typing import Any

import pytest
from build_plans import TODAY, exactly, instance, plan_of, plan_request, spot_price, twice_as_fast
from build_records import interval, profile
from read_report import Read
from read_report import drawn as drawn_blocks

from tunekit.machine.profiles import load_profiles
from tunekit.plan.plan import make_plan
from tunekit.records.interval import Interval
from tunekit.records.plan import Plan, PlanAssumptions
from tunekit.records.profile import Instance, Profile, Subscription, TakenName, UnitPack
from tunekit.records.recommendation import Tier
from tunekit.report.blocks import WIDE, Table
from tunekit.report.plan import plan_answer, plan_report

ANSWER_AT_80 = """
Measured on 1x a10g: 178 h (173 to 183 h), 1.98 h an epoch, $179 ($174 to $185)
on aws g5.xlarge.
90 epochs of 1,281,167 samples, at 180 samples/s (175 to 185) in bf16 (a test).

What to choose (~ predicted, * stale price)
          machine, GPUs       epoch  training, range    dollars, range  units
cheapest  colab Twice       ~1.01 h          ~91.3 h          ~$63.91    ~639
          1x a10g-twice                79.3 to 105 h  $55.50 to $73.66
fastest   aws g5.12xlarge  ~33m 09s          ~49.7 h            ~$282*
          4x a10g                     43.2 to 57.3 h      $245 to $325
cheapest: 8 (7 to 9) sessions of up to 12h 00m; a checkpoint every 26m 20s (0.44
  epochs; steps: give --batch); its loader has to feed 312 to 415 samples/s
fastest: price of 2025-04-01; its loader has to feed 559 to 742 samples/s
"""

MORE_AT_80 = """\
4 machines, 1 warning, 2 notes, and what was assumed: --full, or --html FILE

Next, on the machine that you choose
  tunekit search -- COMMAND
"""

REST_AT_80 = """\
Cheapest: least expected dollars of 4 machines with a price; fastest: least
expected hours of 4 machines.

Machines by dollars on demand (~ predicted, * price older than 90 days)
machine                    training         on demand       units
GPUs                          range             range    sessions
                          samples/s              spot  price seen
                                                range   spot seen
(as measured)                 178 h              n/a
1x a10g                173 to 183 h
                                180              n/a
colab Twice                 ~91.3 h          ~$63.91         ~639
1x a10g-twice         79.3 to 105 h  $55.50 to $73.66          ~8
                               ~360              n/a   2026-02-28
lambda gpu_1x_twice         ~89.0 h            ~$133
1x a10g-twice         77.3 to 103 h      $116 to $154
                               ~360              n/a   2026-02-28
aws g5.xlarge                 178 h             $179
1x a10g                173 to 183 h      $174 to $185
                                180          ~$75.11*  2026-02-28
                                     $56.49 to $99.97        2024
aws g5.12xlarge             ~49.7 h            ~$282*
4x a10g              43.2 to 57.3 h      $245 to $325
                               ~644              n/a   2025-04-01

Assumed, not measured
  on more GPUs each has 80% to 100% of its rate (--scaling), with the same batch
    each, and as many epochs do
  the script resumes from checkpoints of 30.0 s each (--checkpoint-cost,
    --no-checkpoints)
  a restart takes 5m 00s (--restart-cost)
  a spot machine is preempted every 4h 00m on average (--interrupted-every)
  a notebook session lasts 12h 00m at most (--max-session); its hours count a
    checkpoint after every interval
  dollars are for the hours of training: no storage, transfer, set-up or tax

Sources
  colab Twice, aws g5.12xlarge: a price list
  speed of another GPU: roofline (Williams et al. 2009, CACM 52(4)), each bound
    widened by 11.8%, the mean error of Habitat (Yu et al. 2021, USENIX ATC)
  checkpoints: Young 1974, CACM 17(9); Daly 2006, FGCS 22(3)

warning: 2 prices older than 90 days, 1 of them on spot, the oldest of 2024; get
newer ones with tunekit gpus --refresh, or look them up and correct them in
~/.config/tunekit/profiles
note: Predicted rates are the GPU's alone; a slower loader lowers them (it is
unknown how many CPUs fed the measured rate); run tunekit search on the machine
before the long training
note: Colab promises neither a certain GPU nor that a session lasts; keep the
checkpoints where they outlive the session

Next, on the machine that you choose
  tunekit search -- COMMAND
"""


def view_plan(plan: Plan, width: int = 80) -> Read:
    return Read(plan_report(plan, width))


def screen(plan: Plan, width: int = 80, folder: str = "") -> str:
    return drawn_blocks(plan_answer(plan, width, folder), width)


def drawn(plan: Plan, width: int) -> str:
    return drawn_blocks(plan_report(plan, width).blocks, width)


def choices(plan: Plan, width: int = WIDE) -> Table:
    (table,) = (one for one in view_plan(plan, width).tables if one.title.startswith("What to choose"))
    return table


def machines(plan: Plan, width: int = WIDE) -> Table:
    (table,) = (one for one in view_plan(plan, width).tables if one.title.startswith("Machines by"))
    return table


def remarks(plan: Plan) -> tuple[str, ...]:
    """What is said of the choices below their table."""
    return view_plan(plan).passage()


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


def test_the_answer_fits_one_screen():
    assert screen(imagenet(), 80) == ANSWER_AT_80 + MORE_AT_80


def test_a_whole_plan_at_80_columns():
    assert drawn(imagenet(), 80) == ANSWER_AT_80 + REST_AT_80


def test_every_column_is_in_the_whole_plan_however_narrow_it_is():
    wide = machines(imagenet())
    assert wide.columns == (
        *("machine", "GPUs", "training", "range", "samples/s"),
        *("on demand", "range", "spot", "range", "units", "sessions", "price seen", "spot seen"),
    )
    for width in (20, 60, 80, 120):
        narrow = machines(imagenet(), width)
        titles = [title for stack in narrow.columns for title in stack.replace(", ", "\n").split("\n")]
        assert titles == list(wide.columns)
        figures = [
            {cell.strip() for row in table.row_lines for cell in row if cell} for table in (wide, narrow)
        ]
        assert figures[0] == figures[1]


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"may_use_spot": True},
        {"measured_on": "cpu"},
        {"measured_gpus": 8, "max_hours": 1.0},
        {"measured_vcpus_per_gpu": 8, "vcpus_are_assumed": True, "samples_per_step": 256},
        {"source": "a/folder/of/a/run/with/a/long/name-2026-01-02, balanced: measured in 5 fresh processes"},
    ],
)
def test_whatever_is_asked_the_answer_fits_24_lines_of_80_letters(asked: dict[str, Any]):
    shipped = load_profiles()
    for plan in (
        imagenet(**asked),
        make_plan(plan_request(rate_samples_per_s=interval(180.0), **asked), shipped, TODAY),
    ):
        lines = screen(plan).splitlines()
        assert len(lines) <= 24
        assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("width", [80, 100, 120, 200])
@pytest.mark.parametrize("asked", [{}, {"may_use_spot": True}, {"measured_on": "cpu"}, {"measured_gpus": 8}])
def test_no_line_is_wider_than_the_terminal_nor_ends_in_spaces(width: int, asked: dict[str, Any]):
    for line in drawn(imagenet(**asked), width).splitlines():
        assert len(line) <= width
        assert line == line.rstrip()


def cells(table: Table, column: str) -> list[str]:
    return [row[table.columns.index(column)].strip() for row in table.rows]


def test_no_figure_of_a_choice_stands_without_its_range():
    for width in (20, 60, 80, 100, 120, 160):
        table = choices(imagenet(), width)
        titles = "\n".join(table.columns).replace(", ", "\n").split("\n")
        assert titles.count("range") == 2
        shown = {cell.strip() for row in table.row_lines for cell in row}
        assert {"79.3 to 105 h", "43.2 to 57.3 h", "$55.50 to $73.66", "$245 to $325"} <= shown


def test_every_figure_says_whether_it_is_predicted():
    table = machines(imagenet())
    assert cells(table, "training") == ["178 h", "~91.3 h", "~89.0 h", "178 h", "~49.7 h"]
    assert cells(table, "samples/s") == ["180", "~360", "~360", "180", "~644"]
    assert cells(table, "on demand") == ["n/a", "~$63.91", "~$133", "$179", "~$282*"]
    assert cells(table, "spot") == ["n/a", "n/a", "n/a", "~$75.11*", "n/a"]
    assert "(~ predicted, * price older than 90 days)" in table.title


def test_what_was_measured_stands_first_with_its_dollars_and_then_the_choices():
    assert view_plan(imagenet()).answers[0].endswith("$179 ($174 to $185) on aws g5.xlarge.")
    table = choices(imagenet())
    assert cells(table, "") == ["cheapest", "fastest"]
    assert cells(table, "machine") == ["colab Twice", "aws g5.12xlarge"]
    assert cells(table, "epoch") == ["~1.01 h", "~33m 09s"]
    assert cells(table, "training") == ["~91.3 h", "~49.7 h"]
    assert cells(table, "dollars") == ["~$63.91", "~$282*"]
    assert table.title == "What to choose (~ predicted, * stale price)"


def test_a_balanced_choice_of_its_own_is_shown():
    machines_of = [
        instance(name=name, usd_per_h=usd, gpus=gpus)
        for name, usd, gpus in (("one", 1.0, 1), ("four", 5.0, 4), ("eight", 30.0, 8))
    ]
    plan = plan_of(profile(instances=machines_of))
    assert cells(choices(plan), "") == ["cheapest", "balanced", "fastest"]
    assert cells(choices(plan), "machine") == ["aws one", "aws four", "aws eight"]
    assert "balanced: least dollars x hours" in view_plan(plan).quiet[1]
    assert "balanced" not in view_plan(imagenet()).quiet[1]


def test_the_answer_and_its_choice_have_the_same_hours_where_sessions_cost_some():
    colab = instance(provider="colab", name="A10G", usd_per_h=0.5, compute_units_per_h=5.0)
    plan = plan_of(profile(instances=(colab,)))
    assert cells(choices(plan), "training") == ["183 h"]
    assert view_plan(plan).answers[0] == (
        "Measured on 1x a10g: 183 h, 2.03 h an epoch, $91.35 on colab A10G in sessions."
    )


def test_a_weekly_quota_is_told_in_weeks():
    kaggle = instance(provider="kaggle", name="A10G", usd_per_h=0, hours_per_week=30, max_session_h=12)
    plan = plan_of(profile(instances=(kaggle,)))
    assert cells(choices(plan), "dollars") == ["free"]
    assert view_plan(plan).answers[0].endswith("free on kaggle A10G in sessions over 7 weeks.")
    (remark,) = view_plan(plan).passage()[:1]
    assert "sessions of up to 12h 00m over 7 weeks of 30 h; a checkpoint every" in remark
    (row,) = [row for row in machines(plan).rows if "kaggle A10G" in row]
    assert dict(zip(machines(plan).columns, row, strict=True))["weeks"] == "7"


def test_the_units_of_a_choice_are_told_as_they_are_sold_beside_what_they_are_worth():
    pro = Subscription(name="Pro", usd_per_month=10, units_per_month=100, as_of="2026-02-01", source="a page")
    plus = pro.changed(name="Pro+", usd_per_month=50, units_per_month=1000)
    pack = UnitPack(units=100, usd=4.5, as_of="2026-02-01", source="a page")
    colab = instance(
        provider="colab", name="A10G", usd_per_h=0.2, compute_units_per_h=5.0, subscriptions=(pro, plus)
    )
    plan = plan_of(profile(instances=(colab,)))
    assert remarks(plan)[0].endswith("; 913 units ($36.54), sold as 1 month of Pro+ at $50.00")
    assert cells(choices(plan), "dollars") == ["$50.00"]
    assert cells(machines(plan), "worth") == ["", "$36.54"]
    packs = plan_of(profile(instances=(colab.changed(unit_packs=(pack,)),)))
    assert remarks(packs)[0].endswith("; 913 units ($36.54), sold as 10 packs of 100 at $4.50")
    assert cells(choices(packs), "dollars") == ["$45.00"]


def test_a_limit_that_decided_and_one_that_may_be_broken_are_said():
    slow, fast = instance(usd_per_h=0.1), instance(name="fast", gpus=4, usd_per_h=8.0)
    plan = plan_of(profile(instances=(slow, fast)), request=plan_request(max_hours=50.0))
    assert cells(choices(plan), "") == ["cheapest in time, fastest"]
    assert remarks(plan)[0].startswith(
        "cheapest in time, fastest: up to 55.6 h, beyond --max-hours 50; its loader has to feed"
    )


def test_what_the_machine_of_the_rate_costs_is_shown_where_its_user_says_so():
    plan = plan_of(profile(), request=plan_request(here_usd_per_h=2.0))
    assert view_plan(plan).answers[0].endswith(", $356 at $2.00 an hour (--here-cost-per-hour).")


def test_a_name_that_stands_for_another_gpu_is_told():
    taken = TakenName(typed="a100", profile_id="a100-sxm-40", others=("a100-pcie-40",))
    assert "a100 is a100-sxm-40 (others: a100-pcie-40)." in screen(imagenet(taken_names=(taken,)))


def test_a_choice_at_a_stale_price_says_its_day():
    spot = spot_price(as_of="2024")
    plan = plan_of(
        profile(instances=(instance(as_of="2025-01-01", spot=spot),)), request=plan_request(may_use_spot=True)
    )
    assert cells(choices(plan), "dollars") == ["~$77.57*spot", "$179*"]
    remarks = view_plan(plan).passage()
    assert "price of 2024" in remarks[0]
    assert "price of 2025-01-01" in remarks[1]


def test_where_the_loader_is_not_known_the_expected_figure_stands_beside_its_range():
    """Two CPUs fed 180 samples/s; of those of the faster GPU nobody knows how many there are."""
    fast = twice_as_fast(achievable_bf16_fraction=0.8, instances=(instance(name="2x", vcpus=None),))
    known = profile(achievable_bf16_fraction=0.8, instances=(instance(),))
    plan = plan_of(known, fast, request=plan_request(measured_vcpus_per_gpu=2))
    row = machines(plan).rows[cells(machines(plan), "machine").index("aws 2x")]
    shown = dict(zip(machines(plan).columns, row, strict=True))
    assert (shown["training"], shown["samples/s"]) == ("~178 h", "~180")
    assert shown["on demand"].strip() == "~$179"
    assert {"79.6 to 178 h", "$80.06 to $179"} <= set(row)
    told = "where the loader of a machine is not known"
    assert view_plan(plan).passage()[-1].startswith(told)
    assert not any(told in line for line in view_plan(imagenet()).passage())


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (instance(), "$179 on aws g5.xlarge."),
        (instance(as_of="2025-01-01"), "$179 on aws g5.xlarge, at a stale price of 2025-01-01."),
        (instance(vcpus=3), "; $239 ($179 to $239), predicted, on aws g5.xlarge, which has fewer CPUs."),
        (instance(gpus=2), "; no price is known."),
    ],
)
def test_the_dollars_of_the_measured_gpu_are_those_of_its_cheapest_offer(machine: Instance, said: str):
    asked = plan_request(measured_vcpus_per_gpu=4)
    answer = view_plan(plan_of(profile(instances=(machine,)), request=asked)).answers[0]
    assert answer.startswith("Measured on 1x a10g: 178 h, 1.98 h an epoch")
    assert answer.endswith(said)


def test_marks_that_are_not_in_the_table_are_not_explained():
    asked = plan_request(only=("a10g",))
    plan = plan_of(profile(instances=(instance(),)), request=asked)
    assert machines(plan).title == "Machines by dollars on demand"
    assert choices(plan).title == "What to choose"


def test_every_price_has_its_day():
    table = machines(imagenet())
    assert cells(table, "price seen") == ["", "2026-02-28", "2026-02-28", "2026-02-28", "2025-04-01"]
    assert cells(table, "spot seen") == ["", "", "", "2024", ""]
    spot_alone = instance(usd_per_h=None, spot=spot_price(as_of="2026-01"))
    assert cells(machines(plan_of(profile(instances=(spot_alone,)))), "spot seen") == ["", "2026-01"]


def test_units_and_sessions_stand_in_the_rows_of_colab_alone():
    table = machines(imagenet())
    assert cells(table, "units") == ["", "~639", "", "", ""]
    assert cells(table, "sessions") == ["", "~8", "", "", ""]


def test_a_choice_says_what_its_loader_has_to_feed_where_that_is_more_than_measured():
    fast = profile(instances=(instance(),)), twice_as_fast(instances=(instance(name="2x"),))
    assert remarks(plan_of(*fast))[0].endswith(": its loader has to feed 264 to 490 samples/s")
    short = plan_of(*fast, request=plan_request(measured_vcpus_per_gpu=3))
    assert remarks(short)[0].endswith(
        ": its loader is not known: taken as fast as it was seen, GPUs 67% busy"
    )
    per_cpu = Interval(value=60.0, low=50.0, high=75.0)
    known = plan_request(measured_vcpus_per_gpu=3, loader_samples_per_s_per_cpu=per_cpu)
    assert remarks(plan_of(*fast, request=known))[0].endswith(": loader-bound, GPUs 67% busy")
    assert not any("feed" in line or "busy" in line for line in remarks(plan_of(fast[0])))


@pytest.mark.parametrize(
    ("longest_h", "said"),
    [
        (12, "8 (7 to 9) sessions of up to 12h 00m; a checkpoint every 26m 20s (2,222 steps, 0.44 epochs); "),
        (
            3,
            "32 (28 to 37) sessions of up to 3h 00m; a checkpoint every 12m 55s (1,090 steps, 0.22 epochs); ",
        ),
        (300, "cheapest, fastest: its loader has to feed 312 to 415 samples/s"),
    ],
)
def test_a_choice_on_colab_has_sessions_and_checkpoints(longest_h: int, said: str):
    assumed = PlanAssumptions(max_session_s=longest_h * 3600.0)
    plan = imagenet(providers=("colab",), assumptions=assumed, samples_per_step=256)
    assert said in remarks(plan)[0]
    assert cells(choices(plan), "units")[0].startswith("~6")


@pytest.mark.parametrize(("gpus", "said"), [(1, "(632 steps, 0.13 epochs)"), (4, "(566 steps, 0.45 epochs)")])
def test_with_more_gpus_a_step_has_more_samples(gpus: int, said: str):
    """Each keeps its batch; a checkpoint is due every 15 minutes."""
    machine = instance(gpus=gpus, spot=spot_price())
    asked = plan_request(may_use_spot=True, samples_per_step=256)
    plan = plan_of(profile(instances=(machine,)), request=asked)
    assert any(said in line for line in remarks(plan)), remarks(plan)


def test_a_machine_that_is_best_at_all_is_named_once():
    assert cells(choices(plan_of(profile(instances=(instance(),)))), "") == ["cheapest, fastest"]


def test_a_choice_on_spot_is_called_predicted_though_its_rate_was_measured():
    plan = plan_of(profile(instances=(instance(spot=spot_price()),)), request=plan_request(may_use_spot=True))
    table = choices(plan)
    assert cells(table, "") == ["cheapest", "fastest"]
    assert cells(table, "training") == ["~194 h", "178 h"]
    assert cells(table, "dollars") == ["~$77.57 spot", "$179"]


def test_the_next_command_trains_with_the_runs_config():
    of_run = imagenet(tier=Tier.BALANCED)
    assert screen(of_run, folder="reports/a run").endswith(
        "\n  on a10g: tunekit run 'reports/a run/balanced.yaml'\n"
        "  on another GPU: tunekit search -- COMMAND\n"
    )
    assert screen(imagenet()).endswith("\n  tunekit search -- COMMAND\n")


def test_a_rate_of_a_cpu_says_why_there_are_no_dollars_and_what_to_do():
    plan = imagenet(measured_on="cpu", rate_samples_per_s=exactly(180.0))
    shown = view_plan(plan)
    assert shown.answers == (
        "Measured on 1x cpu: 178 h, 1.98 h an epoch; no price is known.",
        "Nothing is known of other machines: the rate was measured on a CPU, so the hours on a GPU are "
        "unknown; search on a machine with a GPU and plan from that run, or give a rate that you saw on one "
        "with --rate.",
    )
    assert shown.next_steps == ("tunekit plan --rate R --samples 1281167 --epochs 90 --gpu t4",)
    assert (shown.notes, shown.passage(), len(shown.quiet)) == ((), (), 1)
    assert not any(table.rows for table in shown.tables)


def test_machines_without_a_rate_are_a_sentence():
    unknown = twice_as_fast(bandwidth_gb_per_s=None, instances=(instance(name="unknown"),))
    shown = view_plan(plan_of(profile(instances=(instance(),)), unknown))
    assert "left out: 1 machine without a known rate" in shown.passage()
    assert "unknown" not in str(shown.tables)


def test_gpus_that_current_torch_does_not_run_on_are_not_in_the_table():
    old = twice_as_fast(compute_capability="3.7", instances=(instance(name="old"),))
    plan = plan_of(profile(instances=(instance(),)), old)
    assert "aws old" not in cells(machines(plan), "machine")
    assert "no-torch-build" in {one.code for one in plan.findings}


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
            twice_as_fast(instances=(instance(),)),
            {"measured_vcpus_per_gpu": 10},
            "No other machine has CPUs enough: on 1 machine the loader may leave the GPUs idle",
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
    blocked = "on colab g5.xlarge it is longer than a session, and the script writes no checkpoints"
    unpriced = blocked if "assumptions" in asked else "no price is known"
    filtered = {"only": "--only", "max_hours": "--max-hours"}
    given = [flag for name, flag in filtered.items() if name in asked]
    unpriced = f"no price with {given[0]} as given" if given else unpriced
    assert where == f"Measured on 1x a10g: 178 h, 1.98 h an epoch; {unpriced}."
    assert said in why


def test_every_machine_is_in_the_whole_plan_and_counted_on_the_screen():
    offered = tuple(instance(name=f"m{number}", usd_per_h=1.0 + number) for number in range(40))
    plan = plan_of(profile(instances=offered))
    assert len(machines(plan).rows) == 41
    assert "40 machines, and what was assumed: --full, or --html FILE" in screen(plan)


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
        ({}, "a spot machine is preempted every 4h 00m on average (--interrupted-every)"),
        ({}, "a notebook session lasts 12h 00m at most (--max-session)"),
        ({"measured_vcpus_per_gpu": 4}, "a machine of unknown CPUs has as many as the GPU's usual machine"),
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


def test_a_predicted_efficiency_says_what_it_rests_on_instead_of_a_share():
    four = profile(instances=(instance(name="four", gpus=4),))
    asked = plan_request(samples_per_step=180, gradients_bytes=100 * 1024**2)
    (line, *_) = view_plan(plan_of(four, request=asked)).passage("Assumed, not measured")
    assert line.startswith("more GPUs exchange 100.0 MiB of gradients a step behind the backward pass")


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
    assert "a notebook session lasts 10m 00s at most (--max-session)" in lines
    assert "a restart takes 15m 00s (--restart-cost)" in lines


def test_a_given_memory_need_is_an_assumption_with_its_flag():
    asked = {"peak_reserved_bytes": 8 * 1024**3, "peak_is_given": True}
    assert "another GPU would need the 8.0 GiB of memory (--memory-gib)" in view_plan(
        imagenet(**asked)
    ).passage("Assumed, not measured")


def test_a_gpu_that_may_not_hold_it_is_marked():
    small = twice_as_fast(memory_bytes=16 * 1024**3, torch_memory_bytes=None, instances=(instance(),))
    unknown = plan_of(profile(), small)
    assert cells(machines(unknown), "GPUs") == ["1x a10g", "1x a10g-twice?"]
    assert cells(choices(unknown), "GPUs") == ["1x a10g-twice?"]
    assert "? may not fit its memory" in machines(unknown).title
    assert "? may not fit its memory" in choices(unknown).title
    assert "its memory may be too small; " in remarks(unknown)[0]
    asked = plan_request(peak_reserved_bytes=20 * 1024**3)
    known = machines(plan_of(profile(), small, request=asked))
    assert cells(known, "GPUs") == ["1x a10g", "1x a10g-twice!"]
    assert "! does not fit it" in known.title


def test_with_spot_the_title_says_what_the_machines_stand_by():
    table = machines(imagenet(may_use_spot=True))
    assert table.title.startswith("Machines by the lower of on demand and spot (")
    assert "spot" in table.columns
    assert cells(table, "machine")[1:3] == ["colab Twice", "aws g5.xlarge"]


def test_a_spot_price_has_a_day_of_its_own():
    machine = instance(spot=spot_price(0.2, 0.2, "2024"))
    plan = plan_of(profile(instances=(machine,)), request=plan_request(may_use_spot=True))
    assert cells(machines(plan), "price seen") == ["", "2026-02-28"]
    assert cells(machines(plan), "spot seen") == ["", "2024"]
    assert [text.endswith("*spot") for text in cells(choices(plan), "dollars")] == [True, False]
