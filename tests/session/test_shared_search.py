"""One search on several hosts that meet in a folder: one baseline, one answer, nothing lost."""

from pathlib import Path
from typing import Any

import pytest
from build_records import config, failure, options, trial_record
from scripted_search import searched
from shared_hosts import SharedHost, search_together

from tunekit.errors import NoTrainingLoopError
from tunekit.recommend.recommendation import answer_of
from tunekit.recommend.tiers import pick_tiers
from tunekit.records.codec import to_json
from tunekit.records.run import Run, RunStatus
from tunekit.records.trial import OutcomeKind, TrialRole
from tunekit.session.folder import RunFolder, load_run
from tunekit.session.shared import SharedRecord, SharedTrialStore
from tunekit.trial.executor import TrialSpec
from tunekit.tune.jobs import Job, Work


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "shared")


def hosts_in(tmp_path: Path, *names: str, **more: Any) -> list[SharedHost]:
    return [SharedHost(name, tmp_path / name, **more) for name in names]


def whole_of(hosts: list[SharedHost]) -> tuple[SharedHost, Run]:
    """Return the one host that finished the search, and what it found."""
    assert [one.error for one in hosts] == [None] * len(hosts)
    (last,) = [one for one in hosts if one.finished_by is None]
    assert last.found is not None and last.found.status is RunStatus.FINISHED
    return last, last.found


def test_three_hosts_answer_with_the_choice_among_all_that_any_of_them_tried(place: str, tmp_path: Path):
    hosts = hosts_in(tmp_path, "a", "b", "c")
    search_together(place, hosts)
    last, whole = whole_of(hosts)
    answer = answer_of(whole.recommendations)
    assert answer is not None
    assert answer.config == pick_tiers(whole.history, whole.host, whole.options)[answer.tier].config
    assert [one.role for one in whole.trials].count(TrialRole.BASELINE) == 1
    assert 1 + len(searched(whole.trials)) <= 10
    ran = {spec.number: one.name for one in hosts for spec in one.specs}
    assert {record.number: record.host_name for record in whole.trials} == ran
    confirming = [record for record in whole.trials if record.role is TrialRole.CONFIRM]
    assert {record.host_name for record in confirming} == {last.name}
    assert {record.round for record in confirming} == {0, 1}
    # The host that finishes has every record; each of the others knows the answer too.
    assert load_run(last.folder) == whole
    with RunFolder(last.folder) as owned:
        assert owned.load_trials() == whole.trials
    assert [one.found for one in hosts] == [whole] * 3


def test_a_trial_that_lands_while_the_end_is_enqueued_is_chosen_from(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    enqueue, late = SharedTrialStore.enqueue, config(batch_size=256, num_workers=3)

    def landing(store: SharedTrialStore, job: Job) -> None:
        enqueue(store, job)
        if job.work is Work.FINISH:
            number = store.begin_record()
            shared = SharedRecord(record=trial_record(number, 5000.0, late), spent_s=50.0, host="b")
            store.land_record(number, to_json(shared, indent=None), 5000.0)

    monkeypatch.setattr(SharedTrialStore, "enqueue", landing)
    (host,) = hosts_in(
        tmp_path, "a", executor_options={"rate": lambda knobs: 5000.0 if knobs == late else 9.0}
    )
    search_together(place, [host], options(max_trials=3, confirm_rounds=2))
    answer = answer_of(whole_of([host])[1].recommendations)
    assert answer is not None and answer.config == late


@pytest.mark.parametrize("most", [1, 2, 7])
def test_trials_bound_what_all_hosts_try(place: str, tmp_path: Path, most: int):
    hosts = hosts_in(tmp_path, "a", "b", "c")
    search_together(place, hosts, options(max_trials=most, confirm_rounds=1))
    _, whole = whole_of(hosts)
    assert 1 + len(searched(whole.trials)) == most


def test_a_host_that_starts_when_all_is_done_has_the_answer(place: str, tmp_path: Path):
    first, late = hosts_in(tmp_path, "a", "late")
    search_together(place, [first])
    search_together(place, [late])
    assert late.found == first.found
    assert (late.error, late.finished_by, late.specs) == (None, "a", [])
    with RunFolder(late.folder) as owned:
        assert first.found is not None and owned.load_trials() == first.found.trials


def interrupts_in(role: TrialRole, number: int) -> Any:
    """Return a hook that presses Ctrl-C in the host's so-manieth trial of a role."""
    left = [number]

    def before(spec: TrialSpec) -> None:
        left[0] -= spec.role is role
        if spec.role is role and left[0] == 0:
            raise KeyboardInterrupt

    return before


def test_ctrl_c_costs_a_search_only_the_trial_that_ran(place: str, tmp_path: Path):
    (first,) = hosts_in(tmp_path, "a", before=interrupts_in(TrialRole.SEARCH, 2))
    search_together(place, [first])
    assert isinstance(first.error, KeyboardInterrupt)
    assert load_run(first.folder).status is RunStatus.INTERRUPTED
    (second,) = hosts_in(tmp_path, "b")
    search_together(place, [second])
    _, whole = whole_of([second])
    lost = first.specs[-1].number
    assert [one.number for one in whole.trials if one.host_name == "a"] == list(range(lost))
    assert lost not in {one.number for one in whole.trials}
    assert first.specs[-1].config in {one.config for one in searched(whole.trials)}


@pytest.mark.parametrize("again", ["a", "b"])
def test_rounds_of_a_finisher_that_ended_go_on_only_on_its_machine(place: str, tmp_path: Path, again: str):
    first = SharedHost("a", tmp_path / "first", before=interrupts_in(TrialRole.CONFIRM, 4))
    second = SharedHost(again, tmp_path / "second")
    search_together(place, [first])
    search_together(place, [second])
    _, whole = whole_of([second])
    confirming = [one for one in whole.trials if one.role is TrialRole.CONFIRM]
    assert {one.host_name for one in confirming} == {again}
    assert {one.round for one in confirming} == {0, 1}
    ran = {one.number for one in first.specs[:-1] if one.role is TrialRole.CONFIRM}
    assert (ran <= {one.number for one in confirming}) is (again == "a")


def test_a_training_that_can_not_be_tuned_ends_every_host(place: str, tmp_path: Path):
    failing = failure(
        OutcomeKind.NO_TRAINING_LOOP, message="no optimizer stepped", last_lines=("ValueError",)
    )
    hosts = hosts_in(tmp_path, "a", "b", executor_options={"failing": lambda knobs, spec: failing})
    search_together(place, hosts)
    assert [type(one.error) for one in hosts] == [NoTrainingLoopError] * 2
    assert [str(one.error).endswith("\n    ValueError") for one in hosts] == [True] * 2
    assert sum(len(one.specs) for one in hosts) == 1


def test_hosts_that_are_unlike_or_search_something_else_are_kept_apart(place: str, tmp_path: Path):
    alike = hosts_in(tmp_path, "a", "b")
    (unlike,) = hosts_in(tmp_path, "small", machine={"cpus": 4, "cpus_total": 4})
    search_together(place, [*alike, unlike])
    assert {record.host_name for record in whole_of(alike)[1].trials} <= {"a", "b"}
    assert {record.host_name for record in whole_of([unlike])[1].trials} == {"small"}
    (other,) = hosts_in(tmp_path, "other")
    search_together(place, [other], options(max_trials=1, confirm_rounds=1))
    assert {record.host_name for record in whole_of([other])[1].trials} == {"other"}
