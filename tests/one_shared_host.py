"""One host of a shared search as a process of its own, with scripted trials: what tests kill -9 and stop.

One of its search trials tells that it has begun, and waits to be let go on.
"""

import sys
import threading
from contextlib import ExitStack
from pathlib import Path

from build_records import host, run
from scripted_search import RecordingListener, ScriptedClock, start_search
from shared_hosts import FEW, HostExecutor

from tunekit.records.trial import TrialRole
from tunekit.session.folder import RunFolder
from tunekit.session.shared import SharedBook
from tunekit.trial.executor import TrialSpec
from tunekit.tune.shared.facts import machine_facts, search_facts
from tunekit.tune.shared.leases import Pace
from tunekit.tune.shared.share import Share
from tunekit.tune.shared.storage import address_of

PACE = Pace(beat_s=0.25, lease_s=8.0, look_s=0.1)
"""Short leases, and yet long beside what a busy machine holds a thread up."""


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Said(RecordingListener):
    """Writes to standard output what the host says."""

    def said(self, message: str) -> None:
        tell(message)

    def turned_away(self, why: str) -> None:
        tell(why)


def main(place: str, name: str, folder: Path, waits_at: int) -> None:
    """Search as one host.

    Args:
        place: what `--share` takes.
        name: of the host.
        folder: its run folder.
        waits_at: its so-manieth search trial waits for a line on standard input; 0 for none.
    """
    begun: list[int] = []

    def before(spec: TrialSpec) -> None:
        begun.append(spec.role is TrialRole.SEARCH)
        if spec.role is TrialRole.SEARCH and sum(begun) == waits_at:
            tell(f"begun {spec.number} {spec.config}")
            sys.stdin.readline()

    machine, listener = host(hostname=name), Said()
    bare = run(options=FEW, trials=(), search_time_s=0.0, host=machine)
    with ExitStack() as stack:
        share = stack.enter_context(Share(address_of(place), name, listener.said, PACE))
        group = share.join(search_facts(bare), machine_facts(bare))
        owned = stack.enter_context(RunFolder(folder))
        book = stack.enter_context(SharedBook(group, name, folder, PACE))
        executor = HostExecutor(
            owned.trials_folder, clock=ScriptedClock(), noise=lambda knobs, spec: 1.0, before=before
        )
        start_search(owned, executor, FEW, listener, book=book, host=machine).run()
    assert threading.active_count() == 1, "the heart has ended"


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
