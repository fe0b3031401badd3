"""The training command itself: whether it can be run as it was given."""

from tunekit.records.checkup import Checkup
from tunekit.records.finding import Finding, Severity
from tunekit.records.profile import Profile


def command_findings(checkup: Checkup, profile: Profile | None) -> list[Finding]:
    """Return what is wrong with the training command."""
    if checkup.why_no_command is None:
        return []
    # The reason is an error's words: what is wrong, then "; " and what to do about it.
    reason, _, remedy = checkup.why_no_command.rpartition("; ")
    return [
        Finding(
            code="command-absent",
            severity=Severity.ERROR,
            message="the training command can't be run as it was given",
            evidence=reason or checkup.why_no_command,
            remedy=remedy if reason else "give the command as you would type it",
        )
    ]
