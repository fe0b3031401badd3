"""Do hosts that share a search lose a trial when some of them are killed, and what does sharing cost?

    python benchmarks/shared_search.py PLACE [--hosts 4] [--trials 100] [--kills 3] [--trial-s 0.5]

PLACE is what `--share` takes: an empty folder, or the address of an empty PostgreSQL database. Each host is a
process that takes jobs from the queue, sleeps in place of a training and leaves a record. A host that is
killed (kill -9, at any moment) is replaced. Printed: jobs without a record, jobs with two, and the seconds a
trial that a host spends on the queue and the records.
"""

import argparse
import multiprocessing
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tunekit.tune.shared import SharedStudy, address_of  # noqa: E402


def joined(place: str) -> SharedStudy:
    """Join the search of a place, with heartbeats that stop early."""
    return SharedStudy(address_of(place), {}, "benchmark", beat_s=1, grace_s=5)


def work(place: str, trial_s: float) -> None:
    """Take jobs until none is left."""
    study, began = joined(place), time.perf_counter()

    def run(number: int, job: dict[str, Any]) -> float:
        record = study.begin_record()
        time.sleep(trial_s)
        spent_s = time.perf_counter() - began - trial_s
        study.land_record(record, {"job": job["name"], "spent_s": spent_s}, 1.0)
        return 1.0

    while jobs := study.jobs():
        if any(not one.taken_by for one in jobs):
            began = time.perf_counter()
            study.take(run, {"host": "benchmark"})
        else:
            time.sleep(0.2)


def main() -> None:
    """Search and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("place", help="an empty folder, or postgresql://USER@HOST/DATABASE")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--trial-s", type=float, default=0.5)
    options = parser.parse_args()
    study, kills = joined(options.place), options.kills
    for name in range(options.trials):
        study.enqueue({"name": name})
    start = multiprocessing.get_context("spawn").Process
    hosts = [start(target=work, args=(options.place, options.trial_s)) for _ in range(options.hosts)]
    for host in hosts:
        host.start()
    while study.jobs():
        time.sleep(1.0)
        if kills and random.random() < 0.5:
            kills -= 1
            hosts.pop(0).kill()
            hosts.append(start(target=work, args=(options.place, options.trial_s)))
            hosts[-1].start()
    for host in hosts:
        host.join()
    records = [record for _, record in study.records()]
    times = Counter(record["job"] for record in records)
    spent_s = sorted(record["spent_s"] for record in records)
    print(f"{options.hosts} hosts, {options.kills - kills} killed, {len(records)} records")
    print(f"lost {options.trials - len(times)}, doubled {sum(count > 1 for count in times.values())}")
    print(f"{spent_s[len(spent_s) // 2]:.3f} s a trial, the slowest {spent_s[-1]:.3f} s")


if __name__ == "__main__":
    main()
