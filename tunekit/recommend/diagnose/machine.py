"""Everything that is wrong with a machine that training is about to start on."""

from collections.abc import Callable

from tunekit.recommend.diagnose.command import command_findings
from tunekit.recommend.diagnose.device import device_findings
from tunekit.recommend.diagnose.environment import environment_findings
from tunekit.recommend.diagnose.host import host_findings
from tunekit.recommend.diagnose.openmp import openmp_findings
from tunekit.recommend.diagnose.storage import storage_findings
from tunekit.recommend.diagnose.torch_build import torch_findings
from tunekit.records.checkup import Checkup
from tunekit.records.finding import WORST_FIRST, Finding, Severity
from tunekit.records.profile import Profile

_CHECKS: tuple[Callable[[Checkup, Profile | None], list[Finding]], ...] = (
    command_findings,
    torch_findings,
    device_findings,
    host_findings,
    storage_findings,
    openmp_findings,
    environment_findings,
)


def machine_findings(checkup: Checkup, profile: Profile | None) -> tuple[Finding, ...]:
    """Return what is wrong, the worst first.

    Args:
        checkup: the machine; its own findings are ignored.
        profile: of its first GPU, or of its CPU; None if no profile has its name.
    """
    found = [finding for check in _CHECKS for finding in check(checkup, profile)]
    return tuple(sorted(found, key=lambda finding: WORST_FIRST.index(finding.severity)))


def worst(findings: tuple[Finding, ...]) -> Severity | None:
    """Return the highest severity, None without a finding."""
    return next((one for one in WORST_FIRST if any(finding.severity is one for finding in findings)), None)
