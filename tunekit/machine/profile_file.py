"""One profile file: how it is read, and what is told of a figure that can't be meant."""

import datetime
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from tunekit.errors import DamagedRecordError, UnreadableError
from tunekit.records.profile import PRECISIONS, Profile
from tunekit.units import MIB
from tunekit.untrusted import parse_yaml, read_text


class Bounds(NamedTuple):
    """Between what a figure of a GPU lies; what lies outside was written in another unit."""

    least: float
    most: float
    unit: str
    example: str


_MEMORY = Bounds(256 * MIB, 2**44, "bytes", "such as 24146608128 for 23028 MiB")
_RATE = "such as 29.8 for 29800 GFLOPS"

PLAUSIBLE: dict[str, Bounds] = {
    "memory_bytes": _MEMORY,
    "torch_memory_bytes": _MEMORY,
    "bandwidth_gb_per_s": Bounds(5, 50_000, "GB/s", "such as 936 for 0.936 TB/s"),
    "fp32_tflops": Bounds(0.05, 1_000, "TFLOPS", _RATE),
    "tf32_tflops": Bounds(0.05, 10_000, "TFLOPS", _RATE),
    "fp16_tflops": Bounds(0.05, 10_000, "TFLOPS", _RATE),
    "bf16_tflops": Bounds(0.05, 10_000, "TFLOPS", _RATE),
    "fp8_tflops": Bounds(0.05, 20_000, "TFLOPS", _RATE),
    "tdp_w": Bounds(1, 5_000, "W", "such as 300"),
    "nvlink_gb_per_s": Bounds(0, 20_000, "GB/s", "such as 900, and 0 for none"),
}
"""By field of the profile: wide enough for any GPU of the next years, and too narrow for another unit."""

_DATES = 'write it as "2026-03-10", "2026-03" or "2026"'

_NEEDED = {
    "id": "give it one, such as my-gpu",
    "device_names": "list what the driver calls the device, as nvidia-smi -L does",
    "facts": "say where the figures come from, as the shipped files do",
}
"""Fields that can't be null, with what to write."""


def read_profile(path: Path, is_yours: bool = False, today: datetime.date | None = None) -> Profile:
    """Return the profile that a file holds.

    Args:
        path: the file.
        is_yours: whether it is the user's own; no price of theirs may be seen in the future.
        today: the day to judge that by; by default the clock's.

    Raises:
        DamagedRecordError: it is no profile; the message names the file, the field and the remedy.
    """
    remedy = "correct the file or move it away" if is_yours else "install tunekit again"
    content = _content(path, remedy)
    _write_dates_out(content)
    try:
        profile = Profile.model_validate(content)
    except ValidationError as error:
        raise DamagedRecordError(f"{path} is not a profile: {_problem(error)}; {remedy}") from error
    latest = (today or datetime.datetime.now(datetime.UTC).date()) if is_yours else None
    wrong = _implausible(profile) or _bad_date(profile, latest)
    if wrong:
        raise DamagedRecordError(f"{path} is not a profile: {wrong}; {remedy}")
    return profile


def _content(path: Path, remedy: str) -> dict[str, Any]:
    try:
        content = parse_yaml(read_text(path))
    except UnreadableError as error:
        raise DamagedRecordError(f"{path} {error}; {remedy}") from error
    if not isinstance(content, dict):
        raise DamagedRecordError(
            f"{path} holds {type(content).__name__}, not a profile's fields; start from a shipped file "
            "(tunekit gpus NAME tells where it lies), or move it away"
        )
    return content


def _write_dates_out(content: dict[str, Any]) -> None:
    """Turn days and years that stand without quotes, which YAML reads as dates and numbers, into text."""
    offers = content.get("instances")
    for offer in offers if isinstance(offers, list) else []:
        spot = offer.get("spot") if isinstance(offer, dict) else None
        for place in (offer, spot):
            if not isinstance(place, dict):
                continue
            seen = place.get("as_of")
            is_year = isinstance(seen, int) and not isinstance(seen, bool)
            if isinstance(seen, datetime.date) or is_year:
                place["as_of"] = str(seen)[: len("2026-03-10")]


def _problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False)[0]
    kind, loc, value = problem["type"], problem["loc"], problem["input"]
    place, field = ".".join(map(str, loc)), str(loc[-1]) if loc else ""
    if kind == "missing":
        can_be_null = _may_be_null(loc)
        remedy = "write null if it is unknown" if can_be_null else _NEEDED.get(field, "every profile says it")
        return f"{place} is missing; {remedy}"
    if kind == "extra_forbidden":
        return f"{place} is no field of a profile; check its spelling"
    if field == "as_of" and kind == "string_pattern_mismatch":
        return f"{place}: {value!r} is no date; {_DATES}"
    if "native_precisions" in loc and kind == "string_pattern_mismatch":
        return f"{place}: {value!r} is none of {', '.join(PRECISIONS)}"
    if kind.startswith("int_") and field in PLAUSIBLE:
        bounds = PLAUSIBLE[field]
        return f"{place}: must be a whole number of {bounds.unit}, {bounds.example}, got {value!r}"
    if kind.startswith("float_") and field in PLAUSIBLE:
        bounds = PLAUSIBLE[field]
        return f"{place}: must be a number of {bounds.unit}, {bounds.example}, got {value!r}"
    remedy = "; put it in quotes" if kind == "string_type" and value is not None else ""
    return f"{place}: {problem['msg']}, got {value!r}{remedy}"


def _may_be_null(loc: tuple[int | str, ...]) -> bool:
    kind: Any = Profile
    for part in loc:
        if isinstance(part, int):
            kind = get_args(kind)[0]
            continue
        records = [one for one in (kind, *get_args(kind)) if isinstance(one, type)]
        record = next((one for one in records if issubclass(one, BaseModel)), None)
        if record is None or part not in record.model_fields:
            return False
        kind = record.model_fields[part].annotation
    return get_origin(kind) in (Union, UnionType) and type(None) in get_args(kind)


def _implausible(profile: Profile) -> str | None:
    for field, bounds in PLAUSIBLE.items():
        value = getattr(profile, field)
        if value is not None and not bounds.least <= value <= bounds.most:
            return (
                f"{field}: {value:g} can't be meant in {bounds.unit}, where GPUs have {bounds.least:,g} to "
                f"{bounds.most:,g}; write {bounds.unit}, {bounds.example}"
            )
    return None


def _bad_date(profile: Profile, today: datetime.date | None) -> str | None:
    for number, offer in enumerate(profile.instances):
        dates = [("as_of", offer.as_of)] + ([("spot.as_of", offer.spot.as_of)] if offer.spot else [])
        for field, text in dates:
            place = f"instances.{number}.{field}"
            year, month, day = (*map(int, text.split("-")), 1, 1)[:3]
            try:
                seen = datetime.date(year, month, day)
            except ValueError:
                return f"{place}: {text!r} is no date; {_DATES}"
            # A day ahead is today in another time zone.
            if today is not None and seen > today + datetime.timedelta(days=1):
                return f"{place}: {text} lies in the future; write the day on which the price was seen"
    return None
