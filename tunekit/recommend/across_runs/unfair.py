"""What differs between two runs beside the config, so that the factor may not be the config's. Pure."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass

from tunekit.recommend.across_runs.side import Side, command_words
from tunekit.records.finding import WORST_FIRST, Finding, Severity
from tunekit.records.run import RunStatus
from tunekit.units import bytes_text, count_text, duration_text

_NEARLY = 0.02
"""RAM limits that differ by no more count as equal: kernels keep a little for themselves."""
_NOISY = 0.05
_TIMES = 2.0
"""Noise floors are very different where the larger is above the one and this many times the other."""

_BOTH_ON_ONE = "to compare configs, search both on one machine; this factor is of the machines as well"
_ONE_SOFTWARE = "to compare configs, search both in one environment; this factor is of the software as well"
_MAY_BE_MEANT = "nothing, if that is what you compare; else search the same training again"


def _device_text(side: Side) -> str:
    on, device = side.run.measured_on, side.loop.device
    return on if device.type == "cpu" else f"{on} ({device.name})"


def _known_bytes(size_bytes: int | None) -> str | None:
    return None if size_bytes is None else bytes_text(size_bytes)


def _drivers_text(side: Side) -> str | None:
    return ", ".join(sorted({gpu.driver for gpu in side.run.host.accelerators if gpu.driver})) or None


def _torch_version(side: Side) -> str | None:
    if side.run.host.torch:
        return side.run.host.torch.version
    return side.run.discovery.torch_version if side.run.discovery else None


def _cuda_text(side: Side) -> str | None:
    torch = side.run.host.torch
    if torch is None:
        return None
    if torch.hip_version:
        return f"ROCm {torch.hip_version}"
    return f"CUDA {torch.cuda_version}" if torch.cuda_version else "no CUDA"


def _python_version(side: Side) -> str | None:
    if side.run.host.torch:
        return side.run.host.torch.python_version
    return side.run.discovery.python_version if side.run.discovery else None


def _emulation_text(side: Side) -> str:
    return "another that stands in for it" if side.run.is_emulated else "the GPU asked for"


def _script_text(side: Side) -> str | None:
    digest = side.run.target.script_sha256
    return None if digest is None else f"SHA-256 {digest[:12]}..."


@dataclass(frozen=True)
class _Question:
    """One thing that should be the same. Where either side's is unknown nothing is said."""

    code: str
    severity: Severity
    message: str
    remedy: str
    value: Callable[[Side], str | None]


_QUESTIONS = (
    _Question(
        "other-device",
        Severity.WARNING,
        "measured on different devices",
        _BOTH_ON_ONE,
        _device_text,
    ),
    _Question(
        "other-device-memory",
        Severity.WARNING,
        "the devices offer different memory",
        "give both the same --gpu, on one kind of device: memory decides which batches fit",
        lambda side: _known_bytes(side.loop.device.memory_bytes),
    ),
    _Question(
        "other-cpu",
        Severity.WARNING,
        "the CPUs are different models",
        _BOTH_ON_ONE,
        lambda side: side.run.host.cpu_name,
    ),
    _Question(
        "other-cpu-count",
        Severity.WARNING,
        "different numbers of CPUs could be used",
        "give both as many CPUs: they limit the loader's workers",
        lambda side: str(side.run.host.cpus),
    ),
    _Question(
        "other-driver",
        Severity.WARNING,
        "the GPU drivers differ",
        _ONE_SOFTWARE,
        _drivers_text,
    ),
    _Question(
        "other-torch",
        Severity.WARNING,
        "the versions of torch differ",
        _ONE_SOFTWARE,
        _torch_version,
    ),
    _Question(
        "other-cuda",
        Severity.WARNING,
        "torch is built for different CUDA or ROCm versions",
        _ONE_SOFTWARE,
        _cuda_text,
    ),
    _Question(
        "other-cudnn",
        Severity.WARNING,
        "the versions of cuDNN differ",
        _ONE_SOFTWARE,
        lambda side: side.run.host.torch.cudnn_version if side.run.host.torch else None,
    ),
    _Question(
        "other-python",
        Severity.INFO,
        "the versions of Python differ",
        _ONE_SOFTWARE,
        _python_version,
    ),
    _Question(
        "other-emulation",
        Severity.WARNING,
        "only one run was measured on the GPU that it was asked for",
        "search both on that GPU; a device that stands in for another shows neither its speed nor its limits",
        _emulation_text,
    ),
    _Question(
        "other-world-size",
        Severity.WARNING,
        "different numbers of processes train together",
        "start both with as many processes; rates are of all of them together",
        lambda side: str(side.loop.world_size),
    ),
    _Question(
        "other-script",
        Severity.INFO,
        "the scripts differ, which may be the very thing that you compare",
        _MAY_BE_MEANT,
        _script_text,
    ),
    _Question(
        "other-command",
        Severity.INFO,
        "the training commands differ, which may be the very thing that you compare",
        _MAY_BE_MEANT,
        lambda side: " ".join(command_words(side.run.target)),
    ),
    _Question(
        "other-tier",
        Severity.INFO,
        "the configs are of different tiers, which leave different headroom",
        "choose one for all with --tier",
        lambda side: side.chosen.tier.value if side.chosen else "baseline",
    ),
    _Question(
        "other-objective",
        Severity.INFO,
        "the searches looked for different things; the factor here is of rates",
        "search both with one --objective",
        lambda side: side.run.options.objective.value,
    ),
    _Question(
        "other-window",
        Severity.INFO,
        "the steady windows differ in length",
        "search both with one --window: a short one shows less of what comes seldom",
        lambda side: duration_text(side.run.options.window_s),
    ),
    _Question(
        "other-tunekit",
        Severity.INFO,
        "the runs were measured by different versions of tunekit",
        "see its changelog for changes of what a rate is; search again with one version if in doubt",
        lambda side: side.run.tunekit_version,
    ),
)


_OTHER_TRAINING = Finding(
    code="other-training",
    severity=Severity.WARNING,
    message="script and command both differ: the rates of two trainings say nothing of each other",
    remedy="compare runs of one training",
)


def unfair_findings(reference: Side, other: Side) -> list[Finding]:
    """Return what differs between two runs beside the config, with both values, in order of weight."""
    found = [_answer(question, reference, other) for question in _QUESTIONS]
    found += [ask(reference, other) for ask in (_epoch_samples, _ram_limit, _noise, _unfinished, _same_run)]
    told = [one for one in found if one]
    if {"other-script", "other-command"} <= {one.code for one in told}:
        told.insert(0, _OTHER_TRAINING)
    return sorted(told, key=lambda finding: WORST_FIRST.index(finding.severity))


def _answer(question: _Question, reference: Side, other: Side) -> Finding | None:
    before, after = question.value(reference), question.value(other)
    if before is None or after is None or before == after:
        return None
    evidence = f"{before} in {reference.name}, {after} in {other.name}"
    return Finding(
        code=question.code,
        severity=question.severity,
        message=question.message,
        evidence=evidence,
        remedy=question.remedy,
    )


def _epoch_samples(reference: Side, other: Side) -> Finding | None:
    before, after = reference.loop.epoch_samples_total, other.loop.epoch_samples_total
    if before is None or after is None:
        return None
    # A loader that drops its last batch has a shorter epoch for another batch size, and the same data.
    dropped = max(side.loop.world_size * (side.loop.batch_size or 0) for side in (reference, other))
    if abs(after - before) <= dropped:
        return None
    return Finding(
        code="other-epoch",
        severity=Severity.WARNING,
        message="epochs differ in length, and rates are over whole epochs",
        evidence=f"{before:,} samples in {reference.name}, {after:,} in {other.name}",
        remedy="search with as many samples per epoch: what an epoch's end costs weighs more in a short one",
    )


def _ram_limit(reference: Side, other: Side) -> Finding | None:
    before, after = reference.run.host.ram_limit_bytes, other.run.host.ram_limit_bytes
    if abs(after - before) <= _NEARLY * max(before, after):
        return None
    return Finding(
        code="other-ram-limit",
        severity=Severity.WARNING,
        message="the RAM limits differ",
        evidence=f"{bytes_text(before)} in {reference.name}, {bytes_text(after)} in {other.name}",
        remedy="give both as much RAM: it limits buffers, and what of the data stays in the page cache",
    )


def _noise(reference: Side, other: Side) -> Finding | None:
    before, after = reference.run.noise_floor, other.run.noise_floor
    if before is None or after is None:
        return None
    less, more = sorted((before.relative, after.relative))
    if more <= _NOISY or more <= _TIMES * less:
        return None
    return Finding(
        code="other-noise",
        severity=Severity.WARNING,
        message="fresh processes of one config differ much more in one run than in the other",
        evidence=(
            f"A/A noise floor {before.relative:.1%} in {reference.name}, {after.relative:.1%} in {other.name}"
        ),
        remedy="search the noisy one again on a quiet machine; below the larger floor all counts as noise",
    )


def _unfinished(reference: Side, other: Side) -> Finding | None:
    open_ones = [side for side in (reference, other) if side.run.status is not RunStatus.FINISHED]
    if not open_ones:
        return None
    return Finding(
        code="unfinished",
        severity=Severity.WARNING,
        message="a search has not finished, so its config may not be the one that it would recommend",
        evidence=", ".join(f"{side.name} is {side.run.status.value}" for side in open_ones),
        remedy="; ".join(f"tunekit search --resume {shlex.quote(side.folder)}" for side in open_ones),
    )


def _same_run(reference: Side, other: Side) -> Finding | None:
    if reference.run.trials != other.run.trials or not other.run.trials:
        return None
    return Finding(
        code="same-run",
        severity=Severity.WARNING,
        message="both folders hold the same trials",
        evidence=f"{count_text(len(other.run.trials), 'trial')} of {other.run.created_at}",
        remedy="give the folder of another search",
    )
