"""A plan on a terminal: answer first, every figure with where it comes from, whole at 80 columns."""

import io
from typing import Any

import pytest
from build_plans import exactly, instance, plan_of, plan_request, spot_price, twice_as_fast
from build_records import interval, profile
from rich.console import Console

from tunekit.records.plan import Plan, PlanAssumptions, PlanRequest
from tunekit.report.plan import draw_plan, view_plan

AT_80 = """
Cheapest and balanced: colab Twice, 1x a10g-twice: $62.73 ($54.47 to $72.29) on
demand, 89.6 h (77.8 to 103), predicted; 627 compute units; in 8 (7 to 9)
sessions; a checkpoint every 26m 20s; price of 2026-02-28.
Fastest: aws g5.12xlarge, 4x a10g: $282 ($245 to $325) on demand, 49.7 h (43.2
to 57.3), predicted; price of 2025-04-01, stale.
90 epochs of 1,281,167 samples, from 180 samples/s (175 to 185) measured on 1x
a10g in bf16 (a test).
Cheapest: least expected dollars of 4 machines with a price; balanced: least
dollars x hours; fastest: least expected hours of 4 machines.

Machines by expected dollars; spot is predicted (* price older than 90 days)
machine                  GPUs           hours  on demand     spot  how
(where it was measured)  1x a10g          178       n/a      n/a   measured
colab Twice              1x a10g-twice   89.6    $62.73      n/a   predicted
lambda gpu_1x_twice      1x a10g-twice   89.0      $133      n/a   predicted
aws g5.xlarge            1x a10g          178      $179   $75.11*  measured
aws g5.12xlarge          4x a10g         49.7      $282*     n/a   predicted
ranges and details: on a wider terminal, or with --json

Assumed, not measured
  on more GPUs each has 80% to 100% of its rate (--scaling), with the same
    batch each, and as many epochs do
  the script resumes from checkpoints of 30.0 s each (--checkpoint-cost,
    --no-checkpoints)
  a restart takes 5m 00s (--restart-cost)
  a spot machine is taken away every 4h 00m on average (--interrupted-every)
  a Colab session lasts 12h 00m at most (--max-session)
  dollars are for the hours of training: no storage, transfer, set-up or tax

Sources
  colab Twice: a price list
  aws g5.12xlarge: a price list
  speed of another GPU: roofline (Williams et al. 2009, CACM 52(4)), each
    bound widened by 11.8%, the mean error of Habitat (Yu et al. 2021, USENIX
    ATC)
  checkpoints: Young 1974, CACM 17(9); Daly 2006, FGCS 22(3)

note: 2 prices older than 90 days, 1 of them on spot, the oldest of 2024; look
them up before you book; correct them in ~/.config/tunekit/profiles
note: Predicted rates are those of the GPU; a loader that can't keep up makes
them lower; it is unknown how many CPUs fed the measured rate; run tunekit
search on the machine before the long training
"""

AT_120 = """Machines by expected dollars; spot is predicted (* price older than 90 days)
machine                  GPUs           hours         range  on demand             range     spot  units  how
(where it was measured)  1x a10g          178    173 to 183       n/a                        n/a     n/a  measured
colab Twice              1x a10g-twice   89.6   77.8 to 103    $62.73   $54.47 to $72.29     n/a     627  predicted
lambda gpu_1x_twice      1x a10g-twice   89.0   77.3 to 103      $133       $116 to $154     n/a     n/a  predicted
aws g5.xlarge            1x a10g          178    173 to 183      $179       $174 to $185  $75.11*    n/a  measured
aws g5.12xlarge          4x a10g         49.7  43.2 to 57.3      $282*      $245 to $325     n/a     n/a  predicted
"""  # noqa: E501


def drawn(plan: Plan, width: int, every_row: bool = False) -> str:
    out = io.StringIO()
    console = Console(width=width, file=out, color_system=None, highlight=False)
    draw_plan(console, view_plan(plan, width, every_row))
    return out.getvalue()


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


def test_a_narrow_terminal_keeps_machine_hours_dollars_and_how():
    shown = view_plan(imagenet(), width=20).machines
    assert shown.columns == ("machine", "GPUs", "hours", "on demand", "how")


def test_every_machine_says_whether_it_is_measured_or_predicted():
    shown = view_plan(imagenet(), width=200).machines
    assert [row[-1] for row in shown.rows] == ["measured", "predicted", "predicted", "measured", "predicted"]
    unknown = view_plan(imagenet(measured_on="cpu"), width=200).machines
    assert [row[-1] for row in unknown.rows] == ["measured", *["n/a"] * 4]


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
    assert shown.machines.title == "Machines by expected dollars (* price older than 90 days)"
    assert shown.machines.rows[1][3] == "$179*"


def test_a_choice_on_spot_is_called_predicted_though_its_rate_was_measured():
    plan = plan_of(profile(instances=(instance(spot=spot_price()),)), request=plan_request(may_use_spot=True))
    cheapest = view_plan(plan).answers[0]
    assert cheapest.startswith(
        "Cheapest and balanced: aws g5.xlarge, 1x a10g: $77.57 spot, 194 h, predicted; a checkpoint"
    )


def test_without_a_gpus_rate_only_the_measured_machine_has_hours():
    shown = view_plan(imagenet(measured_on="cpu", rate_samples_per_s=exactly(180.0)))
    assert shown.answers == (
        "Where it was measured (1x cpu): 178 h, measured. No other machine can be priced.",
    )
    assert shown.reasons is None
    assert any("--rate 180 --gpu a10g" in note for note in shown.notes)
    assert shown.machines.title == "Machines by expected dollars"


def test_the_table_is_short_unless_all_is_asked_for():
    offered = tuple(instance(name=f"m{number}", usd_per_h=1.0 + number) for number in range(40))
    plan = plan_of(profile(instances=offered))
    short = view_plan(plan)
    assert len(short.machines.rows) == 16
    assert short.left_out[0] == "25 more machines: --all, or narrow with --only and --provider"
    everything = view_plan(plan, every_row=True)
    assert len(everything.machines.rows) == 41
    assert everything.left_out == ()


def test_a_chosen_machine_is_in_the_table_however_far_down():
    slow = tuple(instance(name=f"m{number}", usd_per_h=1.0) for number in range(30))
    fast = twice_as_fast(instances=(instance(name="fast", usd_per_h=1000.0),))
    names = [row[0] for row in view_plan(plan_of(profile(instances=slow), fast)).machines.rows]
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
    assert any(one.startswith(line) for one in view_plan(imagenet(**asked)).assumptions)


def test_nothing_is_listed_that_the_plan_does_not_rest_on():
    plan = plan_of(profile(instances=(instance(),)))
    assert view_plan(plan).assumptions == (
        "dollars are for the hours of training: no storage, transfer, set-up or tax",
    )
    assert view_plan(plan).sources == ("aws g5.xlarge: a price list",)


@pytest.mark.parametrize("name", ["[red]", "[/]", ":smile:", "{0}", "%s", "\\[red]"])
def test_markup_in_a_name_is_text(name: str):
    asked: PlanRequest = plan_request(source=f"{name}/run")
    plan = plan_of(profile(instances=(instance(name=name, source=name),)), request=asked)
    assert drawn(plan, 200).count(name) >= 4


def test_control_characters_are_written_out():
    plan = plan_of(profile(instances=(instance(name="\x1b[2J", source="\x1b[2J", usd_per_h=None),)))
    assert "\x1b" not in drawn(plan, 120)
    assert "\\x1b[2J" in drawn(plan, 120)
