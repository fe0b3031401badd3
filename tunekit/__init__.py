"""tunekit: measure, tune and price the training command you already have."""

import typing as _typing

if _typing.TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from tunekit.notebook import LoadedRun
    from tunekit.records.run import LoopProfile, Run

__version__ = "0.1.0"


def load(path: "str | os.PathLike[str]") -> "LoadedRun[_typing.Any]":
    """Return a saved run, to look at in a notebook: its report, its figures, its trials as a table.

    Args:
        path: the folder that a search, profile, fits or scale wrote, or the JSON file in it.

    Raises:
        RunFolderError: there is no run.
        RecordError: the file is damaged or newer than this tunekit.
    """
    from tunekit.notebook import load_run  # noqa: PLC0415 - slow to import; `import tunekit` must be instant

    return load_run(path)


def search(
    command: "str | Sequence[str | os.PathLike[str]]" = (), **options: _typing.Any
) -> "LoadedRun[Run]":
    """Tune a training command as `tunekit search` does, with progress, and return the run.

    Args:
        command: its words, or one string; without one, the built-in workload is tuned.
        **options: the flags of `tunekit search` with underscores, such as `budget="20m"`, `gpu="a10g"` or
            `ablate=True`. A list repeats a flag; a dict gives it knobs: `fix={"precision": "bf16"}`,
            `range={"batch_size": (32, 256)}`.

    Raises:
        TunekitError: the error of the command line, such as UsageError for an unknown option.
        KeyboardInterrupt: finished trials are kept; the message names the call that resumes.
    """
    return _run("search", command, options)


def profile(
    command: "str | Sequence[str | os.PathLike[str]]" = (), **options: _typing.Any
) -> "LoadedRun[LoopProfile]":
    """Measure one config's loop as `tunekit profile` does; arguments and errors are those of `search`."""
    return _run("profile", command, options)


def _run(
    verb: str, command: "str | Sequence[str | os.PathLike[str]]", options: dict[str, _typing.Any]
) -> "LoadedRun[_typing.Any]":
    from tunekit.child_verb import run_verb  # noqa: PLC0415 - as above

    return load(run_verb(verb, command, options))
