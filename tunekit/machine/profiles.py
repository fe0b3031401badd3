"""GPU profiles: where they lie, how they are read, and which of them a device is."""

import contextlib
import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from tunekit.errors import DamagedRecordError, UnknownGpuError, UnreadableError, UsageError
from tunekit.machine.prices import load_prices
from tunekit.records.profile import (
    FactConfidence,
    FactGroup,
    Profile,
    ProfileFacts,
    TakenName,
)
from tunekit.untrusted import parse_yaml, read_text

PROFILES_VARIABLE = "TUNEKIT_PROFILES"
"""Environment variable naming further profile folders, separated as in PATH."""
_VENDOR_TOKENS = frozenset({"nvidia", "corporation", "tesla", "geforce", "gpu"})
"""Tokens that drivers put around a model's name without making it another device."""
_NO_PROFILE = "Read from the device; no profile has its name, so its rates, bandwidth and price are unknown."


def read_profile(path: Path, is_yours: bool = False) -> Profile:
    """Return the profile that a file holds.

    Args:
        path: the file.
        is_yours: whether it is the user's own, who can correct it.

    Raises:
        DamagedRecordError: it is no profile; the message names the file, the field and the remedy.
    """
    remedy = "correct the file or move it away" if is_yours else "install tunekit again"
    try:
        return Profile.model_validate(parse_yaml(read_text(path)))
    except UnreadableError as error:
        raise DamagedRecordError(f"{path} {error}; {remedy}") from error
    except ValidationError as error:
        raise DamagedRecordError(f"{path} is not a profile: {_problem(error)}; {remedy}") from error


def _problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False)[0]
    kind, value = problem["type"], problem["input"]
    place = ".".join(map(str, problem["loc"]))
    if kind == "missing":
        return (
            f"{place} is missing; write it, or null where it is unknown and the shipped files have null too"
        )
    if kind == "extra_forbidden":
        return f"{place} is no field of a profile; check its spelling"
    remedy = "; put it in quotes" if kind == "string_type" and value is not None else ""
    return f"{place or 'the whole file'}: {problem['msg']}, got {value!r}{remedy}"


@dataclass(frozen=True)
class ProfileFile:
    """A profile with the file that it was read from."""

    profile: Profile
    path: Path
    is_yours: bool
    """Whether it lies in a folder of the user's, not among the profiles shipped with tunekit."""


def named_folders(variable: str) -> list[Path]:
    """Return the folders that an environment variable names, separated as in PATH.

    Raises:
        UsageError: it names something that is no folder.
    """
    folders = [Path(text) for text in os.environ.get(variable, "").split(os.pathsep) if text]
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{variable} names {str(folder)!r}, which is no folder; create it or unset it")
    return folders


def profile_folders() -> list[Path]:
    """Return the folders that profiles are read from, the user's first; a later folder yields to an earlier.

    The order is $TUNEKIT_PROFILES, ~/.config/tunekit/profiles, the profiles shipped with tunekit. The
    folder under ~/.config need not exist.

    Raises:
        UsageError: $TUNEKIT_PROFILES names something that is no folder.
    """
    folders = named_folders(PROFILES_VARIABLE)
    with contextlib.suppress(RuntimeError):  # a container's user may have no home
        folders.append(Path.home() / ".config" / "tunekit" / "profiles")
    return [*folders, _shipped_folder()]


def load_profiles() -> dict[str, Profile]:
    """Return every profile by id, the user's before the shipped one of the same id.

    Raises:
        DamagedRecordError: a file is no profile; the message names the file and the field.
        UsageError: $TUNEKIT_PROFILES names something that is no folder.
    """
    return {profile_id: file.profile for profile_id, file in load_profile_files().items()}


def load_profile_files() -> dict[str, ProfileFile]:
    """Return every profile by id with the file that it comes from; see `load_profiles`.

    Prices that a refresh saved stand in place of older ones of the shipped profiles.

    Raises:
        DamagedRecordError: a file is no profile, or no prices; the message names the file and the field.
        UsageError: $TUNEKIT_PROFILES names something that is no folder.
    """
    files: dict[str, ProfileFile] = {}
    shipped, refreshed = _shipped_folder(), load_prices()
    for folder in profile_folders():
        here: dict[str, Path] = {}
        for path in _profile_files(folder):
            profile = read_profile(path, is_yours=folder != shipped)
            if refreshed is not None and folder == shipped:
                profile = refreshed.over(profile)
            if profile.id in here:
                raise DamagedRecordError(
                    f"{path} and {here[profile.id]} both have id {profile.id!r}; delete one or change its id"
                )
            here[profile.id] = path
            files.setdefault(profile.id, ProfileFile(profile, path, is_yours=folder != shipped))
    return files


def shipped_profiles() -> list[Profile]:
    """Return the profiles shipped with tunekit, with their own prices."""
    return [read_profile(path) for path in _profile_files(_shipped_folder())]


def find_profile(name: str, profiles: Mapping[str, Profile] | None = None) -> Profile:
    """Return the profile with this id, alias or device name; case and separators don't matter.

    Args:
        name: an id such as "a10g", an alias such as "a100-80", either spelt otherwise ("RTX 4090",
            "h100sxm"), or what a driver calls the device ("Tesla T4").
        profiles: the profiles to look in; every one that `load_profiles` finds by default.

    Raises:
        UnknownGpuError: no profile has the name; the message lists near names and how to add one.
    """
    known = load_profiles() if profiles is None else profiles
    by_key = {_key(profile_id): profile for profile_id, profile in known.items()}
    for profile in known.values():
        for alias in profile.aliases:
            by_key.setdefault(_key(alias), profile)
    found = by_key.get(_key(name)) or match_device(name, known)
    if found is not None:
        return found
    near = dict.fromkeys(by_key[key].id for key in difflib.get_close_matches(_key(name), by_key, n=5))
    raise UnknownGpuError(
        f"no GPU profile is named {name!r}"
        + (f"; near: {', '.join([*near][:3])}" if near else f"; known: {', '.join(sorted(known))}")
        + f"; `tunekit gpus` shows what each is; to add one, {how_to_add()}"
    )


def taken_name(name: str, profiles: Mapping[str, Profile]) -> TakenName | None:
    """Return which profile a name is taken for; None where it is the profile's id.

    Raises:
        UnknownGpuError: no profile has the name.
    """
    found = find_profile(name, profiles).id
    if name.strip().lower() == found:
        return None
    family = found.split("-")[0]
    others = tuple(sorted(one for one in profiles if one.split("-")[0] == family and one != found))
    return TakenName(typed=name.strip(), profile_id=found, others=others)


def how_to_add() -> str:
    """Return how a user adds a profile, as the rest of a sentence."""
    return f"copy a file of {_shipped_folder()} to ~/.config/tunekit/profiles and fill in what you know"


def match_device(device_name: str, profiles: Mapping[str, Profile]) -> Profile | None:
    """Return the profile of the device that a driver reports under this name, None if no profile has it.

    Names are compared token by token and whole, so that "NVIDIA L40S" is no L4. Only the vendor's words
    don't count: "NVIDIA H200 NVL" is no H200, a MIG slice is no whole GPU.

    Args:
        device_name: such as "NVIDIA A100-SXM4-40GB", in any case and spacing.
        profiles: the profiles to choose from; of two with the same name the first.
    """
    device = _model_tokens(device_name)
    for profile in profiles.values():
        if device and any(_model_tokens(known) == device for known in profile.device_names):
            return profile
    return None


def device_slug(device_name: str) -> str:
    """Return the id of a device without a profile: "NVIDIA H200 NVL" is "nvidia-h200-nvl"."""
    return re.sub(r"[^a-z0-9]+", "-", device_name.lower()).strip("-") or "unknown-device"


def profile_from_device(
    device_name: str, memory_bytes: int | None, compute_capability: str | None = None
) -> Profile:
    """Return a profile that holds only what the device says of itself; every other figure is None.

    Args:
        device_name: as the driver reports it.
        memory_bytes: as the driver reports it.
        compute_capability: such as "8.9"; it tells the native precisions.
    """
    capability = _capability(compute_capability)
    unknown = dict.fromkeys(name for name, field in Profile.model_fields.items() if field.is_required())
    from_driver = FactGroup(source="the driver of this machine", confidence=FactConfidence.HIGH)
    unclaimed = FactGroup(source="none; no figure is claimed", confidence=FactConfidence.NONE)
    derived = FactGroup(
        source="the compute capability that the driver tells", confidence=FactConfidence.MEDIUM
    )
    known = {
        "id": device_slug(device_name),
        "device_names": (device_name,),
        "memory_bytes": memory_bytes,
        "compute_capability": None if capability is None else compute_capability,
        "native_precisions": _native_precisions(capability),
        "compile_supported": None if capability is None else capability >= (7, 0),
        "notes": _NO_PROFILE,
        "facts": ProfileFacts(memory=from_driver, rates=unclaimed, device=from_driver, software=derived),
        "is_read_from_device": True,
    }
    return Profile.model_validate({**unknown, **known})


def _shipped_folder() -> Path:
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "profiles", package.parent / "profiles"):
        if folder.is_dir():
            return folder
    raise DamagedRecordError(f"the profiles shipped with tunekit are not beside {package}; install it again")


def _profile_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    files = (path for path in folder.iterdir() if path.suffix in (".yaml", ".yml"))
    return sorted(path for path in files if not path.name.startswith("."))


def _model_tokens(name: str) -> tuple[str, ...]:
    """Return a name's words without those that only tell the vendor, unless it has no others."""
    tokens = tuple(re.findall(r"[^\W_]+", name.lower()))
    return tuple(token for token in tokens if token not in _VENDOR_TOKENS) or tokens


def _key(name: str) -> str:
    """Return what two spellings of one name share: "RTX 4090", "rtx-4090" and "rtx4090"."""
    return "".join(_model_tokens(name))


def _capability(text: str | None) -> tuple[int, int] | None:
    found = re.fullmatch(r"([0-9]{1,2})\.([0-9])", text or "")
    return (int(found[1]), int(found[2])) if found else None


def _native_precisions(capability: tuple[int, int] | None) -> tuple[str, ...]:
    first = {"fp32": (0, 0), "tf32": (8, 0), "bf16": (8, 0), "fp16": (7, 0), "fp8": (8, 9)}
    return tuple(name for name, least in first.items() if (capability or (0, 0)) >= least)
