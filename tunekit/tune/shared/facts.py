"""What the hosts of a shared search have in common: the search itself, and in a group the machine."""

from collections.abc import Iterable
from typing import Any

from pydantic import NonNegativeInt, PositiveInt

from tunekit.records.base import Record
from tunekit.records.host import TorchBuild
from tunekit.records.run import Run, SearchOptions
from tunekit.records.target import Binding, command_words
from tunekit.trial.binding_syntax import value_text
from tunekit.units import bytes_text, typed_duration_text

_NEARLY = 0.05
"""RAM limits that differ by no more count as equal: kernels and containers keep a little for themselves."""
_OWN = ("wait_quiet_s", "ignored")
"""Options that each host may have for itself: they change no measurement and no choice."""
_FLAGS = {
    "max_trials": "--trials",
    "fixed": "--fix",
    "ranges": "--range",
    "base_lr": "--lr",
    "confirm_rounds": "--confirm",
}
"""Of options that are not named for their flag."""
_FOR_MORE = ("--budget", "--trials")


class SearchFacts(Record):
    """What is searched, as every host must be asked for it."""

    tunekit_version: str
    command: tuple[str, ...]
    """Without its secrets, and without the folders of its interpreter and its script."""
    script_sha256: str | None
    bindings: tuple[Binding, ...]
    samples_per_step: PositiveInt | None
    options: SearchOptions

    def differences(self, here: "SearchFacts") -> tuple[str, ...]:
        """Return what another host's search has otherwise, in words."""
        differing = []
        if self.command != here.command:
            differing.append(
                f"the command is {' '.join(here.command)!r} here, {' '.join(self.command)!r} there"
            )
        elif self.script_sha256 != here.script_sha256:
            differing.append("the script's text differs")
        if (self.bindings, self.samples_per_step) != (here.bindings, here.samples_per_step):
            differing.append("--bind or --samples-per-step differs")
        if self.tunekit_version != here.tunekit_version:
            differing.append(f"tunekit is {here.tunekit_version} here, {self.tunekit_version} there")
        there, own = _flags_of(self.options), _flags_of(here.options)
        differing += [
            f"{flag} is {own[flag]} here, {there[flag]} there" for flag in own if own[flag] != there[flag]
        ]
        if any(own[flag] != there[flag] for flag in _FOR_MORE):
            differing.append("a shared search is given no more time or trials")
        return tuple(differing)


def _flags_of(options: SearchOptions) -> dict[str, str]:
    """Return what every host must be asked for, as it is typed, by its flag."""
    names = [name for name in type(options).model_fields if name not in (*_OWN, "epochs_given")]
    values = {name: getattr(options, name) for name in names}
    if not options.epochs_given:
        values["epochs"] = None
    return {
        _FLAGS.get(name) or "--" + name.removesuffix("_s").replace("_", "-"): _typed(name, value)
        for name, value in values.items()
    }


def _typed(name: str, value: Any) -> str:
    if value in (None, False, ()):
        return "not given"
    if value is True:
        return "given"
    if name == "fixed":
        return ", ".join(f"{one.knob}={value_text(one.value)}" for one in value)
    if name == "ranges":
        return ", ".join(f"{one.knob}={one.low}..{one.high}" for one in value)
    return typed_duration_text(value) if name.endswith("_s") else str(value)


class MachineFacts(Record):
    """What rates depend on beside the config: where it differs, they are never mixed."""

    gpus: tuple[str, ...]
    """Names and memory."""
    driver: str | None
    python: str | None
    torch: str | None
    cuda: str | None
    cpu: str | None
    cpus: PositiveInt
    ram_bytes: NonNegativeInt
    shm_bytes: NonNegativeInt | None
    thread_variables: dict[str, str]

    def differences(self, here: "MachineFacts") -> tuple[str, ...]:
        """Return what this machine has otherwise than the one that is here, in words."""
        rows = (
            ("GPUs", ", ".join(here.gpus) or "none", ", ".join(self.gpus) or "none"),
            ("driver", here.driver, self.driver),
            ("Python", here.python, self.python),
            ("torch", here.torch, self.torch),
            ("CUDA", here.cuda, self.cuda),
            ("CPU", here.cpu, self.cpu),
            ("CPUs", str(here.cpus), str(self.cpus)),
            ("thread variables", _variables_text(here), _variables_text(self)),
        )
        differing = [
            f"{what} {own or 'unknown'} here, {there or 'unknown'} there"
            for what, own, there in rows
            if own != there
        ]
        for what, size, other in (
            ("RAM", here.ram_bytes, self.ram_bytes),
            ("/dev/shm", here.shm_bytes, self.shm_bytes),
        ):
            if abs((size or 0) - (other or 0)) > _NEARLY * max(size or 0, other or 0):
                differing.append(f"{what} {bytes_text(size)} here, {bytes_text(other)} there")
        return tuple(differing)


def _variables_text(machine: MachineFacts) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(machine.thread_variables.items())) or "none"


def search_facts(run: Run) -> SearchFacts:
    """Return what a run, before its first trial, searches."""
    target = run.target
    return SearchFacts(
        tunekit_version=run.tunekit_version,
        command=(target.builtin,) if target.builtin else command_words(target),
        script_sha256=target.script_sha256,
        bindings=target.bindings,
        samples_per_step=target.samples_per_step,
        options=run.options,
    )


def machine_facts(run: Run, torch: TorchBuild | None = None) -> MachineFacts:
    """Return the machine of a run, before its first trial.

    Args:
        run: with its host.
        torch: that the training has; None where it is not known.
    """
    host = run.host
    gpus = () if run.profile.is_cpu else host.accelerators
    return MachineFacts(
        gpus=tuple(f"{gpu.name} {bytes_text(gpu.memory_bytes)}" for gpu in gpus),
        driver=_one(gpu.driver for gpu in gpus),
        python=torch.python_version if torch else None,
        torch=torch.version if torch else None,
        cuda=(torch.hip_version or torch.cuda_version) if torch else None,
        cpu=host.cpu_name,
        cpus=host.cpus,
        ram_bytes=host.ram_limit_bytes,
        shm_bytes=host.shm_bytes,
        thread_variables=run.thread_variables,
    )


def _one(texts: Iterable[str | None]) -> str | None:
    return ", ".join(sorted({text for text in texts if text})) or None
