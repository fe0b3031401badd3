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
    named: frozenset[str]
    """Knobs that the file names; the others are as the script has them."""
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
    lr = _lr(path, asked.pop("lr", None))
    return Tuned(config=_config(path, baseline, asked), named=frozenset(asked), lr=lr)


def _lr(path: Path, value: Any) -> float | None:
    """Return the learning rate; YAML takes 1e-4 for a text, and people write it."""
    if value is None:
        return None
    try:
        lr = float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        lr = float("nan")
    if not 0 < lr < float("inf"):
        raise UsageError(f"{path}: lr must be a positive number, got {value!r}; write it as 0.001")
    return lr


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
        raise UsageError(
            f"{path}: {where} = {values.get(where, '?')!r}: {first['msg']}; correct it, or take the key "
            "out to keep the script's own"
        ) from error


def _on_gpu(run: Run) -> bool:
    return any(t.measurement and t.measurement.loop.device.type == "cuda" for t in run.trials)
