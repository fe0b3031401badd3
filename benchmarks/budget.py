"""What do GPU jobs get for their budget: trials, confirming rounds, and how much of the gain?

    python benchmarks/budget.py [--budgets default 8m 15m] [--seeds 5] [--jobs LSTM "7B LoRA"] [--tells 3]

Runs whole searches of the real Search on a scripted clock (tests/gpu_jobs.py): no process, no GPU, no
figure of any card. Per job, each the median over the seeds: what was spent of the budget, measured search
trials, rounds that the answer's config was confirmed in, which search trial was the first compiled one, and
the share of the reachable gain (in logarithms, of the true rates) of the best that was tried within 20
trial-times, of the best that was tried at all, and of the answer. --said prints what each first search
said. With --tells N each measured trial also tells the steps of the N fastest configs of its mode, at no
cost: the most that several trials in one process could bring.
"""

import argparse
import itertools
import random
import shlex
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from gpu_jobs import GpuJob, gpu_jobs  # noqa: E402
from scripted_search import RecordingListener, rounds_of_answer, search_in, searched  # noqa: E402

from tunekit.cli.numbers import duration_s  # noqa: E402
from tunekit.errors import TunekitError  # noqa: E402
from tunekit.predict.throughput.evidence import STEP_NOISE  # noqa: E402
from tunekit.predict.throughput.observation import Observation, observations  # noqa: E402
from tunekit.recommend.recommendation import answer_of  # noqa: E402
from tunekit.records.config import TrainConfig  # noqa: E402
from tunekit.records.run import Run  # noqa: E402
from tunekit.records.trial import TrialRecord, TrialRole  # noqa: E402
from tunekit.trial.executor import TrialSpec  # noqa: E402
from tunekit.tune import acquisition  # noqa: E402
from tunekit.units import duration_text  # noqa: E402

_TRIAL_TIMES = 20


@dataclass(frozen=True)
class Outcome:
    """What one search came to."""

    budget_s: float
    spent_s: float
    trial_s: float
    trials: int
    rounds: int
    first_compiled: int | None
    soon: float
    tried: float
    answered: float
    said: str


class Teller:
    """Takes the place of `observations` for a search of a job.

    Args:
        job: that is searched.
        tells: how many configs of its mode each trial tells of.
    """

    def __init__(self, job: GpuJob, tells: int) -> None:
        self._job, self._tells = job, tells
        self._random = random.Random(job.seed)
        self._observations: dict[TrainConfig, list[Observation]] = {}

    def __call__(self, records: Iterable[TrialRecord]) -> tuple[Observation, ...]:
        """Return what the trials tell, and of each what it is made to tell besides."""
        records = list(records)
        besides = [one for record in records if record.config for one in self._besides(record.config)]
        return (*observations(records), *besides)

    def _besides(self, config: TrainConfig) -> list[Observation]:
        if config not in self._observations:
            self._observations[config] = [self._seen(one) for one in self._fastest_like(config)]
        return self._observations[config]

    def _fastest_like(self, config: TrainConfig) -> list[TrainConfig]:
        """Return the fastest configs of a mode, those that the loop's own loader could be changed to."""
        own = self._job.baseline.batch_size
        alike = [
            config.model_copy(
                update={"batch_size": own << more, "num_workers": workers, "prefetch_factor": 2}
            )
            for more, workers in itertools.product(range(6), range(1, self._job.machine.cpus + 1))
        ]
        spec = TrialSpec(0, TrialRole.SEARCH, config)
        fitting = [one for one in alike if self._job.failing(one, spec) is None]
        return sorted(fitting, key=self._job.truth)[-self._tells :]

    def _seen(self, config: TrainConfig) -> Observation:
        step_s = self._job.step_s(config) * self._random.lognormvariate(0, STEP_NOISE)
        return Observation(config, step_s, None, None, None, None, None, None, None)


def outcome(job: GpuJob, budget_s: float | None, tells: int = 0) -> Outcome:
    """Search a job and return what came of it."""
    acquisition.observations = Teller(job, tells) if tells else observations  # type: ignore[attr-defined]
    asked = job.asked.model_copy(update={"budget_s": budget_s})
    listener = RecordingListener()
    with tempfile.TemporaryDirectory() as folder:
        whole, _ = search_in(
            Path(folder) / "run", asked, listener, executor_options=job.executor_options, host=job.machine
        )
    return judged(job, whole, " / ".join(listener.heard("said")))


def judged(job: GpuJob, whole: Run, said: str = "") -> Outcome:
    """Return what a finished search of a job came to."""
    best = job.best_rate(whole.space)
    measured = [record for record in searched(whole.trials) if record.measurement]
    plain = [record.duration_s for record in measured if record.config and not record.config.compile]
    trial_s = median(plain) if plain else whole.trials[0].duration_s
    answer = answer_of(whole.recommendations)
    compiled = [place for place, one in enumerate(measured, 1) if one.config and one.config.compile]
    soon, spent_s = [whole.trials[0]], 0.0
    for record in whole.trials:
        spent_s += record.duration_s
        if record in measured and spent_s <= _TRIAL_TIMES * trial_s:
            soon.append(record)
    return Outcome(
        budget_s=whole.budget_s or 0.0,
        spent_s=whole.search_time_s,
        trial_s=trial_s,
        trials=len(measured),
        rounds=rounds_of_answer(whole),
        first_compiled=compiled[0] if compiled else None,
        soon=_best_share(job, soon, best),
        tried=_best_share(job, [whole.trials[0], *measured], best),
        answered=_best_share(job, [whole.trials[answer.search_trial]], best) if answer else 0.0,
        said=said,
    )


def _best_share(job: GpuJob, records: Sequence[TrialRecord], best: float) -> float:
    return max(job.gain_share(record, best) for record in records)


def row(job: GpuJob, outcomes: Sequence[Outcome]) -> str:
    """Return a line of the table."""

    def middle(name: str) -> float:
        return median(getattr(one, name) for one in outcomes)

    compiled = [one.first_compiled for one in outcomes if one.first_compiled is not None]
    first = f"{median(compiled):.0f}" if 2 * len(compiled) > len(outcomes) else "never"
    return (
        f"| {job.name} | {job.startup_s:.0f} | {job.step_s(job.baseline):.3g} | {job.compile_s:.0f} "
        f"| {middle('trial_s'):.0f} | {duration_text(middle('budget_s'))} "
        f"| {duration_text(middle('spent_s'))} | {middle('trials'):.0f} | {middle('rounds'):.0f} | {first} "
        f"| {middle('soon'):.0%} | {middle('tried'):.0%} | {middle('answered'):.0%} |"
    )


def main() -> None:
    """Search and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--budgets", nargs="+", default=["default", "8m", "15m"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", nargs="*", default=[], help="names; all by default")
    parser.add_argument("--tells", type=int, default=0, help="configs that each trial tells of besides")
    parser.add_argument("--said", action="store_true", help="print what each first search said, too")
    options = parser.parse_args()
    print(f"`{shlex.join(['python', 'benchmarks/budget.py', *sys.argv[1:]])}`")
    for budget in options.budgets:
        budget_s = None if budget == "default" else duration_s(budget)
        print(f"\n--budget {budget}\n")
        print("| job | start s | step s | compile s | trial s | budget | spent | trials | rounds ", end="")
        print("| compiled | gain in 20 trial-times | tried | answer |")
        print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
        for job in gpu_jobs():
            if options.jobs and job.name not in options.jobs:
                continue
            try:
                outcomes = [
                    outcome(replace(job, seed=seed), budget_s, options.tells) for seed in range(options.seeds)
                ]
            except TunekitError as error:
                print(f"| {job.name} | {error} |")
                continue
            print(row(job, outcomes), flush=True)
            if options.said:
                print(f"    {outcomes[0].said}")


if __name__ == "__main__":
    main()
