"""What is wrong, or worth knowing, as data: it can be shown, counted, and silenced by its code."""

from enum import StrEnum

from pydantic import Field, NonNegativeFloat, PositiveFloat

from tunekit.records.base import Record


class Severity(StrEnum):
    """How much a finding matters."""

    INFO = "info"
    WARNING = "warning"
    """It costs speed, money or trust in the figures."""
    ERROR = "error"
    """Training will fail, or not run on the device that it is meant for."""


WORST_FIRST = (Severity.ERROR, Severity.WARNING, Severity.INFO)
"""Severities in the order in which findings are shown."""


class Finding(Record):
    """One diagnosed bottleneck, danger or caveat."""

    code: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    severity: Severity
    message: str
    """What is the matter, in one sentence."""
    evidence: str | None = None
    """The figures that show it, and where they were read."""
    remedy: str | None = None
    value: NonNegativeFloat | None = None
    gain: PositiveFloat | None = None
    """What mending it could bring at most, as a factor of the present rate; predicted. None if unknown."""
