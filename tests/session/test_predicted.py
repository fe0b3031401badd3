"""What the first trial's own steps predict, and what a search makes of it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from build_records import MIB, config, failure, options, profile, target
from scripted_search import ProgressCallback, ScriptedExecutor, learnt, start_search
from traced_steps import PARAMETERS_BYTES, SAMPLE_BYTES, outside, seen, write_steps

from tunekit.predict.throughput.observation import Columns
from tunekit.records.config import Precision, TrainConfig
from tunekit.records.details import Detail, Details, TraceSeen
from tunekit.records.run import Run
from tunekit.records.target import Binding, BindingKind
from tunekit.records.trial import OutcomeKind, TrialRecord, TrialRole
from tunekit.session.folder import RunFolder
from tunekit.trial.executor import KnownTarget, TrialSpec
from tunekit.tune.feasibility import chances_to_fit

CPU = profile("cpu", device_names=("CPU",), memory_bytes=None, torch_memory_bytes=None)
CAPACITY_BYTES = 22587 * MIB


@dataclass
class TracingExecutor(ScriptedExecutor):
    """Writes the steps of a trial that is asked for them; a device holds what fits its memory."""

    damages: bool = False

    def run(self, spec: TrialSpec, known: KnownTarget | None, on_progress: ProgressCallback) -> TrialRecord:
        record = super().run(spec, known, on_progress)
        if Detail.TRACE not in spec.details and record.measurement is not None:
            unasked = record.measurement.model_copy(update={"details": None})
            return record.model_copy(update={"measurement": unasked})
        if Detail.TRACE in spec.details and self.looked.trace is not None:
            folder = self.trials_folder / f"{spec.number:04d}"
            write_steps(folder, self.looked.trace)
            if self.damages:
                (folder / self.looked.trace.steps[0].file).write_text("{")
        return record


def reserved_bytes(knobs: TrainConfig) -> int:
    """What the device really reserves: 5% more than the steps say."""
    per_sample = SAMPLE_BYTES // (2 if knobs.precision is Precision.BF16 else 1)
    return int(1.05 * (PARAMETERS_BYTES + knobs.batch_size * per_sample))


def too_large(knobs: TrainConfig, spec: TrialSpec) -> Any:
    return failure(OutcomeKind.DEVICE_OOM) if reserved_bytes(knobs) > CAPACITY_BYTES - 400 * MIB else None


def searched_in(
    folder: Path,
    predicts: bool = True,
    damages: bool = False,
    here: Any = None,
    learns: Any = None,
    seen_steps: Any = None,
    **overrides: Any,
) -> Run:
    """A search on an A10G for an A10G, unless another device is here."""
    device_type = "cpu" if here is CPU else "cuda"
    on_gpu: dict[str, Any] = {
        "failing": too_large,
        "measured": lambda knobs: {"peak_reserved_bytes": reserved_bytes(knobs)},
    }
    with RunFolder(folder / "run") as owned:
        executor = TracingExecutor(
            owned.trials_folder,
            baseline=config(batch_size=32),
            looked=Details(trace=seen_steps or seen(device_type=device_type)),
            learns=learns,
            damages=damages,
            rate=lambda knobs: knobs.batch_size / (knobs.batch_size + 2048),
            **({} if here is CPU else on_gpu),
        )
        overrides.setdefault("asked", options(budget_s=400.0, max_trials=6))
        overrides |= {"here": here, "outside": outside if predicts else None}
        return start_search(owned, executor, **overrides).run()


def test_a_gpu_that_is_here_is_predicted_and_then_corrected(tmp_path: Path):
    run = searched_in(tmp_path)
    assert run.prediction is not None
    assert run.why_not_predicted is None
    assert {fit.profile_id for fit in run.prediction.fits} == {"a10g"}
    assert run.prediction.config is None, "the tiers are for it"
    own = next(one for one in run.prediction.corrections if one.batch_size == 32)
    assert own.predicted_bytes == pytest.approx(PARAMETERS_BYTES + 32 * SAMPLE_BYTES, rel=0.02)
    assert own.factor == pytest.approx(1.05, rel=0.02)


def test_what_was_predicted_tells_large_batches_apart_before_any_was_tried(tmp_path: Path):
    (first, *_) = searched_in(tmp_path).trials
    asked = Columns.of([config(batch_size=size) for size in (128, 160, 208, 320)])
    with_it = chances_to_fit([first], asked)
    without = chances_to_fit([first.model_copy(update={"predicted_peaks": ()})], asked)
    assert with_it[0] > 0.9, "17.5 of 22 GiB"
    assert with_it[2:].max() < 0.1, "28 GiB and more"
    assert without[2] > 0.3, "one peak alone does not say what of it grows with the batch"


def test_for_a_gpu_that_is_not_here_there_is_a_config_to_begin_with(tmp_path: Path):
    run = searched_in(tmp_path, here=CPU, measured_on="cpu")
    assert run.prediction is not None
    begun, start = run.prediction.config, run.prediction.start
    assert begun is not None and start is not None
    sizes = next(entry.values for entry in run.space if entry.knob == "batch_size")
    fit = run.prediction.fit_of("a10g", begun.precision)
    assert fit is not None
    assert begun.precision is Precision.BF16, "twice as fast"
    assert begun.batch_size == max(
        size for size in sizes if isinstance(size, int) and size <= fit.largest.low
    )
    assert start.peak is not None
    assert start.peak.batch_size == begun.batch_size
    assert all(record.predicted_peaks == () for record in run.trials), "nothing to predict of a CPU"


def test_a_search_on_a_cpu_alone_traces_nothing(tmp_path: Path):
    run = searched_in(tmp_path, here=CPU, measured_on="cpu", profile=CPU)
    assert run.prediction is None
    assert run.why_not_predicted is None
    assert not any((tmp_path / "run" / "trials" / "0000").glob("trace-*"))


def test_steps_that_can_not_be_read_are_told_and_the_search_goes_on(tmp_path: Path):
    run = searched_in(tmp_path, damages=True)
    assert run.prediction is None
    assert run.why_not_predicted is not None
    assert "not readable as JSON" in run.why_not_predicted
    assert run.recommendations


OWN_BATCHES = learnt(config(batch_size=32), loaders=())
BOUND = target(bindings=(Binding(knob="batch_size", kind=BindingKind.ARG, words=("--bs", "{}")),))


def own_batches(folder: Path, **overrides: Any) -> Run:
    """A script without a loader, whose trial traces its own size alone."""
    small = tuple(step for step in seen().steps if step.batch_size == 2)
    one = TraceSeen(device_type="cuda", steps=small, is_own_batch=True)
    return searched_in(folder, learns=lambda spec: OWN_BATCHES, seen_steps=one, **overrides)


def test_a_script_that_makes_its_batches_itself_is_traced_once_more_and_that_is_no_candidate(tmp_path: Path):
    run = own_batches(tmp_path, target=BOUND)
    (other,) = [record for record in run.trials if record.role is TrialRole.TRACE]
    assert other.config is not None
    assert other.config.batch_size == 16
    assert not other.role.is_candidate
