"""Whole runs for tests of comparisons: searched, confirmed and assembled as a search does it."""

from collections.abc import Sequence
from typing import Any

from build_records import baseline_record, config, confirm_records, run, trial_record

from tunekit.diagnose.compare import compare_runs
from tunekit.diagnose.run_pair import Side
from tunekit.recommend.recommendation import answer_of
from tunekit.records.attribution import StepParts
from tunekit.records.comparison import RunComparison
from tunekit.records.config import TrainConfig
from tunekit.records.run import Run
from tunekit.session.assemble import assemble

OWN = config()
TUNED = config(batch_size=512, num_workers=4)


def searched(
    rates: Sequence[float] = (980.0, 970.0, 990.0),
    own_rates: Sequence[float] = (500.0, 505.0, 495.0),
    tuned: TrainConfig = TUNED,
    loop: dict[str, Any] | None = None,
    **overrides: Any,
) -> Run:
    """A finished search whose Balanced is `tuned` at these rates, and its baseline at the others.

    `loop` overrides what every loop of it has; the other overrides are the run's.
    """
    more = loop or {}
    baselines = tuple(
        record.model_copy(update={"is_baseline_config": True})
        for record in confirm_records(list(own_rates), OWN, first_number=50, **more)
    )
    first = (baseline_record(rate=own_rates[0], of=OWN, **more), trial_record(1, rates[0], tuned, **more))
    again = confirm_records(list(rates), tuned, first_number=70, **more)
    return assemble(run(trials=(), **overrides), (*first, *baselines, *again))


def slower(share: float, **overrides: Any) -> Run:
    """The same search where all of the tuned config's processes took that share longer: none, 0.25, ..."""
    return searched(rates=[rate / (1 + share) for rate in (980.0, 970.0, 990.0)], **overrides)


def side(name: str, of: Run, folder: str | None = None) -> Side:
    """A run with the config that its answer speaks of."""
    return Side(name, folder or f"reports/{name.lower()}", of, answer_of(of.recommendations))


def compared(*runs: Run, tolerance: float = 0.05) -> RunComparison:
    """These runs, the first as the reference, in folders named as they are."""
    sides = [side(name, one) for name, one in zip("ABCDEFGHIJKLMNOPQRST", runs, strict=False)]
    return compare_runs(sides, tolerance, "1.0.0")


def waiting(of: Run, wait_s: float) -> Run:
    """The run, each process of its tuned config waiting so many seconds more for 1,000 samples."""
    records = []
    for record in of.trials:
        measured = record.measurement
        if measured is None or record.is_baseline_config:
            records.append(record)
            continue
        loop = measured.loop
        more_s = wait_s * loop.steady_samples / 1000
        parts = StepParts(
            data_wait_s=loop.parts.data_wait_s + more_s,
            compute_s=loop.parts.compute_s,
            optimizer_s=loop.parts.optimizer_s,
            other_s=loop.parts.other_s,
        )
        slow = loop.model_copy(update={"steady_time_s": loop.steady_time_s + more_s, "parts": parts})
        again = measured.model_copy(update={"loop": slow})
        records.append(record.model_copy(update={"measurement": again}))
    return assemble(of.model_copy(update={"trials": ()}), tuple(records))
