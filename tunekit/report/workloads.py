"""The list of built-in workloads. Pure."""

from collections.abc import Sequence

from tunekit.records.workload import WorkloadHere
from tunekit.report.blocks import Column, Commands, Table, field_text, table_of
from tunekit.units import bytes_text

_COLUMNS: tuple[Column[WorkloadHere], ...] = (
    Column("name", field_text("name"), False),
    Column("model", field_text("model"), False),
    Column("data", field_text("data"), False),
    Column("samples", field_text("samples", "{:,}".format)),
    Column("size here", field_text("data_bytes", bytes_text)),
    Column("limited by", field_text("limited_by"), False),
)


def workload_list(workloads: Sequence[WorkloadHere]) -> tuple[Table, Commands]:
    """Return the table of the built-in workloads, and commands to use one."""
    commands = (
        "tunekit search --workload ppg",
        "tunekit search --workload ppg -- --samples 1000000",
        "tunekit workloads ppg --samples 1000000  # makes the data beforehand",
    )
    return table_of("Built-in workloads (a CPU gets small models)", _COLUMNS, workloads), Commands(
        "Tune one", commands
    )
