"""What the first trial's own steps say of GPUs: the one that is asked for, and the one that is here."""

from collections.abc import Callable
from pathlib import Path

from tunekit.errors import RecordError
from tunekit.machine.gpu.calibrate import load_calibrations
from tunekit.predict.fits import Fits
from tunekit.predict.loader_rate import usual_instance
from tunekit.predict.step_traces import Unpredictable, second_trace_config, trace_of
from tunekit.recommend.compatibility import can_train_in_fp16
from tunekit.recommend.tiers import POLICIES
from tunekit.records.config import KnobValue, Precision, TrainConfig
from tunekit.records.details import Detail
from tunekit.records.interval import Interval
from tunekit.records.prediction import Correction, DevicePrediction, OutsideTorch, PeakAt
from tunekit.records.profile import Profile
from tunekit.records.recommendation import Tier
from tunekit.records.run import KnobSpace, Run
from tunekit.records.target import BindingKind
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.records.trials import measured
from tunekit.tune.knob_access import why_not_in_roots

_FACTORS = (1, 2, 4, 8, 16)
"""Of the trial's own batch, at which its device's memory is predicted: as far as a space reaches."""
_MAX_CORRECTIONS = 8

Outside = Callable[[Profile], OutsideTorch]
"""What a GPU's memory holds beside torch's tensors, by whether the training benchmarks cuDNN's kernels."""


def trace_details(run: Run, outside: Outside | None) -> tuple[Detail, ...]:
    """Return what else a trial looks at: its steps, until one is measured, where a GPU is asked for.

    The baseline may run out of memory, as smaller batches may.
    """
    is_wanted = outside is not None and not run.profile.is_cpu
    return (Detail.TRACE,) if is_wanted and not any(one.measurement for one in run.trials) else ()


def missing_trace_config(run: Run) -> TrainConfig | None:
    """Return the config of the trial that is still to trace its steps at a second size, if one is."""
    if run.baseline is None or any(record.role is TrialRole.TRACE for record in run.trials):
        return None
    return second_trace_config(run.baseline, run.target)


def predicted(run: Run, here: Profile, outside: Outside, trials_folder: Path) -> tuple[TrialRecord, Run]:
    """Return the last trial of a run, which traced its own steps, and the run, with what these predict."""
    record = run.trials[-1]
    try:
        fits = Fits(run.trials, trials_folder, run.rank_host.cpus, here, load_calibrations())
        prediction = fits.for_profiles([run.profile], outside)
        peaks = _peaks_here(record, fits, here, outside)
    except Unpredictable as why:
        return record, run.changed(why_not_predicted=f"{why}; {why.remedy}"[:500])
    except Exception as error:  # a search goes on without a prediction
        reason = str(error) if isinstance(error, RecordError) else f"{type(error).__name__}: {error}"
        return record, run.changed(why_not_predicted=reason[:500])
    run = run.changed(prediction=prediction, why_not_predicted=None)
    return record.changed(predicted_peaks=peaks), run


def with_starting_config(run: Run, here: Profile, outside: Outside, trials_folder: Path) -> Run:
    """Return the run with the config to begin with on the GPU that is asked for, where that is not here.

    What was predicted before is worked out again where the run does not hold it any more.
    """
    records = run.trials
    traced = [place for place, record in enumerate(records) if trace_of(record)]
    if run.prediction is None and run.why_not_predicted is None and traced:
        seen = run.changed(trials=records[: traced[-1] + 1])
        run = predicted(seen, here, outside, trials_folder)[1].changed(trials=records)
    config = starting_config(run) if run.is_emulated else None
    if run.prediction is None or config is None:
        return run
    try:
        fits = Fits(records, trials_folder, run.rank_host.cpus, here, load_calibrations())
    except (Unpredictable, RecordError):  # said already, when it was predicted
        return run
    start = fits.at(run.profile, config.precision, config.batch_size, outside(run.profile))
    return run.changed(prediction=run.prediction.changed(config=config, start=start))


def starting_config(run: Run) -> TrainConfig | None:
    """Return the config to begin with on the GPU that is asked for, by what was predicted; None if none fits.

    The precision with the highest rate among those that can be set there; the largest batch of the space
    that fits with the margin; Balanced's share of the vCPUs of the GPU's usual machine. Compile and
    channels_last stay as the script has them: nothing was predicted of them.
    """
    prediction, baseline = run.prediction, run.baseline_config
    if prediction is None or baseline is None or not run.space:
        return None
    space = {entry.knob: entry for entry in run.space}
    sizes = [size for size in space["batch_size"].values if isinstance(size, int)]
    most = [
        (fit, max(fit.batch_size, min(baseline.batch_size, fit.largest.low)))
        for fit in prediction.fits
        if _may_have(fit.precision, baseline.precision, run)
    ]
    fitting = [
        (fit, max(size for size in sizes if size <= limit)) for fit, limit in most if min(sizes) <= limit
    ]
    if not fitting:
        return None
    best, batch_size = max(fitting, key=lambda one: (_value(one[0].rate), _value(one[0].compute), one[1]))
    changed: dict[str, KnobValue] = {"batch_size": batch_size, "precision": best.precision}
    if space["num_workers"].is_searched:
        changed |= _workers(run, space["persistent_workers"])
    for entry in run.space:
        if entry.batch_product is not None:
            changed[entry.knob] = entry.batch_product // batch_size
    return baseline.changed(**changed)


def _value(figure: Interval | None) -> float:
    return figure.value if figure else 0.0


def _may_have(precision: Precision, script_precision: Precision, run: Run) -> bool:
    """Return whether the script can train in a precision: its own, or one that the agent can set.

    What a search may set depends on the device that is here; this does not.
    """
    fixed = next((one.value for one in run.options.fixed if one.knob == "precision"), None)
    if fixed is not None or precision is script_precision:
        return precision == (fixed or script_precision)
    binding, discovery = run.target.binding_of("precision"), run.discovery
    if binding is not None and binding.kind is BindingKind.FIXED:
        return False
    if precision is Precision.FP16 and not can_train_in_fp16(run.target, discovery, script_precision):
        return False
    if run.target.is_bound("precision") or discovery is None or run.baseline_config is None:
        return run.target.is_bound("precision")
    return why_not_in_roots("precision", discovery, run.baseline_config) is None


def _workers(run: Run, persistent: KnobSpace) -> dict[str, KnobValue]:
    """Return Balanced's share of the vCPUs that a GPU has in its usual machine; nothing without one."""
    instance = usual_instance(run.profile)
    if instance is None or instance.vcpus is None:
        return {}
    workers = POLICIES[Tier.BALANCED].max_workers(instance.vcpus // instance.gpus)
    return {"num_workers": max(1, workers), "persistent_workers": persistent.values[0], "pin_memory": True}


def corrected(prediction: DevicePrediction, records: tuple[TrialRecord, ...]) -> DevicePrediction:
    """Return the prediction beside what trials on the GPU reserved at the same batch size and precision."""
    predicted_bytes = {
        (one.precision, one.batch_size): one.reserved_bytes
        for record in records
        for one in record.predicted_peaks
    }
    largest: dict[tuple[Precision, int], int] = {}
    for one in measured(records):
        key = (one.config.precision, one.config.batch_size)
        if one.loop.peak_reserved_bytes and not one.config.compile and key in predicted_bytes:
            largest[key] = max(largest.get(key, 0), one.loop.peak_reserved_bytes)
    corrections = tuple(
        Correction(
            precision=key[0], batch_size=key[1], predicted_bytes=predicted_bytes[key], measured_bytes=seen
        )
        for key, seen in sorted(largest.items())
    )
    return prediction.changed(corrections=corrections[:_MAX_CORRECTIONS])


def _peaks_here(record: TrialRecord, fits: Fits, here: Profile, outside: Outside) -> tuple[PeakAt, ...]:
    """Return the memory that other batch sizes reserve on the GPU that is here; nothing on a CPU."""
    if here.is_cpu or record.config is None:
        return ()
    outside_here, peaks = outside(here), []
    for precision in (Precision.FP32, Precision.TF32, Precision.BF16):
        for batch_size in (factor * record.config.batch_size for factor in _FACTORS):
            peak = fits.unlimited_peak(precision, batch_size, outside_here)
            if peak and (held := peak.reserved_bytes):
                peaks.append(PeakAt(precision=precision, batch_size=batch_size, reserved_bytes=held))
    return tuple(peaks)
