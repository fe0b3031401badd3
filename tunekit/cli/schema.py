"""`tunekit schema`: the JSON Schema of what a verb prints with `--json`."""

import argparse
import json
import sys
from collections.abc import Sequence

from rich.console import Console

from tunekit.errors import UsageError
from tunekit.records.base import SCHEMA_VERSION, Record
from tunekit.records.checkup import Checkup
from tunekit.records.comparison import RunComparison
from tunekit.records.data_layout import DataReport
from tunekit.records.machine_memory import MachineMemory
from tunekit.records.milestones import MilestonePlan
from tunekit.records.plan import Plan
from tunekit.records.prediction import Calibration
from tunekit.records.profile import GpuProfiles
from tunekit.records.recording import MonitorReading, Recording
from tunekit.records.run import FitsRun, LoopProfile, Run
from tunekit.records.scaling_run import ScalingRun
from tunekit.records.schema import schema_of
from tunekit.records.workload import WorkloadsHere
from tunekit.report.blocks import Facts
from tunekit.report.terminal import draw
from tunekit.typos import did_you_mean

OUTPUTS: dict[str, tuple[type[Record], ...]] = {
    "search": (Run,),
    "profile": (LoopProfile,),
    "fits": (FitsRun, MachineMemory),
    "scale": (ScalingRun,),
    "plan": (Plan, MilestonePlan),
    "report": (Run, LoopProfile, FitsRun, ScalingRun, Recording),
    "monitor": (MonitorReading,),
    "compare": (RunComparison,),
    "gpus": (GpuProfiles,),
    "data": (DataReport,),
    "workloads": (WorkloadsHere,),
    "doctor": (Checkup, Calibration),
}
"""What each verb prints with `--json`: one of these records."""


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Print the schema of a verb's output, or list the verbs that have one, and return 0.

    Raises:
        UsageError: the verb prints no JSON.
    """
    verb = options.of
    if verb is None:
        names = {verb: ", ".join(kind.__name__ for kind in kinds) for verb, kinds in OUTPUTS.items()}
        rows = [(verb, f"{name} (schema_version {SCHEMA_VERSION})") for verb, name in names.items()]
        draw(Console(highlight=False), (Facts(tuple(rows)),))
    elif verb not in OUTPUTS:
        hint = did_you_mean(verb, OUTPUTS, f"choose one of {', '.join(OUTPUTS)}")
        raise UsageError(f"{verb!r} has no --json output; {hint}")
    else:
        schema = schema_of(*OUTPUTS[verb], title=f"tunekit {verb} --json")
        sys.stdout.write(json.dumps(schema, indent=2, ensure_ascii=False) + "\n")
    return 0
