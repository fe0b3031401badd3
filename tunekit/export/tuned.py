"""Reads an exported config back: the knob values that it asks for."""

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from tunekit.errors import UsageError
from tunekit.export.keys import MATMUL_KEY, flat, key_of, meant
from tunekit.records.config import KNOBS, Precision, TrainConfig
from tunekit.records.run import Run


@dataclass(frozen=True)
class Tuned:
    """What a config file asks for."""

    config: TrainConfig
    lr: float | None
    """Learning rate; None where the file has none."""


def read_tuned(path: Path, run: Run) -> Tuned:
    """Return the knob values of an exported config; a key that was taken out keeps the script's own value.

    Args:
        path: the YAML file.
        run: the run that exported it; it knows the user's keys and the script's own values.

    Raises:
        UsageError: the file can't be read, or holds a key or value that is no knob's.
    """
    keys = _keys(path)
    baseline = run.baseline_config
    if baseline is None:
        raise UsageError(f"the run of {path} has no baseline, so there is nothing to change from")
    names = {key_of(knob, run.target): knob for knob in (*KNOBS, "lr")}
    for key in keys:
        if key not in names and key != MATMUL_KEY:
            near = difflib.get_close_matches(key, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(names)}"
            raise UsageError(f"{path}: {key} is no knob; {hint}")
    asked = {names[key]: meant(names[key], value, run.target) for key, value in keys.items() if key in names}
    if asked.get("precision") == "fp32" and keys.get(MATMUL_KEY) in ("high", "medium") and _on_gpu(run):
        asked["precision"] = Precision.TF32
    lr = asked.pop("lr", None)
    if lr is not None and (isinstance(lr, bool) or not isinstance(lr, int | float) or not lr > 0):
        raise UsageError(f"{path}: lr must be a positive number, got {lr!r}")
    return Tuned(config=_config(path, baseline, asked), lr=None if lr is None else float(lr))


def _keys(path: Path) -> dict[str, Any]:
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} can't be read ({error}); give a YAML file that a search wrote") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{path} is not YAML: {error}") from error
    if not isinstance(tree, dict):
        raise UsageError(f"{path} holds no keys; give a YAML file that a search wrote")
    return flat(tree)


def _config(path: Path, baseline: TrainConfig, asked: dict[str, Any]) -> TrainConfig:
    values = baseline.model_dump() | asked
    if values["num_workers"] == 0:
        values |= {"prefetch_factor": None, "persistent_workers": False}
    try:
        return TrainConfig.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "config"
        raise UsageError(f"{path}: {where}: {first['msg']}") from error


def _on_gpu(run: Run) -> bool:
    return any(t.measurement and t.measurement.loop.device.type == "cuda" for t in run.trials)
