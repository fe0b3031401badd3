"""Do hosts that share a search lose or repeat a trial when some of them are killed?

    python benchmarks/shared_search.py PLACE [--hosts 4] [--trials 100] [--kills 3]

PLACE is what `--share` takes: an empty folder, or the address of an empty PostgreSQL database. Each host is a
process that takes jobs from the queue, sleeps in place of a training and leaves a record. A host that is
killed (kill -9, at any moment) is replaced.
"""

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from contextlib import ExitStack
from multiprocessing.process import BaseProcess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tunekit.tune.jobs import Job, Work  # noqa: E402
from tunekit.tune.shared import SharedStudy, address_of, open_place  # noqa: E402

_TRIAL_S = 0.5


def host(place: str) -> None:
    """Take jobs until none is left."""
    with ExitStack() as stack:
        study = joined(place, stack)

        def run(job: Job) -> None:
            time.sleep(_TRIAL_S)
            study.land_record(study.begin_record(), str(job.why_stopped), 1.0)

        while jobs := study.jobs():
            if all(job.host for job in jobs):
                time.sleep(_TRIAL_S)
            else:
                study.take(run)


def joined(place: str, stack: ExitStack) -> SharedStudy:
    """Join the search of a place, with heartbeats that soon are missed."""
    address = address_of(place)
    storage = stack.enter_context(open_place(address, beat_s=1, grace_s=5))
    return SharedStudy(address, storage, "benchmark", "host", Path())


def main() -> None:
    """Search and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("place", help="an empty folder, or postgresql://USER@HOST/DATABASE")
    for name, usual in (("--hosts", 4), ("--trials", 100), ("--kills", 3)):
        parser.add_argument(name, type=int, default=usual)
    options, hosts = parser.parse_args(), list[BaseProcess]()
    study = joined(options.place, stack := ExitStack())
    start = multiprocessing.get_context("spawn").Process
    for number in range(options.trials):
        study.enqueue(Job(work=Work.SEARCH, why_stopped=str(number)))
    for number in range(options.hosts + options.kills):
        hosts.append(start(target=host, args=(options.place,)))
        hosts[-1].start()
        if number >= options.hosts:
            time.sleep(2 * _TRIAL_S)
            hosts[number - options.hosts].kill()
    for one in hosts:
        one.join()
    times = Counter(study.records().values())
    stack.close()
    print(f"lost {options.trials - len(times)}, doubled {sum(count > 1 for count in times.values())}")


if __name__ == "__main__":
    main()
