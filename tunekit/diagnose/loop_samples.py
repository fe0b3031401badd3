"""Checks for samples that are repeated, missing or drawn alike, in the user's training or in a config."""

from tunekit.diagnose.loop import LoopFacts
from tunekit.diagnose.registry import WARNING, Hit, Hits, check
from tunekit.recommend.data_check import data_checks, is_fixed_part
from tunekit.records.config import LOADER_KNOBS
from tunekit.records.data_check import DifferenceCode, Sameness
from tunekit.records.run import Run

_SHARD = "read a share in each worker: torch.utils.data.get_worker_info() tells its id and their number"
_SEED = "seed it in each worker, in worker_init_fn"
_COUNT = "{affected:,.0f} of {of:,.0f} samples "
_TEXTS = {
    DifferenceCode.REPEATED: (_COUNT + "come again in an epoch{example}", _SHARD),
    DifferenceCode.MISSING: (_COUNT + "never come{example}", "shuffle, or use drop_last=False"),
    DifferenceCode.CONTENT: (
        _COUNT + "have another content{example}",
        "open files and make generators in worker_init_fn, not before workers start",
    ),
    DifferenceCode.SAME_DRAWS: (
        _COUNT + "are drawn with random numbers that another worker has too{example}",
        _SEED,
    ),
    DifferenceCode.STALE: (
        _COUNT + "are made as in the first epoch{example}",
        "leave persistent_workers off: workers that persist don't see what changes in the data set",
    ),
    DifferenceCode.UNSHARED: (
        "each worker has its own copy of what the data set changes as it is read{example}",
        "leave num_workers as it is, or hold it in memory that processes share",
    ),
    DifferenceCode.SCHEDULE: (
        "the schedule stays as it is{example}, and the same samples take {affected:,.0f} instead of "
        "{of:,.0f} steps",
        "compute its steps from len(loader), or bind an option of the script that both follow: --bind "
        "batch_size=HOW",
    ),
    DifferenceCode.STEPS: (
        "the step limit stays as it is{example}, and the same samples take {affected:,.0f} instead of "
        "{of:,.0f} steps",
        "to train with it all the same, change the step limit to this number yourself",
    ),
    DifferenceCode.LOADER_RATIO: (
        "the loaders beside it still give {of:,.0f} samples a step, and the same ratio takes {affected:,.0f}",
        "bind an option of the script that sets the batches of all loaders: --bind batch_size=HOW",
    ),
}


@check("samples-repeated", WARNING, "workers repeat each other's samples")
def _samples_repeated(facts: LoopFacts) -> Hits:
    data, workers = facts.details.data, facts.loop.num_workers
    seen = data.samples if data and data.indices is None else None
    if seen is None or workers < 2 or not seen.whole_epochs:
        return
    repeated = seen.count - seen.distinct
    if repeated >= seen.count * (1 - 1 / workers) - workers * (facts.loop.batch_size or 1):
        yield Hit(f"{repeated:,} of {seen.count:,} samples of an epoch, {workers} workers", _SHARD, repeated)


@check("samples-never-seen", WARNING, "the last samples of the data set are never trained on")
def _samples_never_seen(facts: LoopFacts) -> Hits:
    seen = facts.details.data.indices if facts.details.data else None
    if seen is None or seen.data_set_samples is None or seen.distinct_in_two is None:
        return
    missing, in_two = seen.data_set_samples - seen.distinct, seen.data_set_samples - seen.distinct_in_two
    if 0 < missing < (facts.loop.batch_size or 1) and is_fixed_part(missing, in_two):
        evidence = f"{missing:,} of {seen.data_set_samples:,}, the same in two epochs"
        yield Hit(evidence, "shuffle, or use drop_last=False", missing)


@check("same-draws", WARNING, "workers draw the same random numbers")
def _same_draws(facts: LoopFacts) -> Hits:
    shared = facts.details.data.shared_generators if facts.details.data else ()
    if shared:
        yield Hit(f"{', '.join(shared)}: equal in {facts.loop.num_workers} workers", _SEED)


@check("other-training", WARNING, "a config changes what is trained on, so no tier takes it")
def _other_training(run: Run) -> Hits:
    baseline = run.baseline_config
    for config, found in data_checks(run.history).items():
        if found.verdict is not Sameness.DIFFERS or baseline is None:
            continue
        now, before = config.model_dump(), baseline.model_dump()
        changed = [f"{knob}={now[knob]}" for knob in LOADER_KNOBS if now[knob] != before[knob]]
        for one in found.differences:
            what, remedy = _TEXTS[one.code]
            example = f" ({one.example})" if one.example else ""
            said = what.format(affected=one.affected, of=one.of, example=example)
            yield Hit(f"{', '.join(changed)}: {said}", remedy, one.affected)
