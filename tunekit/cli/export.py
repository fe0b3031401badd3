"""`tunekit export`: a config of a run in the form that a framework takes."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tunekit.cli.pipes import say
from tunekit.cli.report_files import write_file
from tunekit.errors import UsageError
from tunekit.export.frameworks import Exported, framework_text, read_keys
from tunekit.export.tuned import read_tuned, run_of_config
from tunekit.machine.detect import detect_host
from tunekit.recommend.recommendation import answer_of
from tunekit.session.folder import folder_of, load_run


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Print the config, or write it, with notes to standard error, and return 0.

    Raises:
        UsageError: there is no such config, or a key can't be used.
        RunFolderError: there is no run, or the file can't be written.
    """
    config = _config_file(options.run, options.tier)
    run = run_of_config(config)
    processes = max(1, len(detect_host().accelerators)) if options.to == "torchrun" else None
    exported = Exported(read_tuned(config, run), run, read_keys(options.key), processes)
    text, notes = framework_text(options.to, exported)
    if notes:
        say(*notes)
    if options.out is None:
        sys.stdout.write(text)
    else:
        write_file(options.out, text, "name another file: --out FILE")
        say(f"written to {options.out}", to_stderr=False)
    return 0


def _config_file(given: Path, tier: str | None) -> Path:
    """Return the config's file: the given one, else that of the tier, else of the recommended one."""
    if given.suffix in (".yaml", ".yml"):
        if tier is not None:
            raise UsageError(f"--tier {tier} is for a run's folder, and {given} is one config; drop one")
        return given
    folder = folder_of(given)
    best = answer_of(load_run(given).recommendations)
    name = tier or (best.tier.value if best else "balanced")
    if not (folder / f"{name}.yaml").exists():
        known = ", ".join(sorted(path.name for path in folder.glob("*.yaml"))) or "none"
        raise UsageError(f"{folder} has no {name}.yaml (its configs: {known}); choose another with --tier")
    return folder / f"{name}.yaml"
