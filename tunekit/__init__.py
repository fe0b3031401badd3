"""tunekit: measure, tune and price the training command you already have."""

import typing as _typing

if _typing.TYPE_CHECKING:
    import os

    from tunekit.notebook import LoadedRun

__version__ = "0.1.0"


def load(path: "str | os.PathLike[str]") -> "LoadedRun":
    """Return a saved run, to look at in a notebook: its report, its figures, its trials as a table.

    Args:
        path: the folder that a search wrote, or its run.json.

    Raises:
        RunFolderError: there is no run.
        RecordError: run.json is damaged or newer than this tunekit.
    """
    from tunekit.notebook import load_run  # noqa: PLC0415 - slow to import; `import tunekit` must be instant

    return load_run(path)
