"""Reads the knob values of an exported config."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tunekit.errors import UnreadableError, UsageError
from tunekit.export.keys import MATMUL_KEY, flat, key_of, meant
from tunekit.records.config import KNOBS, Precision, TrainConfig
from tunekit.records.run import Run
from tunekit.records.target import Target
from tunekit.records.trials import measured
from tunekit.session.folder import RUN_FILE, load_run
from tunekit.trial.knob_names import knob_hint
from tunekit.untrusted import parse_yaml, read_text

_TO_GIVE = "give a YAML file that a search wrote, or one with a line such as `num_workers: 4` for each knob"


@dataclass(frozen=True)
class Tuned:
    """The settings in a config file."""

    config: TrainConfig
    named: frozenset[str]
    """Knobs that the file sets; the others keep the script's values."""
    lr: float | None
    """Learning rate; None if the file has none."""


def read_tuned(path: Path, run: Run) -> Tuned:
    """Return the knob values of an exported config; a removed key keeps the script's own value.

    Args:
        path: the YAML file.
        run: the run that exported it; it knows the user's keys and the script's own values.

    Raises:
        UsageError: the file can't be read, or has a key or value that no knob has.
    """
    baseline = run.baseline_config
    if baseline is None:
        raise UsageError(f"the run of {path} has no baseline to change from; finish its search first")
    return read_knobs(path).over(baseline, run.target, on_gpu=is_on_gpu(run))


def is_on_gpu(run: Run) -> bool:
    """Return whether trials ran on a GPU."""
    return any(one.loop.device.type == "cuda" for one in measured(run.trials))


def run_of_config(config: Path) -> Run:
    """Return the run in the config's folder, which the config came from.

    Raises:
        UsageError: there is no such file, or no run beside it.
    """
    if config.is_dir() or not config.exists():
        what = "a folder" if config.is_dir() else "not there"
        raise UsageError(f"{config} is {what}; name a config that a search wrote, such as RUN/balanced.yaml")
    if not (config.parent / RUN_FILE).exists():
        raise UsageError(f"there is no run.json beside {config}; keep both together")
    return load_run(config.parent)


@dataclass(frozen=True)
class KnobFile:
    """The keys of a config file, not yet matched with a script."""

    path: Path
    keys: Mapping[str, Any]

    def knobs(self, target: Target) -> dict[str, str]:
        """Return the knob, or "lr", that each key means: an exported key, or the knob's own name.

        Raises:
            UsageError: a key matches no knob, or two keys match the same one.
        """
        plain = {knob: knob for knob in (*KNOBS, "lr")}
        names = plain | {key_of(knob, target): knob for knob in plain}
        for key in self.keys:
            if key not in names and key != MATMUL_KEY:
                raise UsageError(f"{self.path}: {key} is no knob; {knob_hint(str(key), names)}")
        asked: dict[str, str] = {}
        for key in self.keys:
            knob = names.get(key)
            twice = next((other for other, meant_knob in asked.items() if meant_knob == knob), None)
            if twice is not None:
                raise UsageError(f"{self.path}: {twice} and {key} are the same knob; keep one of them")
            if knob is not None:
                asked[key] = knob
        return asked

    def over(self, baseline: TrainConfig, target: Target, *, on_gpu: bool) -> Tuned:
        """Return the knob values that the file sets.

        Args:
            baseline: the script's own values, for knobs that the file does not set.
            target: the target with the user's keys.
            on_gpu: whether the script trains on a GPU; elsewhere TF32 is float32.

        Raises:
            UsageError: no knob has a key or value.
        """
        knobs = self.knobs(target)
        asked = {knob: meant(knob, self.keys[key], target) for key, knob in knobs.items()}
        if asked.get("precision") == "fp32" and self.keys.get(MATMUL_KEY) in ("high", "medium") and on_gpu:
            asked["precision"] = Precision.TF32
        lr = _lr(self.path, asked.pop("lr", None))
        return Tuned(config=_config(self.path, baseline, asked), named=frozenset(asked), lr=lr)


def read_knobs(path: Path) -> KnobFile:
    """Read a config file.

    Raises:
        UsageError: it can't be read.
    """
    try:
        tree = parse_yaml(read_text(path))
    except UnreadableError as error:
        raise UsageError(f"{path} {error}; {_TO_GIVE}") from error
    if not isinstance(tree, dict):
        raise UsageError(f"{path} holds no keys; {_TO_GIVE}")
    return KnobFile(path, flat(tree))


def _lr(path: Path, value: Any) -> float | None:
    """Return the learning rate; people write 1e-4, which YAML reads as text."""
    if value is None:
        return None
    try:
        lr = float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        lr = float("nan")
    if not 0 < lr < float("inf"):
        raise UsageError(f"{path}: lr must be a positive number, got {_short(value)}; write it as 0.001")
    return lr


def _config(path: Path, baseline: TrainConfig, asked: dict[str, Any]) -> TrainConfig:
    try:
        return baseline.changed(**asked)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "config"
        raise UsageError(
            f"{path}: {where} = {_short(asked.get(where, '?'))}: {first['msg']}; correct it, or take the "
            "key out to keep the script's own"
        ) from error


def _short(value: Any) -> str:
    """Return the value as text, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."
