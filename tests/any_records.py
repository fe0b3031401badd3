"""Hypothesis strategies for records, derived from their fields: as wild as these allow."""

from collections.abc import Sequence
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from build_records import configs, host, measurement, options, profile, run
from hypothesis import strategies as st

from tunekit.records.attribution import StepParts
from tunekit.records.base import Record
from tunekit.records.config import TrainConfig
from tunekit.records.finding import Finding
from tunekit.records.interval import Interval
from tunekit.records.measurement import Measurement
from tunekit.records.recommendation import (
    ConfigFigures,
    KnobGain,
    ModelSummary,
    NoiseFloor,
    PredictedLimits,
    Recommendation,
    Tier,
)
from tunekit.records.run import Run, RunStatus, SearchOptions
from tunekit.records.target import Discovery, Target
from tunekit.records.trial import Failure, TrialRecord, TrialRole

AnyRecord = TypeVar("AnyRecord", bound=Record)
texts = st.text(max_size=20)


def records(kind: type[AnyRecord], **own: st.SearchStrategy[Any]) -> st.SearchStrategy[AnyRecord]:
    """Return any record of a kind: a value for each field but those that hold records and have a default.

    Args:
        kind: what to build.
        own: strategies of fields that others depend on.
    """
    fields = {name: field for name, field in kind.model_fields.items() if name not in own}
    drawn = {
        name: _values(field.annotation, field.metadata)
        for name, field in fields.items()
        if field.is_required() or not _holds_records(field.annotation)
    }
    return st.builds(kind, **drawn, **own)


def _holds_records(kind: Any) -> bool:
    is_one = isinstance(kind, type) and issubclass(kind, Record)
    return is_one or any(_holds_records(part) for part in get_args(kind))


def _values(kind: Any, bounds: Sequence[Any] = ()) -> st.SearchStrategy[Any]:
    """Return a strategy for a field's type, within the bounds that its annotation names."""
    parts = get_args(kind)
    match get_origin(kind):
        case origin if origin is Annotated:
            named = [bound for part in parts[1:] for bound in getattr(part, "metadata", [part])]
            return _values(parts[0], (*named, *bounds))
        case origin if origin in (Union, UnionType):
            return st.one_of(*(_values(part, bounds) for part in parts))
        case origin if origin is Literal:
            return st.sampled_from(parts)
        case origin if origin is tuple and parts[-1] is ...:
            return st.lists(_values(parts[0]), min_size=_bound(bounds, "min_length") or 0, max_size=3).map(
                tuple
            )
        case origin if origin is tuple:
            return st.tuples(*map(_values, parts))
        case origin if origin is dict:
            return st.dictionaries(*map(_values, parts), max_size=3)
    return _plain_values(kind, bounds)


def _plain_values(kind: Any, bounds: Sequence[Any]) -> st.SearchStrategy[Any]:
    least, above, most = (_bound(bounds, name) for name in ("ge", "gt", "le"))
    low = least if above is None else above
    if kind in SPECIAL:
        return SPECIAL[kind]()
    if kind is float:
        return st.floats(-1e300 if low is None else low, most or 1e300, exclude_min=above is not None)
    if kind is int:
        return st.integers(-(1 << 70) if low is None else low + (above is not None), most or 1 << 70)
    if kind is str:
        return st.text(min_size=_bound(bounds, "min_length") or 0, max_size=20)
    if kind is bool or kind is None or kind is type(None):
        return st.booleans() if kind is bool else st.none()
    return st.sampled_from(kind) if issubclass(kind, Enum) else records(kind)


def _bound(bounds: Sequence[Any], name: str) -> Any:
    return next((getattr(one, name) for one in bounds if getattr(one, name, None) is not None), None)


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    low, value, high = sorted(draw(st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 3)))
    return Interval(value=value, low=low, high=high)


def findings() -> st.SearchStrategy[Finding]:
    return records(Finding, code=st.just("some-code"))


SPECIAL = {TrainConfig: configs, Interval: intervals, Finding: findings}


def trial_records() -> st.SearchStrategy[TrialRecord]:
    """Any trial, measured or failed."""
    more = {"discovery": st.none() | records(Discovery), "measurement": records(Measurement)}
    measured = records(TrialRecord, **more, failure=st.none())
    return measured | records(TrialRecord, **(more | {"measurement": st.none()}), failure=records(Failure))


ABSURD_FIGURES = (5e-324, 1e-300, 1.0, 1e15, 1e300, 1.7e308)
"""What no training has and a record may all the same."""


@st.composite
def absurd_runs(draw: st.DrawFn) -> Run:
    """A run with a baseline, confirmed trials and all tiers, and figures of any size."""
    figures = st.sampled_from(ABSURD_FIGURES)
    whole = st.sampled_from((1, 2, 10**15, 1 << 70))
    ranges = st.tuples(figures, figures, figures).map(sorted)
    ranges = ranges.map(lambda ends: Interval(low=ends[0], value=ends[1], high=ends[2]))

    def trial(number: int, of: TrainConfig, role: TrialRole) -> TrialRecord:
        seen = measurement(1.0, of)
        parts = StepParts(**{name: draw(figures) for name in StepParts.model_fields})
        loop = {name: draw(whole) for name in ("steady_batches", "steady_samples", "batch_bytes")}
        loop |= {name: draw(st.none() | whole) for name in ("epoch_samples", "peak_reserved_bytes")}
        loop |= {name: draw(figures) for name in ("steady_time_s", "boundary_s", "startup_s", "first_step_s")}
        update = {"loop": seen.loop.model_copy(update=loop | {"parts": parts})}
        update |= {"memory": seen.memory.model_copy(update={"peak_pss_bytes": draw(whole)})}
        return TrialRecord(
            number=number,
            role=role,
            round=number if role is TrialRole.CONFIRM else None,
            config=of,
            is_baseline_config=role is TrialRole.BASELINE,
            started_at="",
            duration_s=draw(figures),
            measurement=seen.model_copy(update=update),
        )

    own, fast = draw(configs()), draw(configs())
    trials = [trial(0, own, TrialRole.BASELINE), trial(1, fast, TrialRole.SEARCH)]
    trials += [trial(number, fast, TrialRole.CONFIRM) for number in (2, 3)]
    one = {"search_trial": 1, "confirm_trials": (2, 3), "same_as": None, "is_baseline": False}
    fixed = {name: st.just(value) for name, value in one.items()} | {"learning_rate": st.none()}
    fixed |= {"config": st.just(fast), "speedup": st.none() | ranges}
    fixed |= {"rate_samples_per_s": ranges, "it_per_s": ranges}
    tiers = [draw(records(Recommendation, tier=st.just(tier), **fixed)) for tier in Tier]
    own_figures = records(ConfigFigures, config=st.just(own), rate_samples_per_s=ranges)
    return run().changed(
        trials=tuple(trials),
        baseline_figures=draw(own_figures),
        options=options(epochs=draw(whole), epochs_given=draw(st.booleans())),
        recommendations=tuple(tiers),
        noise_floor=NoiseFloor(relative=draw(figures), pairs=1, processes=2),
        findings=(Finding(code="some-code", severity="info", message="", gain=draw(figures)),),
        model=draw(model_summaries()),
        knob_gains=tuple(draw(st.lists(records(KnobGain), max_size=3))),
        search_time_s=draw(figures),
    )


@st.composite
def model_summaries(draw: st.DrawFn) -> ModelSummary:
    """What a model may say: of the baseline and of any tiers."""
    tiers = draw(st.lists(st.none() | st.sampled_from(Tier), unique=True, max_size=4))
    checked = draw(st.none() | st.integers(1, 30))
    return ModelSummary(
        limits=tuple(draw(records(PredictedLimits, tier=st.just(tier))) for tier in tiers),
        missed_relative=None if checked is None else draw(st.floats(0, 10)),
        checked_configs=checked,
    )


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Any run, at any stage."""
    several: dict[str, st.SearchStrategy[Any]] = {
        name: _values(Run.model_fields[name].annotation)
        for name in ("space", "noise_floor", "recommendations", "missing_tiers", "findings")
    }
    several["trials"] = st.lists(trial_records(), max_size=2).map(tuple)
    return run(
        status=draw(st.sampled_from(RunStatus)),
        target=draw(records(Target)),
        options=draw(records(SearchOptions)),
        host=host(hostname=draw(texts)),
        profile=profile(notes=draw(st.none() | texts)),
        measured_on=draw(texts),
        model=draw(st.none() | model_summaries()),
        search_time_s=draw(st.floats(0, 1e300)),
        **{name: draw(strategy) for name, strategy in several.items()},
    )
