"""A loop profile: the bottleneck, which configs help, where time and memory go. Pure."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain

from tunekit.diagnose.attribution import attribution, leaves_bound_open
from tunekit.diagnose.software import threads_text
from tunekit.predict.ram import buffer_bytes, held_bytes
from tunekit.records.finding import Severity
from tunekit.records.measurement import Measurement
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
    side_by_side,
    table_of,
    trial_notes,
)
from tunekit.report.bottleneck import bound_text
from tunekit.report.loop_memory import memory_blocks
from tunekit.report.loop_time import (
    kernel_blocks,
    part_name,
    part_text,
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
from tunekit.trial.typed_commands import command_text, quoted
from tunekit.units import bytes_text, count_text, duration_text


def profile_report(profile: LoopProfile, folder: str = "FOLDER") -> Report:
    """Return the report on a loop profile, with commands for its folder."""
    title, seen = f"Loop of {profile.target.name} on {profile.measured_on}", profile.profiled_trial
    measured = seen.measurement if seen else None
    next_steps = Commands("Next", _next_steps(profile, folder))
    if seen is None or measured is None:
        return Report(
            title,
            (Lead(f"Nothing was measured (status: {profile.status})."), *trial_notes(profile), next_steps),
        )
    threads, details = measured.loop.threads, measured.details
    faults = tuple(Note(Severity.INFO, f"not seen: {fault}") for fault in (details.faults if details else ()))
    how = f"rates over whole epochs, 95% intervals; time and memory are of trial {seen.number}"
    return Report(
        title,
        (
            *map(Lead, _answers(profile, seen)),
            Section("compared", "Comparison", "Compared"),
            *_contenders_blocks(profile),
            *_ablation_blocks(profile.ablation),
            Section("step", "Step time", "Step"),
            Passage("The config", (config_text(seen.config),)),
            *step_blocks(measured),
            Section("findings", "Findings", "Findings"),
            *found_blocks(profile.findings),
            Section("rest", "Start-up, memory and the machine", "Memory"),
            startup_table(measured.loop),
            *memory_blocks(measured, seen.telemetry, profile.rank_host),
            *([loop_telemetry_table(seen.telemetry, profile.host.cpus)] if seen.telemetry else []),
            Line("" if threads is None else f"CPU threads: {threads_text(threads)}"),
            *kernel_blocks(details),
            Section("method", "How it was measured", "Method"),
            *trial_notes(profile),
            *faults,
            Line(how_measured(profile, profile.profile_time_s, how), is_quiet=True, is_apart=True),
            Section("next", "What to do next", "Next"),
            next_steps,
        ),
    )


# --- the answer ------------------------------------------------------------------------------


def _answers(profile: LoopProfile, seen: TrialRecord) -> Iterator[str]:
    """Yield the bottleneck with its rate, the verdict on the other config, and what helps most."""
    own = profile.contenders[0] if profile.contenders else None
    rate = own.rate_samples_per_s if own else None
    numbers = [one.number for one in profile.trials if own and one.measurement and one.number in own.trials]
    processes = count_text(len(numbers), "process", "processes")
    yield f"{bound_text(profile.bottleneck)}: {interval_text(rate, ' samples/s')} (measured, {processes})."
    asked, other = profile.options.against, next(iter(profile.contenders[1:]), None)
    if other is not None and other.factor is not None:
        yield f"{other.name}: {other.verdict}, {speedup_text(other.factor)} (measured)."
    elif asked and other is None and profile.status is RunStatus.FINISHED:
        yield f"{asked} changes nothing here."
    elif rate is not None and leaves_bound_open(rate):
        yield "To settle it: a quiet machine, --window 30 and more --rounds."
    elif profile.ablation is None:
        remedies = (one.remedy for one in profile.findings if one.remedy)  # what gains most comes first
        yield next((f"Try first: {remedy}." for remedy in remedies), "")
    if profile.ablation is not None:
        yield _what_helps(profile.ablation)


def _what_helps(ablation: Ablation) -> str:
    faster = [step for step in ablation.steps if step.alone.verdict == "faster"]
    if faster:
        best = max(faster, key=lambda step: step.alone.factor.value if step.alone.factor else 0.0)
        return f"Largest gain: {best.name}, {speedup_text(best.alone.factor)} (measured)."
    return f"No single gain above noise; all together {speedup_text(ablation.together)} (measured)."


# --- configs beside each other ---------------------------------------------------------------


def _contenders_blocks(profile: LoopProfile) -> tuple[Block, ...]:
    contenders = profile.contenders
    if len(contenders) < 2:
        return ()
    shown = [_shown(one, profile) for one in contenders]
    parts = [
        {part_name(part): part_text(part) for part in attribution(one).shares} if one else {} for one in shown
    ]
    rows = [
        *knob_rows([one.config for one in contenders]),
        *((label, *map(cell, contenders)) for label, cell in _RATES.items()),
        *((name, *(each.get(name, UNKNOWN) for each in parts)) for name in dict.fromkeys(chain(*parts))),
        *((label, *map(cell, shown)) for label, cell in _MEMORY.items()),
    ]
    missing = tuple(f"{one.name}: not measured, {one.why_missing}" for one in contenders if one.why_missing)
    title = "Compared (measured, unless predicted is said)"
    return side_by_side(title, [one.name for one in contenders], rows), Passage("", missing)


def _shown(contender: Contender, profile: LoopProfile) -> Measurement | None:
    """Return the measurement that shows a contender's parts: one with details, if there is one."""
    measured = [
        one.measurement for one in profile.trials if one.config == contender.config and one.measurement
    ]
    return min(measured, key=lambda one: one.details is None, default=None)


_FACTOR = partial(speedup_text, too_wide=TOO_WIDE_IN_TABLE)
_RATES: dict[str, Callable[[Contender], str]] = {
    "samples/s": field_text("rate_samples_per_s", partial(interval_text, too_wide=TOO_WIDE_IN_TABLE)),
    "factor": field_text("factor", _FACTOR, "-"),
    "verdict": field_text("verdict", missing="-"),
}
_MEMORY: dict[str, Callable[[Measurement | None], str]] = {
    "step": field_text("loop.step_time_s", step_text),
    "epoch": field_text("loop.epoch_time_s", duration_text),
    "RAM buffer (predicted)": field_text(
        "loop", lambda loop: bytes_text(buffer_bytes(loop, held_bytes(loop)))
    ),
    "/dev/shm at most": field_text("memory.peak_shm_bytes", bytes_text),
    "RAM of the tree (PSS)": field_text("memory.peak_pss_bytes", bytes_text),
    "VRAM reserved": field_text("loop.peak_reserved_bytes", bytes_text),
}


_ABLATION_COLUMNS: tuple[Column[AblationStep], ...] = (
    Column("", field_text("name"), is_numeric=False),
    Column("by itself", field_text("alone.factor", _FACTOR)),
    Column("verdict", field_text("alone.verdict"), is_numeric=False),
    Column("all so far", lambda step: _FACTOR((step.added or step.alone).factor)),
    Column("of which this", field_text("step_factor", _FACTOR)),
)


def _ablation_blocks(ablation: Ablation | None) -> tuple[Table | Passage, ...]:
    """Return the gain of each optimisation, alone and in turn; nothing where none was requested."""
    if ablation is None:
        return ()
    steps = ablation.steps
    lines = [
        f"{step.name}: {', '.join(f'{one.knob} {value_text(one.value)}' for one in step.changes)}"
        for step in steps
        if len(step.changes) > 1
    ]
    lines += [
        f"{step.name}: failed, {why}" for step in steps if (why := (step.added or step.alone).why_missing)
    ]
    if ablation.together is not None and ablation.product_of_alone is not None:
        together = f"{speedup_text(ablation.together)}, {ablation.together_verdict}"
        product = f"{ablation.product_of_alone:.2f}x"
        lines.append(f"all together: {together} (measured); product of the single factors: {product}")
    lines += [f"not tried: {reason}" for reason in ablation.left_out]
    title = "What each optimisation brings (measured, rate over that of the config as it is)"
    return table_of(title, _ABLATION_COLUMNS, steps), Passage("" if steps else title, tuple(lines))


def _next_steps(profile: LoopProfile, folder: str) -> tuple[str, ...]:
    asked = profile.options
    ablate = command_text("profile", profile.target, asked.gpu, ["--ablate"], asked.fixed)
    return (
        *([ablate] if profile.ablation is None else []),
        command_text("search", profile.target, asked.gpu),
        f"tunekit report {quoted(folder)}  (this again)",
    )
