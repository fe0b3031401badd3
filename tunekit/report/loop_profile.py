"""Every number and sentence that a loop profile shows, computed once. Pure."""

import shlex
from dataclasses import dataclass

from tunekit.plain_text import printable
from tunekit.recommend.noise import verdict
from tunekit.records.finding import Severity
from tunekit.records.interval import Interval
from tunekit.records.loop_profile import Contender, LoopProfile, ProfileOptions
from tunekit.records.measurement import Measurement
from tunekit.records.run import RunStatus
from tunekit.records.trial import TrialRecord
from tunekit.report.commands import command_text
from tunekit.report.findings import FindingView, finding_view
from tunekit.report.loop_contest import ablation_parts, best_step, brings_nothing, comparison_parts
from tunekit.report.loop_memory import memory_parts
from tunekit.report.loop_time import (
    beginnings,
    holder_text,
    kernel_parts,
    step_parts,
    telemetry_lines,
)
from tunekit.report.table import Passage, Table
from tunekit.report.text import Note, config_text, interval_text, note_of, speedup_text
from tunekit.units import count_text, duration_text

_MORE_ROUNDS = 5


@dataclass(frozen=True)
class LoopProfileView:
    """What a loop profile shows, in its order."""

    answers: tuple[str, ...]
    """What holds the loop back, how fast it is, what helps most."""
    comparisons: tuple[Table | Passage, ...]
    """Configs beside each other, and what each optimisation brings."""
    step: tuple[Table | Passage, ...]
    """The config, and where its step's time goes."""
    findings: tuple[FindingView, ...]
    """Of its loop."""
    parts: tuple[Table | Passage, ...]
    """What comes before the steady loop, and where memory goes."""
    notes: tuple[Note, ...]
    how_measured: str
    """Empty where nothing was."""
    next_steps: tuple[str, ...]


def loop_profile_view(profile: LoopProfile, folder: str = "FOLDER", width: int = 80) -> LoopProfileView:
    """Return everything that is shown of a loop profile.

    Args:
        profile: as it was saved.
        folder: where it lies, for the commands that come next.
        width: the terminal's, in letters; tables drop columns to fit.
    """
    seen = profile.looked_into
    return LoopProfileView(
        answers=_answers(profile, seen),
        comparisons=(
            *comparison_parts(profile),
            *ablation_parts(profile.ablation, profile.noise_floor, width),
        ),
        step=_step(seen),
        findings=tuple(finding_view(finding) for finding in profile.findings),
        parts=_parts(profile, seen),
        notes=_notes(profile, seen),
        how_measured=_how_measured(profile, seen),
        next_steps=_next_steps(profile, folder),
    )


# --- the answer ----------------------------------------------------------------------------


def _answers(profile: LoopProfile, seen: TrialRecord | None) -> tuple[str, ...]:
    if seen is None or seen.measurement is None:
        return (_nothing(profile),)
    return (
        f"{holder_text(seen.measurement, seen.telemetry)} {_rate(profile, seen.measurement)}",
        *(line for line in (_compared(profile), _what_helps(profile)) if line),
    )


def _nothing(profile: LoopProfile) -> str:
    """Return that nothing was measured, and why."""
    if not profile.trials:
        interrupted = profile.status is RunStatus.INTERRUPTED
        why = "it was interrupted before the first trial ended" if interrupted else "no trial has ended"
        told = "" if interrupted else f" (status: {profile.status})"
        return f"Nothing was measured yet: {why}{told}."
    failed = sum(record.failure is not None for record in profile.trials)
    trials = f"{count_text(len(profile.trials), 'trial')}, {failed} of them failed"
    return f"Nothing was measured: {trials} (status: {profile.status})."


def _rate(profile: LoopProfile, measurement: Measurement) -> str:
    contender = profile.contenders[0] if profile.contenders else None
    rate = contender.rate_samples_per_s if contender else None
    if contender is None or rate is None:
        return "Its rate is n/a."
    per_sample = measurement.loop.epoch_it_per_s / measurement.loop.rank_rate_samples_per_s
    pace = _scaled(rate, per_sample / measurement.loop.world_size)
    processes = len(_measured(contender, profile))
    unknown = ", its interval n/a" if rate.low == rate.high else ""
    of = (
        f"of one process{unknown}; --rounds {_MORE_ROUNDS} shows how processes differ"
        if processes == 1
        else f"over {processes} fresh processes"
    )
    return f"{interval_text(rate, ' samples/s')}, {interval_text(pace, ' it/s')}, {of}."


def _measured(contender: Contender, profile: LoopProfile) -> list[TrialRecord]:
    return [one for one in profile.trials if one.number in contender.trials and one.measurement]


def _scaled(interval: Interval, by: float) -> Interval:
    return Interval(value=interval.value * by, low=interval.low * by, high=interval.high * by)


def _compared(profile: LoopProfile) -> str | None:
    """Return what came of the other config, None where none was asked for or it has no factor."""
    asked = profile.options.against
    if asked and len(profile.contenders) == 1 and profile.status is RunStatus.FINISHED:
        return printable(f"{asked} changes nothing here, so there was nothing to compare.")
    if len(profile.contenders) < 2 or profile.contenders[1].factor is None:
        return None
    other = profile.contenders[1]
    assert other.factor is not None
    said = verdict(other.factor, profile.noise_floor)
    return printable(f"{other.name} is {speedup_text(other.factor)} as fast: {said} (measured).")


def _what_helps(profile: LoopProfile) -> str | None:
    """Return what helps most: as measured beside it, else as predicted from the findings."""
    ablation, noise = profile.ablation, profile.noise_floor
    step = best_step(ablation, noise)
    if step is not None:
        return f"What helps most (measured): {step.name}, {speedup_text(step.alone.factor)}."
    if brings_nothing(ablation, noise):
        return "No optimisation brings more than the noise here (measured)."
    if ablation is not None and ablation.together is not None:
        all_of_it = f"all together {speedup_text(ablation.together)}"
        return f"No optimisation by itself brings more than the noise here, {all_of_it} (measured)."
    if _compared(profile) is not None:
        return None
    gains = [one for one in profile.findings if one.gain is not None and one.gain > 1.0 and one.remedy]
    best = max(gains, key=lambda one: one.gain or 0.0, default=None)
    if best is not None:
        return printable(f"What would help most: {best.remedy} (at most {best.gain:.2f}x, predicted).")
    remedy = next((one.remedy for one in profile.findings if one.remedy), None)
    return None if remedy is None else printable(f"What to try: {remedy}.")


# --- time and memory -----------------------------------------------------------------------


def _step(seen: TrialRecord | None) -> tuple[Table | Passage, ...]:
    if seen is None or seen.measurement is None:
        return ()
    return (Passage("The config", (config_text(seen.config),)), *step_parts(seen.measurement))


def _parts(profile: LoopProfile, seen: TrialRecord | None) -> tuple[Table | Passage, ...]:
    if seen is None or seen.measurement is None:
        return ()
    measurement, host = seen.measurement, profile.rank_host
    compiles = bool(seen.config and seen.config.compile) or measurement.loop.compile_graphs > 0
    telemetry = telemetry_lines(seen.telemetry, profile.host.cpus)
    return (
        beginnings(measurement.loop, compiles),
        *memory_parts(measurement, seen.telemetry, host),
        Passage("While it trained (measured from outside)", telemetry),
        *kernel_parts(measurement.details),
    )


# --- notes ---------------------------------------------------------------------------------


def _notes(profile: LoopProfile, seen: TrialRecord | None) -> tuple[Note, ...]:
    faults = seen.measurement.details.faults if seen and seen.measurement and seen.measurement.details else ()
    failures = [
        printable(f"trial {record.number} failed, {record.failure.kind}: {record.failure.message}")
        for record in profile.trials
        if record.failure is not None
    ]
    return (
        *(note_of(finding) for finding in profile.machine_findings),
        *(Note(Severity.INFO, printable(f"not seen: {fault}")) for fault in faults),
        *(Note(Severity.INFO, line) for line in failures),
    )


def _how_measured(profile: LoopProfile, seen: TrialRecord | None) -> str:
    if seen is None:
        return ""
    of = f"; time and memory are of trial {seen.number}"
    noise = profile.noise_floor
    floor = f"; A/A noise floor {noise.relative:.1%} over {noise.processes} fresh processes" if noise else ""
    trials = count_text(len(profile.trials), "trial")
    intervals = "95% intervals"
    status = "" if profile.status is RunStatus.FINISHED else f" (status: {profile.status})"
    return printable(
        f"Measured on {profile.measured_on} in {trials}, {duration_text(profile.profile_time_s)}{status}: "
        f"rates over whole epochs, {intervals}{of}{floor}."
    )


def _next_steps(profile: LoopProfile, folder: str) -> tuple[str, ...]:
    asked = profile.options
    if profile.looked_into is None:
        return (command_text("profile", profile.target, asked.gpu, _flags(asked), asked.fixed),)
    steps = []
    if profile.ablation is None:
        steps.append(command_text("profile", profile.target, asked.gpu, ["--ablate"], asked.fixed))
    steps.append(command_text("search", profile.target, asked.gpu))
    steps.append(f"tunekit report {printable(shlex.quote(folder))}  (this again)")
    return tuple(steps)


def _flags(asked: ProfileOptions) -> list[str]:
    """Return the words that ask for the same look and the same comparison."""
    flags = ["--ablate"] if asked.ablate else []
    if asked.against:
        flags += ["--against", asked.against]
    if flags or asked.rounds != 1:  # what is usual is another number with a comparison
        flags += ["--rounds", str(asked.rounds)]
    if asked.budget_s is not None:
        flags += ["--budget", f"{asked.budget_s:f}".rstrip("0").rstrip(".") + "s"]
    return [*flags, "--trace-kernels"] if asked.kernels else flags
