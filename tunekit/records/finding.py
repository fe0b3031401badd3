"""Problems and notes as data: they can be shown, counted, and silenced by code."""

from collections.abc import Collection
from enum import StrEnum

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat

from tunekit.records.base import AnyRecord, Record


class Severity(StrEnum):
    """How much a finding matters."""

    INFO = "info"
    WARNING = "warning"
    """It costs speed, money or trust in the figures."""
    ERROR = "error"
    """Training will fail, or not run on the intended device."""


WORST_FIRST = (Severity.ERROR, Severity.WARNING, Severity.INFO)
"""Severities in the order in which findings are shown."""


class Finding(Record):
    """One diagnosed bottleneck, danger or caveat."""

    code: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    severity: Severity
    message: str
    """The problem, in one sentence."""
    evidence: str | None = None
    """The figures that show it, and their source."""
    remedy: str | None = None
    value: NonNegativeFloat | None = None
    gain: PositiveFloat | None = None
    """Speedup from fixing it: the predicted maximum, or the measured one. None if unknown."""
    is_measured: bool = False
    """Whether trials of the same search measured the gain."""
    gpu: NonNegativeInt | None = None
    """Driver index of the GPU, if the finding is about a single one."""


def without_findings(record: AnyRecord, codes: Collection[str]) -> AnyRecord:
    """Return a record without the findings that have one of these codes, nested records included."""
    changed: dict[str, tuple[object, ...]] = {}
    for name in type(record).model_fields if codes else ():
        held = getattr(record, name)
        if isinstance(held, tuple) and held and isinstance(held[0], Record):
            shown = (one for one in held if not (isinstance(one, Finding) and one.code in codes))
            changed[name] = tuple(without_findings(one, codes) for one in shown)
    return record.changed(**changed) if changed else record
