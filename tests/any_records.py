"""Hypothesis strategies for whole records, as wild as their fields allow."""

from typing import Any

from build_records import configs, discovery, host, measurement, options, profile, run
from hypothesis import strategies as st

from tunekit.records.attribution import StepParts
from tunekit.records.config import TrainConfig
from tunekit.records.data_parallel import DataParallelKind, DataParallelSeen, RankSeen
from tunekit.records.details import LargestSamples
from tunekit.records.finding import Finding
from tunekit.records.interval import Interval
from tunekit.records.measurement import DeviceSeen, LoopMeasurement, Measurement, Threads, TreeMemory
from tunekit.records.recommendation import (
    KnobGain,
    Limit,
    MissingTier,
    ModelSummary,
    NoiseFloor,
    PredictedLimits,
    Recommendation,
    Tier,
)
from tunekit.records.run import FixedKnob, KnobRange, KnobSpace, Run, RunStatus, SearchOptions
from tunekit.records.target import Discovery, LoaderAddress, LoaderSeen, OptimizerSeen, RootSeen, Target
from tunekit.records.trial import Failure, OutcomeKind, TrialRecord, TrialRole, WrittenFile

counts = st.integers(0, 1 << 70)
positive_counts = st.integers(1, 1 << 70)
seconds = st.floats(0, 1e300)
positive_seconds = st.floats(0, 1e300, exclude_min=True)
numbers = st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(max_size=20)
knob_values = st.booleans() | st.integers(-5, 5) | texts | st.none()


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    low, value, high = sorted(draw(st.tuples(numbers, numbers, numbers)))
    return Interval(value=value, low=low, high=high)


def ranks_seen() -> st.SearchStrategy[RankSeen]:
    shares = st.floats(0, 1)
    rates = {"samples_per_s": positive_seconds, "batch_samples": st.none() | positive_seconds}
    return st.builds(RankSeen, rank=counts, data_wait_share=shares, **rates)


def measurements() -> st.SearchStrategy[Measurement]:
    loops = st.builds(
        LoopMeasurement,
        device=st.builds(
            DeviceSeen,
            type=texts,
            name=texts,
            memory_bytes=st.none() | positive_counts,
            whole_bytes=st.none() | positive_counts,
        ),
        batch_size=st.none() | positive_counts,
        num_workers=counts,
        prefetch_factor=st.none() | positive_counts,
        pin_memory=st.booleans(),
        persistent_workers=st.booleans(),
        compile_graphs=counts,
        float32_matmul_precision=st.none() | texts,
        threads=st.none()
        | st.builds(
            Threads,
            intra_op=positive_counts,
            inter_op=positive_counts,
            variables=st.dictionaries(texts, texts, max_size=3),
        ),
        data_parallel=st.none()
        | st.builds(
            DataParallelSeen,
            kind=st.sampled_from(DataParallelKind),
            backend=st.none() | texts,
            gradient_bytes=st.none() | counts,
            syncs_gradients=st.none() | st.booleans(),
            comm_hook=st.none() | texts,
        ),
        ranks=st.lists(ranks_seen(), max_size=3).map(tuple),
        steady_batches=positive_counts,
        steady_samples=positive_counts,
        steady_time_s=positive_seconds,
        rate_interval_relative=st.none() | seconds,
        stop_reason=texts,
        discarded_batches=counts,
        parts=st.builds(
            StepParts, data_wait_s=seconds, compute_s=seconds, optimizer_s=seconds, other_s=seconds
        ),
        epoch_samples=st.none() | positive_counts,
        epoch_batches=st.none() | positive_counts,
        boundary_s=st.none() | numbers,
        boundaries_seen=counts,
        startup_s=seconds,
        first_batch_s=seconds,
        first_step_s=seconds,
        batch_bytes=counts,
        peak_allocated_bytes=st.none() | counts,
        peak_reserved_bytes=st.none() | counts,
        allocation_retries=st.none() | counts,
        loss_first=st.none() | numbers,
        loss_last=st.none() | numbers,
        script_steps=counts,
    )
    memories = st.builds(
        TreeMemory, peak_pss_bytes=counts, peak_shm_bytes=counts, processes=counts, samples=counts
    )
    return st.builds(Measurement, loop=loops, memory=memories)


def largest_seen() -> st.SearchStrategy[LargestSamples]:
    return st.builds(
        LargestSamples,
        samples_read=counts,
        data_set_samples=st.none() | counts,
        varies=st.none() | st.booleans(),
        batch_bytes=st.none() | counts,
        usual_batch_bytes=st.none() | counts,
        is_given=st.booleans(),
        is_lived_through=st.booleans(),
        peak_reserved_bytes=st.none() | counts,
        why_ended=st.none() | texts,
    )


def failures() -> st.SearchStrategy[Failure]:
    return st.builds(
        Failure,
        kind=st.sampled_from(OutcomeKind),
        message=texts,
        remedy=st.none() | texts,
        last_lines=st.lists(texts, max_size=3).map(tuple),
        largest=st.none() | largest_seen(),
        returncode=st.none() | st.integers(-64, 255),
    )


def loaders() -> st.SearchStrategy[LoaderSeen]:
    return st.builds(
        LoaderSeen,
        address=st.builds(
            LoaderAddress,
            call_stack=st.lists(texts, max_size=3).map(tuple),
            ordinals=st.lists(counts, max_size=3).map(tuple),
            period=positive_counts,
        ),
        dataset=texts,
        dataset_samples=st.none() | counts,
        batch_size=st.none() | positive_counts,
        num_workers=counts,
        prefetch_factor=st.none() | positive_counts,
        pin_memory=st.booleans(),
        persistent_workers=st.booleans(),
        drop_last=st.booleans(),
        iterable=st.booleans(),
        batch_size_bound=st.booleans(),
        training=st.booleans(),
    )


def roots() -> st.SearchStrategy[RootSeen]:
    return st.builds(
        RootSeen,
        class_name=texts,
        parameters=counts,
        ordinal=counts,
        has_4d_weights=st.booleans(),
        compiled=st.booleans(),
        channels_last=st.booleans(),
        autocast_dtype=st.none() | texts,
    )


def discoveries() -> st.SearchStrategy[Discovery]:
    return st.builds(
        discovery,
        loaders=st.lists(loaders(), max_size=2).map(tuple),
        roots=st.lists(roots(), max_size=2).map(tuple),
        roots_cover_step=st.booleans(),
        optimizers=st.lists(
            st.builds(OptimizerSeen, class_name=texts, base_lr=st.none() | seconds, parameter_groups=counts),
            max_size=2,
        ).map(tuple),
        batches_per_step=positive_counts,
        float32_matmul_precision=st.none() | texts,
        device_type=texts,
        bf16_native=st.none() | st.booleans(),
        complete=st.booleans(),
    )


@st.composite
def trial_records(draw: st.DrawFn) -> TrialRecord:
    """Any trial, measured or failed."""
    measured = draw(st.booleans())
    written = st.builds(WrittenFile, path=texts, action=st.sampled_from(["diverted", "denied", "created"]))
    return TrialRecord(
        number=draw(counts),
        role=draw(st.sampled_from(TrialRole)),
        round=draw(st.none() | counts),
        config=draw(st.none() | configs()),
        is_baseline_config=draw(st.booleans()),
        started_at=draw(texts),
        duration_s=draw(seconds),
        measurement=draw(measurements()) if measured else None,
        failure=None if measured else draw(failures()),
        discovery=draw(st.none() | discoveries()),
        written=tuple(draw(st.lists(written, max_size=2))),
    )


def search_options() -> st.SearchStrategy[SearchOptions]:
    return st.builds(
        options,
        gpu=texts,
        budget_s=positive_seconds,
        max_trials=st.none() | positive_counts,
        fixed=st.lists(st.builds(FixedKnob, knob=texts, value=knob_values), max_size=2).map(tuple),
        ranges=st.lists(st.builds(KnobRange, knob=texts, low=counts, high=counts), max_size=2).map(tuple),
        max_batch=st.none() | positive_counts,
        base_lr=st.none() | positive_seconds,
        epochs=positive_counts,
    )


@st.composite
def recommendations(draw: st.DrawFn) -> Recommendation:
    knobs: TrainConfig = draw(configs())
    return Recommendation(
        tier=draw(st.sampled_from(Tier)),
        config=knobs,
        search_trial=draw(counts),
        confirm_trials=tuple(draw(st.lists(counts, max_size=3))),
        same_as=draw(st.none() | st.sampled_from(Tier)),
        is_baseline=draw(st.booleans()),
        rate_samples_per_s=draw(intervals()),
        it_per_s=draw(intervals()),
        speedup=draw(st.none() | intervals()),
        epoch_time_s=draw(st.none() | positive_seconds),
        peak_reserved_bytes=draw(st.none() | counts),
        device_memory_bytes=draw(st.none() | positive_counts),
        buffer_bytes=draw(counts),
        largest=draw(st.none() | largest_seen()),
        base_ram_bytes=draw(counts),
        float32_matmul_precision=draw(st.none() | texts),
        learning_rate=None,
        reason=draw(texts),
    )


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
        return TrialRecord(
            number=number,
            role=role,
            round=number if role is TrialRole.CONFIRM else None,
            config=of,
            is_baseline_config=role is TrialRole.BASELINE,
            started_at="",
            duration_s=draw(figures),
            measurement=seen.model_copy(
                update={
                    "loop": seen.loop.model_copy(update=loop | {"parts": parts}),
                    "memory": seen.memory.model_copy(update={"peak_pss_bytes": draw(whole)}),
                }
            ),
        )

    own, fast = draw(configs()), draw(configs())
    trials = [trial(0, own, TrialRole.BASELINE), trial(1, fast, TrialRole.SEARCH)]
    trials += [trial(number, fast, TrialRole.CONFIRM) for number in (2, 3)]
    tiers = [
        Recommendation(
            tier=tier,
            config=fast,
            search_trial=1,
            confirm_trials=(2, 3),
            is_baseline=False,
            rate_samples_per_s=draw(ranges),
            it_per_s=draw(ranges),
            speedup=draw(st.none() | ranges),
            epoch_time_s=draw(st.none() | figures),
            finish_time_s=draw(st.none() | figures),
            peak_reserved_bytes=draw(st.none() | whole),
            device_memory_bytes=draw(st.none() | whole),
            buffer_bytes=draw(whole),
            base_ram_bytes=draw(whole),
            float32_matmul_precision=None,
            learning_rate=None,
            reason="",
        )
        for tier in Tier
    ]
    return run(
        trials=tuple(trials),
        options=options(epochs=draw(whole), epochs_given=draw(st.booleans())),
        recommendations=tuple(tiers),
        noise_floor=NoiseFloor(relative=draw(figures), pairs=1, processes=2),
        findings=(Finding(code="some-code", severity="info", message="", gain=draw(figures)),),
        model=draw(model_summaries()),
        knob_gains=draw(knob_gain_tuples()),
        search_time_s=draw(figures),
    )


@st.composite
def model_summaries(draw: st.DrawFn) -> ModelSummary:
    """What a model may say: of the baseline and of any tiers."""
    rates = st.floats(1e-3, 1e9)
    tiers = draw(st.lists(st.none() | st.sampled_from(Tier), unique=True, max_size=4))
    checked = draw(st.none() | st.integers(1, 30))
    return ModelSummary(
        limits=tuple(
            PredictedLimits(
                tier=tier,
                loader_samples_per_s=draw(st.none() | rates),
                training_samples_per_s=draw(st.none() | rates),
                cores_samples_per_s=draw(st.none() | rates),
                limit=draw(st.none() | st.sampled_from(Limit)),
                rate_samples_per_s=draw(intervals()),
                measured_samples_per_s=draw(rates),
            )
            for tier in tiers
        ),
        missed_relative=None if checked is None else draw(st.floats(0, 10)),
        checked_configs=checked,
    )


def knob_gain_tuples() -> st.SearchStrategy[tuple[KnobGain, ...]]:
    """What a few knobs are worth."""
    gain = st.builds(KnobGain, knob=texts, before=knob_values, after=knob_values, factor=intervals())
    return st.lists(gain, max_size=3).map(tuple)


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Any run, at any stage."""
    command = tuple(draw(st.lists(texts, min_size=1, max_size=4)))
    values: dict[str, Any] = {
        "status": draw(st.sampled_from(RunStatus)),
        "target": Target(
            name=draw(st.text(min_size=1, max_size=20)),
            command=command,
            working_dir=draw(texts),
            script=draw(st.none() | texts),
            script_sha256=draw(st.none() | texts),
            builtin=draw(st.none() | texts),
        ),
        "options": draw(search_options()),
        "host": host(hostname=draw(texts), shm_bytes=draw(st.none() | counts)),
        "profile": profile(notes=draw(st.none() | texts)),
        "measured_on": draw(texts),
        "space": tuple(
            draw(
                st.lists(
                    st.builds(
                        KnobSpace,
                        knob=texts,
                        values=st.lists(knob_values, min_size=1, max_size=4).map(tuple),
                        why_fixed=st.none() | texts,
                    ),
                    max_size=2,
                )
            )
        ),
        "trials": tuple(draw(st.lists(trial_records(), max_size=2))),
        "noise_floor": draw(
            st.none()
            | st.builds(NoiseFloor, relative=seconds, pairs=positive_counts, processes=positive_counts)
        ),
        "recommendations": tuple(draw(st.lists(recommendations(), max_size=2))),
        "missing_tiers": tuple(
            draw(st.lists(st.builds(MissingTier, tier=st.sampled_from(Tier), reason=texts), max_size=1))
        ),
        "findings": tuple(
            draw(
                st.lists(
                    st.builds(
                        Finding,
                        code=st.just("some-code"),
                        severity=st.sampled_from(["info", "warning"]),
                        message=texts,
                        remedy=st.none() | texts,
                        value=st.none() | seconds,
                    ),
                    max_size=1,
                )
            )
        ),
        "model": draw(st.none() | model_summaries()),
        "search_time_s": draw(seconds),
    }
    return run(**values)
