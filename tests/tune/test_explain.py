"""The search explains itself: scripted loops whose parts are known are told apart by the trials alone."""

from collections.abc import Sequence
from typing import Any

import pytest
from any_records import trial_records
from build_loops import work
from build_records import (
    baseline_record,
    config,
    confirm_records,
    cpu,
    device,
    host,
    recommendation,
    run,
    trial_record,
)
from hypothesis import given
from hypothesis import strategies as st

from tunekit.records.attribution import StepParts
from tunekit.records.codec import from_json, to_json
from tunekit.records.config import TrainConfig
from tunekit.records.recommendation import Limit, ModelSummary, PredictedLimits, Tier
from tunekit.records.run import RunStatus
from tunekit.records.trial import TrialRecord
from tunekit.session.assemble import assemble
from tunekit.tune.explain import MIN_TRIALS, explain

CORES = 4
CONFIGS = (
    config(num_workers=0),
    config(num_workers=1),
    config(num_workers=2),
    config(num_workers=2, batch_size=256),
    config(num_workers=4, batch_size=256),
)


class Loop:
    """A loop that takes so long per sample; the training keeps some of the four cores busy.

    Args:
        fetch_s: to make a sample in one process.
        train_s: to train on it.
        cpu_share: of the fetch.
        training_cores: that training computes on; 0 beside a GPU.
    """

    def __init__(
        self, fetch_s: float, train_s: float, cpu_share: float = 0.2, training_cores: float = 0.0
    ) -> None:
        self.fetch_s, self.train_s = fetch_s, train_s
        self.cpu_share, self.training_cores = cpu_share, training_cores

    def step_s(self, knobs: TrainConfig) -> float:
        """Return the seconds of a sample."""
        if not knobs.num_workers:
            return self.fetch_s + self.train_s
        shared_s = (self.train_s * self.training_cores + self.fetch_s * self.cpu_share) / CORES
        return max(self.train_s, self.fetch_s / knobs.num_workers, shared_s)

    def measured(self, knobs: TrainConfig) -> dict[str, Any]:
        """Return the parts of a trial, as overrides of its measurement."""
        batch_s = knobs.batch_size * self.step_s(knobs)
        wait_s = self.fetch_s * knobs.batch_size if not knobs.num_workers else 0.0
        if knobs.num_workers and self.fetch_s / knobs.num_workers >= self.step_s(knobs):
            wait_s = batch_s - knobs.batch_size * self.train_s
        parts = StepParts(
            data_wait_s=100 * wait_s, compute_s=100 * (batch_s - wait_s), optimizer_s=0.0, other_s=0.0
        )
        of_loader = work(self.fetch_s * knobs.batch_size, self.cpu_share, workers=max(1, knobs.num_workers))
        return {
            "parts": parts,
            "loader_work": of_loader,
            "device": cpu() if self.training_cores else device(),
        }

    def trials(self, configs: Sequence[TrainConfig] = CONFIGS, **more: Any) -> list[TrialRecord]:
        """Return a trial of each config; the first is the baseline."""
        first, *others = configs
        return [
            baseline_record(0, 1 / self.step_s(first), first, **self.measured(first), **more),
            *(
                trial_record(number, 1 / self.step_s(knobs), knobs, **self.measured(knobs), **more)
                for number, knobs in enumerate(others, 1)
            ),
        ]


def explained(
    records: Sequence[TrialRecord], of: TrainConfig = CONFIGS[2]
) -> tuple[ModelSummary, PredictedLimits]:
    """Return what is said, in all and of one config that the balanced tier recommends."""
    summary = explain(records, host(cpus=CORES), [recommendation(of=of)])
    assert summary is not None
    (tier,) = [one for one in summary.limits if one.tier is Tier.BALANCED]
    return summary, tier


def test_a_loop_that_waits_for_storage_is_bound_by_its_loader():
    summary, two_workers = explained(Loop(fetch_s=0.008, train_s=0.001).trials())
    assert two_workers.limit is Limit.LOADER
    assert two_workers.loader_samples_per_s == pytest.approx(2 / 0.008, rel=0.15)
    assert two_workers.training_samples_per_s == pytest.approx(1 / 0.001, rel=0.15)
    assert summary.missed_relative is not None
    assert summary.missed_relative < 0.15


def test_a_loop_with_much_to_compute_is_bound_by_training():
    summary, two_workers = explained(Loop(fetch_s=0.001, train_s=0.008).trials())
    assert two_workers.limit is Limit.TRAINING
    assert two_workers.training_samples_per_s == pytest.approx(1 / 0.008, rel=0.15)
    assert two_workers.loader_samples_per_s == pytest.approx(2 / 0.001, rel=0.2)
    assert summary.missed_relative is not None
    assert summary.missed_relative < 0.1


def test_training_and_loading_that_share_few_cores_are_bound_by_them():
    loop = Loop(fetch_s=0.008, train_s=0.004, cpu_share=1.0, training_cores=CORES)
    _, four_workers = explained(loop.trials(), CONFIGS[4])
    assert four_workers.limit is Limit.CORES
    assert four_workers.cores_samples_per_s == pytest.approx(1 / 0.006, rel=0.15)
    assert four_workers.training_samples_per_s == pytest.approx(1 / 0.004, rel=0.15)


def test_without_workers_the_baseline_takes_turns():
    summary, _ = explained(Loop(fetch_s=0.004, train_s=0.004).trials())
    baseline = summary.limits[0]
    assert (baseline.tier, baseline.limit) == (None, Limit.TURNS)
    assert baseline.cores_samples_per_s is None
    assert baseline.rate_samples_per_s.value == pytest.approx(baseline.measured_samples_per_s, rel=0.1)
    assert baseline.measured_samples_per_s == pytest.approx(1 / 0.008)


def test_training_that_no_equation_foresees_is_not_allowed_less_than_was_measured():
    """Twice as slow a sample in the larger batch: the ceilings follow what the equations left over."""
    records = [
        *Loop(fetch_s=0.001, train_s=0.008).trials(CONFIGS[:3]),
        trial_record(3, 60.0, CONFIGS[3], **Loop(fetch_s=0.001, train_s=1 / 60).measured(CONFIGS[3])),
    ]
    _, larger = explained(records, CONFIGS[3])
    assert larger.training_samples_per_s == pytest.approx(60.0, rel=0.1)
    assert larger.limit is Limit.TRAINING


def test_a_loader_that_nothing_was_seen_of_is_unknown():
    records = [baseline_record(of=CONFIGS[1]), *(trial_record(n, 900.0, CONFIGS[n]) for n in (2, 3))]
    _, tier = explained(records)
    assert tier.loader_samples_per_s is None
    assert tier.cores_samples_per_s is None
    assert tier.limit is None
    assert tier.training_samples_per_s is not None


def test_too_few_measured_trials_say_nothing():
    records = Loop(0.004, 0.001).trials()
    failed = [trial_record(number, None, config(batch_size=number)) for number in range(20, 30)]
    assert explain([*records[: MIN_TRIALS - 1], *failed], host(), [recommendation()]) is None
    assert explain(failed, host(), [recommendation()]) is None
    assert explain([], host(), []) is None
    assert explain(records[:MIN_TRIALS], host(), []) is not None


def test_the_baseline_is_held_against_its_confirming_processes():
    loop = Loop(0.004, 0.001)
    again = [
        record.model_copy(update={"is_baseline_config": True})
        for record in confirm_records([130.0, 150.0], CONFIGS[0], **loop.measured(CONFIGS[0]))
    ]
    summary, _ = explained([*loop.trials(), *again])
    assert summary.limits[0].measured_samples_per_s == pytest.approx((130.0 * 150.0) ** 0.5)
    assert summary.checked_configs == len(CONFIGS)


def test_a_run_is_explained_when_it_ends_and_not_before():
    records = Loop(0.004, 0.001).trials()
    ended = {
        status: assemble(run(trials=(), status=status, host=host(cpus=CORES)), records).model
        for status in RunStatus
    }
    assert ended[RunStatus.RUNNING] is None
    assert ended[RunStatus.FAILED] is None
    assert ended[RunStatus.FINISHED] is not None
    assert ended[RunStatus.INTERRUPTED] is not None


@given(st.lists(trial_records(), min_size=3, max_size=5))
def test_any_figures_end_in_a_record_or_in_none(records: list[TrialRecord]):
    summary = explain(records, host(), [recommendation()])
    assert summary is None or from_json(to_json(summary), ModelSummary) == summary
