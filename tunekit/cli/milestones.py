"""A file of milestones, as people write it, and the limits that they have to hold."""

import argparse
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from tunekit.cli.numbers import digits, duration_s, share
from tunekit.errors import UnknownGpuError, UnreadableError, UsageError
from tunekit.machine.profiles import taken_name
from tunekit.plan.milestones import Limits
from tunekit.records.milestones import Hardware, HardwareKind, Milestone
from tunekit.records.plan import PlanRequest
from tunekit.records.profile import Profile
from tunekit.typos import did_you_mean
from tunekit.untrusted import parse_yaml, read_text

_MOST = 12
"""Milestones of a file."""
_NEEDS = {
    "name": "a text, such as pilot",
    "data": "a multiple of the data set, such as x4",
    "samples": "a number, such as 50k or 1.2M",
    "hardware": "a GPU, an instance, a provider or here, such as a10g",
    "gpus": "a number, such as 8",
    "instances": "a number, such as 4",
    "runs": "a number, such as 4",
    "epochs": "a number, such as 90",
    "validation": "a share or a time for each epoch, such as 5% or 2m",
    "checkpoint_every": "a time, such as 30m",
}
"""The keys of a milestone, and what each holds."""
_KEYS = tuple(_NEEDS)
_HERE = "here"
"""Hardware: the machine that the rate was measured on."""
_MULTIPLE = re.compile(r"x(\d{1,9}(?:\.\d{1,6})?)")
_LONGEST_H = 1e6


class UsualEpochs(NamedTuple):
    """The epochs of a milestone that has none of its own."""

    epochs: int
    origin: str
    """What says so, such as "--epochs"."""


def read_milestones(
    path: Path, request: PlanRequest, profiles: Mapping[str, Profile], usual: UsualEpochs | None = None
) -> tuple[Milestone, ...]:
    """Return the milestones of a file.

    Args:
        path: YAML, `milestones:` with a list below it.
        request: the training that they are made of: x1 is its data set.
        profiles: every GPU by id, with the machines that hardware may name.
        usual: epochs where a milestone has none; None where each needs its own.

    Raises:
        UsageError: it can't be read, or something in it is no milestone's; the message names the place.
    """
    try:
        tree = parse_yaml(read_text(path))
    except UnreadableError as error:
        raise UsageError(f"{path} {error}; give a YAML file with a list of milestones") from error
    if not isinstance(tree, dict) or not isinstance(tree.get("milestones"), list) or not tree["milestones"]:
        raise UsageError(f"{path} has no list of milestones; begin it with milestones: and a - for each")
    for key in tree:
        if key != "milestones":
            hint = did_you_mean(str(key), ("milestones", *_KEYS), "the file has milestones: alone")
            raise UsageError(f"{path}: no key {key!r} beside milestones; {hint}")
    items = tree["milestones"]
    if len(items) > _MOST:
        raise UsageError(f"{path} has {len(items)} milestones, where {_MOST} is the most; write two files")
    read = []
    for number, item in enumerate(items, 1):
        try:
            read.append(_milestone(item, request, profiles, usual))
        except (_WrongValueError, ValidationError) as error:
            problem = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
            problem = problem.removeprefix("Value error, ")
            named = f" ({item['name']})" if isinstance(item, dict) and item.get("name") else ""
            raise UsageError(f"{path}: milestone {number}{named}: {problem}") from error
    names = [one.name for one in read]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"{path}: two milestones are named {twice!r}; give each its own name")
    return tuple(read)


class _WrongValueError(ValueError):
    """What is wrong in a milestone: what, the value and the remedy."""


def _milestone(
    item: object, request: PlanRequest, profiles: Mapping[str, Profile], usual: UsualEpochs | None
) -> Milestone:
    if not isinstance(item, dict):
        what = "it is empty" if item is None else f"{item!r} is no mapping"
        raise _WrongValueError(f"{what}; write name:, epochs: and what else it has")
    for key in item:
        if key not in _KEYS:
            hint = did_you_mean(str(key), _KEYS, f"there are: {', '.join(_KEYS)}")
            raise _WrongValueError(f"no key {key!r}; {hint}")
        if item[key] is None:
            raise _WrongValueError(f"{key} is empty; write {_NEEDS[key]}, or drop the key")
    name = item.get("name")
    if not isinstance(name, str | int) or isinstance(name, bool) or not str(name).strip():
        got = f", got {name!r}" if "name" in item else ""
        raise _WrongValueError(f"name must be a text{got}; every milestone has one, such as pilot")
    data, samples = _data(item, request)
    every = item.get("checkpoint_every")
    if every is not None and request.assumptions.checkpoint_cost_s is None:
        raise _WrongValueError(f"checkpoint_every {every!r} contradicts --no-checkpoints; drop one")
    epochs = _count(item, "epochs")
    if epochs is None and usual is None:
        raise _WrongValueError(
            "it has no epochs; write epochs: 90, or give --epochs for the milestones without"
        )
    return Milestone(
        name=str(name).strip(),
        samples_per_epoch=samples,
        data=data,
        epochs=epochs or (usual.epochs if usual else None),
        epochs_from=usual.origin if usual and epochs is None else None,
        runs=_count(item, "runs") or 1,
        hardware=_hardware(item.get("hardware"), request, profiles),
        gpus=_count(item, "gpus"),
        instances=_count(item, "instances"),
        validation_share=_validation_share(item.get("validation"), samples, request),
        checkpoint_every_s=None if every is None else _duration_s("checkpoint_every", every, "30m"),
    )


def _data(item: Mapping[str, Any], request: PlanRequest) -> tuple[str, int]:
    """Return the size of the data as it was written, and its samples."""
    if "samples" in item:
        if "data" in item:
            raise _WrongValueError(f"data {item['data']!r} and samples {item['samples']!r}; keep one of them")
        samples = _count(item, "samples") or 0
        return f"{samples:,} samples", samples
    written = item.get("data", "x1")
    match = _MULTIPLE.fullmatch(written.strip()) if isinstance(written, str) else None
    samples = round(request.samples_per_epoch * float(match[1])) if match else 0
    if match is None or not samples:
        raise _WrongValueError(
            f"data must be a multiple of the data set's {request.samples_per_epoch:,} samples, such as x4, "
            f"got {written!r}; write a number of samples as samples: 50k"
        )
    return written.strip(), samples


def _count(item: Mapping[str, Any], key: str) -> int | None:
    if key not in item:
        return None
    written = item[key]
    known = None if isinstance(written, bool) else digits(str(written))
    if known is None or int(known) < 1:
        example = "such as 50k or 1.2M" if key == "samples" else "such as 8"
        raise _WrongValueError(f"{key} must be a whole number of at least 1, {example}, got {written!r}")
    return int(known)


def _duration_s(key: str, written: object, example: str) -> float:
    try:
        if isinstance(written, str) and not written.strip().isdigit():
            return duration_s(written)
    except argparse.ArgumentTypeError as error:
        raise _WrongValueError(f"{key}: {error}") from error
    raise _WrongValueError(f"{key} must be a time with its unit, such as {example}, got {written!r}")


def _validation_share(written: object, samples: int, request: PlanRequest) -> float:
    """Return the time of the validation as a share of the training's, whichever of both was written."""
    if written is None:
        return 0.0
    if isinstance(written, bool) or not isinstance(written, str | float):
        raise _WrongValueError(
            f"validation must be a share or a time for each epoch, such as 5% or 2m, got {written!r}"
        )
    text = str(written).strip()
    if text[-1:] in "smhd" and text:
        return _duration_s("validation", text, "2m") * request.rate_samples_per_s.value / samples
    try:
        return share(text)
    except argparse.ArgumentTypeError as error:
        raise _WrongValueError(f"validation {error}, or a time for each epoch such as 2m") from error


def _hardware(written: object, request: PlanRequest, profiles: Mapping[str, Profile]) -> Hardware | None:
    """Return what a milestone's hardware names: a GPU first, since notebooks are called after theirs."""
    if written is None:
        return None
    if not isinstance(written, str) or not written.strip():
        raise _WrongValueError(
            f"hardware must name a GPU, an instance or a provider, such as a10g, got {written!r}"
        )
    name = written.strip()
    machines = [machine for profile in profiles.values() for machine in profile.instances]
    instances = {machine.name.lower(): machine.name for machine in machines}
    providers = {machine.provider for machine in machines}
    if name.lower() == _HERE:
        return Hardware(kind=HardwareKind.MEASURED, name=request.measured_on)
    try:
        taken = taken_name(name, profiles)
        known_id = taken.profile_id if taken else name.lower()
        return Hardware(kind=HardwareKind.GPU, name=known_id, typed=taken.typed if taken else None)
    except UnknownGpuError as error:
        if name.lower() in instances:
            return Hardware(kind=HardwareKind.INSTANCE, name=instances[name.lower()])
        if name.lower() in providers:
            return Hardware(kind=HardwareKind.PROVIDER, name=name.lower())
        known = (_HERE, *profiles, *providers, *instances)
        hint = did_you_mean(name.lower(), known, "tunekit gpus lists them")
        raise _WrongValueError(f"hardware {name!r} is no GPU, instance or provider; {hint}") from error


def limits_of(max_usd: float | None, deadline: str | None, now: datetime | None = None) -> Limits:
    """Return the limits that `--max-cost` and `--deadline` set.

    Args:
        max_usd: the most dollars.
        deadline: a day, of which the end in UTC counts, or a time from now.
        now: by default the clock's.

    Raises:
        UsageError: the deadline is neither, or is past.
    """
    if deadline is None:
        return Limits(max_usd)
    now = now or datetime.now(UTC)
    try:
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", deadline.strip()):
            until = datetime.combine(date.fromisoformat(deadline.strip()), time.max, UTC)
            hours = (until - now).total_seconds() / 3600
        else:
            hours = duration_s(deadline) / 3600 if not deadline.strip().isdigit() else 0.0
    except (ValueError, argparse.ArgumentTypeError):
        hours = 0.0
    if hours < 0:
        raise UsageError(f"--deadline {deadline} is past, today is {now.date()}; give a day to come, or 3d")
    if not 0 < hours <= _LONGEST_H:
        raise UsageError(f"--deadline {deadline}: write a day, such as 2026-12-20, or a time: 3d, 36h")
    return Limits(max_usd, deadline.strip(), hours)


def refuse_limits_alone(options: argparse.Namespace) -> None:
    """Refuse limits without milestones that would hold them."""
    given: Sequence[tuple[str, object]] = (("--max-cost", options.max_cost), ("--deadline", options.deadline))
    alone = [flag for flag, value in given if value is not None]
    if alone and options.milestones is None:
        raise UsageError(f"{' and '.join(alone)} without --milestones FILE.yaml; give the file, or drop it")
