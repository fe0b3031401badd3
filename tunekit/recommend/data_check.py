"""Whether a config trains on the baseline's samples, judged by what their processes saw. Pure."""

import math
from collections.abc import Iterator, Mapping, Sequence

from tunekit.recommend.schedule_check import schedule_differences
from tunekit.records.config import TrainConfig
from tunekit.records.data_check import DataCheck, Difference, DifferenceCode, Sameness
from tunekit.records.details import ContentsSeen, DataSeen, Details, IndicesSeen
from tunekit.records.trial import TrialRole
from tunekit.records.trials import Trials

SET_EPOCH = "set_epoch"
"""Listed as changing if a data set has this method and no second epoch was seen."""

_FIXED_SHARE = 0.75
"""Share of one epoch's left-out samples. If two epochs both leave out more than that, it is always the same
samples; with a shuffled remainder they share less than half."""
_CHANCE = 3.0
"""Standard deviations that counts may differ by if the sampler draws with replacement."""
_DIGITS = 8
_OF_WORKERS = (DifferenceCode.REPEATED, DifferenceCode.CONTENT, DifferenceCode.SAME_DRAWS)
_MAX_LETTERS = 300
_UNSEEN = "no confirming process got to look at its samples; in a longer training one may"


def data_checks(trials: Trials) -> dict[TrainConfig, DataCheck]:
    """Return the data check of each config except the baseline's.

    Configs are checked if a confirming process examined their samples, or if a trial showed that the
    script's step counts don't follow the batch size; a confirmed one that was not examined says so.
    """
    baseline = trials.baseline
    own = [record.details for record in trials.records if record.is_baseline_config]
    known = [one for one in own if one is not None and (one.data or _faults_of(one))]
    if baseline is None or baseline.config is None:
        return {}
    checks: dict[TrainConfig, DataCheck] = {}
    for record in (*trials.confirming, *trials.records) if known else ():
        if record.config is None or record.is_baseline_config or record.failure:
            continue
        others = schedule_differences(baseline, record)
        seen = record.details if record.role is TrialRole.CONFIRM else None
        if seen and (seen.data or _faults_of(seen)):
            check = data_check(known, seen, baseline.config, record.config, others)
            checks.setdefault(record.config, check)
        elif others:
            checks.setdefault(record.config, DataCheck(verdict=Sameness.DIFFERS, differences=others))
    for record in trials.confirming:
        if record.config is not None and record.measurement and not record.is_baseline_config:
            checks.setdefault(record.config, DataCheck(verdict=Sameness.NOT_CHECKED, why_not=_UNSEEN))
    return checks


def _faults_of(details: Details) -> list[str]:
    """Return why the samples could not be examined."""
    return [fault for fault in details.faults if fault.startswith("data:")]


def trains_otherwise(
    config: TrainConfig, checks: Mapping[TrainConfig, DataCheck], baseline: TrainConfig | None
) -> bool:
    """Return whether a config changes the training, as observed or because it shares another's cause."""
    for other, check in checks.items():
        if check.verdict is not Sameness.DIFFERS:
            continue
        codes = {one.code for one in check.differences}
        fewest = baseline.num_workers if baseline else 0
        by_workers = codes & set(_OF_WORKERS) and config.num_workers >= other.num_workers > fewest
        is_stale = DifferenceCode.STALE in codes and config.persistent_workers
        is_unshared = DifferenceCode.UNSHARED in codes and bool(config.num_workers) == bool(other.num_workers)
        if config == other or by_workers or is_stale or is_unshared:
            return True
    return False


def is_fixed_part(missing: float, in_two: float) -> bool:
    """Return whether epochs always leave out the same samples, judged by what two epochs both leave out."""
    return in_two > 0 and in_two > _FIXED_SHARE * missing


def data_check(
    baselines: Sequence[Details],
    candidate: Details,
    baseline: TrainConfig,
    config: TrainConfig,
    others: tuple[Difference, ...] = (),
) -> DataCheck:
    """Return whether a config trains on the baseline's samples.

    Args:
        baselines: details of baseline processes; contents are only compared where two of them agree.
        candidate: details of a process of the config.
        baseline: the user's current knob values.
        config: the candidate's knob values.
        others: other differences between the config's training and the baseline's.
    """
    own, seen = [one.data for one in baselines if one.data], candidate.data
    sizes = baseline.batch_size, config.batch_size
    if not own or seen is None or _are_batches(own[0].indices, seen.indices, sizes):
        faults = [fault for details in (candidate, *baselines) for fault in _faults_of(details)]
        otherwise = "the data set makes whole batches" if own and seen else "no process looked at its samples"
        return DataCheck(
            verdict=Sameness.DIFFERS if others else Sameness.NOT_CHECKED,
            differences=others,
            why_not=(*faults, otherwise)[0][:_MAX_LETTERS],
        )
    is_moving = any(name != SET_EPOCH for one in (seen, *own) for name in one.changing or ())
    compared, altered = (0, ()) if is_moving else _contents([one.contents for one in own], seen.contents)
    differences = (
        *_of_draws(own[0].indices, seen.indices, config),
        *(_of_stream(own, seen, baseline, config) if seen.indices is None else ()),
        *_of_contents(own, seen, compared, altered),
        *_of_workers(own, seen, baseline, config),
        *others,
    )
    missing = [fault for one in (seen, *own) for fault in one.faults]
    missing += _unseen(seen, baseline, config)
    counted = seen.samples.count if seen.samples else 0
    if seen.indices is not None:  # for an endless sampler, count distinct indices
        counted = seen.indices.draws if seen.indices.is_whole else seen.indices.distinct
    verdict = Sameness.NOT_CHECKED if missing or not counted else Sameness.SAME
    if verdict is Sameness.SAME and not compared and seen.contents:
        missing = [
            "the data set changes between epochs"
            if is_moving
            else "contents differ between two runs of the baseline"
            if len(own) > 1
            else "one baseline run"
        ]
    return DataCheck(
        verdict=Sameness.DIFFERS if differences else verdict,
        differences=differences[:16],
        indices_checked=counted,
        samples_checked=compared,
        left_out_samples=_left_out(own[0].indices, seen.indices),
        why_not=missing[0][:_MAX_LETTERS] if missing else None,
    )


def _are_batches(own: IndicesSeen | None, seen: IndicesSeen | None, sizes: tuple[int, int]) -> bool:
    """Return whether the data set's items are batches: with larger ones it has fewer items."""
    before, now = ((one.data_set_samples or 0) if one else 0 for one in (own, seen))
    return before != now and abs(before * sizes[0] - now * sizes[1]) < max(sizes)


def _of_draws(own: IndicesSeen | None, seen: IndicesSeen | None, config: TrainConfig) -> Iterator[Difference]:
    """Yield differences for indices that the sampler draws more often, or no longer at all.

    Up to a batch may be repeated as padding; random counts may differ by chance.
    """
    if own is None or seen is None or own.digest == seen.digest:
        return
    repeats = own.draws > own.distinct
    slack = max(config.batch_size, _CHANCE * math.sqrt(seen.draws)) if repeats else config.batch_size
    repeated = (seen.draws - seen.distinct) - (own.draws - own.distinct)
    if repeated > slack and seen.is_whole == own.is_whole:
        yield Difference(code=DifferenceCode.REPEATED, affected=repeated, of=seen.draws)
    if own.distinct_in_two is None or seen.distinct_in_two is None:
        return
    missing, in_two = own.distinct - seen.distinct, own.distinct_in_two - seen.distinct_in_two
    if (in_two > slack if repeats else is_fixed_part(missing, in_two)) or missing > slack:
        yield Difference(code=DifferenceCode.MISSING, affected=max(in_two, missing), of=own.distinct)


def _left_out(own: IndicesSeen | None, seen: IndicesSeen | None) -> int:
    return max(0, own.distinct - seen.distinct) if own and seen and own.is_whole and seen.is_whole else 0


def _of_stream(
    own: Sequence[DataSeen], seen: DataSeen, baseline: TrainConfig, config: TrainConfig
) -> Iterator[Difference]:
    """Yield differences for samples that a stream gives more often than the baseline's, or no longer.

    Each worker may leave out the end of its share, less than a batch.
    """
    ours, theirs = seen.samples, [one.samples for one in own if one.samples]
    if ours is None or not theirs:
        return
    first = theirs[0]
    chance = max(one.count for one in theirs) - min(one.count for one in theirs)
    more = (ours.count - ours.distinct) - (first.count - first.distinct) * ours.count / max(1, first.count)
    if ours.whole_epochs and first.whole_epochs:
        more = max(more, ours.count - first.count)
    if more > max(config.batch_size, chance):
        yield Difference(code=DifferenceCode.REPEATED, affected=more, of=ours.count)
        return
    if not ours.whole_epochs or not first.whole_epochs:
        return
    missing = first.count - ours.count
    is_known = len(set().union(*(one.digests for one in theirs))) == 1
    in_two = (first.distinct_in_two or 0) - (ours.distinct_in_two or 0) if ours.distinct_in_two else 0
    may_miss = max(1, config.num_workers) * (config.batch_size - 1) + _CHANCE * chance
    if missing > may_miss or (is_known and is_fixed_part(missing, in_two)):
        yield Difference(code=DifferenceCode.MISSING, affected=max(missing, in_two), of=first.count)
    elif is_known and len(own) > 1 and not missing and ours.digests[0] not in first.digests:
        yield Difference(code=DifferenceCode.CONTENT, affected=ours.count, of=ours.count)


def _unseen(seen: DataSeen, baseline: TrainConfig, config: TrainConfig) -> list[str]:
    """Return why a stream could not be checked completely: there was no time for a whole epoch."""
    stream = seen.samples if seen.indices is None else None
    if stream is None or stream.whole_epochs or config.num_workers in (0, 1, baseline.num_workers):
        return []
    return [f"an epoch is longer than the {stream.count:,} samples that there was time to read"]


def _contents(own: Sequence[ContentsSeen | None], seen: ContentsSeen | None) -> tuple[int, tuple[int, ...]]:
    """Return how many samples could be compared, and the indices of those that differ.

    Each leaf is compared separately; one that differs between baseline processes is skipped.
    """
    known = [one for one in own if one is not None]
    if seen is None or len(known) < 2:
        return 0, ()
    compared: set[int] = set()
    altered: set[int] = set()
    for leaf in range(len(seen.leaves)):
        first, *rest = (_prints(one, leaf) for one in known)
        theirs = _prints(seen, leaf)
        is_random = any(leaf < len(one.leaves) and one.leaves[leaf].unlike for one in known)
        if is_random or any(
            other.get(index, first[index]) != first[index] for other in rest for index in first
        ):
            continue
        common = [index for index in theirs if all(index in one for one in (first, *rest))]
        compared.update(common)
        altered.update(index for index in common if theirs[index] != first[index])
    return len(compared), tuple(sorted(altered))


def _prints(seen: ContentsSeen, leaf: int) -> dict[int, str]:
    """Return the hashes of a leaf by sample index; empty if there is no such leaf."""
    text = seen.leaves[leaf].prints if leaf < len(seen.leaves) else ""
    return {index: text[_DIGITS * at : _DIGITS * (at + 1)] for at, index in enumerate(seen.indices) if text}


def _of_contents(
    own: Sequence[DataSeen], seen: DataSeen, compared: int, altered: Sequence[int]
) -> Iterator[Difference]:
    if altered:
        example = f"index {altered[0]}"
        yield Difference(code=DifferenceCode.CONTENT, affected=len(altered), of=compared, example=example)
        return
    samples = [one.samples for one in own if one.samples]
    is_steady = any(one.made_again for one in samples) and not any(one.made_otherwise for one in samples)
    if seen.samples and seen.samples.made_otherwise and is_steady:
        affected, of = seen.samples.made_otherwise, seen.samples.made_again
        yield Difference(code=DifferenceCode.CONTENT, affected=affected, of=of)


def _of_workers(
    own: Sequence[DataSeen], seen: DataSeen, baseline: TrainConfig, config: TrainConfig
) -> Iterator[Difference]:
    """Yield changes that workers don't see, and random numbers that they all share."""
    count = seen.samples.count if seen.samples else seen.indices.draws if seen.indices else 0
    changing = [name for one in own for name in one.changing or () if name != SET_EPOCH]
    if changing and config.persistent_workers and not baseline.persistent_workers:
        yield Difference(code=DifferenceCode.STALE, affected=count, of=count, example=_listed(changing))
    unshared = [name for one in (seen, *own) for name in one.unshared]
    if unshared and bool(config.num_workers) != bool(baseline.num_workers):
        yield Difference(code=DifferenceCode.UNSHARED, affected=count, of=count, example=_listed(unshared))
    shared = [
        name for name in seen.shared_generators if all(name not in one.shared_generators for one in own)
    ]
    if shared:
        affected = round(count * (1 - 1 / config.num_workers)) if config.num_workers > 1 else count
        yield Difference(code=DifferenceCode.SAME_DRAWS, affected=affected, of=count, example=_listed(shared))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(names))[:_MAX_LETTERS]
