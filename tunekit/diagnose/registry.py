"""The registry of checks: one decorated function for each possible finding.

    @check("shm-in-use", WARNING, "much of /dev/shm is taken before training has started")
    def _shm_in_use(machine: Machine) -> Hits:
        if ...:
            yield Hit("31.0 GiB of 64.0 GiB are used", "look at `ls -l /dev/shm`", value=used_bytes)

`--codes` lists the registered codes and `--ignore` accepts them; there is no second table.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar, get_type_hints

from tunekit.records.finding import WORST_FIRST, Finding, Severity

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO


class Hit(NamedTuple):
    """What a check found: the parts of a finding that the check's decorator does not define."""

    evidence: str | None
    """The figures that show it, and their sources."""
    remedy: str | None
    value: float | None = None
    gain: float | None = None
    """Upper bound on the gain from fixing it, as a factor of the present rate; predicted unless measured."""
    is_measured: bool = False
    """Whether trials of the same search measured the gain."""
    severity: Severity | None = None
    """One of the check's severities; None for the worst of them."""


Hits = Iterator[Hit]


class Code(NamedTuple):
    """What a code means."""

    severities: tuple[Severity, ...]
    """The severities that its findings may have, the worst first."""
    message: str
    """The problem, in one sentence."""


class _Check(NamedTuple):
    code: str
    severities: tuple[Severity, ...]
    message: str
    look: Callable[[Any], Hits]
    by: tuple[str, ...]


CODES: dict[str, Code] = {}
"""Every code that a finding may have."""

_CHECKS: dict[type, list[_Check]] = {}
"""The checks by the type of their subject."""

Subject = TypeVar("Subject")


def check(
    code: str, severities: Severity | tuple[Severity, ...], message: str, by: tuple[str, ...] = ()
) -> Callable[[Callable[[Subject], Hits]], Callable[[Subject], Hits]]:
    """Register a check; the type of its parameter determines its subjects.

    Args:
        code: in kebab case. Checks of different subjects may share a code.
        severities: the severities that its findings may have, the worst first.
        message: the problem, in one sentence. `{}` stands for the subject: its `name` in a finding, and
            what it is `called` in the list of codes.
        by: thresholds of policy.py that decide it, but that the function does not use.
    """
    of_code = (severities,) if isinstance(severities, Severity) else severities

    def register(look: Callable[[Subject], Hits]) -> Callable[[Subject], Hits]:
        subject = next(iter(get_type_hints(look).values()))
        _CHECKS.setdefault(subject, []).append(_Check(code, of_code, message, look, by))
        known = CODES.get(code, Code((), ""))
        sentence = message.replace("{}", getattr(subject, "called", ""))
        CODES[code] = Code(
            tuple(one for one in WORST_FIRST if one in (*known.severities, *of_code)),
            "; ".join(dict.fromkeys(text for text in (known.message, sentence) if text)),
        )
        return look

    return register


def findings_of(*subjects: object) -> list[Finding]:
    """Run the checks for each subject; findings are in the order of the subjects, then of the checks."""
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


def checks_of(code: str) -> list[_Check]:
    """Return the checks that find a code."""
    return [one for checks in _CHECKS.values() for one in checks if one.code == code]


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort findings by severity; those of the same severity keep their order."""
    return tuple(sorted(findings, key=lambda finding: WORST_FIRST.index(finding.severity)))


def worst(findings: Iterable[Finding]) -> Severity | None:
    """Return the highest severity; None without findings."""
    return min((one.severity for one in findings), key=WORST_FIRST.index, default=None)
