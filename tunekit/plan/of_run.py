"""The plan that a run's report shows."""

from datetime import date, datetime

from pydantic import ValidationError

from tunekit.errors import RecordError, UsageError
from tunekit.hardware.profiles import load_profiles
from tunekit.plan.from_run import Wishes, measured_profile, request_of_run
from tunekit.plan.plan import make_plan
from tunekit.records.plan import Plan
from tunekit.records.run import Run


def plan_of_run(run: Run) -> Plan | None:
    """Return what the training costs with the recommended config; None where the run does not know enough.

    Prices are judged by the day of the run, so that a report that is drawn again with the same profiles reads
    the same.
    """
    made_on = _day_of(run)
    if made_on is None:
        return None
    try:
        profiles = load_profiles()
        own = measured_profile(run)
        if own is not None:
            profiles = {own.id: own} | profiles
        return make_plan(request_of_run(run, Wishes()), profiles, made_on, run.options.ignored)
    except (UsageError, RecordError, ValidationError):
        # No rate, no length of an epoch, a profile that can't be read, a training that would never end.
        return None


def _day_of(run: Run) -> date | None:
    try:
        return datetime.fromisoformat(run.created_at).date()
    except ValueError:
        return None
