"""The built-in workloads on this machine."""

from typing import Literal

from pydantic import NonNegativeInt, PositiveInt

from tunekit.records.base import SCHEMA_VERSION, Record


class WorkloadHere(Record):
    """A built-in workload, with the default size of its data on this machine."""

    name: str
    model: str
    """On a GPU; a CPU gets a small one."""
    data: str
    samples: PositiveInt
    data_bytes: NonNegativeInt
    """Size of the data before compression."""
    limited_by: str
    """The bottleneck of its default settings."""


class WorkloadsHere(Record):
    """The built-in workloads that `tunekit workloads` shows."""

    schema_version: Literal[1] = SCHEMA_VERSION
    workloads: tuple[WorkloadHere, ...]
