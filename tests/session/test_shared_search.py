"""One search on several hosts that meet in a folder or a database: nothing lost, nothing measured twice."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from build_records import config, failure, options
from scripted_search import (
    ScriptedExecutor,
    learnt,
    root,
    search_in,
    searched,
    smooth_rate,
    start_search,
)
from shared_hosts import Killed, SimulatedHost, SimulatedTime, search_together

from tunekit.errors import NoTrainingLoopError, ShareError, TargetChangedError
from tunekit.recommend.recommendation import answer_of
from tunekit.records.config import TrainConfig
from tunekit.records.run import Run, RunStatus
from tunekit.records.trial import OutcomeKind, TrialRecord, TrialRole
from tunekit.session.book import OwnBook, TrialNotOursError
from tunekit.session.folder import RunFolder, load_run
from tunekit.trial.executor import TrialSpec

LEASE_S = 60.0


@pytest.fixture
def shared(tmp_path: Path) -> str:
    """A folder, where the kind of the place makes no difference."""
    return str(tmp_path / "shared")


def hosts_in(tmp_path: Path, *names: str, **more: Any) -> list[SimulatedHost]:
    return [SimulatedHost(name, tmp_path / name, **more) for name in names]


def in_its(number: int, role: TrialRole = TrialRole.SEARCH) -> Callable[[TrialSpec], bool]:
    """The host's own so-manieth trial of a role, counted from 1."""
    seen: list[TrialSpec] = []

    def is_it(spec: TrialSpec) -> bool:
        if spec.role is role:
            seen.append(spec)
        return spec.role is role and len(seen) == number

    return is_it


def whole_of(hosts: list[SimulatedHost]) -> tuple[SimulatedHost, Run]:
    """Return the one host that finished the search, and what it found."""
    (last,) = [one for one in hosts if one.found and one.found.recommendations and not one.finished_by]
    assert last.error is None and last.found is not None
    assert last.found.status is RunStatus.FINISHED
    return last, last.found


def answer_rate(whole: Run) -> float:
    answer = answer_of(whole.recommendations)
    assert answer is not None
    return smooth_rate(answer.config)


def insist_on_no_double(records: tuple[TrialRecord, ...]) -> None:
    times = Counter((record.role, record.config, record.round) for record in records)
    assert {key: count for key, count in times.items() if count > 1} == {}


# --- together --------------------------------------------------------------------------------


def test_three_hosts_find_what_one_finds_and_measure_nothing_twice(place: str, tmp_path: Path):
    alone, _ = search_in(tmp_path / "alone", executor_options={"noise": lambda knobs, spec: 1.0})
    hosts = hosts_in(tmp_path, "a", "b", "c")
    search_together(place, hosts, options())
    assert [one.error for one in hosts] == [None] * 3
    last, whole = whole_of(hosts)
    assert answer_rate(whole) == answer_rate(alone)
    insist_on_no_double(whole.trials)
    ran = {spec.number: one.name for one in hosts for spec in one.specs}
    assert {record.number: record.host_name for record in whole.trials} == ran
    assert {record.host_name for record in searched(whole.trials)} == {"a", "b", "c"}
    assert {one.finished_by for one in hosts if one is not last} == {last.name}


def test_the_folder_of_the_host_that_finishes_holds_the_whole_run(shared: str, tmp_path: Path):
    hosts = hosts_in(tmp_path, "a", "b", "c")
    search_together(shared, hosts)
    last, whole = whole_of(hosts)
    with RunFolder(last.folder) as owned:
        assert owned.load_trials() == whole.trials
    assert load_run(last.folder) == whole
    for other in hosts:
        if other is not last:
            assert load_run(other.folder).status is RunStatus.RUNNING
            with RunFolder(other.folder) as owned:
                assert {record.host_name for record in owned.load_trials()} == {other.name}


def test_one_host_measures_the_baseline_and_the_others_wait_for_it(shared: str, tmp_path: Path):
    hosts = hosts_in(tmp_path, "a", "b", "c")
    search_together(shared, hosts)
    _, whole = whole_of(hosts)
    assert [record.host_name for record in whole.trials if record.role is TrialRole.BASELINE] == ["a"]
    for other in hosts[1:]:
        assert other.listener.heard("said")[0] == "waiting for a, which measures the baseline for all hosts"
        (known,) = other.listener.heard("space")
        assert known.space == whole.space
    assert {one.found.budget_s for one in hosts if one.found} == {whole.budget_s}


def test_one_host_confirms_the_answer_alone(shared: str, tmp_path: Path):
    hosts = hosts_in(tmp_path, "a", "b", "c")
    search_together(shared, hosts)
    last, whole = whole_of(hosts)
    confirming = [record for record in whole.trials if record.role is TrialRole.CONFIRM]
    assert len({record.round for record in confirming}) == whole.options.confirm_rounds
    assert {record.host_name for record in confirming} == {last.name}


def test_hosts_search_at_the_same_time(shared: str, tmp_path: Path):
    """With three, the trials before confirmation take little more than a third of the time."""
    asked = options(max_trials=19, confirm_rounds=1)
    _, alone = search_in(tmp_path / "alone", asked, executor_options={"noise": lambda knobs, spec: 1.0})
    time = search_together(shared, hosts := hosts_in(tmp_path, "a", "b", "c"), asked)
    _, whole = whole_of(hosts)
    serial_s = 10.0 * (len(whole.trials) - len(searched(whole.trials)))
    assert time.now - 1000.0 == pytest.approx(serial_s + 180.0 / 3, abs=4.0)
    assert alone.clock.now - 1000.0 > time.now - 1000.0


@pytest.mark.parametrize("most", [1, 2, 6, 7])
def test_trials_bound_what_all_hosts_try(shared: str, tmp_path: Path, most: int):
    hosts = hosts_in(tmp_path, "a", "b", "c")
    search_together(shared, hosts, options(max_trials=most))
    _, whole = whole_of(hosts)
    assert 1 + len(searched(whole.trials)) == most


def test_a_late_host_counts_the_time_that_the_search_has_run(shared: str, tmp_path: Path):
    early, late = hosts_in(tmp_path, "a", "b")
    late.starts_s = 70.0
    search_together(shared, [early, late])
    purposes = late.listener.heard("started")
    assert purposes and purposes[0][2] <= 900.0 - 70.0


def test_a_host_that_starts_when_all_is_done_is_told_the_run(shared: str, tmp_path: Path):
    time = search_together(shared, first := hosts_in(tmp_path, "a", "b"))
    last, whole = whole_of(first)
    (late,) = hosts_in(tmp_path, "late")
    search_together(shared, [late], time=time)
    assert late.found == whole
    assert (late.finished_by, late.report_folder) == (last.name, str(last.folder))
    assert late.specs == []
    with RunFolder(late.folder) as owned:
        assert owned.load_trials() == whole.trials


# --- hosts that die, stop or are interrupted -------------------------------------------------


def test_what_a_killed_host_was_at_is_measured_again_once(place: str, tmp_path: Path):
    hosts = hosts_in(tmp_path, "a", "b", "c")
    hosts[1].kills_at = in_its(2)
    search_together(place, hosts)
    assert isinstance(hosts[1].error, Killed)
    lost = hosts[1].specs[-1]
    _, whole = whole_of(hosts)
    insist_on_no_double(whole.trials)
    again = [r for r in whole.trials if r.role is lost.role and r.config == lost.config]
    assert len(again) == 1 and again[0].number > lost.number
    assert lost.number not in {record.number for record in whole.trials}
    ran = {spec.number for one in hosts for spec in one.specs} - {lost.number}
    assert {record.number for record in whole.trials} == ran
    said = [text for one in (hosts[0], hosts[2]) for text in one.listener.heard("said")]
    assert said.count(f"trial {lost.number} is lost: nothing was heard of b any more") in (1, 2)


def test_a_trial_that_is_lost_when_no_time_is_left_for_it_is_still_spoken_of(shared: str, tmp_path: Path):
    hosts = hosts_in(tmp_path, "a", "b")
    hosts[1].kills_at = in_its(2)
    search_together(shared, hosts, options(budget_s=130.0))
    lost = hosts[1].specs[-1]
    last, whole = whole_of(hosts)
    assert lost.config not in {record.config for record in whole.trials}
    assert f"trial {lost.number} is lost: nothing was heard of b any more" in last.listener.heard("said")


def test_a_config_that_ends_two_hosts_is_given_to_no_third(shared: str, tmp_path: Path):
    second, deadly = in_its(2), list[Any]()

    def kills(spec: TrialSpec) -> bool:
        if second(spec):
            deadly.append(spec.config)
        return spec.config in deadly

    hosts = hosts_in(tmp_path, "a", "b", "c", kills_at=kills)
    search_together(shared, hosts)
    assert [type(one.error) for one in hosts if one.error] == [Killed, Killed]
    _, whole = whole_of(hosts)
    assert deadly[0] not in {record.config for record in whole.trials}


def test_another_host_measures_the_baseline_where_the_first_died_at_it(shared: str, tmp_path: Path):
    hosts = hosts_in(tmp_path, "a", "b", "c")
    hosts[0].kills_at = in_its(1, TrialRole.BASELINE)
    time = search_together(shared, hosts)
    _, whole = whole_of(hosts)
    (baseline,) = [record for record in whole.trials if record.role is TrialRole.BASELINE]
    assert baseline.host_name in ("b", "c")
    assert time.now - 1000.0 > LEASE_S
    heard = {one.name: one.listener.heard("said") for one in hosts}
    takes_over = "a did not end the baseline; this host measures it"
    assert [name for name, said in heard.items() if takes_over in said] == [baseline.host_name]


def test_a_host_stopped_for_an_hour_drops_its_late_trial(place: str, tmp_path: Path):
    hosts = hosts_in(tmp_path, "a", "b", "c")
    hosts[2].stops_at = in_its(2)
    search_together(place, hosts)
    stopped = hosts[2]
    assert [one.error for one in hosts] == [None] * 3
    late = stopped.specs[-1]
    (why,) = [text for text in stopped.listener.heard("turned away") if text]
    assert why.startswith(f"trial {late.number} is dropped: this host was not heard of for 1m 00s or more")
    _, whole = whole_of(hosts)
    insist_on_no_double(whole.trials)
    assert late.number not in {record.number for record in whole.trials}
    assert [r.host_name for r in whole.trials if r.role is late.role and r.config == late.config] != ["c"]
    assert stopped.found == whole
    with RunFolder(stopped.folder) as owned:
        assert late.number not in {record.number for record in owned.load_trials()}


def test_a_host_stopped_while_it_leads_is_replaced(shared: str, tmp_path: Path):
    hosts = hosts_in(tmp_path, "a", "b")
    hosts[0].stops_at = in_its(1, TrialRole.BASELINE)
    search_together(shared, hosts)
    last, whole = whole_of(hosts)
    assert last.name == "b"
    assert {record.host_name for record in whole.trials} == {"b"}
    assert hosts[0].found == whole


def test_ctrl_c_gives_a_trial_back_at_once(shared: str, tmp_path: Path):
    hosts = hosts_in(tmp_path, "a", "b")
    hosts[1].interrupts_at = in_its(2)
    alone = SimulatedTime()
    search_together(shared, hosts, time=alone)
    assert isinstance(hosts[1].error, KeyboardInterrupt)
    lost = hosts[1].specs[-1]
    _, whole = whole_of(hosts)
    (again,) = [r for r in whole.trials if r.role is lost.role and r.config == lost.config]
    assert again.number <= lost.number + 2
    assert load_run(hosts[1].folder).status is RunStatus.INTERRUPTED


def test_who_goes_on_where_the_finisher_died_runs_rounds_of_its_own(shared: str, tmp_path: Path):
    (first,) = hosts_in(tmp_path, "a", kills_at=in_its(3, TrialRole.CONFIRM))
    time = search_together(shared, [first])
    assert isinstance(first.error, Killed)
    (second,) = hosts_in(tmp_path, "b")
    search_together(shared, [second], time=time)
    _, whole = whole_of([second])
    confirming = [record for record in whole.trials if record.role is TrialRole.CONFIRM]
    assert {record.host_name for record in confirming} == {"b"}
    assert min(record.round for record in confirming) == 0
    assert len({record.round for record in confirming}) == whole.options.confirm_rounds
    assert {r.number for r in searched(whole.trials)} >= {
        s.number for s in first.specs if s.role is TrialRole.SEARCH
    }


def test_the_finisher_started_again_on_its_machine_goes_on_with_its_rounds(shared: str, tmp_path: Path):
    (first,) = hosts_in(tmp_path, "a", kills_at=in_its(3, TrialRole.CONFIRM))
    time = search_together(shared, [first])
    again = SimulatedHost("a", tmp_path / "a-2")
    search_together(shared, [again], time=time)
    _, whole = whole_of([again])
    insist_on_no_double(whole.trials)
    before = {spec.number for spec in first.specs[:-1] if spec.role is TrialRole.CONFIRM}
    assert len(before) == 2
    assert before <= {record.number for record in whole.trials}


class SlowHost(OwnBook):
    """Others are faster with the first search trials that this host is after, so many with each."""

    def __init__(self, *ahead: int) -> None:
        self.ahead = ahead
        self.asked: list[TrainConfig] = []

    def claim(
        self,
        role: TrialRole,
        config: TrainConfig | None,
        round_number: int | None,
        records: Sequence[TrialRecord],
    ) -> int:
        if role is TrialRole.SEARCH and config is not None:
            self.asked.append(config)
            if len(self.asked) <= len(self.ahead):
                raise TrialNotOursError(ahead=self.ahead[len(self.asked) - 1])
        return super().claim(role, config, round_number, records)


def search_slowly(host: SlowHost, folder: Path) -> None:
    with RunFolder(folder) as owned:
        whole = start_search(owned, ScriptedExecutor(owned.trials_folder), book=host).run()
    assert whole.status is RunStatus.FINISHED


def test_hosts_that_were_after_the_same_trial_are_after_different_ones_next(tmp_path: Path):
    hosts = [SlowHost(ahead) for ahead in range(1, 6)]
    for one in hosts:
        search_slowly(one, tmp_path / str(one.ahead))
    wanted = hosts[0].asked[0]
    assert {one.asked[0] for one in hosts} == {wanted}
    assert hosts[0].asked[1] == wanted, "whoever was faster may have given it back"
    assert len({one.asked[1] for one in hosts}) == len(hosts)


def test_a_host_that_is_turned_away_again_looks_further_down(tmp_path: Path):
    once, again = SlowHost(5), SlowHost(2, 3)
    for one in (once, again):
        search_slowly(one, tmp_path / str(one.ahead))
    assert once.asked[1] == again.asked[2] != again.asked[1]


def test_a_slow_host_still_tries_the_only_config_that_is_left(tmp_path: Path):
    own = config(num_workers=0)
    known = learnt(own, loaders=(), roots=(root(has_4d_weights=False, autocast_dtype="bfloat16"),))
    slow = SlowHost(50)
    with RunFolder(tmp_path / "run") as owned:
        executor = ScriptedExecutor(owned.trials_folder, baseline=own, learns=lambda spec: known)
        whole = start_search(owned, executor, book=slow).run()
    assert len(searched(whole.trials)) == 1
    assert whole.why_stopped == "every config of the space was tried"


class SilentPlace(OwnBook):
    """Does not answer when a trial's record is left."""

    def keep(self, record: TrialRecord, spent_s: float) -> None:
        if record.number == 2:
            raise ShareError("the place did not answer")


def test_a_trial_that_could_not_be_left_for_all_is_kept_here(tmp_path: Path):
    with RunFolder(tmp_path / "run") as owned:
        executor = ScriptedExecutor(owned.trials_folder)
        with pytest.raises(ShareError):
            start_search(owned, executor, book=SilentPlace()).run()
        assert [record.number for record in owned.load_trials()] == [0, 1, 2]
    assert [record.number for record in load_run(tmp_path / "run").trials] == [0, 1, 2]


# --- errors, and who may not take part -------------------------------------------------------


def test_a_training_that_can_not_be_tuned_is_told_to_every_host(shared: str, tmp_path: Path):
    lines = ("Traceback", "ValueError: no such file")
    failing = failure(OutcomeKind.NO_TRAINING_LOOP, message="no optimizer stepped", last_lines=lines)
    broken = {"failing": lambda knobs, spec: failing}
    hosts = hosts_in(tmp_path, "a", "b", "c", executor_options=broken)
    search_together(shared, hosts)
    for one in hosts:
        assert type(one.error) is NoTrainingLoopError
        assert str(one.error).startswith("the baseline failed (no_training_loop): no optimizer stepped")
        assert str(one.error).endswith("\n    ValueError: no such file")
    assert ["said by a, for all hosts" in str(one.error) for one in hosts] == [False, True, True]
    assert [len(one.specs) for one in hosts] == [1, 0, 0]


def test_unlike_hosts_make_runs_of_their_own(shared: str, tmp_path: Path):
    hosts = hosts_in(tmp_path, "a", "b") + hosts_in(tmp_path, "small", machine={"cpus": 4, "cpus_total": 4})
    search_together(shared, hosts)
    assert [one.error for one in hosts] == [None] * 3
    _, alike = whole_of(hosts[:2])
    _, other = whole_of(hosts[2:])
    assert {record.host_name for record in alike.trials} == {"a", "b"}
    assert {record.host_name for record in other.trials} == {"small"}


def test_a_host_with_another_script_is_refused_and_disturbs_nobody(shared: str, tmp_path: Path):
    time = SimulatedTime()
    first, second = hosts_in(tmp_path, "a", "b")
    search_together(shared, [first], time=time)
    second.machine = {}
    search_together(shared, [second], options(max_batch=64), time=time)
    assert isinstance(second.error, TargetChangedError)
    assert second.specs == []
    assert not second.folder.exists()
