"""Configs beside each other: a comparison, and what each optimisation brings. Pure."""

from collections.abc import Sequence

from tunekit.memory.ram import buffer_bytes, held_bytes
from tunekit.plain_text import printable
from tunekit.recommend.noise import verdict
from tunekit.records.loop_profile import Ablation, AblationStep, Contender, LoopProfile
from tunekit.records.measurement import Measurement
from tunekit.records.recommendation import NoiseFloor
from tunekit.records.trial import TrialRecord
from tunekit.report.columns import Column, fitted_table
from tunekit.report.loop_time import part_texts, step_text
from tunekit.report.table import Passage, Table
from tunekit.report.text import TOO_WIDE_IN_TABLE, UNKNOWN, interval_text, knob_rows, speedup_text, value_text
from tunekit.units import bytes_text, duration_text


def comparison_parts(profile: LoopProfile) -> tuple[Table | Passage, ...]:
    """Return the contenders side by side; nothing for one alone."""
    if len(profile.contenders) < 2:
        return ()
    contenders = profile.contenders
    shown = [_measured(one, profile) for one in contenders]
    rows = knob_rows([one.config for one in contenders])
    rows.append(
        (
            "samples/s",
            *(interval_text(one.rate_samples_per_s, too_wide=TOO_WIDE_IN_TABLE) for one in contenders),
        )
    )
    rows.append(("factor", "1", *(speedup_text(one.factor, TOO_WIDE_IN_TABLE) for one in contenders[1:])))
    rows.append(("", "", *(verdict_text(one, profile.noise_floor) for one in contenders[1:])))
    rows += _time_rows(shown)
    rows += _memory_rows(shown)
    table = Table(
        "Compared (measured, unless predicted is said)",
        ("", *(printable(one.name) for one in contenders)),
        tuple(rows),
        tuple(range(1, len(contenders) + 1)),
    )
    missing = tuple(
        printable(f"{one.name}: not measured, {one.why_missing}") for one in contenders if one.why_missing
    )
    return (table, Passage("", missing)) if missing else (table,)


def verdict_text(contender: Contender, noise: NoiseFloor | None) -> str:
    """Return what a contender's factor may be called."""
    return UNKNOWN if contender.factor is None else verdict(contender.factor, noise)


def _measured(contender: Contender, profile: LoopProfile) -> Measurement | None:
    """Return the measurement that a contender's parts are of: one with details, if there is one."""
    trials: list[TrialRecord] = [
        trial for trial in profile.trials if trial.config == contender.config and trial.measurement
    ]
    trials.sort(key=lambda trial: trial.measurement is not None and trial.measurement.details is None)
    return trials[0].measurement if trials else None


def _time_rows(shown: Sequence[Measurement | None]) -> list[tuple[str, ...]]:
    parts = [{} if one is None else part_texts(one) for one in shown]
    names = dict.fromkeys(name for each in parts for name in each)
    rows = [(name, *(each.get(name, UNKNOWN) for each in parts)) for name in names]
    rows.append(("step", *(UNKNOWN if one is None else step_text(one.loop.step_time_s) for one in shown)))
    rows.append(
        ("epoch", *(UNKNOWN if one is None else duration_text(one.loop.epoch_time_s) for one in shown))
    )
    return rows


def _memory_rows(shown: Sequence[Measurement | None]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        (
            "RAM buffer (predicted)",
            *(
                UNKNOWN if one is None else bytes_text(buffer_bytes(one.loop, held_bytes(one.loop)))
                for one in shown
            ),
        ),
        (
            "/dev/shm at most",
            *(UNKNOWN if one is None else bytes_text(one.memory.peak_shm_bytes) for one in shown),
        ),
        (
            "RAM of the tree (PSS)",
            *(UNKNOWN if one is None else bytes_text(one.memory.peak_pss_bytes) for one in shown),
        ),
    ]
    if any(one is not None and one.loop.peak_reserved_bytes is not None for one in shown):
        reserved = (UNKNOWN if one is None else bytes_text(one.loop.peak_reserved_bytes) for one in shown)
        rows.append(("VRAM reserved", *reserved))
    return rows


def ablation_parts(
    ablation: Ablation | None, noise: NoiseFloor | None, width: int
) -> tuple[Table | Passage, ...]:
    """Return what each optimisation brings, by itself and in turn; nothing where none was asked for."""
    if ablation is None:
        return ()
    lines = []
    if ablation.steps:
        several = (step for step in ablation.steps if len(step.changes) > 1)
        lines += [printable(f"{step.name}: {_changes_text(step)}") for step in several]
    lines += [printable(f"{_one(step).name}: {_one(step).why_missing}") for step in _failed(ablation.steps)]
    alike = [
        step.name
        for step in ablation.steps
        if step.alone.factor is not None and verdict(step.alone.factor, noise) == "no significant difference"
    ]
    if alike:
        lines.append(f"no significant difference by itself: {', '.join(alike)}")
    if ablation.together is not None and ablation.product_of_alone is not None and len(ablation.steps) > 1:
        together = f"{speedup_text(ablation.together)}, {verdict(ablation.together, noise)}"
        lines.append(
            f"All together {together} (measured); the factors by themselves multiply "
            f"to {ablation.product_of_alone:.2f}x, which is no prediction: they act on the same time"
        )
    lines += [printable(f"not tried: {reason}") for reason in ablation.left_out]
    if not ablation.steps:
        return (Passage("What each optimisation brings", tuple(lines)),)
    columns = (
        Column[AblationStep]("", lambda step: step.name, is_numeric=False),
        Column[AblationStep]("by itself", lambda step: _factor_text(step.alone)),
        Column[AblationStep]("all so far", _so_far_text),
        Column[AblationStep](
            "of which this", lambda step: speedup_text(step.step_factor, TOO_WIDE_IN_TABLE), drop=1
        ),
    )
    title = "What each optimisation brings (measured, rate over that of the config as it is)"
    return (fitted_table(title, columns, ablation.steps, width), Passage("", tuple(lines)))


def best_step(ablation: Ablation | None, noise: NoiseFloor | None) -> AblationStep | None:
    """Return the optimisation that brings most by itself, None where none is faster."""
    faster = [
        step
        for step in (ablation.steps if ablation else ())
        if step.alone.factor is not None and verdict(step.alone.factor, noise) == "faster"
    ]
    return max(faster, key=lambda step: step.alone.factor.value if step.alone.factor else 0.0, default=None)


def brings_nothing(ablation: Ablation | None, noise: NoiseFloor | None) -> bool:
    """Return whether optimisations were measured and none is faster, by itself or with the others."""
    if ablation is None:
        return False
    factors = [step.alone.factor for step in ablation.steps] + [ablation.together]
    known = [one for one in factors if one is not None]
    return bool(known) and all(verdict(one, noise) != "faster" for one in known)


def _changes_text(step: AblationStep) -> str:
    return ", ".join(f"{one.knob} {value_text(one.value)}" for one in step.changes)


def _failed(steps: Sequence[AblationStep]) -> list[AblationStep]:
    return [step for step in steps if _one(step).why_missing is not None]


def _one(step: AblationStep) -> Contender:
    """Return the contender of a step that says why it has no figures, else any."""
    return step.added if step.added is not None and step.added.why_missing else step.alone


def _factor_text(contender: Contender) -> str:
    return (
        "failed"
        if contender.why_missing and contender.trials
        else speedup_text(contender.factor, TOO_WIDE_IN_TABLE)
    )


def _so_far_text(step: AblationStep) -> str:
    if step.added is not None:
        return _factor_text(step.added)
    return "not added" if step.alone.why_missing else _factor_text(step.alone)
