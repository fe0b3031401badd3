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
from tunekit.records.finding import WORST_FIRST, Finding
from tunekit.records.host import Host
from tunekit.records.profile import Profile
from tunekit.records.target import Discovery, Target
from tunekit.records.trial import TrialRecord

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
    facts = _facts(record, target, discovery, host, profile)
    if facts is None:
        return []
    found = [finding for check in _CHECKS for finding in check(facts)]
    return sorted(found, key=lambda one: (-(one.gain or 1.0), WORST_FIRST.index(one.severity)))


def suggested_workers(
    record: TrialRecord,
    target: Target,
    discovery: Discovery | None,
    host: Host,
    profile: Profile | None,
) -> int | None:
    """Return loader workers, more than there are, that could keep up with the training.

    Args:
        record: the trial that shows how long batches and steps take.
        target: the command.
        discovery: what the baseline learnt of it.
        host: one rank's share of the machine.
        profile: of the device that the trial ran on; None if no profile has its name.

    Returns:
        None where making a batch was not timed, or where no more workers would help.
    """
    facts = _facts(record, target, discovery, host, profile)
    return None if facts is None or facts.batch_s is None else facts.more_workers


def _facts(
    record: TrialRecord,
    target: Target,
    discovery: Discovery | None,
    host: Host,
    profile: Profile | None,
) -> LoopFacts | None:
    """Return what a trial is known to be; None for one that failed."""
    if record.measurement is None:
        return None
    return LoopFacts(
        measurement=record.measurement,
        config=record.config,
        telemetry=record.telemetry,
        target=target,
        discovery=discovery,
        host=host,
        profile=profile,
    )
