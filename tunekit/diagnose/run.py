"""Checks a whole search: how far its figures can be trusted, and what its trials showed."""

from collections.abc import Sequence

from tunekit.diagnose.loop import LoopFacts, loop_findings
from tunekit.diagnose.policy import UNSTEADY_RATIO
from tunekit.diagnose.registry import INFO, WARNING, Hit, Hits, check, findings_of
from tunekit.predict.checkpointing import blocks_text, cost_text
from tunekit.recommend.learning_rate import global_batch
from tunekit.recommend.memory import batches_text, failed_on_largest_samples
from tunekit.recommend.numerics import GuardedMode
from tunekit.records.finding import Finding, Severity
from tunekit.records.recommendation import LossOutcome
from tunekit.records.run import Run
from tunekit.records.trial import OutcomeKind
from tunekit.records.trials import rates_by_config
from tunekit.units import bytes_text, listed, rate_text

_TORCHS_OWN = "/torchinductor_"
"""Where torch.compile keeps headers, regardless of TORCHINDUCTOR_CACHE_DIR; not the script's files."""


def run_findings(run: Run, guarded: Sequence[GuardedMode]) -> tuple[Finding, ...]:
    """Return the findings about a search: its machine, its baseline's loop and its trials.

    Args:
        run: the search with its trials.
        guarded: the modes of precision and compile whose losses were, or should have been, compared.
    """
    of_loop: list[Finding] = []
    if run.baseline is not None:
        profile = None if run.is_emulated else run.profile
        facts = LoopFacts(run.baseline, run.target, run.discovery, run.rank_host, profile, trials=run.trials)
        found = loop_findings(facts)
        # Other notes recommend what the search has just tried.
        of_loop = [one for one in found if one.severity is not Severity.INFO or one.code == "fp16-unscaled"]
    of_trials = findings_of(*(one for one in run.trials if one is not run.baseline))
    found = [*run.machine_warnings, *of_loop, *findings_of(*guarded, run), *of_trials]
    return tuple(one for one in found if one.code not in run.options.ignored)


@check("other-device", WARNING, "measured on a different device than requested: rates are for this machine")
def _other_device(run: Run) -> Hits:
    if run.is_emulated:
        devices = {one.measurement.loop.device.memory_bytes for one in run.trials if one.measurement}
        capped_bytes = run.profile.capacity_bytes
        is_capped = capped_bytes is not None and capped_bytes in devices
        capped = f"; memory capped to {bytes_text(capped_bytes)}, less a CUDA context" if is_capped else ""
        yield Hit(
            f"measured on {run.measured_on}, not on {run.profile.id}{capped}",
            f"run the same command on a machine with {run.profile.device_names[0]}",
        )


@check("baseline-failed", WARNING, "the baseline did not run here, so speedups are n/a")
def _baseline_failed(run: Run) -> Hits:
    failure = run.baseline.failure if run.baseline else None
    if failure is not None:
        checkpointing = _with_checkpointing(run) if failure.kind is OutcomeKind.DEVICE_OOM else ""
        yield Hit(
            f"{failure.kind}: {failure.message}",
            f"{checkpointing}the tiers were searched from smaller batches",
        )


def _with_checkpointing(run: Run) -> str:
    """Return which batch would fit with gradient checkpointing, and its cost; empty if none would."""
    config, prediction = run.baseline_config, run.prediction
    fit = prediction.fit_of(run.profile.id, config.precision) if prediction and config else None
    known = prediction.checkpointing if prediction else None
    if config is None or fit is None or known is None or fit.checkpointed is None:
        return ""
    if fit.checkpointed.low <= fit.largest.low:
        return ""
    size, cost = min(fit.checkpointed.low, config.batch_size), cost_text(known.extra_flops)
    return f"with gradient checkpointing of its {blocks_text(known)} batch {size:,} would fit, {cost}; "


# --- losses ---------------------------------------------------------------------------------


@check("loss-unknown", INFO, "the losses with {} could not be compared with the baseline's")
def _loss_unknown(one: GuardedMode) -> Hits:
    if one.verdict.outcome is LossOutcome.UNKNOWN:
        yield Hit(one.verdict.why, f"compare a short training by hand, or leave it out with {one.remedy}")


@check("loss-diverges", WARNING, "with {} the loss ends higher than the baseline's, or is not finite")
def _loss_diverges(one: GuardedMode) -> Hits:
    verdict = one.verdict
    spread = f" +- {verdict.spread:.2g}" if verdict.spread is not None else ""
    seen = {
        LossOutcome.NONFINITE: verdict.why or f"NaN or infinite within {verdict.steps} losses",
        LossOutcome.DIVERGENT: f"mean loss {verdict.candidate_end or 0:.4g} over the last "
        f"{verdict.end_steps} of {verdict.steps} steps against {verdict.baseline_end or 0:.4g}{spread}",
    }
    if verdict.outcome in seen:
        yield Hit(
            f"trial {one.trial}: {seen[verdict.outcome]} (measured)",
            f"Conservative and Balanced leave it out; the search does with {one.remedy}",
        )


# --- the data set's largest samples ---------------------------------------------------------


@check("largest-samples", WARNING, "a config ran out of memory on a batch of the data set's largest samples")
def _largest_samples(run: Run) -> Hits:
    failed = failed_on_largest_samples(run.history.confirming)
    seen = failed[0].failure.largest if failed and failed[0].failure else None
    if seen is not None:
        sizes = sorted({one.config.batch_size for one in failed if one.config})
        yield Hit(
            f"batch {', '.join(f'{size:,}' for size in sizes)}: {batches_text(seen)}",
            "cap or bucket sizes (where batches are padded, one is enough), or lower the batch size",
            seen.times_usual,
        )


# --- the trials together --------------------------------------------------------------------


@check("writes-diverted", INFO, "writes to the script's files went to the trials' folders")
def _writes_diverted(run: Run) -> Hits:
    written = {one.path for record in run.trials for one in record.written if one.action == "diverted"}
    if diverted := sorted(path for path in written if _TORCHS_OWN not in path):
        yield Hit(listed(diverted, 3), None, len(diverted))


@check("unsteady-machine", WARNING, "the same config ran at very different rates: the machine was busy")
def _unsteady_machine(run: Run) -> Hits:
    widest = max(rates_by_config(run.trials).values(), key=_spread, default=[1.0])
    if _spread(widest) >= UNSTEADY_RATIO:
        yield Hit(
            f"{rate_text(min(widest))} to {rate_text(max(widest))} samples/s in {len(widest)} processes",
            "search again with --wait-quiet; until then trust the confirmed speedups only",
            _spread(widest),
        )


def _spread(rates: Sequence[float]) -> float:
    return max(rates) / min(rates)


@check("lr-scaled-by-script", INFO, "the script scales its learning rate itself, so no rule is applied")
def _lr_scaled_by_script(run: Run) -> Hits:
    if run.script_scales_lr:
        seen = {
            global_batch(one.config): one.learning_rate
            for one in run.trials
            if one.config is not None and one.learning_rate and one.measurement
        }
        shown = ", ".join(f"{lr:.4g} at batch {batch}" for batch, lr in sorted(seen.items()))
        yield Hit(f"it was seen to be {shown}", None)


@check("epoch-unknown", INFO, "the data set has no length, so epoch boundaries are not in the rate")
def _epoch_unknown(run: Run) -> Hits:
    measured = run.baseline.measurement if run.baseline else None
    if measured is not None and measured.loop.epoch_samples is None:
        yield Hit(
            "it is an IterableDataset, or len() of its loader fails",
            "if you know the length, give it to `tunekit plan` with --samples",
        )
