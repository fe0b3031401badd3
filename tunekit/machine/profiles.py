"""Finds and reads GPU profiles, and matches names and devices with them."""

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
"""Environment variable that names additional profile folders, separated as in PATH."""
_VENDOR_TOKENS = frozenset({"nvidia", "corporation", "tesla", "geforce", "gpu"})
"""Words that drivers add to a model's name and that don't distinguish devices."""
_NO_PROFILE = "Read from the device; no profile matches it, so its rates, bandwidth and price are unknown."


def read_profile(path: Path, is_yours: bool = False) -> Profile:
    """Read a profile from a file.

    Args:
        path: the file.
        is_yours: whether the file is the user's own, so that the remedy is to correct it.

    Raises:
        DamagedRecordError: it is not a profile; the message names the file, the field and the remedy.
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
            f"{place} is missing; add it, or write null if it is unknown and the shipped files have null too"
        )
    if kind == "extra_forbidden":
        return f"{place} is not a field of a profile; check its spelling"
    remedy = "; put it in quotes" if kind == "string_type" and value is not None else ""
    return f"{place or 'the whole file'}: {problem['msg']}, got {value!r}{remedy}"


@dataclass(frozen=True)
class ProfileFile:
    """A profile and the file that it was read from."""

    profile: Profile
    path: Path
    is_yours: bool
    """Whether the file is in one of the user's folders, not among the profiles shipped with tunekit."""


def named_folders(variable: str) -> list[Path]:
    """Return the folders that an environment variable names, separated as in PATH.

    Raises:
        UsageError: it names something that is not a folder.
    """
    folders = [Path(text) for text in os.environ.get(variable, "").split(os.pathsep) if text]
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{variable}: {str(folder)!r} is not a folder; create it or unset {variable}")
    return folders


def profile_folders() -> list[Path]:
    """Return the folders that profiles are read from; earlier folders take precedence.

    The order is $TUNEKIT_PROFILES, ~/.config/tunekit/profiles, the profiles shipped with tunekit. The
    folder under ~/.config need not exist.

    Raises:
        UsageError: $TUNEKIT_PROFILES names something that is not a folder.
    """
    folders = named_folders(PROFILES_VARIABLE)
    with contextlib.suppress(RuntimeError):  # a container's user may have no home
        folders.append(Path.home() / ".config" / "tunekit" / "profiles")
    return [*folders, _shipped_folder()]


def load_profiles() -> dict[str, Profile]:
    """Return every profile by id; the user's replace shipped ones with the same id.

    Raises:
        DamagedRecordError: a file is not a profile; the message names the file and the field.
        UsageError: $TUNEKIT_PROFILES names something that is not a folder.
    """
    return {profile_id: file.profile for profile_id, file in load_profile_files().items()}


def load_profile_files() -> dict[str, ProfileFile]:
    """Return every profile by id with the file that it comes from; see `load_profiles`.

    Refreshed prices replace older ones in the shipped profiles.

    Raises:
        DamagedRecordError: a file of profiles or prices is invalid; the message names the file and the field.
        UsageError: $TUNEKIT_PROFILES names something that is not a folder.
    """
    files: dict[str, ProfileFile] = {}
    shipped, refreshed = _shipped_folder(), load_prices()
    # $HOME may be another user's: pathlib would raise.
    for folder in filter(os.path.isdir, profile_folders()):
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
    """Return the profiles shipped with tunekit, with their shipped prices."""
    return [read_profile(path) for path in _profile_files(_shipped_folder())]


def find_profile(name: str, profiles: Mapping[str, Profile] | None = None) -> Profile:
    """Return the profile with this id, alias or device name; case and separators don't matter.

    Args:
        name: an id such as "a10g", an alias such as "a100-80", another spelling of either ("RTX 4090",
            "h100sxm"), or the driver's name of the device ("Tesla T4").
        profiles: the profiles to search; by default all that `load_profiles` finds.

    Raises:
        UnknownGpuError: no profile has this name; the message lists similar names and how to add a profile.
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
        + (f"; similar: {', '.join([*near][:3])}" if near else f"; known: {', '.join(sorted(known))}")
        + f"; `tunekit gpus` describes them; to add one, {how_to_add()}"
    )


def taken_name(name: str, profiles: Mapping[str, Profile]) -> TakenName | None:
    """Return which profile a name was resolved to; None if the name is the profile's id.

    Raises:
        UnknownGpuError: no profile has this name.
    """
    found = find_profile(name, profiles).id
    if name.strip().lower() == found:
        return None
    family = found.split("-")[0]
    others = tuple(sorted(one for one in profiles if one.split("-")[0] == family and one != found))
    return TakenName(typed=name.strip(), profile_id=found, others=others)


def how_to_add() -> str:
    """Return how a user adds a profile, as a clause for messages."""
    return f"copy a file from {_shipped_folder()} to ~/.config/tunekit/profiles and fill in what you know"


def match_device(device_name: str, profiles: Mapping[str, Profile]) -> Profile | None:
    """Return the profile of the device that a driver reports under this name; None if no profile has it.

    All words of the name must match, so "NVIDIA L40S" is not an L4, "NVIDIA H200 NVL" is not an H200, and a
    MIG slice is not a whole GPU. Only the vendor's words are ignored.

    Args:
        device_name: such as "NVIDIA A100-SXM4-40GB", in any case and spacing.
        profiles: the profiles to choose from; the first match counts.
    """
    device = _model_tokens(device_name)
    for profile in profiles.values():
        if device and any(_model_tokens(known) == device for known in profile.device_names):
            return profile
    return None


def device_slug(device_name: str) -> str:
    """Return the id of a device without a profile: "nvidia-h200-nvl" for "NVIDIA H200 NVL"."""
    return re.sub(r"[^a-z0-9]+", "-", device_name.lower()).strip("-") or "unknown-device"


def profile_from_device(
    device_name: str, memory_bytes: int | None, compute_capability: str | None = None
) -> Profile:
    """Return a profile with only what the driver reports about the device; every other figure is None.

    Args:
        device_name: as the driver reports it.
        memory_bytes: as the driver reports it.
        compute_capability: such as "8.9"; the native precisions follow from it.
    """
    capability = _capability(compute_capability)
    unknown = dict.fromkeys(name for name, field in Profile.model_fields.items() if field.is_required())
    from_driver = FactGroup(source="the driver of this machine", confidence=FactConfidence.HIGH)
    unclaimed = FactGroup(source="none; no figure is claimed", confidence=FactConfidence.NONE)
    derived = FactGroup(
        source="the compute capability that the driver reports", confidence=FactConfidence.MEDIUM
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
    raise DamagedRecordError(f"tunekit's own profiles are missing next to {package}; reinstall tunekit")


def _profile_files(folder: Path) -> list[Path]:
    files = (path for path in folder.iterdir() if path.suffix in (".yaml", ".yml"))
    return sorted(path for path in files if not path.name.startswith("."))


def _model_tokens(name: str) -> tuple[str, ...]:
    """Return a name's words without the vendor's, unless it has no others."""
    tokens = tuple(re.findall(r"[^\W_]+", name.lower()))
    return tuple(token for token in tokens if token not in _VENDOR_TOKENS) or tokens


def _key(name: str) -> str:
    """Return one key for all spellings of a name: "RTX 4090", "rtx-4090" and "rtx4090"."""
    return "".join(_model_tokens(name))


def _capability(text: str | None) -> tuple[int, int] | None:
    found = re.fullmatch(r"([0-9]{1,2})\.([0-9])", text or "")
    return (int(found[1]), int(found[2])) if found else None


def _native_precisions(capability: tuple[int, int] | None) -> tuple[str, ...]:
    first = {"fp32": (0, 0), "tf32": (8, 0), "bf16": (8, 0), "fp16": (7, 0), "fp8": (8, 9)}
    return tuple(name for name, least in first.items() if (capability or (0, 0)) >= least)
