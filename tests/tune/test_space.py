"""Which knobs are searched here, with which values, and why not the others."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from build_records import config, configs, host, options, profile, root, target
from hypothesis import given
from hypothesis import strategies as st
from scripted_search import any_search_context, loader, search_context

from tunekit.errors import EmptySpaceError, UsageError
from tunekit.predict.throughput.boundary import Boundary
from tunekit.records.config import Precision, TrainConfig
from tunekit.records.run import FixedKnob, KnobRange, KnobSpace
from tunekit.trial.binding_syntax import parse_binding, parse_value
from tunekit.tune.acquisition import all_configs
from tunekit.tune.knob_access import SearchContext
from tunekit.tune.space import (
    KNOBS,
    build_space,
    config_from,
    contains,
    nearest,
    preview_space,
    with_settings,
)

without_workers = config(num_workers=0)


def space_of(context: SearchContext, fix: dict[str, Any] | None = None, ranges: dict[str, Any] | None = None):
    asked = options(
        fixed=tuple(FixedKnob(knob=knob, value=value) for knob, value in (fix or {}).items()),
        ranges=tuple(
            KnobRange(knob=knob, low=low, high=high) for knob, (low, high) in (ranges or {}).items()
        ),
    )
    return build_space(context, asked)


def entry_of(knob: str, context: SearchContext, **wishes: Any) -> KnobSpace:
    return next(entry for entry in space_of(context, **wishes) if entry.knob == knob)


def why(knob: str, context: SearchContext) -> str | None:
    entry = entry_of(knob, context)
    assert len(entry.values) == 1
    return entry.why_fixed


def space_or_none(context: SearchContext) -> tuple[KnobSpace, ...] | None:
    try:
        return space_of(context)
    except EmptySpaceError:
        return None


@given(any_search_context(), st.data())
def test_every_choice_of_values_is_a_legal_config_of_the_space(context: SearchContext, data: st.DataObject):
    space = space_or_none(context)
    if space is None:
        return
    chosen = {entry.knob: data.draw(st.sampled_from(entry.values)) for entry in space}
    knobs = config_from(chosen, space)
    assert contains(space, knobs)
    assert TrainConfig.model_validate(knobs.model_dump()) == knobs


@given(any_search_context(), configs(max_batch=100_000))
def test_the_nearest_config_is_in_the_space_and_stays_there(context: SearchContext, knobs: TrainConfig):
    space = space_or_none(context)
    if space is None:
        return
    found = nearest(space, knobs)
    assert contains(space, found)
    assert nearest(space, found) == found


@given(any_search_context())
def test_what_the_user_has_is_in_the_space(context: SearchContext):
    space = space_or_none(context)
    if space is None:
        return
    persistent = next(entry.values[0] for entry in space if entry.knob == "persistent_workers")
    own = context.baseline
    if own.num_workers:
        own = own.model_copy(update={"persistent_workers": persistent})
    assert contains(space, own), "all but persistent_workers, which is decided and not searched"
    assert nearest(space, context.baseline) == own


@given(any_search_context())
def test_each_knob_is_searched_or_says_why_not(context: SearchContext):
    space = space_or_none(context)
    if space is None:
        return
    assert tuple(entry.knob for entry in space) == KNOBS
    for entry in space:
        assert len(set(entry.values)) == len(entry.values)
        assert (len(entry.values) == 1) == bool(entry.why_fixed)


@given(any_search_context(), st.data())
def test_any_fixed_value_is_taken_or_refused_by_name(context: SearchContext, data: st.DataObject):
    knob = data.draw(st.sampled_from(KNOBS))
    text = data.draw(st.sampled_from(("true", "none", "bf16", "fp16", "0", "1", "7", "300")))
    try:
        value: Any = parse_value(knob, text)
    except ValueError:
        return
    try:
        space = space_of(context, fix={knob: value})
    except (UsageError, EmptySpaceError) as error:
        assert knob in str(error)
        return
    entry = next(entry for entry in space if entry.knob == knob)
    assert len(entry.values) == 1
    assert contains(space, nearest(space, context.baseline))


def test_an_ordinary_script_has_everything_to_search():
    space = {entry.knob: entry.values for entry in space_of(search_context())}
    assert space == {
        "batch_size": (32, 64, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048),
        "num_workers": (0, 1, 2, 3, 4, 5, 6, 7, 8),
        "prefetch_factor": (2, 4, 8),
        "pin_memory": (False, True),
        "persistent_workers": (True,),
        "compile": (False, True),
        "precision": ("fp32", "tf32", "bf16"),
        "channels_last": (False, True),
        "accumulate_grad_batches": (1,),
    }


def test_batches_leave_some_steps_to_an_epoch():
    short = search_context(loaders=(loader(dataset_samples=2048),))
    assert max(entry_of("batch_size", short).values) == 256
    shared = search_context(loaders=(loader(dataset_samples=8192),), world_size=4)
    assert entry_of("batch_size", shared).values == entry_of("batch_size", short).values
    tiny = search_context(loaders=(loader(dataset_samples=100),))
    assert max(entry_of("batch_size", tiny).values) == 128
    assert max(entry_of("batch_size", search_context(config(batch_size=8))).values) == 512


@pytest.mark.parametrize(("cpus", "most"), [(1, 2), (4, 4), (8, 8), (30, 30), (64, 64)])
def test_workers_go_up_to_the_allowed_cpus(cpus: int, most: int):
    counts = entry_of("num_workers", search_context(host=host(cpus=cpus, cpus_total=64))).values
    assert counts[0] == 0 and max(entry_of("num_workers", search_context(max_workers=3)).values) == 3
    assert counts[-1] == most  # what the user has stays, even above the CPUs
    assert len(counts) < 20


BARE = {"profile": profile(native_precisions=("fp32",)), "bf16_native": False}
OUT_OF_REACH: tuple[tuple[str, dict[str, Any]], ...] = (
    ("pin_memory", {"device_type": "cpu"}),
    ("channels_last", {"roots": (root(has_4d_weights=False),)}),
    ("channels_last", {"baseline": config(channels_last=True)}),
    ("channels_last", {"roots": (root(class_name="torch.nn.parallel.distributed.DistributedDataParallel"),)}),
    ("compile", {"baseline": config(compile=True)}),
    ("compile", {"profile": profile(compile_supported=False)}),
    ("precision", {"roots": (root(), root(ordinal=1, autocast_dtype="bfloat16"))}),
    ("precision", BARE),
    ("num_workers", {"loaders": (loader(iterable=True),)}),
    ("batch_size", {"loaders": ()}),
    ("num_workers", {"loaders": ()}),
    ("batch_size", {"loaders": (loader(batch_size_bound=False),)}),
    ("accumulate_grad_batches", {}),
)


def test_a_knob_out_of_reach_keeps_its_value_and_says_why(golden: Callable[[str], object]):
    lines = []
    for knob, seen in OUT_OF_REACH:
        context = search_context(**seen)
        assert entry_of(knob, context).values == (getattr(context.baseline, knob),)
        lines.append(f"{knob}, {', '.join(seen) or 'as usual'}: {why(knob, context)}")
    assert ("\n".join(lines) + "\n") == golden("out-of-reach.txt")


@pytest.mark.parametrize("device_native", [True, False, None])
@pytest.mark.parametrize("cpu_native", [True, False, None])
@pytest.mark.parametrize("device_type", ["cuda", "cpu"])
def test_bf16_is_searched_only_where_it_is_native(
    device_native: bool | None, cpu_native: bool | None, device_type: str
):
    context = search_context(device_type=device_type, bf16_native=device_native, native_bf16=cpu_native)
    native = device_native if device_type == "cuda" else cpu_native
    assert (Precision.BF16 in entry_of("precision", context).values) is bool(native)


@pytest.mark.parametrize(
    ("knob", "value"),
    [("batch_size", 100), ("num_workers", 0), ("prefetch_factor", 3), ("precision", "bf16")],
)
def test_a_fixed_knob_has_that_value_everywhere(knob: str, value: Any):
    context = search_context()
    space = space_of(context, fix={knob: value})
    entry = next(entry for entry in space if entry.knob == knob)
    assert (entry.values, entry.why_fixed) == ((value,), "fixed by --fix")
    assert {getattr(one, knob) for one in all_configs(space) if one.num_workers or not value} == {value}


def costing(per_worker_s: float) -> Boundary:
    """A boundary that is known for sure."""
    return Boundary(0.1, per_worker_s, np.zeros((2, 2)))


def persistence(**context: Any) -> KnobSpace:
    return entry_of("persistent_workers", search_context(**context))


def test_workers_persist_where_restarting_them_costs_something():
    """No trial is needed to know that it is no slower."""
    for own in (False, True):
        entry = persistence(baseline=config(persistent_workers=own), boundary=costing(0.25))
        assert entry.values == (True,)
        assert "250 ms per epoch (predicted)" in (entry.why_fixed or "")


@pytest.mark.parametrize("own", [False, True])
def test_where_starting_workers_cost_nothing_the_scripts_own_choice_stays(own: bool):
    entry = persistence(baseline=config(persistent_workers=own), boundary=costing(0.0))
    assert entry.values == (own,)
    assert "was seen to cost nothing" in (entry.why_fixed or "")


def test_no_workers_leave_prefetch_and_persistence_without_effect():
    space = {entry.knob: entry for entry in space_of(search_context(), fix={"num_workers": 0})}
    assert space["prefetch_factor"].values == (None,)
    assert space["persistent_workers"].values == (False,)
    assert space["prefetch_factor"].why_fixed == "no effect without workers"


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("prefetch_factor", None),
        ("precision", "fp16"),
        ("accumulate_grad_batches", 2),
    ],
)
def test_a_value_that_the_knob_can_not_have_is_refused(knob: str, value: Any):
    with pytest.raises(UsageError, match=f"--fix {knob}={value}: "):
        space_of(search_context(), fix={knob: value})


def test_a_knob_out_of_reach_can_not_be_fixed_to_another_value():
    context = search_context(device_type="cpu")
    with pytest.raises(UsageError, match=r"can't be set here \(no effect on cpu\); the script has False"):
        space_of(context, fix={"pin_memory": True})
    assert entry_of("pin_memory", context, fix={"pin_memory": False}).values == (False,)


@pytest.mark.parametrize(
    ("knob", "bounds", "values"),
    [
        ("batch_size", (100, 300), (100, 128, 192, 256, 300)),
        ("num_workers", (2, 4), (2, 3, 4)),
        ("num_workers", (10, 20), (10, 20)),
        ("prefetch_factor", (1, 4), (1, 2, 4)),
    ],
)
def test_a_range_bounds_the_values_and_adds_its_ends(
    knob: str, bounds: tuple[int, int], values: tuple[int, ...]
):
    entry = entry_of(knob, search_context(), ranges={knob: bounds})
    assert (entry.values, entry.why_fixed) == (values, None)


@pytest.mark.parametrize(
    ("max_batch", "values", "why_fixed"),
    [
        (200, (32, 64, 128, 192, 200), None),
        (100, (32, 64, 100), None),
        (32, (32,), "--max-batch 32 allows only 32"),
        (7, (7,), "--max-batch 7 allows only 7"),
        (100_000, (32, 64, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048), None),
    ],
)
def test_no_batch_above_the_largest_that_is_wanted_is_searched(
    max_batch: int, values: tuple[int, ...], why_fixed: str | None
):
    space = build_space(search_context(), options(max_batch=max_batch))
    entry = next(entry for entry in space if entry.knob == "batch_size")
    assert (entry.values, entry.why_fixed) == (values, why_fixed)


def test_a_batch_that_can_not_be_changed_is_held_against_the_largest_that_is_wanted():
    context = search_context(loaders=())
    own = context.baseline.batch_size
    assert build_space(context, options(max_batch=own)) == space_of(context)
    with pytest.raises(
        UsageError, match=f"--max-batch {own - 1}: batch_size is {own} and can't be changed here"
    ):
        build_space(context, options(max_batch=own - 1))


def test_what_may_be_searched_is_known_in_part_before_the_script_runs():
    asked = options(
        fixed=(FixedKnob(knob="compile", value=True),),
        ranges=(KnobRange(knob="num_workers", low=1, high=3),),
        global_batch=512,
    )
    bound = target(bindings=(parse_binding("channels_last=fixed"),))
    known = preview_space(asked, bound, host(), ("fp32", "bf16", "fp8"))
    assert tuple(known) == KNOBS
    assert known["batch_size"] == "0.25x to 16x the script's own, or to 512"
    assert known["num_workers"] == "1 to 3 (--range)"
    assert known["compile"] == "true (--fix)"
    assert known["precision"] == "fp32, bf16 or the script's own"
    assert known["channels_last"] == "as the script has it (--bind)"
    assert "global batch is 512" in known["accumulate_grad_batches"]


def test_nothing_to_search_is_an_error_that_lists_every_reason():
    nothing = search_context(without_workers, loaders=(), roots=())
    with pytest.raises(EmptySpaceError, match="nothing is left to search") as caught:
        space_of(nothing)
    for knob in KNOBS:
        assert f"{knob}: " in str(caught.value)
    assert "None" not in str(caught.value)


def bound(*texts: str, **overrides: Any) -> SearchContext:
    """The ordinary script with bindings."""
    with_bindings = target(bindings=tuple(parse_binding(text) for text in texts))
    return search_context(overrides.pop("baseline", None), target=with_bindings, **overrides)


@pytest.mark.parametrize(
    ("knob", "context"),
    [
        ("batch_size", bound("batch_size=--bs {}", loaders=())),
        ("batch_size", bound("batch_size=env:BS", loaders=(loader(batch_size_bound=False),))),
        ("num_workers", bound("num_workers=--workers {}", loaders=(loader(iterable=True),))),
        ("num_workers", bound("num_workers=inject", loaders=(loader(iterable=True),))),
        ("num_workers", search_context(loaders=(loader(iterable=True, shards_itself=True),))),
        ("compile", bound("compile=--compile", baseline=config(compile=True))),
        ("precision", bound("precision=--amp {fp32:no,bf16:bf16}", autocast_dtype="bfloat16")),
    ],
)
def test_a_knob_that_is_bound_or_safe_is_searched(knob: str, context: SearchContext):
    assert entry_of(knob, context).is_searched


def test_only_values_that_the_binding_can_spell_are_tried():
    context = bound("precision=--amp {fp32:no,bf16:bf16}", native_bf16=True, bf16_native=True)
    assert entry_of("precision", context).values == (Precision.FP32, Precision.BF16)


def test_where_bf16_is_not_native_fp16_is_searched_if_the_script_can_train_in_it():
    """Only then can the config that is found be trained with: `tunekit run` refuses it elsewhere."""
    old_gpu = profile(native_precisions=("fp32", "fp16"))
    scaling = search_context(profile=old_gpu, bf16_native=False, scales_gradients=True)
    assert entry_of("precision", scaling).values == (Precision.FP32, Precision.FP16)
    context = search_context(profile=old_gpu, bf16_native=False)
    assert entry_of("precision", context).values == (Precision.FP32,)
    with pytest.raises(UsageError, match="--fix precision=fp16"):
        with_settings(context.baseline, (FixedKnob(knob="precision", value="fp16"),), context)


ACCUMULATING = "accumulate_grad_batches=--accumulate {}"


def at_global_batch(size: int, context: SearchContext) -> tuple[KnobSpace, ...]:
    return build_space(context, options(global_batch=size))


@given(st.sampled_from([8, 12, 16, 48, 64, 96, 128, 360]), st.data())
def test_every_config_keeps_the_global_batch_where_accumulation_is_bound(size: int, data: st.DataObject):
    context = bound(ACCUMULATING, baseline=config(batch_size=16), world_size=2)
    space = at_global_batch(size, context)
    chosen = {entry.knob: data.draw(st.sampled_from(entry.values)) for entry in space if entry.is_searched}
    knobs = config_from(chosen, space)
    assert knobs.batch_size * knobs.accumulate_grad_batches * 2 == size
    assert contains(space, knobs)
    assert (
        nearest(space, config(batch_size=40)).batch_size
        * nearest(space, config(batch_size=40)).accumulate_grad_batches
        == size // 2
    )


def test_without_a_binding_the_batch_can_not_move_and_says_why():
    context = search_context(config(batch_size=16, accumulate_grad_batches=2))
    entry = {entry.knob: entry for entry in at_global_batch(64, context)}["batch_size"]
    assert entry.values == (32,)
    assert "accumulate_grad_batches has no binding" in (entry.why_fixed or "")


@pytest.mark.parametrize(
    ("size", "context", "told"),
    [
        (65, search_context(config(batch_size=16), world_size=2), "can't be split over 2 ranks"),
        (
            64,
            search_context(config(batch_size=16, accumulate_grad_batches=3)),
            "accumulates 3 batches",
        ),
        (7919, bound(ACCUMULATING, baseline=config(batch_size=16)), "no batch size from 4 to 512"),
    ],
)
def test_a_global_batch_that_can_not_be_kept_is_refused(size: int, context: SearchContext, told: str):
    with pytest.raises(UsageError, match=told):
        at_global_batch(size, context)
