"""`tunekit gpus`: what is known about every GPU that `--gpu` takes."""

import argparse
import sys
from collections.abc import Mapping, Sequence

from rich.console import Console

from tunekit.cli.machine import host_here
from tunekit.errors import UnknownGpuError
from tunekit.machine.price_catalog import fetch_catalog, matched_prices
from tunekit.machine.prices import save_prices
from tunekit.machine.profiles import find_profile, load_profile_files, shipped_profiles
from tunekit.records.codec import to_json
from tunekit.records.profile import GpuProfiles, Profile
from tunekit.report.gpus import gpu_list, gpu_sheet, refreshed_prices
from tunekit.report.terminal import draw


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Draw all profiles or one and return 0; with `--refresh` get current prices before.

    Raises:
        UnknownGpuError: no profile has the name.
        UsageError: the price downloader is not installed, or prices can't be saved. PricesError: no prices
        are available.
    """
    if options.refresh:
        refreshed = matched_prices(fetch_catalog(), shipped_profiles())
        path = save_prices(refreshed.prices)
        draw(Console(highlight=False, stderr=options.json), (refreshed_prices(refreshed, path),))
    files = load_profile_files()
    profiles = {profile_id: file.profile for profile_id, file in files.items()}
    chosen = _named(options.name, profiles)
    if options.json:
        sys.stdout.write(to_json(GpuProfiles(profiles=tuple(chosen or profiles.values()))) + "\n")
        return 0
    here = host_here(profiles=profiles).accelerators
    console = Console(highlight=False)
    if not chosen:
        draw(console, gpu_list(files.values(), here))
    for profile in chosen:
        draw(console, gpu_sheet(files[profile.id], here))
    return 0


def _named(words: Sequence[str], profiles: Mapping[str, Profile]) -> list[Profile]:
    """Return the profile that the words together name, or else the one that each of them names."""
    if not words:
        return []
    try:
        return [find_profile(" ".join(words), profiles)]
    except UnknownGpuError:
        if len(words) == 1:
            raise
    return list({one.id: one for one in (find_profile(word, profiles) for word in words)}.values())
