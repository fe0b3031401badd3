"""Finalists and baseline in fresh interleaved processes: A B C C B A, so that drift and heat affect all."""

from collections.abc import Mapping, Sequence

from tunekit.recommend.noise import rounds_to_tell, verdict
from tunekit.records.config import TrainConfig
from tunekit.records.details import Detail
from tunekit.records.interval import Interval
from tunekit.records.recommendation import NoiseFloor
from tunekit.records.trial import TrialRecord, TrialRole

MIN_ROUNDS = 3
"""Fewest rounds for a meaningful interval."""

MAX_ROUNDS = 10
"""Most rounds of a finalist, to settle what fewer rounds left open."""

COMPILE_PRIOR_S = 60.0
"""Assumed compile time before a trial has measured it."""


def finalists(picks: Sequence[TrialRecord]) -> tuple[TrainConfig, ...]:
    """Return the distinct configs of the picks except the baseline's, which runs anyway."""
    configs: list[TrainConfig] = []
    for record in picks:
        if record.config is not None and not record.is_baseline_config and record.config not in configs:
            configs.append(record.config)
    return tuple(configs)


def min_rounds(wanted: int) -> int:
    """Return the fewest rounds that a finalist should have."""
    return min(MIN_ROUNDS, wanted)


def rounds_done(
    records: Sequence[TrialRecord], config: TrainConfig, role: TrialRole = TrialRole.CONFIRM
) -> int:
    """Return the number of a role's rounds that ran a config and that no other GPU process disturbed."""
    of_role = [record for record in records if record.role is role]
    disturbed = {record.round for record in of_role if record.neighbours}
    return len({record.round for record in of_role if record.config == config} - disturbed)


def confirmed_before(records: Sequence[TrialRecord]) -> tuple[TrainConfig, ...]:
    """Return the configs, without the baseline's, that earlier rounds measured, in their order."""
    again = [r for r in records if r.role is TrialRole.CONFIRM and r.measurement and not r.is_baseline_config]
    unfit = {r.config for r in records if r.role is TrialRole.CONFIRM and r.failure}
    return tuple(dict.fromkeys(r.config for r in again if r.config and r.config not in unfit))


def second_stage(
    speedups: Mapping[TrainConfig, Interval], rounds: Mapping[TrainConfig, int], noise: NoiseFloor | None
) -> dict[TrainConfig, int]:
    """Return how many more rounds each inconclusive finalist needs.

    A config is left out if the rounds so far are conclusive, or if MAX_ROUNDS would not be.

    Args:
        speedups: each finalist's speedup over the baseline, by the rounds so far.
        rounds: number of rounds behind each speedup.
        noise: the run's noise floor.
    """
    more: dict[TrainConfig, int] = {}
    for config, ratio in speedups.items():
        is_open = verdict(ratio, noise) == "inconclusive"
        needed = rounds_to_tell(ratio, rounds[config], noise) if is_open else None
        if needed is not None and needed <= MAX_ROUNDS:
            more[config] = needed - rounds[config]
    return more


def rounds_s(records: Sequence[TrialRecord], configs: Sequence[TrainConfig], rounds: int) -> float:
    """Return the seconds that confirmation rounds of these configs and the baseline take."""
    return rounds * sum(typical_duration_s(records, config) for config in (None, *configs))


def rounds_due(
    done: Mapping[TrainConfig, int], wanted: int, fitting: int
) -> tuple[tuple[TrainConfig, ...], int]:
    """Return which finalists to run again, and for how many rounds.

    Args:
        done: rounds that each finalist already has.
        wanted: rounds that each should have.
        fitting: rounds that fit in the time left; a finalist without any runs once in any case.
    """
    goal = wanted if fitting > 0 else min(1, wanted)
    configs = tuple(config for config, count in done.items() if count < goal)
    if not configs:
        return (), 0
    return configs, max(1, min(fitting, goal - min(done[config] for config in configs)))


def round_order(
    configs: Sequence[TrainConfig], with_baseline: bool, round_number: int
) -> list[TrainConfig | None]:
    """Return what one round runs, in order; None stands for the baseline.

    Every other round runs in reverse, so that no config always follows the same one.
    """
    order: list[TrainConfig | None] = [None, *configs] if with_baseline else list(configs)
    return order if round_number % 2 == 0 else order[::-1]


def typical_duration_s(records: Sequence[TrialRecord], config: TrainConfig | None) -> float:
    """Return the typical seconds of a config's trials, else of all measured trials.

    Loss checks don't count, nor do trials that were given up early if there are others.
    """
    whole = _whole(records)
    same = [r for r in whole if (r.is_baseline_config if config is None else r.config == config)]
    return _mean([plain_duration_s(record) for record in same or whole])


def expected_duration_s(records: Sequence[TrialRecord], config: TrainConfig) -> float:
    """Return the estimated seconds of a config's next trial, compilation included."""
    return durations_s(records)[config.compile]


def durations_s(records: Sequence[TrialRecord]) -> tuple[float, float]:
    """Return the estimated seconds of a trial without compile and with it."""
    whole = _whole(records)
    eager = [plain_duration_s(r) for r in whole if r.config and not r.config.compile]
    eager_s = _mean(eager or [plain_duration_s(r) for r in whole])
    compiled = [r.duration_s for r in records if r.config and r.config.compile and r.measurement]
    return eager_s, max(compiled, default=eager_s + COMPILE_PRIOR_S)


def plain_duration_s(record: TrialRecord) -> float:
    """Return the seconds of a trial without its details, estimated from its parts."""
    loop = record.measurement.loop if record.measurement else None
    if loop is None or record.measurement is None or record.measurement.details is None:
        return record.duration_s
    # As many batches as before the window are discarded again after the epoch's end.
    batches = 2 * loop.discarded_batches + loop.steady_batches
    start_s = loop.startup_s + loop.first_batch_s + loop.once_s
    return min(record.duration_s, start_s + batches * loop.step_time_s + max(0.0, loop.boundary_s or 0.0))


def _whole(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Return the measured trials, without those given up early if there are others."""
    measured = [r for r in records if r.measurement and r.role is not TrialRole.NUMERICS]
    return [r for r in measured if not r.is_abandoned] or measured


def _mean(seconds: Sequence[float]) -> float:
    return sum(seconds) / len(seconds) if seconds else 0.0


def details_to_confirm(
    records: Sequence[TrialRecord], config: TrainConfig | None, checks_data: bool = False
) -> tuple[Detail, ...]:
    """Return what a confirming process examines: for each config's first, the data set's largest samples.

    They are skipped if an earlier process found that sizes don't vary or can't be determined, or didn't get
    to it.

    Args:
        records: records of all trials so far.
        config: the process's config; None for the baseline.
        checks_data: whether it also examines the samples of epochs.
    """
    confirming = [record for record in records if record.role is TrialRole.CONFIRM]
    if any(r.is_baseline_config if config is None else r.config == config for r in confirming):
        return ()
    looks = [r.measurement.details for r in confirming if r.measurement and r.measurement.details]
    can_tell = all(look.largest is not None and look.largest.varies is True for look in looks)
    return (*((Detail.LARGEST,) if can_tell else ()), *((Detail.DATA,) if checks_data else ()))


def next_round(records: Sequence[TrialRecord], role: TrialRole = TrialRole.CONFIRM) -> int:
    """Return the number of the next round of a role."""
    return max([r.round for r in records if r.role is role and r.round is not None], default=-1) + 1
