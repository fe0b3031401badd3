"""The shipped profiles alone, whatever profiles the developer has at home."""

from pathlib import Path

import yaml

from tunekit.records.profile import Profile

FOLDER = Path(__file__).resolve().parents[2] / "profiles"
FILES = sorted(FOLDER.glob("*.yaml"))


def read(path: Path) -> Profile:
    return Profile.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))


PROFILES = {path.stem: read(path) for path in FILES}
