"""The built-in workloads on this machine."""

from typing import Literal

from pydantic import NonNegativeInt, PositiveInt

from tunekit.records.base import SCHEMA_VERSION, Record


class WorkloadHere(Record):
    """A built-in workload, and the data that it trains on here unless options say otherwise."""

    name: str
    model: str
    """On a GPU; a CPU gets a small one."""
    data: str
    samples: PositiveInt
    data_bytes: NonNegativeInt
    """Size of the data before compression."""
    limited_by: str
    """What its own settings wait for."""


class WorkloadsHere(Record):
    """The built-in workloads that `tunekit workloads` shows."""

    schema_version: Literal[1] = SCHEMA_VERSION
    workloads: tuple[WorkloadHere, ...]
