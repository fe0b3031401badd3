"""Records as sentences, phrases and commands, the same in every report. Pure."""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from tunekit.records.base import Record, with_texts
from tunekit.records.config import KNOB, KNOBS, Precision, TrainConfig
from tunekit.records.finding import Finding, Severity
from tunekit.records.host import Host, SandboxKind, TorchBuild
from tunekit.records.interval import Interval
from tunekit.records.options import EPOCHS, NO_PROGRESS_LIMIT, SEARCH_KNOBS, SEARCH_TIME, TRIAL_LIMIT, Kind
from tunekit.records.prediction import PredictionPath
from tunekit.records.profile import TakenName
from tunekit.records.run import LoopProfile, Run, RunStatus, TargetRecord, usual_options
from tunekit.records.scaling_run import ScalingRun
from tunekit.records.target import Discovery
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.secret_words import MASK, has_mask
from tunekit.trial.typed_commands import command_text, missing_command, quoted, shown_target
from tunekit.units import bytes_text, count_text, digits_text, duration_text, rate_text, typed_duration_text

AnyRecord = TypeVar("AnyRecord", bound=Record)

UNKNOWN = "n/a"
HIDDEN_NAME = "hidden"
"""Replaces the machine's name."""
_HOMES = (r"/(?:home|Users)/[^/\s'\":,;()\[\]]+", "/root")
"""Home folders on any system: a run may be shown on another machine."""
_ACCUMULATION = "accumulate_grad_batches"

TOO_WIDE = "too noisy"
TOO_WIDE_IN_TABLE = "too wide"
_NO_RANGE = 100.0
"""A range whose ends differ by this factor says only that there were too few processes."""

SEVERITY_WORDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
"""What every report calls a finding."""

SANDBOXES: dict[SandboxKind, str] = {
    "overlay": "sandboxed by overlayfs: their writes are discarded",
    "landlock": "sandboxed by Landlock: they write to their own folders only",
    "none": "kept from your files by the agent's file guard alone",
}
"""What protects the user's files from trials."""


def interval_text(interval: Interval | None, unit: str = "", too_wide: str = TOO_WIDE) -> str:
    """Return a figure with its range, such as "412 (398 to 425)", alone if it has none; "n/a" for None.

    A unit starts with its space; a range that is too wide is replaced.
    """
    if interval is None:
        return UNKNOWN
    if interval.low == interval.high:
        return f"{rate_text(interval.value)}{unit}"
    if is_too_wide(interval):
        return f"{rate_text(interval.value)}{unit} ({too_wide})"
    return f"{rate_text(interval.value)}{unit} ({rate_text(interval.low)} to {rate_text(interval.high)})"


def speedup_text(interval: Interval | None, too_wide: str = TOO_WIDE) -> str:
    """Return a speedup with its range, such as "1.47x (1.40 to 1.55)"; "n/a" for None."""
    if interval is None:
        return UNKNOWN
    ends = too_wide if is_too_wide(interval) else _ends_text(interval)
    return f"{factor_text(interval.value)} ({ends})"


def gain_text(ratio: Interval | float | None) -> str:
    """Return a speedup such as "1.47x speedup (95% CI 1.40 to 1.55)", without a range for a float."""
    if ratio is None or isinstance(ratio, float):
        return f"speedup {UNKNOWN}" if ratio is None else f"{factor_text(ratio)} speedup"
    ends = TOO_WIDE if is_too_wide(ratio) else f"95% CI {_ends_text(ratio)}"
    return f"{factor_text(ratio.value)} speedup ({ends})"


def is_too_wide(interval: Interval) -> bool:
    """Return whether a range says no more than that there were too few processes."""
    return interval.low <= 0 or interval.high / interval.low > _NO_RANGE


def range_text(interval: Interval | None) -> str:
    """Return the ends of a factor's range for a table, such as "1.40 to 1.55"; "n/a" for None."""
    if interval is None:
        return UNKNOWN
    return TOO_WIDE_IN_TABLE if is_too_wide(interval) else _ends_text(interval)


def factor_text(factor: float | None) -> str:
    """Return a factor without its range, such as "1.47x"; "n/a" for None."""
    digits = digits_text(factor, ".2f")
    return digits if digits == UNKNOWN else f"{digits}x"


def _ends_text(interval: Interval) -> str:
    return f"{digits_text(interval.low, '.2f')} to {digits_text(interval.high, '.2f')}"


def knob_rows(configs: Sequence[TrainConfig | None]) -> list[tuple[str, ...]]:
    """Return a row for each knob with its value in each config; accumulation only where one accumulates."""
    values = [config.model_dump() if config else {} for config in configs]
    accumulates = any(each.get(_ACCUMULATION, 1) != 1 for each in values)
    return [
        (
            KNOB[knob].shown if knob == _ACCUMULATION else knob,
            *(value_text(each.get(knob)) for each in values),
        )
        for knob in KNOBS
        if knob != _ACCUMULATION or accumulates
    ]


def value_text(value: object) -> str:
    """Return a knob's value as reports write it: "on", "off", "-" for None."""
    if value is None:
        return "-"
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def change_text(knob: str, before: object, after: object) -> str:
    """Return a knob's change, such as "num_workers: 0 -> 2"."""
    return f"{knob}: {values_text(before, after)}"


def values_text(before: object, after: object) -> str:
    """Return a knob's old and new value, such as "0 -> 2"."""
    return " -> ".join("none" if value is None else value_text(value) for value in (before, after))


def config_text(config: TrainConfig | None, discovery: Discovery | None = None) -> str:
    """Return a config in one line, such as "batch 64, workers 2 x prefetch 2, bf16, compile".

    Args:
        config: the config.
        discovery: of the script, if this is the script's own config.
    """
    if config is None:
        return "unknown config"
    loader = f"workers {config.num_workers}"
    if config.prefetch_factor:
        loader += f" x prefetch {config.prefetch_factor}"
    steps = config.accumulate_grad_batches
    batch = f"batch {config.batch_size}" + (f" x {steps} accumulated" if steps > 1 else "")
    return ", ".join([batch, loader, own_precision_text(config, discovery), *config.switched_on])


def own_precision_text(config: TrainConfig, found: Discovery | None) -> str:
    """Return the script's own arithmetic, such as "fp32 (convolutions in tf32)": torch sets them apart."""
    own = str(config.precision)
    has_conv = found is not None and any(root.has_4d_weights for root in found.roots)
    is_float32 = config.precision in (Precision.FP32, Precision.TF32)
    if found is None or found.tf32_in_conv is None or not has_conv or not is_float32:
        return own
    in_conv = Precision.TF32 if found.tf32_in_conv else Precision.FP32
    return own if in_conv is config.precision else f"{own} (convolutions in {in_conv})"


def outcome_text(record: TrialRecord) -> str:
    """Return a trial's outcome in one line; "abandoned" means given up early as too slow."""
    if record.measurement is not None:
        loop = record.measurement.loop
        rate, pace = rate_text(loop.rate_samples_per_s), rate_text(loop.epoch_it_per_s)
        how = "measured, abandoned" if loop.is_abandoned else "measured"
        return f"{rate} samples/s, {pace} it/s ({how})"
    if record.dry is not None:
        return f"traced without arithmetic, {count_text(record.dry.loop.script_steps, 'step')} seen"
    assert record.failure is not None
    return record.failure.text


def role_text(record: TrialRecord) -> str:
    """Return what a trial was for, such as "confirm 2 (baseline)"."""
    role = record.role.value if record.round is None else f"{record.role.value} {record.round + 1}"
    is_own = record.is_baseline_config and record.role is not TrialRole.BASELINE
    return f"{role} (baseline)" if is_own else role


def by_text(named: Iterable[tuple[str, str]], joined_by: str = ", ") -> list[str]:
    """Return texts, each once after all its names, such as "A, B: slower"; without empty texts."""
    names: dict[str, list[str]] = {}
    for name, text in named:
        names.setdefault(text, []).append(name)
    return [f"{joined_by.join(those)}: {text}" for text, those in names.items() if text]


def host_text(host: Host) -> str:
    """Return the machine in one line."""
    gpus = ", ".join(f"{gpu.name} {bytes_text(gpu.memory_bytes)}" for gpu in host.accelerators) or "no GPU"
    cpus = ("" if host.cpus == host.cpus_total else f"{host.cpus} of ") + count_text(host.cpus_total, "CPU")
    memory = f"{bytes_text(host.ram_limit_bytes)} RAM, {bytes_text(host.shm_bytes)} /dev/shm"
    return f"{gpus}, {cpus}, {memory}"


def about_text(run: TargetRecord) -> str:
    """Return when, on which machine and by which command a record was measured."""
    return f"{run.created_at[:10]}, {host_text(run.host)}: {shown_target(run.target)}"


PATHS = {
    PredictionPath.LOOP_ON_GPU: "the script's own loop on a GPU",
    PredictionPath.LOOP_ON_CPU: "the script's own loop on a CPU, simulating the CUDA allocator",
    PredictionPath.LOOP_DRY: "the script's own loop on tensor shapes only, simulating the CUDA allocator",
}
"""What was traced for a prediction."""


def torch_text(build: TorchBuild) -> str:
    """Return a torch build with its versions, such as "2.9.0 (CUDA 12.8, cuDNN 91002), Python 3.12.1"."""
    versions = {"CUDA": build.cuda_version, "ROCm": build.hip_version, "cuDNN": build.cudnn_version}
    made_for = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    return f"{build.version} ({made_for or 'CPU build'}), Python {build.python_version}"


def finding_text(finding: Finding) -> str:
    """Return a finding in one line: what, the figures that show it, what to do."""
    evidence = f" ({finding.evidence})" if finding.evidence else ""
    remedy = f"; {finding.remedy}" if finding.remedy else ""
    return finding.message + evidence + remedy


def how_measured(run: LoopProfile | ScalingRun, took_s: float, how: str) -> str:
    """Return where, in how many trials and how figures were measured, in one sentence."""
    noise, trials = run.noise_floor, count_text(len(run.trials), "trial")
    floor = f"; A/A noise floor {noise.relative:.1%} over {noise.processes} fresh processes" if noise else ""
    status = "" if run.status is RunStatus.FINISHED else f" (status: {run.status})"
    return f"Measured on {run.measured_on} in {trials}, {duration_text(took_s)}{status}: {how}{floor}."


def shortener(home: Path, here: Path) -> Callable[[str], str]:
    """Return a function that makes paths in a text relative, or writes `~` for a home folder.

    Args:
        home: of the user who writes the report.
        here: the folder that paths are relative to.
    """
    inside = re.compile(rf"(?<![\w/.~-]){re.escape(str(here))}/(?=\w)")
    own = (re.escape(str(home)),) if len(home.parts) > 1 else ()
    places = re.compile(rf"(?:(?<![\w/.~-])|(?<=://))(?:{'|'.join((*own, *_HOMES))})(?=[/\s'\":,;()\[\]]|$)")
    return lambda text: places.sub("~", inside.sub("", text))


def without_places(record: AnyRecord, shorten: Callable[[str], str]) -> AnyRecord:
    """Return a record for other people: with short paths and without machine names."""
    host = getattr(record, "host", None)
    if isinstance(host, Host):
        record = record.changed(host=host.changed(hostname=HIDDEN_NAME))
    trials: tuple[TrialRecord, ...] = getattr(record, "trials", ())
    names = dict.fromkeys(trial.host_name for trial in trials if trial.host_name is not None)
    if names:
        hidden: dict[str | None, str | None] = {
            name: f"{HIDDEN_NAME} {place}" for place, name in enumerate(names, 1)
        }
        record = record.changed(trials=tuple(t.changed(host_name=hidden.get(t.host_name)) for t in trials))
    return with_texts(record, shorten)


# --- commands of tunekit, as they would be typed again ---------------------------------------


def resume_command(run: Run, folder: str) -> str:
    """Return the command that resumes a search in a folder, or joins a shared one.

    A finished search gets a budget for another trial and its confirming rounds.
    """
    place = run.shared_at
    if place is None:
        longer_s = run.longer_budget_s if run.status is RunStatus.FINISHED else None
        more = f" --budget {typed_duration_text(longer_s)}" if longer_s else ""
        return f"tunekit search --resume {quoted(folder)}{more}{missing_command(run.target)}"
    has_note = MASK not in place or has_mask(run.target.command)
    return search_again(run, place) + ("" if has_note else f"  # with the user in place of {MASK}")


def search_again(run: Run, place: str | None = None) -> str:
    """Return the command of the same search, with every option that changes what is searched.

    Args:
        run: of the search.
        place: where it is shared; None for a single host.
    """
    asked, usual = run.options, usual_options(run.target.builtin is not None, run.options.budget_s)
    words = ["--share", place] if place else []
    words += [word for one in asked.ranges for word in ("--range", f"{one.knob}={one.low}..{one.high}")]
    for one in (*SEARCH_KNOBS, *SEARCH_TIME, TRIAL_LIMIT, NO_PROGRESS_LIMIT):
        value = getattr(asked, one.name, None)  # --fix and --range have fields of other names
        if value not in (None, getattr(usual, one.name, None)) or (one is EPOCHS and asked.epochs_given):
            words += [one.flag] if one.kind is Kind.SWITCH else [one.flag, one.typed(value)]
    return command_text("search", run.target, asked.gpu, words, asked.fixed)


def taken_text(names: Sequence[TakenName]) -> str:
    """Return which profile each GPU name stands for, after a space; empty where all are ids."""
    text = ""
    for one in names:
        others = f" (others: {', '.join(one.others)})" if one.others else ""
        text += f" {one.typed} is {one.profile_id}{others}."
    return text


def checkpoint_text(interval_s: float, step_s: float | None, epoch_s: float) -> str:
    """Return the time between two checkpoints, also in steps where their time is known, and in epochs."""
    steps = "" if step_s is None else f"{max(1.0, interval_s / step_s):,.0f} steps, "
    epochs = interval_s / epoch_s
    few = rate_text(epochs) if epochs >= 0.1 else digits_text(epochs, ".1g")
    return f"{duration_text(interval_s)} ({steps}{few} epochs)"
