"""The file of `tunekit plan --milestones`, and the limits on its total."""

import argparse
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tunekit.cli.numbers import digits, duration_s, positive_number
from tunekit.errors import UnknownGpuError, UnreadableError, UsageError
from tunekit.machine.profiles import find_profile
from tunekit.plan.milestones import HERE, Limits
from tunekit.records.interval import Interval
from tunekit.records.milestones import Milestone
from tunekit.records.profile import Profile
from tunekit.typos import did_you_mean
from tunekit.untrusted import parse_yaml, read_text

_MAX_MILESTONES = 100
"""Milestones of a file."""
_KEYS = ("name", "data", "samples", "epochs", "hours", "runs", "hardware", "gpus")
_LONGEST_H = 1e6


def read_milestones(
    path: Path, samples: int, epochs: int | None, profiles: Mapping[str, Profile]
) -> tuple[Milestone, ...]:
    """Return the milestones of a file.

    Args:
        path: YAML, `milestones:` with a list below it.
        samples: samples per epoch of the data set that x1 stands for.
        epochs: epochs of a milestone without its own; None where each needs its own.
        profiles: every GPU by id, with the machines that hardware may name.

    Raises:
        UsageError: it can't be read, or a milestone can't be used; the message names the place.
    """
    try:
        tree = parse_yaml(read_text(path))
    except UnreadableError as error:
        raise UsageError(f"{path} {error}; give a YAML file with a list of milestones") from error
    items = tree.get("milestones") if isinstance(tree, dict) and len(tree) == 1 else None
    if not isinstance(items, list) or not 0 < len(items) <= _MAX_MILESTONES:
        raise UsageError(f"{path} must hold milestones: and below it a list of 1 to {_MAX_MILESTONES}")
    read = []
    for number, item in enumerate(items, 1):
        try:
            read.append(_milestone(item, samples, epochs, profiles))
        except (argparse.ArgumentTypeError, ValidationError) as error:
            raise UsageError(f"{path}: milestone {number}: {_problem(error)}") from error
    return tuple(read)


def _problem(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}, got {first['input']!r}"


def _milestone(item: object, samples: int, epochs: int | None, profiles: Mapping[str, Profile]) -> Milestone:
    if not isinstance(item, dict):
        raise argparse.ArgumentTypeError(f"{item!r} is not a mapping; write name:, epochs: and so on")
    for key in item:
        if key not in _KEYS:
            hint = did_you_mean(str(key), _KEYS, f"there are: {', '.join(_KEYS)}")
            raise argparse.ArgumentTypeError(f"no key {key!r}; {hint}")
    if len({"data", "samples", "hours"} & set(item)) > 1 or {"hours", "epochs"} <= set(item):
        raise argparse.ArgumentTypeError(
            "data, samples and hours exclude each other, and hours excludes epochs; keep one of them"
        )
    hours = _hours(str(item["hours"])) if "hours" in item else None
    epochs = item.get("epochs", epochs if hours is None else 1)
    if epochs is None:
        raise argparse.ArgumentTypeError("it has no epochs; write epochs: 90, or give --epochs")
    hardware = item.get("hardware")
    return Milestone(
        name=str(item.get("name") or "").strip(),
        samples_per_epoch=_count(item["samples"]) if "samples" in item else _scaled(item, samples),
        epochs=_count(epochs),
        hours=hours,
        runs=_count(item.get("runs", 1)),
        hardware=None if hardware is None else _hardware(str(hardware).strip(), profiles),
        gpus=item.get("gpus"),
    )


def _hours(written: str) -> Interval:
    """Return the hours of 30 or of 23..38."""
    low, *high = map(positive_number("hours"), written.split("..", 1))
    if high and high[0] < low:
        raise argparse.ArgumentTypeError(f"hours must be written as 30 or 23..38, got {written}")
    return Interval(value=(low + (high or [low])[0]) / 2, low=low, high=(high or [low])[0])


def _scaled(item: Mapping[str, Any], samples: int) -> int:
    """Return the samples of `data: x4`."""
    written = str(item.get("data", "x1")).strip()
    match = re.fullmatch(r"x(\d{1,9}(?:\.\d{1,6})?)", written)
    if match is None:
        raise argparse.ArgumentTypeError(f"data must be a multiple such as x4, got {written!r}")
    return round(samples * float(match[1]))


def _count(written: Any) -> Any:
    """Return a number that may be written as 50k; anything else unchanged, for the record to refuse."""
    known = digits(written) if isinstance(written, str) else None
    return written if known is None else int(known)


def _hardware(name: str, profiles: Mapping[str, Profile]) -> str:
    """Return the profile id, instance or provider that a name stands for."""
    machines = [machine for profile in profiles.values() for machine in profile.instances]
    known = {HERE, *(one.name for one in machines), *(one.provider for one in machines)}
    by_name = {one.lower(): one for one in known}
    try:
        return find_profile(name, profiles).id
    except UnknownGpuError as error:
        if name.lower() in by_name:
            return by_name[name.lower()]
        hint = did_you_mean(name.lower(), (*profiles, *by_name), "tunekit gpus lists them")
        raise argparse.ArgumentTypeError(
            f"hardware {name!r} is no GPU, instance or provider; {hint}"
        ) from error


def limits_of(max_usd: float | None, deadline: str | None, now: datetime | None = None) -> Limits:
    """Return the limits that `--max-cost` and `--deadline` set.

    Args:
        max_usd: the most dollars.
        deadline: a day, which ends at midnight UTC, or a time from now.
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
    if not 0 < hours <= _LONGEST_H:
        raise UsageError(
            f"--deadline {deadline}: write a day to come, such as 2027-01-31, or a time such as 3d or 36h"
        )
    return Limits(max_usd, deadline.strip(), hours)
