"""What keeps two runs from being compared: too few processes, or differences that are not the config's."""

import shlex
from collections.abc import Callable

from tunekit.diagnose.registry import INFO, WARNING, Hit, Hits, check
from tunekit.diagnose.run_pair import CHANGES, RunPair, Side, command_words
from tunekit.records.finding import Severity
from tunekit.records.run import RunStatus
from tunekit.units import bytes_text, count_text, duration_text, percent_text

_ROUNDS = 3
"""Fresh processes of each config that usually show a difference."""
_NEARLY = 0.02
"""RAM limits that differ by no more count as equal: kernels keep a little for themselves."""
_NOISY = 0.05
_TIMES = 2.0
"""Noise floors are very different where the larger is above the one and this many times the other."""

_ONE_MACHINE = "to compare configs, search both on one machine; this factor is of the machines as well"
_ONE_SOFTWARE = "to compare configs, search both in one environment; this factor is of the software as well"
_MAY_BE_MEANT = "nothing, if that is what you compare; else search the same training again"


def _processes_text(pair: RunPair) -> str:
    return pair.each(len(pair.reference.rates), len(pair.other.rates))


def _more_processes(pair: RunPair) -> str:
    fewest = min(len(pair.reference.rates), len(pair.other.rates))
    rounds = max(_ROUNDS, fewest + 2)
    return f"search both again with more fresh processes: tunekit search --confirm {rounds}"


@check(
    "too-few-processes",
    WARNING,
    "too few fresh processes to tell whether the rates differ, so no regression is claimed",
)
def _too_few_processes(pair: RunPair) -> Hits:
    if pair.factor is None and not pair.is_same_run:
        yield Hit(_processes_text(pair), _more_processes(pair))


@check("undecided", WARNING, "a rate lower by more than the tolerance can't be excluded")
def _undecided(pair: RunPair) -> Hits:
    factor = pair.factor
    if factor is None or pair.verdict_on(factor) in CHANGES or pair.is_same_run:
        return
    if factor.low < 1 - pair.tolerance:
        yield Hit(
            f"fresh processes: {_processes_text(pair)}",
            _more_processes(pair),
            message=f"a rate lower by more than the tolerance of {percent_text(pair.tolerance)} can't be "
            f"excluded: the range reaches down to {factor.low:.2f}x",
        )


@check(
    "memory-grew",
    WARNING,
    "peak reserved VRAM grew by more than the tolerance; that alone is no regression here",
)
def _memory_grew(pair: RunPair) -> Hits:
    before, after, times = pair.reference, pair.other, pair.reserved_ratio
    if times is not None and times > 1 + pair.tolerance:
        whole_bytes = after.loop.device.memory_bytes
        yield Hit(
            f"{bytes_text(before.peak_reserved_bytes)} in {before.name}, "
            f"{bytes_text(after.peak_reserved_bytes)} of {bytes_text(whole_bytes)} in {after.name}, "
            f"{times:.2f}x (measured)",
            "look at batch size, precision and compile of both; a smaller batch gives the memory back",
        )


def _differs(
    code: str, severity: Severity, message: str, remedy: str, value: Callable[[Side], str | None]
) -> None:
    """Register a check of what should be the same; where either's is unknown nothing is said."""

    @check(code, severity, message)
    def _look(pair: RunPair) -> Hits:
        before, after = value(pair.reference), value(pair.other)
        if before is not None and after is not None and before != after:
            yield Hit(pair.each(before, after), remedy)


def _script_text(side: Side) -> str | None:
    digest = side.run.target.script_sha256
    return None if digest is None else f"SHA-256 {digest[:12]}..."


def _command_text(side: Side) -> str:
    return " ".join(command_words(side.run.target))


@check(
    "other-training",
    WARNING,
    "script and command both differ: the rates of two trainings say nothing of each other",
)
def _other_training(pair: RunPair) -> Hits:
    scripts = {_script_text(side) for side in (pair.reference, pair.other)}
    has_other_command = _command_text(pair.reference) != _command_text(pair.other)
    if has_other_command and None not in scripts and len(scripts) == 2:
        yield Hit(None, "compare runs of one training")


def _device_text(side: Side) -> str:
    on, device = side.run.measured_on, side.loop.device
    return on if device.type == "cpu" else f"{on} ({device.name})"


def _device_memory_text(side: Side) -> str | None:
    size_bytes = side.loop.device.memory_bytes
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


_differs("other-device", WARNING, "measured on different devices", _ONE_MACHINE, _device_text)
_differs(
    "other-device-memory",
    WARNING,
    "the devices offer different memory",
    "give both the same --gpu, on one kind of device: memory decides which batches fit",
    _device_memory_text,
)
_differs(
    "other-cpu", WARNING, "the CPUs are different models", _ONE_MACHINE, lambda side: side.run.host.cpu_name
)
_differs(
    "other-cpu-count",
    WARNING,
    "different numbers of CPUs could be used",
    "give both as many CPUs: they limit the loader's workers",
    lambda side: str(side.run.host.cpus),
)
_differs("other-driver", WARNING, "the GPU drivers differ", _ONE_SOFTWARE, _drivers_text)
_differs("other-torch", WARNING, "the versions of torch differ", _ONE_SOFTWARE, _torch_version)
_differs(
    "other-cuda", WARNING, "torch is built for different CUDA or ROCm versions", _ONE_SOFTWARE, _cuda_text
)
_differs(
    "other-cudnn",
    WARNING,
    "the versions of cuDNN differ",
    _ONE_SOFTWARE,
    lambda side: side.run.host.torch.cudnn_version if side.run.host.torch else None,
)
_differs("other-python", INFO, "the versions of Python differ", _ONE_SOFTWARE, _python_version)
_differs(
    "other-emulation",
    WARNING,
    "only one run was measured on the GPU that it was asked for",
    "search both on that GPU; a device that stands in for another shows neither its speed nor its limits",
    lambda side: "another that stands in for it" if side.run.is_emulated else "the GPU asked for",
)
_differs(
    "other-world-size",
    WARNING,
    "different numbers of processes train together",
    "start both with as many processes; rates are of all of them together",
    lambda side: str(side.loop.world_size),
)
_differs(
    "other-script",
    INFO,
    "the scripts differ, which may be the very thing that you compare",
    _MAY_BE_MEANT,
    _script_text,
)
_differs(
    "other-command",
    INFO,
    "the training commands differ, which may be the very thing that you compare",
    _MAY_BE_MEANT,
    _command_text,
)
_differs(
    "other-tier",
    INFO,
    "the configs are of different tiers, which leave different headroom",
    "choose one for all with --tier",
    lambda side: side.chosen.tier.value if side.chosen else "baseline",
)
_differs(
    "other-objective",
    INFO,
    "the searches looked for different things; the factor here is of rates",
    "search both with one --objective",
    lambda side: side.run.options.objective.value,
)
_differs(
    "other-window",
    INFO,
    "the steady windows differ in length",
    "search both with one --window: a short one shows less of what comes seldom",
    lambda side: duration_text(side.run.options.window_s),
)
_differs(
    "other-tunekit",
    INFO,
    "the runs were measured by different versions of tunekit",
    "see its changelog for changes of what a rate is; search again with one version if in doubt",
    lambda side: side.run.tunekit_version,
)


@check("other-epoch", WARNING, "epochs differ in length, and rates are over whole epochs")
def _other_epoch(pair: RunPair) -> Hits:
    before, after = pair.reference.loop.epoch_samples_total, pair.other.loop.epoch_samples_total
    if before is None or after is None:
        return
    # A loader that drops its last batch has a shorter epoch for another batch size, and the same data.
    sides = (pair.reference, pair.other)
    dropped = max(side.loop.world_size * (side.loop.batch_size or 0) for side in sides)
    if abs(after - before) > dropped:
        yield Hit(
            pair.each(f"{before:,} samples", f"{after:,}"),
            "search with as many samples per epoch: what an epoch's end costs weighs more in a short one",
        )


@check("other-ram-limit", WARNING, "the RAM limits differ")
def _other_ram_limit(pair: RunPair) -> Hits:
    before, after = pair.reference.run.host.ram_limit_bytes, pair.other.run.host.ram_limit_bytes
    if abs(after - before) > _NEARLY * max(before, after):
        yield Hit(
            pair.each(bytes_text(before), bytes_text(after)),
            "give both as much RAM: it limits buffers, and what of the data stays in the page cache",
        )


@check("other-noise", WARNING, "fresh processes of one config differ much more in one run than in the other")
def _other_noise(pair: RunPair) -> Hits:
    before, after = pair.reference.run.noise_floor, pair.other.run.noise_floor
    if before is None or after is None:
        return
    less, more = sorted((before.relative, after.relative))
    if more > _NOISY and more > _TIMES * less:
        floors = pair.each(f"{before.relative:.1%}", f"{after.relative:.1%}")
        yield Hit(
            f"A/A noise floor {floors}",
            "search the noisy one again on a quiet machine; below the larger floor all counts as noise",
        )


@check(
    "unfinished",
    WARNING,
    "a search has not finished, so its config may not be the one that it would recommend",
)
def _unfinished(pair: RunPair) -> Hits:
    sides = (pair.reference, pair.other)
    unfinished = [side for side in sides if side.run.status is not RunStatus.FINISHED]
    if unfinished:
        yield Hit(
            ", ".join(f"{side.name} is {side.run.status.value}" for side in unfinished),
            "; ".join(f"tunekit search --resume {shlex.quote(side.folder)}" for side in unfinished),
        )


@check("same-run", WARNING, "both folders hold the same trials")
def _same_run(pair: RunPair) -> Hits:
    if pair.is_same_run:
        run = pair.other.run
        yield Hit(
            f"{count_text(len(run.trials), 'trial')} of {run.created_at}",
            "give the folder of another search",
        )
