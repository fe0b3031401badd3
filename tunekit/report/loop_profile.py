"""A loop profile in words: what holds the loop back, which configs help, where time and memory go. Pure."""

import shlex
from collections.abc import Callable, Sequence

from tunekit.diagnose.attribution import leaves_bound_open
from tunekit.diagnose.software import threads_text
from tunekit.plain_text import printable
from tunekit.predict.ram import buffer_bytes, held_bytes
from tunekit.recommend.noise import difference, verdict
from tunekit.records.finding import Severity
from tunekit.records.interval import Interval
from tunekit.records.measurement import Measurement
from tunekit.records.recommendation import NoiseFloor
from tunekit.records.run import Ablation, AblationStep, Contender, LoopProfile, RunStatus
from tunekit.records.trial import TrialRecord
from tunekit.report.blocks import (
    Block,
    Column,
    Commands,
    Lead,
    Line,
    Note,
    Passage,
    Report,
    Section,
    Table,
    field_text,
    found_blocks,
    table_of,
    trial_notes,
)
from tunekit.report.bottleneck import verdict_text
from tunekit.report.loop_memory import memory_blocks
from tunekit.report.loop_time import (
    kernel_blocks,
    part_texts,
    startup_table,
    step_blocks,
    step_text,
)
from tunekit.report.text import (
    TOO_WIDE_IN_TABLE,
    UNKNOWN,
    config_text,
    how_measured,
    interval_text,
    knob_rows,
    speedup_text,
    value_text,
)
from tunekit.report.trials import loop_telemetry_table
from tunekit.trial.typed_commands import command_text
from tunekit.units import bytes_text, count_text, duration_text

_MORE_ROUNDS = 5


def profile_report(profile: LoopProfile, folder: str = "FOLDER") -> Report:
    """Return everything that is shown of a loop profile, with commands on the folder that it lies in."""
    seen = profile.profiled_trial
    measured = seen.measurement if seen else None
    step: tuple[Block, ...] = ()
    rest: tuple[Block, ...] = ()
    if seen is not None and measured is not None:
        compiles = bool(seen.config and seen.config.compile) or measured.loop.compile_graphs > 0
        threads = measured.loop.threads
        step = (Passage("The config", (config_text(seen.config),)), *step_blocks(measured))
        rest = (
            startup_table(measured.loop, compiles),
            *memory_blocks(measured, seen.telemetry, profile.rank_host),
            loop_telemetry_table(seen.telemetry, profile.host.cpus),
            Line("" if threads is None else f"CPU threads: {threads_text(threads)}"),
            *kernel_blocks(measured.details),
        )
    return Report(
        printable(f"Loop of {profile.target.name} on {profile.measured_on}"),
        (
            *map(Lead, _answers(profile, seen)),
            Section("compared", "Comparison", "Compared"),
            *_contenders_blocks(profile),
            *_ablation_blocks(profile.ablation, profile.noise_floor),
            Section("step", "Step time", "Step"),
            *step,
            Section("findings", "Findings", "Findings"),
            *found_blocks(profile.findings),
            Section("rest", "Start-up, memory and the machine", "Memory"),
            *rest,
            Section("method", "How it was measured", "Method"),
            *_notes(profile, seen),
            Line(_how_measured(profile, seen), is_quiet=True, is_apart=True),
            Section("next", "What to do next", "Next"),
            Commands("Next", _next_steps(profile, folder)),
        ),
    )


# --- the answer ------------------------------------------------------------------------------


def _answers(profile: LoopProfile, seen: TrialRecord | None) -> tuple[str, ...]:
    if seen is None or seen.measurement is None:
        failed = sum(record.failure is not None for record in profile.trials)
        trials = f"{count_text(len(profile.trials), 'trial')}, {failed} failed"
        return (f"Nothing was measured: {trials} (status: {profile.status}).",)
    rate = profile.contenders[0].rate_samples_per_s if profile.contenders else None
    first = f"{verdict_text(seen, rate)} {_rate(rate, profile, seen.measurement)}"
    compared = _compared(profile)
    return tuple(line for line in (first, compared, _what_helps(rate, profile, bool(compared))) if line)


def _rate(rate: Interval | None, profile: LoopProfile, measurement: Measurement) -> str:
    if rate is None:
        return "Its rate is n/a."
    per_sample = measurement.loop.epoch_it_per_s / measurement.loop.rank_rate_samples_per_s
    pace = rate.times(per_sample / measurement.loop.world_size)
    trials = profile.contenders[0].trials
    processes = sum(one.number in trials and one.measurement is not None for one in profile.trials)
    of = count_text(processes, "fresh process", "fresh processes")
    return f"{interval_text(rate, ' samples/s')}, {interval_text(pace, ' it/s')}, {of}."


def _compared(profile: LoopProfile) -> str | None:
    """Return what came of the other config, None where none was asked for or it has no factor."""
    asked, other = profile.options.against, profile.contenders[1:2]
    if asked and not other and profile.status is RunStatus.FINISHED:
        return printable(f"{asked} changes nothing here.")
    if not other or other[0].factor is None:
        return None
    factor = other[0].factor
    verdict_on = difference(factor, profile.noise_floor)
    return printable(f"{other[0].name}: {verdict_on}, {speedup_text(factor)} (measured).")


def _what_helps(rate: Interval | None, profile: LoopProfile, is_compared: bool) -> str | None:
    """Return what helps most: as measured beside it, else as predicted from the findings of a sure rate."""
    ablation, noise = profile.ablation, profile.noise_floor
    faster = [step for step in ablation.steps if _verdict_text(step, noise) == "faster"] if ablation else []
    if faster:
        best = max(faster, key=lambda step: step.alone.factor.value if step.alone.factor else 0.0)
        return f"Largest gain: {best.name}, {speedup_text(best.alone.factor)} (measured)."
    if ablation is not None and ablation.together is not None:
        return f"No single gain above noise; all together {speedup_text(ablation.together)} (measured)."
    if is_compared:
        return None
    if rate is not None and leaves_bound_open(rate):
        rounds = max(_MORE_ROUNDS, 2 * profile.options.rounds)
        return f"To settle it: a quiet machine, --window 30, and --rounds {rounds}."
    remedies = (one.remedy for one in profile.findings if one.remedy)  # what gains most comes first
    return next((printable(f"Try first: {remedy}.") for remedy in remedies), None)


# --- configs beside each other ---------------------------------------------------------------


def _contenders_blocks(profile: LoopProfile) -> tuple[Block, ...]:
    contenders, others = profile.contenders, profile.contenders[1:]
    if not others:
        return ()
    shown = [_shown(one, profile) for one in contenders]
    rates = (interval_text(one.rate_samples_per_s, too_wide=TOO_WIDE_IN_TABLE) for one in contenders)
    verdicts = (
        UNKNOWN if one.factor is None else difference(one.factor, profile.noise_floor) for one in others
    )
    rows = [
        *knob_rows([one.config for one in contenders]),
        ("samples/s", *rates),
        ("factor", "1", *(speedup_text(one.factor, TOO_WIDE_IN_TABLE) for one in others)),
        ("", "", *verdicts),
        *_part_rows(shown),
        *_memory_rows(shown),
    ]
    names = (printable(one.name) for one in contenders)
    numeric = tuple(range(1, len(contenders) + 1))
    missing = tuple(
        printable(f"{one.name}: not measured, {one.why_missing}") for one in contenders if one.why_missing
    )
    title = "Compared (measured, unless predicted is said)"
    return Table(title, ("", *names), tuple(rows), numeric), Passage("", missing)


def _shown(contender: Contender, profile: LoopProfile) -> Measurement | None:
    """Return the measurement that a contender's parts are of: one with details, if there is one."""
    measured = [
        one.measurement for one in profile.trials if one.config == contender.config and one.measurement
    ]
    return min(measured, key=lambda one: one.details is None, default=None)


def _part_rows(shown: Sequence[Measurement | None]) -> list[tuple[str, ...]]:
    parts = [{} if one is None else part_texts(one) for one in shown]
    names = dict.fromkeys(name for each in parts for name in each)
    return [(name, *(" ".join(each.get(name, (UNKNOWN,))) for each in parts)) for name in names]


_MEMORY: dict[str, Callable[[Measurement], str]] = {
    "step": field_text("loop.step_time_s", step_text),
    "epoch": field_text("loop.epoch_time_s", duration_text),
    "RAM buffer (predicted)": lambda one: bytes_text(buffer_bytes(one.loop, held_bytes(one.loop))),
    "/dev/shm at most": field_text("memory.peak_shm_bytes", bytes_text),
    "RAM of the tree (PSS)": field_text("memory.peak_pss_bytes", bytes_text),
    "VRAM reserved": field_text("loop.peak_reserved_bytes", bytes_text),
}


def _memory_rows(shown: Sequence[Measurement | None]) -> list[tuple[str, ...]]:
    rows = [
        (label, *(UNKNOWN if one is None else text(one) for one in shown)) for label, text in _MEMORY.items()
    ]
    return [row for row in rows if row[0] != "VRAM reserved" or {*row[1:]} != {UNKNOWN}]


def _ablation_blocks(ablation: Ablation | None, noise: NoiseFloor | None) -> tuple[Table | Passage, ...]:
    """Return what each optimisation brings, by itself and in turn; nothing where none was asked for."""
    if ablation is None:
        return ()
    steps = ablation.steps
    lines = [
        f"{step.name}: {', '.join(f'{one.knob} {value_text(one.value)}' for one in step.changes)}"
        for step in steps
        if len(step.changes) > 1
    ]
    lines += [f"{step.name}: {why}" for step in steps if (why := _why_missing(step)) is not None]
    if ablation.together is not None and ablation.product_of_alone is not None and len(steps) > 1:
        together = f"{speedup_text(ablation.together)}, {verdict(ablation.together, noise)}"
        product = f"{ablation.product_of_alone:.2f}x"
        lines.append(f"all together: {together} (measured); product of the single factors: {product}")
    lines += [f"not tried: {reason}" for reason in ablation.left_out]
    columns = (
        Column[AblationStep]("", lambda step: step.name, is_numeric=False),
        Column[AblationStep]("by itself", lambda step: _factor_text(step.alone)),
        Column[AblationStep]("verdict", lambda step: _verdict_text(step, noise), is_numeric=False),
        Column[AblationStep]("all so far", _so_far_text),
        Column[AblationStep]("of which this", lambda step: speedup_text(step.step_factor, TOO_WIDE_IN_TABLE)),
    )
    title = "What each optimisation brings (measured, rate over that of the config as it is)"
    return table_of(title, columns, steps), Passage("" if steps else title, tuple(map(printable, lines)))


def _verdict_text(step: AblationStep, noise: NoiseFloor | None) -> str:
    return "" if step.alone.factor is None else verdict(step.alone.factor, noise)


def _why_missing(step: AblationStep) -> str | None:
    added = step.added.why_missing if step.added is not None else None
    return added or step.alone.why_missing


def _factor_text(contender: Contender) -> str:
    if contender.why_missing and contender.trials:
        return "failed"
    return speedup_text(contender.factor, TOO_WIDE_IN_TABLE)


def _so_far_text(step: AblationStep) -> str:
    if step.added is not None:
        return _factor_text(step.added)
    return "not added" if step.alone.why_missing else _factor_text(step.alone)


# --- notes ---------------------------------------------------------------------------------


def _notes(profile: LoopProfile, seen: TrialRecord | None) -> tuple[Note, ...]:
    details = seen.measurement.details if seen and seen.measurement else None
    faults = (f"not seen: {fault}" for fault in (details.faults if details else ()))
    return *trial_notes(profile), *(Note(Severity.INFO, printable(fault)) for fault in faults)


def _how_measured(profile: LoopProfile, seen: TrialRecord | None) -> str:
    if seen is None:
        return ""
    return how_measured(
        profile,
        profile.profile_time_s,
        f"rates over whole epochs, 95% intervals; time and memory are of trial {seen.number}",
    )


def _next_steps(profile: LoopProfile, folder: str) -> tuple[str, ...]:
    asked = profile.options
    if profile.profiled_trial is None:
        return (command_text("profile", profile.target, asked.gpu, (), asked.fixed),)
    ablate = command_text("profile", profile.target, asked.gpu, ["--ablate"], asked.fixed)
    return (
        *([ablate] if profile.ablation is None else []),
        command_text("search", profile.target, asked.gpu),
        f"tunekit report {printable(shlex.quote(folder))}  (this again)",
    )
