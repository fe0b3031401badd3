"""Writes every export of a run; to add one, add a function to EXPORTS."""

import csv
import io
from collections.abc import Callable, Mapping
from pathlib import Path

from tunekit.export.yaml_config import candidate_yaml, predicted_yaml, recommended_rule, tier_yaml
from tunekit.records.codec import write_text
from tunekit.records.recommendation import OWN_NAME
from tunekit.records.run import Run

_FIELDS = {
    "tier": "tier",
    "gpus": "gpus",
    "total_batch": "total_batch",
    "total_workers": "total_workers",
    "ram_buffer_bytes": "buffer_bytes",
    "ram_needed_bytes": "ram_bytes",
    "lr_linear": "lr_linear",
    "lr_sqrt": "lr_sqrt",
}
"""The columns of the CSV file, each with its field of a scaling row."""


def scaling_csv(run: Run) -> str:
    """Return the scaling rows of all tiers as CSV with a header; unknown values stay empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*_FIELDS, "recommended_rule"))
    for row in run.scaling:
        figures = (getattr(row, field) for field in _FIELDS.values())
        writer.writerow((*figures, recommended_rule(run, row.tier)))
    return text.getvalue()


def tier_files(run: Run) -> dict[str, str]:
    """Return one YAML file per recommended tier."""
    return {f"{one.tier.value}.yaml": tier_yaml(run, one) for one in run.recommendations}


def candidate_files(run: Run) -> dict[str, str]:
    """Return `candidate.yaml`, for a config whose gain is unconfirmed; nothing if a tier's file has it."""
    candidate = run.candidate
    if candidate is None or candidate.name != OWN_NAME:
        return {}
    return {f"{candidate.name}.yaml": candidate_yaml(run, candidate)}


def predicted_files(run: Run) -> dict[str, str]:
    """Return `<gpu>.predicted.yaml`; nothing without a prediction."""
    text = predicted_yaml(run)
    return {} if text is None else {f"{run.profile.id}.predicted.yaml": text}


def scaling_files(run: Run) -> dict[str, str]:
    """Return `scaling.csv`."""
    return {"scaling.csv": scaling_csv(run)}


EXPORTS: tuple[Callable[[Run], Mapping[str, str]], ...] = (
    tier_files,
    candidate_files,
    predicted_files,
    scaling_files,
)
"""Each function returns the texts of its files by their names in the run's folder, if it has any."""


def write_exports(run: Run, folder: Path) -> tuple[Path, ...]:
    """Write all exports of a run into the folder, each atomically, and return their paths.

    Raises:
        OSError: the folder can't be written to.
    """
    paths = []
    for export in EXPORTS:
        for name, text in export(run).items():
            write_text(folder / name, text)
            paths.append(folder / name)
    return tuple(paths)
