"""The study proposes what is legal and new, and the same again from the same records."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import optuna
import pytest
from build_records import GIB, config, failure, host, options, trial_record
from hypothesis import given
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from scripted_search import any_search_context, search_context, search_in, searched, smooth_rate

from tunekit.errors import EmptySpaceError
from tunekit.records.config import TrainConfig
from tunekit.records.run import FixedKnob, KnobSpace
from tunekit.records.trial import OutcomeKind, TrialRecord
from tunekit.tune.knob_access import SearchContext
from tunekit.tune.space import build_space, contains
from tunekit.tune.study import STUDY_NAME, Study

SMALL_FIXES = {
    "batch_size": 128,
    "num_workers": 2,
    "precision": "fp32",
    "channels_last": False,
    "compile": False,
}


@pytest.fixture
def space() -> tuple[KnobSpace, ...]:
    return build_space(search_context(), options())


def small_space() -> tuple[KnobSpace, ...]:
    """Six configs: pinned or not, three prefetch factors."""
    fixed = tuple(FixedKnob(knob=knob, value=value) for knob, value in SMALL_FIXES.items())
    return build_space(search_context(), options(fixed=fixed))


def record_of(number: int, knobs: TrainConfig, fails: bool = False) -> TrialRecord:
    return trial_record(number, None if fails else smooth_rate(knobs), knobs)


def walk(study: Study, count: int, first: int = 0, failing: int = 0) -> list[TrialRecord]:
    """Propose, run and tell; every `failing`-th trial fails."""
    records = []
    for number in range(first, first + count):
        proposal = study.propose()
        assert proposal is not None
        knobs = proposal.config
        records.append(record_of(number, knobs, fails=bool(failing) and number % failing == 0))
        study.tell(records[-1:])
    return records


@given(any_search_context())
def test_proposals_are_legal_new_and_in_the_space(context: SearchContext):
    try:
        space = build_space(context, options())
    except EmptySpaceError:
        return
    study = Study(space, context.host)
    tried: set[TrainConfig] = set()
    for number in range(8):
        proposal = study.propose()
        if proposal is None:
            return
        knobs = proposal.config
        assert contains(space, knobs)
        assert knobs not in tried
        tried.add(knobs)
        study.tell([record_of(number, knobs, fails=number % 3 == 0)])


def test_what_other_hosts_measure_is_left_to_them(space: tuple[KnobSpace, ...]):
    study = Study(space, host())
    walk(study, 3)
    pending: list[TrainConfig] = []
    for _ in range(6):
        proposal = study.propose(pending=pending)
        assert proposal is not None
        assert contains(space, proposal.config)
        pending.append(proposal.config)
    assert len(set(pending)) == 6
    assert study.propose(pending=()) == study.propose()


def test_a_small_space_is_exhausted_without_repeats():
    study = Study(small_space(), host())
    records = walk(study, 5)
    last = study.propose()
    assert last is not None and len({last.config, *(r.config for r in records)}) == 6
    assert study.propose(pending=[last.config]) is None
    study.tell([record_of(5, last.config)])
    assert (study.propose(), study.why_none()) == (None, "every config of the space was tried")


@pytest.mark.parametrize(("cpus", "ram_bytes"), [(1, 64 * GIB), (8, GIB)])
def test_what_leaves_nothing_to_propose_is_told(cpus: int, ram_bytes: int):
    study = Study(small_space(), host(cpus=cpus, ram_limit_bytes=ram_bytes))
    study.tell([trial_record(0, 500.0, config(batch_size=128, num_workers=0), base_bytes=GIB)])
    assert study.propose() is None
    assert study.why_none().startswith("no untried config is expected to fit")


def stored(journal: Path) -> list[optuna.trial.FrozenTrial]:
    storage = JournalStorage(JournalFileBackend(str(journal)))
    return optuna.load_study(study_name=STUDY_NAME, storage=storage).trials


def test_optuna_reads_the_journal(space: tuple[KnobSpace, ...], tmp_path: Path):
    journal = tmp_path / "study.journal"
    records = walk(Study(space, host(), journal=journal), 7, failing=3)
    trials = stored(journal)
    assert len(trials) == 7
    for record, trial in zip(records, trials, strict=True):
        assert trial.value == record.rate_samples_per_s
        assert trial.state is (TrialState.FAIL if record.failure else TrialState.COMPLETE)
        assert trial.user_attrs["number"] == record.number
        assert trial.user_attrs["failure"] == (record.failure.kind if record.failure else None)
        knobs = record.config
        assert knobs is not None
        assert trial.params["batch_size"] == knobs.batch_size
        assert ("prefetch_factor" in trial.params) == (knobs.num_workers > 0)
        assert "accumulate_grad_batches" not in trial.params


def test_a_proposal_is_in_the_journal_while_it_runs(space: tuple[KnobSpace, ...], tmp_path: Path):
    journal = tmp_path / "study.journal"
    study = Study(space, host(), journal=journal)
    walk(study, 2)
    proposal = study.propose()
    assert proposal is not None
    with study.running(proposal.config, proposal.expected_rate_samples_per_s):
        running = stored(journal)[-1]
        assert running.state is TrialState.RUNNING
        assert running.params["batch_size"] == proposal.config.batch_size
        assert running.user_attrs["predicted_samples_per_s"] == proposal.expected_rate_samples_per_s
        record = record_of(2, proposal.config)
        study.tell([record])
    *_, ended = stored(journal)
    assert (len(stored(journal)), ended.number) == (3, running.number)
    assert (ended.state, ended.value) == (TrialState.COMPLETE, record.rate_samples_per_s)
    assert ended.user_attrs["number"] == 2


def test_a_proposal_that_ended_without_a_record_is_a_failed_trial(
    space: tuple[KnobSpace, ...], tmp_path: Path
):
    study = Study(space, host(), journal=tmp_path / "study.journal")
    proposal = study.propose()
    assert proposal is not None
    with pytest.raises(KeyboardInterrupt), study.running(proposal.config, None):
        raise KeyboardInterrupt
    (trial,) = stored(tmp_path / "study.journal")
    assert trial.state is TrialState.FAIL


@pytest.mark.parametrize("runs", [True, False])
def test_a_trial_that_was_given_up_is_a_pruned_one(space: tuple[KnobSpace, ...], tmp_path: Path, runs: bool):
    study = Study(space, host(), journal=tmp_path / "study.journal")
    proposal = study.propose()
    assert proposal is not None
    record = trial_record(
        0, 50.0, proposal.config, stop_reason="abandoned", boundary_s=None, boundaries_seen=0
    )
    with study.running(proposal.config, None) if runs else nullcontext():
        study.tell([record])
    (trial,) = stored(tmp_path / "study.journal")
    assert (trial.state, trial.value) == (TrialState.PRUNED, record.rate_samples_per_s)


def test_a_study_of_replayed_records_proposes_what_the_search_did(tmp_path: Path):
    """At every trial of a whole search, whatever failed in it."""

    def fails(knobs: Any, spec: Any) -> Any:
        return failure(OutcomeKind.SCRIPT_ERROR) if spec.number and spec.number % 3 == 0 else None

    whole, _ = search_in(tmp_path / "run", options(max_trials=6), executor_options={"failing": fails})
    proposed = [record for record in searched(whole.trials) if record.number <= 5]
    assert proposed
    for record in proposed:
        study = Study(whole.space, whole.rank_host)
        study.tell(whole.trials[: record.number])
        proposal = study.propose()
        assert proposal is not None
        assert proposal.config == record.config


def test_a_lock_that_a_killed_search_left_on_the_journal_is_cleared(
    space: tuple[KnobSpace, ...], tmp_path: Path
):
    journal = tmp_path / "study.journal"
    (tmp_path / "study.journal.lock").symlink_to(journal)
    study = Study(space, host(), journal=journal)
    walk(study, 1)
    assert len(stored(journal)) == 1


def test_the_script_as_it_is_is_a_trial_of_the_study_whether_its_workers_persist_or_not(
    space: tuple[KnobSpace, ...], tmp_path: Path
):
    study = Study(space, host(), journal=tmp_path / "study.journal")
    study.tell([record_of(0, config(persistent_workers=False))])
    (trial,) = stored(tmp_path / "study.journal")
    assert trial.params["batch_size"] == 128
    assert "persistent_workers" not in trial.params
