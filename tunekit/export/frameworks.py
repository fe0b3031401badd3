"""Writes a config for a framework: each knob under the framework's own name.

To add a framework, add an entry to FRAMEWORKS.
"""

import json
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import yaml

from tunekit.errors import UsageError
from tunekit.export.keys import LIGHTNING_PRECISIONS, nested
from tunekit.export.tuned import Tuned, is_on_gpu
from tunekit.export.yaml_config import comment
from tunekit.recommend.learning_rate import global_batch, recommended
from tunekit.records.config import KNOB, KNOBS, LOADER_KNOBS, WORKER_KNOBS, Precision, TrainConfig
from tunekit.records.run import Run
from tunekit.records.target import Binding, BindingKind
from tunekit.secret_words import MASK, has_mask
from tunekit.trial.binding_syntax import PLACE, how_text, value_text
from tunekit.trial.bindings import bind
from tunekit.trial.knob_names import LEARNING_RATE, STEPS, knob_hint
from tunekit.trial.process_count import with_processes
from tunekit.units import count_text

Place = str | Callable[[TrainConfig], Mapping[str, Any]]
"""The name of a framework's field, or a function that returns several fields with their values."""

Places = Mapping[str, Place]

_EXPORTED = (*KNOBS, LEARNING_RATE)
_OVERRIDE = re.compile(r"(\+{0,2}[^\s=+-][^\s=]*)=" + re.escape(PLACE))
"""An override of Hydra's or OmegaConf's, such as `data.bs={}`."""


@dataclass(frozen=True)
class Exported:
    """The config to export."""

    tuned: Tuned
    run: Run
    keys: Mapping[str, str] = field(default_factory=dict)
    """Dotted keys that the user gave, by knob."""
    processes: int | None = None
    """Training processes to start; None for those of the run."""

    @property
    def values(self) -> dict[str, Any]:
        """The values of the knobs that the config sets, and its learning rate if it has one."""
        config = self.tuned.config.model_dump(mode="json")
        values = {knob: config[knob] for knob in KNOBS if knob in self.tuned.named}
        return values if self.lr is None else values | {LEARNING_RATE: self.lr}

    @property
    def lr(self) -> float | None:
        """The config's learning rate, by the run's rule for another number of processes; None if unknown."""
        run = self.run
        if self.processes in (None, run.world_size):
            return self.tuned.lr
        batch = global_batch(self.tuned.config, self.processes)
        rate = recommended(run.discovery, run.options, run.baseline_config, batch)
        return None if rate is None or run.script_scales_lr else rate.value


class Framework(NamedTuple):
    """How a config is written for a framework."""

    places: Callable[[Exported], Places]
    """The fields of the knobs that it has fields for."""
    text: Callable[[Exported, Mapping[str, Any]], str]
    """Writes the fields."""
    is_yaml: bool = True
    """Whether notes are written as comments in the text."""
    takes_keys: bool = False
    has_tf32: bool = True


def framework_text(name: str, of: Exported) -> tuple[str, tuple[str, ...]]:
    """Return the config for a framework, and notes on what the user has to set.

    Raises:
        UsageError: the framework takes no keys, or no knob has one.
        TargetError: the command can't be started with several processes.
    """
    framework = FRAMEWORKS[name]
    if of.keys and not framework.takes_keys:
        known = ", ".join(one for one, other in FRAMEWORKS.items() if other.takes_keys)
        raise UsageError(f"--to {name} takes no --key; it is for {known}")
    places = framework.places(of)
    fields: dict[str, Any] = {}
    for knob, value in of.values.items():
        if (place := places.get(knob)) is not None:
            fields |= {place: value} if isinstance(place, str) else place(of.tuned.config)
    text = framework.text(of, fields)
    notes = (*_process_notes(of), *_left_out(of, places, framework))
    if not framework.is_yaml:
        return f"{text}\n", notes
    about = f"tunekit for {of.run.target.name}, measured on {of.run.measured_on}, {of.run.created_at[:10]}"
    return "\n".join([*(line for text in (about, *notes) for line in comment(text)), text]), ()


def read_keys(typed: Collection[str]) -> dict[str, str]:
    """Return the keys in "KNOB=KEY" texts, by knob.

    Raises:
        UsageError: one is malformed, or names no knob.
    """
    keys = {}
    for text in typed:
        knob, _, key = (part.strip() for part in text.partition("="))
        if knob not in _EXPORTED:
            raise UsageError(f"--key {text}: no knob {knob!r}; {knob_hint(knob, _EXPORTED)}")
        if not all(key.split(".")):
            raise UsageError(f"--key {text}: the key has an empty part; write it as {knob}=data.{knob}")
        keys[knob] = key
    return keys


def _left_out(of: Exported, places: Places, framework: Framework) -> Iterator[str]:
    """Yield a note on the knobs without a field, except those that are off as in the baseline."""
    parts = []
    for knob, value in of.values.items():
        known, binding = KNOB.get(knob), of.run.target.binding_of(knob)
        is_placed = knob in places and (framework.has_tf32 or value != Precision.TF32)
        is_off = known is not None and value == known.off
        if is_placed or (is_off and (knob in WORKER_KNOBS or value == getattr(of.run.baseline_config, knob))):
            continue
        how = known.code.get(value) if known else None
        if binding is not None and binding.kind is BindingKind.FILE:
            how = how_text(binding)
        parts.append(f"{knob} {value_text(value)}{f' ({how})' if how else ''}")
    if parts:
        hint = "; give their keys with --key KNOB=KEY" if framework.takes_keys else ""
        yield f"left out: {', '.join(parts)}{hint}"


def _process_notes(of: Exported) -> Iterator[str]:
    """Yield notes on what else depends on the number of processes."""
    run = of.run
    if of.processes not in (None, run.world_size):
        batch = f"a global batch of {global_batch(of.tuned.config, of.processes):,}"
        yield f"lr {of.lr} for {batch}" if of.lr else f"lr unknown for {batch}: set it by hand"
        if run.target.is_bound(STEPS):
            yield f"steps are for {count_text(run.world_size, 'process')}: set them by hand"
    if of.processes and has_mask(run.target.command):
        yield f"write the secret in place of {MASK}"


# --- fields and flags -----------------------------------------------------------------------


def _amp(config: TrainConfig) -> dict[str, Any]:
    """Return timm's flags for a precision."""
    dtypes = {Precision.BF16: "bfloat16", Precision.FP16: "float16"}
    return {"--amp": True, "--amp-dtype": dtypes[config.precision]} if config.precision in dtypes else {}


def _hf_precision(config: TrainConfig) -> dict[str, bool]:
    own = config.precision
    is_float32 = own is Precision.TF32 or (
        own is Precision.FP32 and config.compile
    )  # else its Trainer takes TF32
    tf32 = {"tf32": own is Precision.TF32} if is_float32 else {}
    return {"bf16": own is Precision.BF16, "fp16": own is Precision.FP16} | tf32


_HF: Mapping[str, Place] = {
    "batch_size": "per_device_train_batch_size",
    "num_workers": "dataloader_num_workers",
    "prefetch_factor": "dataloader_prefetch_factor",
    "pin_memory": "dataloader_pin_memory",
    "persistent_workers": "dataloader_persistent_workers",
    "compile": "torch_compile",
    "precision": _hf_precision,
    "accumulate_grad_batches": "gradient_accumulation_steps",
    LEARNING_RATE: "learning_rate",
}
_TIMM: Mapping[str, Place] = {
    "batch_size": "-b",
    "num_workers": "-j",
    "pin_memory": "--pin-mem",
    "compile": lambda config: {"--torchcompile": "inductor" if config.compile else False},
    "precision": _amp,
    "channels_last": "--channels-last",
    "accumulate_grad_batches": "--grad-accum-steps",
    LEARNING_RATE: "--lr",
}
_ACCELERATE: Mapping[str, Place] = {
    "precision": lambda config: {
        "mixed_precision": {Precision.BF16: "bf16", Precision.FP16: "fp16"}.get(config.precision, "no")
    },
    "compile": lambda config: {"dynamo_config": {"dynamo_backend": "INDUCTOR" if config.compile else "NO"}},
}


def _json(of: Exported, fields: Mapping[str, Any]) -> str:
    return json.dumps({**fields, **({} if is_on_gpu(of.run) else {"use_cpu": True})}, indent=2)


def _yaml(_: Exported, fields: Mapping[str, Any]) -> str:
    dumped: str = yaml.safe_dump(
        nested({key.lstrip("+"): value for key, value in fields.items()}), sort_keys=False
    )
    return dumped


def _accelerate(of: Exported, fields: Mapping[str, Any]) -> str:
    kind = "MULTI_GPU" if is_on_gpu(of.run) else "MULTI_CPU"
    machine = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "NO" if of.run.world_size == 1 else kind,
        "num_processes": of.run.world_size,
        "use_cpu": not is_on_gpu(of.run),
    }
    return _yaml(of, machine | dict(fields))


def _flags(_: Exported, fields: Mapping[str, Any]) -> str:
    given = [
        [flag] if value is True else [flag, str(value)]
        for flag, value in fields.items()
        if value is not False
    ]
    return shlex.join(chain.from_iterable(given))


def _overrides(_: Exported, fields: Mapping[str, Any]) -> str:
    return shlex.join(f"{key}={value_text(value)}" for key, value in fields.items())


# --- dotted keys ----------------------------------------------------------------------------


def _own_keys(of: Exported) -> Places:
    """Return the keys that the user gave or bound, with values in the user's spelling.

    Raises:
        UsageError: there are none.
    """
    places: dict[str, Place] = dict(of.keys)
    for binding in of.run.target.bindings:
        override = _OVERRIDE.fullmatch(binding.words[0]) if len(binding.words) == 1 else None
        key = override[1] if override else binding.key
        if key is not None and binding.knob not in places:
            value = of.values.get(binding.knob)
            text = dict(binding.spelling).get(value_text(value), value)
            places[binding.knob] = partial(_field, key, text)
    if not places:
        raise UsageError("no knob has a key of your config; give them: --key batch_size=data.batch_size")
    return places


def _field(key: str, value: Any, _: TrainConfig) -> dict[str, Any]:
    return {key: value}


def _lightning(of: Exported) -> Places:
    loader = {knob: f"data.{knob}" for knob in LOADER_KNOBS}
    keys = loader | {"accumulate_grad_batches": "trainer.accumulate_grad_batches"} | dict(of.keys)
    precision = keys.pop("precision", "trainer.precision")
    return {**keys, "precision": lambda config: {precision: LIGHTNING_PRECISIONS[config.precision]}}


# --- a command -------------------------------------------------------------------------------


def _in_command(of: Exported) -> Places:
    """Return the knobs that the command sets, and those whose value it need not change."""
    own, config = of.run.baseline_config, of.tuned.config
    same = (knob for knob in KNOBS if getattr(own, knob) == getattr(config, knob))
    return {knob: knob for knob in (*same, *(one.knob for one in _of_command(of)))}


def _of_command(of: Exported) -> tuple[Binding, ...]:
    kinds = (BindingKind.ARG, BindingKind.ENV)
    return tuple(one for one in of.run.target.bindings if one.kind in kinds)


def _torchrun(of: Exported, placed: Mapping[str, Any]) -> str:
    """Return the searched command with its bound flags, started in several processes."""
    own = of.run.baseline_config
    assert own is not None
    bound = bind(
        of.run.target.changed(bindings=_of_command(of)),
        own.changed(**{knob: value for knob, value in placed.items() if knob in KNOBS}),
        own,
        placed.get(LEARNING_RATE),
        options=of.run.discovery.options if of.run.discovery else (),
    )
    variables = [f"{name}={shlex.quote(value)}" for name, value in bound.environment.items()]
    return " ".join([*variables, shlex.join(with_processes(bound.command, of.processes or 1))])


FRAMEWORKS = {
    "lightning": Framework(_lightning, _yaml, takes_keys=True, has_tf32=False),
    "hf": Framework(lambda _: _HF, _json, is_yaml=False),
    "accelerate": Framework(lambda _: _ACCELERATE, _accelerate, has_tf32=False),
    "hydra": Framework(_own_keys, _overrides, is_yaml=False, takes_keys=True),
    "timm": Framework(lambda _: _TIMM, _flags, is_yaml=False, has_tf32=False),
    "torchrun": Framework(_in_command, _torchrun, is_yaml=False),
    "keys": Framework(_own_keys, _yaml, takes_keys=True),
}
"""Every framework by its name on the command line; tunekit.cli.verbs describes them."""
