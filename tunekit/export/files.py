"""Every export of a run; another one is a function in EXPORTS."""

from collections.abc import Callable, Mapping
from pathlib import Path

from tunekit.export.predicted_yaml import predicted_files
from tunekit.export.scaling_csv import scaling_files
from tunekit.export.yaml_config import tier_files
from tunekit.records.codec import write_text
from tunekit.records.run import Run

EXPORTS: tuple[Callable[[Run], Mapping[str, str]], ...] = (tier_files, predicted_files, scaling_files)
"""Each returns its files' texts by their names in the run's folder; none where it has nothing to tell."""


def write_exports(run: Run, folder: Path) -> tuple[Path, ...]:
    """Write all exports of a run into the folder, each atomically, and return their paths.

    Raises:
        OSError: the folder can't be written.
    """
    paths = []
    for export in EXPORTS:
        for name, text in export(run).items():
            write_text(folder / name, text)
            paths.append(folder / name)
    return tuple(paths)
