"""The registry of checks: one decorated function for each thing that may be found.

    @check("shm-in-use", WARNING, "much of /dev/shm is taken before training has started")
    def _shm_in_use(machine: Machine) -> Hits:
        if ...:
            yield Hit("31.0 GiB of 64.0 GiB are used", "look at `ls -l /dev/shm`", value=used_bytes)

`--codes` lists what is registered and `--ignore` takes it; there is no second table.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar, get_type_hints

from tunekit.records.finding import WORST_FIRST, Finding, Severity

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO


class Hit(NamedTuple):
    """What a check found: a finding without what the check's decorator says of it."""

    evidence: str | None
    """The figures that show it, and where they were read."""
    remedy: str | None
    value: float | None = None
    gain: float | None = None
    """What mending it could bring at most, as a factor of the present rate; predicted, unless measured."""
    is_measured: bool = False
    """Whether trials of the same search measured the gain."""
    severity: Severity | None = None
    """One of the check's; None for the gravest of them."""


Hits = Iterator[Hit]


class Code(NamedTuple):
    """What a code stands for."""

    severities: tuple[Severity, ...]
    """Those that its findings may have, the worst first."""
    message: str
    """What is the matter, in one sentence."""


class _Check(NamedTuple):
    code: str
    severities: tuple[Severity, ...]
    message: str
    look: Callable[[Any], Hits]


CODES: dict[str, Code] = {}
"""Every code that a finding may have."""

_CHECKS: dict[type, list[_Check]] = {}
"""By the type of what they look at."""

Subject = TypeVar("Subject")


def check(
    code: str, severities: Severity | tuple[Severity, ...], message: str
) -> Callable[[Callable[[Subject], Hits]], Callable[[Subject], Hits]]:
    """Register a function that looks at whatever its parameter's type says and yields what it found.

    Args:
        code: in kebab case. Two checks of different things may share it.
        severities: those that its findings may have, the worst first.
        message: what is the matter, in one sentence. `{}` stands for the subject: its `name` in a finding,
            what it is `called` in the list of codes.
    """
    of_code = (severities,) if isinstance(severities, Severity) else severities

    def register(look: Callable[[Subject], Hits]) -> Callable[[Subject], Hits]:
        subject = next(iter(get_type_hints(look).values()))
        _CHECKS.setdefault(subject, []).append(_Check(code, of_code, message, look))
        known = CODES.get(code, Code((), ""))
        sentence = message.replace("{}", getattr(subject, "called", ""))
        CODES[code] = Code(
            tuple(one for one in WORST_FIRST if one in (*known.severities, *of_code)),
            "; ".join(dict.fromkeys(text for text in (known.message, sentence) if text)),
        )
        return look

    return register


def findings_of(*subjects: object) -> list[Finding]:
    """Return what the checks of each subject's type found, in the order of subjects, then of checks."""
    return [
        Finding(
            code=one.code,
            severity=hit.severity or one.severities[0],
            message=one.message.replace("{}", getattr(subject, "name", "")),
            evidence=hit.evidence,
            remedy=hit.remedy,
            value=hit.value,
            gain=hit.gain,
            is_measured=hit.is_measured,
            gpu=getattr(getattr(subject, "gpu", None), "index", None),
        )
        for subject in subjects
        for one in _CHECKS[type(subject)]
        for hit in one.look(subject)
    ]


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings by their severity; those of one severity keep their order."""
    return tuple(sorted(findings, key=lambda finding: WORST_FIRST.index(finding.severity)))


def worst(findings: Iterable[Finding]) -> Severity | None:
    """Return the highest severity, None without a finding."""
    return min((one.severity for one in findings), key=WORST_FIRST.index, default=None)
