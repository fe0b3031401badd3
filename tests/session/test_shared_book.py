"""Whose trials and phases are, by the books of two hosts that share a search."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from build_records import baseline_record, config, run, trial_record
from scripted_search import ScriptedClock

from tunekit.errors import BudgetTooSmallError, EmptySpaceError, TargetError
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.session.book import Phase, TrialNotOursError, Turn
from tunekit.session.shared import SharedBook
from tunekit.tune.shared.facts import machine_facts, search_facts
from tunekit.tune.shared.leases import Heart, Pace
from tunekit.tune.shared.others import PendingTrial
from tunekit.tune.shared.share import Group, Share
from tunekit.tune.shared.storage import address_of

OpenBook = Callable[[str], tuple[SharedBook, Group]]
BEFORE = run(trials=())


@pytest.fixture
def opened(tmp_path: Path, clock: ScriptedClock) -> OpenBook:
    """Join as a host of a name, whose heart beats only when the test says so."""
    address, pace = address_of(str(tmp_path / "shared")), Pace(clock=clock, pause=lambda seconds: None)

    def one(name: str) -> tuple[SharedBook, Group]:
        share = Share(address, name, lambda said: None, pace)
        group = share.join(search_facts(BEFORE), machine_facts(BEFORE))
        return SharedBook(group, name, tmp_path / name, pace), group

    return one


def kept(book: SharedBook, record: TrialRecord, round_number: int | None = None) -> TrialRecord:
    """Claim the trial of a record and leave it, by the number that it gets."""
    number = book.claim(record.role, record.config, round_number, ())
    record = record.changed(number=number, round=round_number, host_name=book.host_name)
    book.keep(record, 12.5)
    return record


def test_what_came_up_to_the_end_of_a_phase_is_had_by_who_takes_it_over(opened: OpenBook):
    (lead, _), (other, _) = opened("lead"), opened("other")
    assert lead.turn(Phase.PREPARE) is Turn.OURS
    assert other.turn(Phase.PREPARE) is Turn.ELSEWHERE
    assert (other.pull(), other.leader(Phase.PREPARE)) == ((), "lead")
    record = kept(lead, baseline_record())
    assert lead.end(Phase.PREPARE, BEFORE.changed(trials=(record,), budget_s=321.0))
    assert other.turn(Phase.PREPARE) is Turn.DONE
    told = other.told(Phase.PREPARE)
    assert (told.budget_s, told.trials) == (321.0, (record,))
    assert [(one.record, one.spent_s) for one in other.pull()] == [(record, 12.5)]
    assert other.pull() == ()


@pytest.mark.parametrize(
    "error",
    [EmptySpaceError("nothing"), BudgetTooSmallError("too short"), TargetError("it fails", ("a", "b"))],
)
def test_why_a_phase_can_not_be_done_is_told_as_the_same_error(opened: OpenBook, error: Exception):
    (lead, _), (other, _) = opened("lead"), opened("other")
    lead.turn(Phase.PREPARE)
    lead.fail(Phase.PREPARE, error)  # type: ignore[arg-type]
    assert other.turn(Phase.PREPARE) is Turn.DONE
    with pytest.raises(type(error)) as caught:
        other.told(Phase.PREPARE)
    first, *lines = str(caught.value).split("\n")
    assert first == f"{str(error).splitlines()[0]} (said by lead, for all hosts of this search)"
    assert lines == str(error).splitlines()[1:]


def test_the_last_phase_begins_when_no_trial_runs_and_ends_proposals(opened: OpenBook):
    (one, _), (two, _) = opened("one"), opened("two")
    number = one.claim(TrialRole.SEARCH, config(), None, ())
    assert two.turn(Phase.FINISH) is Turn.TOO_EARLY
    assert not one.is_finishing
    one.keep(trial_record(number), 1.0)
    assert two.turn(Phase.FINISH) is Turn.OURS
    assert one.is_finishing
    with pytest.raises(TrialNotOursError):
        one.claim(TrialRole.SEARCH, config(batch_size=8), None, ())
    assert two.pending() == ()
    assert two.claim(TrialRole.SEARCH, config(batch_size=8), None, ()) > number


def test_who_finishes_is_left_alone_once_it_was_heard_of(opened: OpenBook):
    (one, group), (two, _) = opened("one"), opened("two")
    assert one.turn(Phase.FINISH) is Turn.OURS
    assert [two.turn(Phase.FINISH) for _ in range(2)] == [Turn.ELSEWHERE] * 2
    group.heart.beat()
    assert two.turn(Phase.FINISH) is Turn.ALIVE
    assert two.report_folder.endswith("/one")


def test_the_folder_of_who_finishes_is_the_same_wherever_it_is_read(
    opened: OpenBook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (_, group), (two, _) = opened("one"), opened("two")
    monkeypatch.chdir(tmp_path)
    one = SharedBook(group, "one", Path("runs/a"))
    assert one.turn(Phase.FINISH) is Turn.OURS
    monkeypatch.chdir("/")
    assert two.report_folder == str(tmp_path / "runs" / "a")


def test_processes_of_one_machine_go_by_names_of_their_own(opened: OpenBook):
    (one, _), (two, other) = opened("node"), opened("node")
    other.name_host("node-2")
    kept(two, trial_record())
    assert [(shared.host, shared.record.host_name) for shared in one.pull()] == [("node-2", "node")]
    two.claim(TrialRole.SEARCH, config(batch_size=8), None, ())
    assert [pending.host for pending in one.pending()] == ["node-2"]
    assert two.turn(Phase.FINISH) is Turn.OURS
    assert one.leader(Phase.FINISH) == "node-2"


def test_a_silent_leader_is_told_at_its_next_trial(opened: OpenBook, clock: ScriptedClock):
    (one, _), (two, group) = opened("one"), opened("two")
    assert one.turn(Phase.PREPARE) is Turn.OURS
    for _ in range(9):
        clock.now += 10.0
        group.heart.beat()
    assert two.turn(Phase.PREPARE) is Turn.OURS
    with pytest.raises(TrialNotOursError, match="not heard of for 1m 00s or more, so that another goes on"):
        one.claim(TrialRole.BASELINE, None, None, ())
    assert one.turn(Phase.PREPARE) is Turn.ELSEWHERE


def test_rounds_of_another_machine_are_left_out(opened: OpenBook):
    (one, _), (two, _), (again, _) = opened("one"), opened("two"), opened("one")
    guard = kept(one, trial_record(role=TrialRole.NUMERICS))
    first = kept(one, trial_record(role=TrialRole.CONFIRM), 0)
    own = kept(two, trial_record(role=TrialRole.CONFIRM), 0)
    assert [shared.record for shared in two.pull()] == [guard]
    assert [shared.record for shared in again.pull()] == [guard, first]
    assert own.number > first.number


def test_a_host_whose_leases_are_no_longer_kept_neither_begins_nor_hides_it(opened: OpenBook, tmp_path: Path):
    class Broken:
        def beat(self) -> None:
            has_beaten.set()
            raise KeyError("about")

    has_beaten, (_, group) = threading.Event(), opened("one")
    with Heart([Broken()], beat_s=0) as heart:
        has_beaten.wait()
    book = SharedBook(replace(group, heart=heart), "one", tmp_path / "one")
    with pytest.raises(KeyError, match="about"):
        book.claim(TrialRole.SEARCH, config(), None, ())
    assert opened("two")[0].pending() == ()


def test_what_is_held_is_given_back_at_the_end(opened: OpenBook):
    (one, _), (two, _) = opened("one"), opened("two")
    with pytest.raises(KeyboardInterrupt), one:
        assert one.turn(Phase.FINISH) is Turn.OURS
        number = one.claim(TrialRole.SEARCH, config(), None, ())
        raise KeyboardInterrupt
    assert two.lost() == (PendingTrial(number, "one", TrialRole.SEARCH, config(), hosts_lost=0),)
    assert two.turn(Phase.FINISH) is Turn.OURS
    assert two.claim(TrialRole.SEARCH, config(), None, ()) > number
    assert two.lost() == ()
