"""Milestones on a terminal: the choices first, then milestone by milestone, whole at 80 columns."""

from build_plans import exactly
from build_reports import full_milestones
from read_report import Read
from read_report import drawn as drawn_blocks

from tunekit.records.config import Precision
from tunekit.records.interval import Interval
from tunekit.records.milestones import MilestonePlan, Programme, RunsWay
from tunekit.records.plan import ChoiceKind, UnitPurchase
from tunekit.report.blocks import WIDE
from tunekit.report.milestones import milestones_answer, milestones_report

ANSWER_AT_80 = """
3 milestones, 10 runs, from 180 samples/s (175 to 185) in bf16 (a test).

What to choose, all milestones one after another (~ predicted, * old price)
             hours             range   dollars             range      gives up
cheapest  ~1,741 h  1,406 to 2,178 h  ~$6,498*  $5,569 to $7,610         604 h
balanced  ~1,196 h  1,018 to 1,413 h  ~$7,215*  $6,080 to $8,616  59.3 h, $717
fastest   ~1,137 h    987 to 1,311 h  ~$8,123*  $7,054 to $9,363        $1,625
may go beyond --max-cost $9,000: fastest

Milestone by milestone: balanced
milestone  machine                 epoch           hours           dollars
runs       provider, GPUs          steps           range             range
pilot      4x twice             ~59m 19s         ~9.89 h          ~$71.18
at once    gcp, 1x a10g-twice   5,004 it  7.05 to 13.9 h  $50.75 to $99.92
folds      5x twice              ~4.15 h          ~125 h          ~$1,121
at once    gcp, 1x a10g-twice  20,018 it   88.8 to 175 h    $799 to $1,574
full       g5.12xlarge           ~11.8 h        ~1,062 h          ~$6,023*
           aws, 4x a10g        25,022 it  922 to 1,224 h  $5,230 to $6,942
Paid back: the search, after 1.25 h of training, 0.63 epochs of x1; the start of
a10g-twice instead of a10g, after 4.56 h of training, 4.61 epochs.
1 warning, 2 notes, every choice and what was assumed: --full, or --html FILE
"""

REST_AT_80 = """
Beside each other
  cheapest: 544 h more than the balanced, 604 h more than the fastest
  balanced: $717 more than the cheapest, 59.3 h more than the fastest
  fastest: $1,625 more than the cheapest, $908 more than the balanced

Milestone by milestone: cheapest
milestone    machine                   epoch           hours           dollars
runs         provider, GPUs            steps           range             range
pilot        Twice                  ~59m 19s         ~39.5 h          ~$27.68
4 sessions   colab, 1x a10g-twice   5,004 it  28.2 to 56.9 h  $19.74 to $39.85
folds        Twice                   ~4.26 h          ~639 h            ~$447
55 sessions  colab, 1x a10g-twice  20,018 it    456 to 897 h      $319 to $628
full         g5.12xlarge             ~11.8 h        ~1,062 h          ~$6,023*
             aws, 4x a10g          25,022 it  922 to 1,224 h  $5,230 to $6,942

Milestone by milestone: balanced
milestone  machine                 epoch           hours           dollars
runs       provider, GPUs          steps           range             range
pilot      4x twice             ~59m 19s         ~9.89 h          ~$71.18
at once    gcp, 1x a10g-twice   5,004 it  7.05 to 13.9 h  $50.75 to $99.92
folds      5x twice              ~4.15 h          ~125 h          ~$1,121
at once    gcp, 1x a10g-twice  20,018 it   88.8 to 175 h    $799 to $1,574
full       g5.12xlarge           ~11.8 h        ~1,062 h          ~$6,023*
           aws, 4x a10g        25,022 it  922 to 1,224 h  $5,230 to $6,942

Milestone by milestone: fastest
milestone  machine             epoch           hours           dollars
runs       provider, GPUs      steps           range             range
pilot      4x g5.12xlarge   ~33m 09s         ~5.53 h            ~$125*
at once    aws, 4x a10g     1,251 it  4.80 to 6.37 h      $109 to $145
folds      5x g5.12xlarge    ~2.32 h         ~69.6 h          ~$1,975*
at once    aws, 4x a10g     5,004 it  60.5 to 80.3 h  $1,715 to $2,276
full       g5.12xlarge       ~11.8 h        ~1,062 h          ~$6,023*
           aws, 4x a10g    25,022 it  922 to 1,224 h  $5,230 to $6,942

Validation and checkpoints, counted above (machine hours of all runs)
choice, milestone        validation, dollars     checkpoints, dollars
cheapest                                   -    0 ms (0 ms to 1.05 h)
pilot                                      -   $0.00 ($0.00 to $0.74)
cheapest             29.7 h (21.1 to 41.6 h)  11.8 h (8.43 to 16.6 h)
folds              $20.76 ($14.80 to $29.14)  $8.28 ($5.90 to $11.62)
cheapest             49.7 h (43.2 to 57.3 h)  17.4 h (15.1 to 20.1 h)
full                     $282 ($245 to $325)  $98.74 ($85.74 to $114)
balanced             29.7 h (21.1 to 41.6 h)                        -
folds              $53.38 ($38.06 to $74.94)                        -
balanced             49.7 h (43.2 to 57.3 h)  17.4 h (15.1 to 20.1 h)
full                     $282 ($245 to $325)  $98.74 ($85.74 to $114)
fastest              16.6 h (14.4 to 19.1 h)                        -
folds                $94.03 ($81.66 to $108)                        -
fastest              49.7 h (43.2 to 57.3 h)  17.4 h (15.1 to 20.1 h)
full                     $282 ($245 to $325)  $98.74 ($85.74 to $114)

Independent runs: an instance with one GPU for each, or one instance with
several
milestone   machine                 epoch           hours           dollars
runs        provider, GPUs          steps           range             range
pilot       4x twice             ~59m 19s         ~9.89 h          ~$71.18
at once     gcp, 1x a10g-twice   5,004 it  7.05 to 13.9 h  $50.75 to $99.92
pilot       g5.12xlarge            1.98 h          19.8 h             $112*
a GPU each  aws, 4x a10g         5,004 it  19.2 to 20.4 h      $109 to $116
folds       5x twice              ~4.15 h          ~125 h          ~$1,121
at once     gcp, 1x a10g-twice  20,018 it   88.8 to 175 h    $799 to $1,574
folds       g5.12xlarge            8.30 h           498 h           $2,826*
a GPU each  aws, 4x a10g        20,018 it    484 to 514 h  $2,744 to $2,913

A faster GPU at a higher price, beside the measured one
machine, GPUs  an hour, its start  an epoch, range  pays after, in epochs
gcp twice                   $1.80            $1.78                 4.56 h
1x a10g-twice               $0.97   $1.27 to $2.50   4.61 (1.34 to never)

When it pays
  the search took 30m 00s, $0.50 on its machine; at 1.40x (1.36x to 1.44x) it is
    paid back after 1.25 h of training, 0.63 (0.57 to 0.71) epochs of x1, and
    all milestones on that machine would take 1,930 h (1,727 to 2,132 h) less,
    $1,941 ($1,737 to $2,145) less
  gcp twice: costs no more than aws g5.xlarge at $1.01 an hour after 4.56 h
    there, 4.61 (1.34 to never) epochs (predicted)

The machines
  pilot on colab Twice: 4 (4 to 8) sessions of up to 12h 00m; a checkpoint every
    26m 20s (2,222 steps, 0.44 epochs); its loader has to feed 256 to 505
    samples/s
  folds on colab Twice: 55 (40 to 75) sessions of up to 12h 00m; a checkpoint
    every 26m 20s (2,222 steps, 0.11 epochs); its loader has to feed 256 to 505
    samples/s
  full, pilot, folds on aws g5.12xlarge: price of 2025; its loader has to feed
    559 to 742 samples/s
  pilot, folds on gcp twice: its loader has to feed 256 to 505 samples/s

The milestones
  pilot: x1, 1,281,167 samples an epoch; 10 epochs; 4 runs
  folds: x4, 5,124,668 samples an epoch; 30 epochs; 5 runs; validation 5% of the
    training's time
  full: x20, 25,623,340 samples an epoch; 90 epochs; 1 run; validation 5% of the
    training's time; a checkpoint every 30m 00s (1,132 steps, 0.05 epochs) on
    aws g5.12xlarge

Assumed, not measured
  milestones follow one another, and each begins on a machine of its own; what
    is done within an hour is as fast as can be
  steps are of 256 samples on 1 GPU, and of as many for each GPU elsewhere; an
    epoch's last, partial batch is left out (drop_last)
  independent runs: at once, an instance each, where the provider gives as many
    (instances: N is fewer); in turn on a notebook service; or a GPU each of one
    instance, paid until the last is done
  validation takes the same share of the training's time on every machine
  a checkpoint takes 30.0 s (--checkpoint-cost), and training waits for it
  a machine's start takes 5m 00s (--restart-cost), and a search as long as this
    one on a GPU that was not searched on
  until the deadline there are 4,800 h, and training goes on day and night
  limits hold the expected hours and dollars, not the high end of their ranges

Sources
  colab Twice, aws g5.12xlarge, gcp twice: a price list

warning: 1 price older than 90 days, the oldest of 2025; get newer ones with
tunekit gpus --refresh, or look them up and correct them in
~/.config/tunekit/profiles
note: Predicted rates are the GPU's alone; a slower loader lowers them (it is
unknown how many CPUs fed the measured rate); run tunekit search on the machine
before the long training
note: Colab promises neither a certain GPU nor that a session lasts; keep the
checkpoints where they outlive the session
"""


def screen(plan: MilestonePlan, width: int = 80) -> str:
    return drawn_blocks(milestones_answer(plan, width), width)


def full(plan: MilestonePlan, width: int = 80) -> str:
    return drawn_blocks(milestones_report(plan, width).blocks, width)


def without_choice(**over: float | None) -> MilestonePlan:
    """The same, with two programmes that break limits instead of its choices."""
    plan = full_milestones()
    first, _, last = plan.choices
    broken = (first.changed(hours_over=10.0), last.changed(**({"usd_over": 50.0} | over)))
    return plan.changed(choices=(), nearest=broken)


def programme(plan: MilestonePlan, kind: ChoiceKind) -> Programme:
    return next(one for one in plan.choices if one.kind is kind)


def test_the_answer_is_one_screen_at_80_columns():
    shown = screen(full_milestones())
    assert shown.strip("\n") == ANSWER_AT_80.strip("\n")
    assert len(shown.splitlines()) <= 24


def test_a_part_that_no_milestone_has_takes_no_column():
    plan = full_milestones()
    none = {"validation_hours": None, "validation_usd": None}
    choices = tuple(
        one.changed(options=tuple(option.changed(**none) for option in one.options)) for one in plan.choices
    )
    tables = Read(milestones_report(plan.changed(choices=choices), 120)).tables
    table = next(one for one in tables if "counted above" in one.title)
    assert table.columns == ("choice", "milestone", "checkpoints", "dollars")


def test_what_each_gives_up_makes_no_second_line():
    plan = full_milestones()
    first, *_ = plan.choices
    limited = plan.changed(left_out=(first.changed(hours_over=12.0),))
    shown = screen(limited)
    assert "cheapest in time  ~1,741 h  1,406 to 2,178 h  ~$6,498*  $5,569 to $7,610\n" in shown
    assert "gives up" not in shown
    assert "gives up" in screen(limited, 100)
    assert "gives up" in screen(limited, 60)


def test_all_of_it_stands_at_80_columns():
    plan = full_milestones()
    shown = full(plan)
    assert shown[shown.index("Beside each other") :].strip("\n") == REST_AT_80.strip("\n")
    assert max(map(len, shown.splitlines())) <= 80


def test_no_table_of_the_page_is_wider_than_it_shows_whole():
    tables = Read(milestones_report(full_milestones(), WIDE)).tables
    assert max(one.width for one in tables) <= 120


def test_a_long_name_is_cut_where_its_table_is_too_wide_otherwise():
    plan = full_milestones()
    long = "a very long name of a milestone, with more words than most"
    choices = tuple(
        one.changed(options=tuple(option.changed(milestone=long) for option in one.options))
        for one in plan.choices
    )
    named = tuple(one.changed(name=long) for one in plan.milestones)
    shown = full(plan.changed(milestones=named, choices=choices, together=()))
    assert "a very long nam\N{HORIZONTAL ELLIPSIS}" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_a_choice_that_a_limit_decided_says_which():
    plan = full_milestones()
    first, middle, last = plan.choices
    out = (first.changed(hours_over=12.0), last.changed(hours_over=12.0, usd_over=3.0))
    shown = screen(plan.changed(left_out=out))
    assert "cheapest in time" in shown
    assert "fastest in both" in shown
    alone = plan.changed(
        choices=(middle, middle.changed(kind=ChoiceKind.FASTEST)), left_out=(last.changed(usd_over=3.0),)
    )
    assert "fastest in budget" in screen(alone)
    assert "balanced" not in screen(alone)


def test_machines_with_a_quota_are_named_with_what_keeps_them_out():
    shown = screen(full_milestones().changed(with_quota=("kaggle T4 x2",)))
    assert "Left out: kaggle T4 x2, whose weekly quota all runs would share." in shown


def test_where_nothing_holds_both_limits_what_gives_way_is_said():
    shown = " ".join(screen(without_choice()).split())
    assert "Nothing holds --max-cost $9,000 and --deadline 200d: 10.0 h past the deadline (" in shown
    assert ", or $50.00 over the cost (" in shown
    assert "What comes nearest" in shown
    assert "within the dollars" in shown
    assert "by the deadline" in shown


def test_a_choice_that_is_left_out_says_what_it_breaks():
    plan = full_milestones()
    out = programme(plan, ChoiceKind.CHEAPEST).changed(hours_over=12.0, usd_over=3.0)
    shown = screen(plan.changed(left_out=(out,)))
    assert "left out: cheapest, 12.0 h past the deadline and $3.00 over the cost (" in shown


def test_a_way_that_would_be_two_choices_is_left_out_once():
    plan = full_milestones()
    out = programme(plan, ChoiceKind.CHEAPEST).changed(hours_over=12.0)
    both = (out, out.changed(kind=ChoiceKind.BALANCED))
    shown = screen(plan.changed(left_out=both))
    assert "left out: cheapest, balanced, 12.0 h past the deadline (1,741 h, $6,498)" in shown
    assert shown.count("left out") == 1


def test_what_comes_nearest_claims_no_limit_that_it_breaks_and_none_that_was_not_given():
    plan = full_milestones()
    cheap, fast = programme(plan, ChoiceKind.CHEAPEST), programme(plan, ChoiceKind.FASTEST)
    neither = plan.changed(
        choices=(),
        left_out=(cheap.changed(hours_over=9.0, usd_over=9.0), fast.changed(hours_over=9.0, usd_over=9.0)),
        nearest=(cheap.changed(hours_over=9.0, usd_over=9.0), fast.changed(hours_over=9.0, usd_over=9.0)),
    )
    names = [row[0] for row in Read(milestones_report(neither, 80)).tables[0].rows]
    assert names == ["cheapest", "fastest"]
    no_dollars = plan.changed(choices=(), nearest=(fast.changed(hours_over=9.0),), max_usd=None)
    assert "within the dollars" not in screen(no_dollars)
    assert "fastest" in screen(no_dollars)


def test_what_may_break_a_limit_at_the_end_of_its_range_is_one_line_a_limit():
    plan = full_milestones().changed(max_usd=8500.0, deadline="48d", deadline_h=1300.0)
    shown = screen(plan)
    assert "may go beyond --max-cost $8,500: balanced; fastest\n" in shown
    assert "may go beyond --deadline 48d: cheapest; balanced; fastest\n" in shown


def test_a_saving_that_may_be_a_loss_says_how_much_more_it_may_take():
    plan = full_milestones()
    assert plan.tuning is not None
    saved = Interval(value=111.0, low=-166.0, high=388.0)
    shown = " ".join(full(plan.changed(tuning=plan.tuning.changed(saved_hours=saved))).split())
    assert "would take 111 h less (166 h more to 388 h less), $112 less ($167 more to $390 less)" in shown


def test_a_gpu_that_may_not_hold_it_or_trains_in_another_precision_is_marked_wherever_it_stands():
    plan = full_milestones()
    pilot = next(one for one in plan.together if one.way is RunsWay.GPUS)
    doubted = pilot.changed(row=pilot.row.changed(may_not_fit=True, precision=Precision.FP16))
    cheap = programme(plan, ChoiceKind.CHEAPEST).changed(given_up=())
    options = (doubted, *cheap.options[1:])
    changed = plan.changed(choices=(cheap.changed(options=options),), together=(doubted,))
    assert "aws, 4x a10g? fp16" in screen(changed)
    assert "Milestone by milestone: cheapest (? may not fit its memory)" in screen(changed)
    shown = full(changed)
    assert shown.count("aws, 4x a10g? fp16") == 2
    assert "several (? may not fit its memory)" in shown
    lines = Read(milestones_report(changed, 80)).passage("The machines")
    assert lines[0] == "pilot on aws g5.12xlarge: in fp16; price of 2025; its memory may be too small"
    assert "may not fit" not in full(full_milestones())


def test_units_of_all_runs_are_said_as_they_are_bought():
    plan = full_milestones()
    cheap = programme(plan, ChoiceKind.CHEAPEST).changed(given_up=())
    pack = UnitPurchase(
        name="pack of 100", units=100, usd=10, is_monthly=False, as_of="2026-02-01", is_stale=False
    )
    row = cheap.options[0].row.changed(
        compute_units=exactly(60.0), usd_of_units=exactly(6.0), purchases=(pack,)
    )
    options = (cheap.options[0].changed(row=row), *cheap.options[1:])
    changed = plan.changed(choices=(cheap.changed(options=options),))
    line, *_ = Read(milestones_report(changed, 80)).passage("The machines")
    assert "240 units ($24.00), sold as 3 packs of 100 at $10.00" in line


def test_choices_of_the_same_machines_stand_once():
    plan = full_milestones()
    fast = programme(plan, ChoiceKind.FASTEST)
    same = tuple(fast.changed(kind=kind, given_up=()) for kind in ChoiceKind)
    shown = screen(plan.changed(choices=same))
    assert "cheapest, fastest" in shown
    assert "Milestone by milestone: cheapest, fastest" in shown
    assert "balanced" not in shown


def test_a_search_that_saves_nothing_is_never_paid_back():
    plan = full_milestones()
    assert plan.tuning is not None
    useless = plan.tuning.changed(epochs=None, epochs_low=None, epochs_high=None, speedup=exactly(1.0))
    none = plan.changed(tuning=useless)
    assert "Paid back: the search, never; the start of" in " ".join(screen(none).split())
    assert "at 1.00x it saves nothing" in " ".join(full(none).split())


def test_without_prices_there_are_hours():
    plan = full_milestones()
    fast = programme(plan, ChoiceKind.FASTEST)
    options = tuple(one.changed(usd=None) for one in fast.options)
    shown = screen(plan.changed(choices=(fast.changed(options=options, usd=None, given_up=()),)))
    assert "n/a" in shown
    assert "1,137 h" in shown
    unpriced = fast.changed(options=options, usd=None, given_up=())
    held = plan.changed(choices=(), nearest=(unpriced,), deadline=None, deadline_h=None)
    assert "Nothing holds --max-cost $9,000: no price is known (1,137 h)" in " ".join(screen(held).split())
    assert "by the deadline" not in screen(held)


def test_a_choice_on_spot_says_how_often_to_write_a_checkpoint():
    plan = full_milestones()
    first, *_ = plan.choices
    on_spot = first.options[0].changed(
        on_spot=True, sessions=None, row=first.options[0].row.changed(checkpoint_interval_s=900.0)
    )
    changed = plan.changed(choices=(first.changed(options=(on_spot, *first.options[1:])),))
    lines = Read(milestones_report(changed, 80)).passage("The machines")
    assert lines[0].startswith(
        "pilot on colab Twice spot: a checkpoint every 15m 00s (1,266 steps, 0.25 epochs)"
    )
