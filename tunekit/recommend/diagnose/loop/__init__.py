"""What holds a measured training loop back or endangers it, told from its trial as findings. Pure."""

from collections.abc import Callable

from tunekit.recommend.diagnose.loop.compute import compute_findings
from tunekit.recommend.diagnose.loop.data import data_findings
from tunekit.recommend.diagnose.loop.epochs import epoch_findings
from tunekit.recommend.diagnose.loop.facts import LoopFacts
from tunekit.recommend.diagnose.loop.gpus import gpu_findings
from tunekit.recommend.diagnose.loop.trust import trust_findings
from tunekit.recommend.diagnose.loop.waits import wait_findings
from tunekit.recommend.diagnose.loop.workers import worker_findings
from tunekit.records.finding import Finding, Severity
from tunekit.records.host import Host
from tunekit.records.profile import Profile
from tunekit.records.target import Discovery, Target
from tunekit.records.trial import TrialRecord

_ORDER = (Severity.ERROR, Severity.WARNING, Severity.INFO)
_CHECKS: tuple[Callable[[LoopFacts], list[Finding]], ...] = (
    data_findings,
    worker_findings,
    compute_findings,
    wait_findings,
    gpu_findings,
    epoch_findings,
    trust_findings,
)


def loop_findings(
    record: TrialRecord,
    target: Target,
    discovery: Discovery | None,
    host: Host,
    profile: Profile | None,
) -> list[Finding]:
    """Return what holds a loop back, what could gain most first; of equal gain, the worst first.

    Args:
        record: the trial; one that failed has no findings.
        target: the command, in whose terms the remedies are.
        discovery: what the baseline learnt of it.
        host: one rank's share of the machine.
        profile: of the device that the trial ran on; None if no profile has its name.
    """
    if record.measurement is None:
        return []
    facts = LoopFacts(
        measurement=record.measurement,
        config=record.config,
        telemetry=record.telemetry,
        target=target,
        discovery=discovery,
        host=host,
        profile=profile,
    )
    found = [finding for check in _CHECKS for finding in check(facts)]
    return sorted(found, key=lambda one: (-(one.gain or 1.0), _ORDER.index(one.severity)))
