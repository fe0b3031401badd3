"""Claims of several hosts on one storage, in a folder and in a real database: each thing is done once."""

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from optuna.exceptions import StorageInternalError
from scripted_search import ScriptedClock
from shared_places import OpenClaims

from tunekit.errors import ShareError
from tunekit.tune.shared.claims import Claim, Claims, Taken
from tunekit.tune.shared.leases import Pace
from tunekit.tune.shared.storage import SHARED_JOURNAL, Patience, address_of, close_storage, open_storage

BEAT_S = 10.0
OpenUnreliable = Callable[..., tuple[Claims, "Unreliable"]]


def silence(clock: ScriptedClock, watchers: list[Claims], beating: list[Claims]) -> list[Claim]:
    """Let more than a minute pass in which some watch and some beat; return what was lost."""
    lost: list[Claim] = []
    for _ in range(9):
        clock.now += BEAT_S
        for one in beating:
            one.beat()
        for one in watchers:
            lost += one.reclaim()
    return lost


def test_a_thing_is_claimed_by_one_host_and_done_once(claims_of: OpenClaims):
    one, two = claims_of("one"), claims_of("two")
    claim = one.claim("fit", {"size": 8})
    assert isinstance(claim, Claim)
    assert isinstance(two.claim("fit", {}), Taken)
    assert [(c.key, c.host, dict(c.about)) for c in two.pending()] == [("fit", "one", {"size": 8})]
    assert one.pending() == ()
    assert one.finish(claim, {"rate": 12.5}, 12.5)
    assert isinstance(two.claim("fit", {}), Taken)
    assert two.pending() == ()
    for host in (one, two):
        assert [(o.claim.number, o.claim.host, dict(o.payload)) for o in host.pull()] == [
            (claim.number, "one", {"rate": 12.5})
        ]
        assert host.pull() == ()


def test_numbers_are_no_two_hosts_alike(claims_of: OpenClaims):
    hosts = [claims_of(name) for name in "abc"]
    made = [host.claim(f"thing {n} of {place}", {}) for n in range(3) for place, host in enumerate(hosts)]
    assert [claim.number for claim in made if isinstance(claim, Claim)] == list(range(9))


def test_what_is_given_back_is_another_hosts_to_claim(claims_of: OpenClaims):
    one, two = claims_of("one"), claims_of("two")
    first = one.claim("fit", {})
    assert isinstance(first, Claim)
    one.release(first, "interrupted")
    second = two.claim("fit", {})
    assert isinstance(second, Claim) and second.number > first.number
    assert not one.holds(first) and two.holds(second)
    assert one.pull() == ()


def test_what_was_lost_with_its_host_is_counted_and_what_was_given_back_is_not(
    claims_of: OpenClaims, clock: ScriptedClock
):
    watcher = claims_of("watcher")
    counts = []
    for name in ("returns", "dies", "returns again", "dies too"):
        host = claims_of(name)
        claim = host.claim("fit", {})
        assert isinstance(claim, Claim)
        assert watcher.lost() == ()
        if name.startswith("dies"):
            silence(clock, [watcher], [])
        else:
            host.release(claim, "interrupted")
        ((last, hosts_lost),) = watcher.lost()
        assert last == claim
        counts.append(hosts_lost)
    assert counts == [0, 1, 1, 2]


def test_all_that_a_host_has_is_given_back_and_nothing_of_another(claims_of: OpenClaims):
    one, two = claims_of("one"), claims_of("two")
    own = [one.claim(key, {}) for key in ("a", "b")]
    done = one.claim("c", {})
    other = two.claim("d", {})
    assert isinstance(done, Claim) and one.finish(done, {}, None)
    one.release_all("the end")
    assert [claim.key for claim in one.pending()] == ["d"]
    assert two.lost() == tuple((claim, 0) for claim in own)
    assert two.done("c") is not None
    assert isinstance(other, Claim) and two.holds(other)


def test_a_silent_host_loses_its_claim_and_its_late_outcome(claims_of: OpenClaims, clock: ScriptedClock):
    stopped, other = claims_of("stopped"), claims_of("other")
    lost = stopped.claim("fit", {})
    assert isinstance(lost, Claim)
    assert silence(clock, [other], []) == [lost]
    again = other.claim("fit", {})
    assert isinstance(again, Claim)
    assert not stopped.finish(lost, {"rate": 1.0}, 1.0)
    assert other.finish(again, {"rate": 2.0}, 2.0)
    assert [(o.claim.host, o.payload["rate"]) for o in stopped.pull()] == [("other", 2.0)]


def test_a_late_outcome_is_dropped_also_before_another_has_begun(claims_of: OpenClaims, clock: ScriptedClock):
    stopped, other = claims_of("stopped"), claims_of("other")
    lost = stopped.claim("fit", {})
    assert isinstance(lost, Claim)
    silence(clock, [other], [])
    assert not stopped.finish(lost, {}, None)
    assert other.pull() == ()
    assert isinstance(other.claim("fit", {}), Claim)


def test_a_host_that_beats_keeps_its_claim(claims_of: OpenClaims, clock: ScriptedClock):
    slow, other = claims_of("slow"), claims_of("other")
    claim = slow.claim("fit", {})
    assert isinstance(claim, Claim)
    assert silence(clock, [other], [slow]) == []
    assert slow.finish(claim, {}, None)


def test_of_two_watchers_one_ends_a_claim(claims_of: OpenClaims, clock: ScriptedClock):
    dead, one, two = claims_of("dead"), claims_of("one"), claims_of("two")
    claim = dead.claim("fit", {})
    assert silence(clock, [one, two], []) == [claim]


def test_what_is_left_at_once_has_an_order_that_all_see(claims_of: OpenClaims):
    one, two = claims_of("one"), claims_of("two")
    one.leave("a", {"of": "one"})
    two.leave("b", {"of": "two"})
    for host in (one, two):
        assert [outcome.payload["of"] for outcome in host.pull()] == ["one", "two"]


def test_studies_of_one_place_are_apart(claims_of: OpenClaims):
    trials, phases = claims_of("one", "trials"), claims_of("one", "phases")
    assert isinstance(trials.claim("fit", {}), Claim)
    claim = phases.claim("fit", {})
    assert isinstance(claim, Claim) and claim.number == 0


def test_hosts_that_want_the_same_at_the_same_time_do_each_thing_once(claims_of: OpenClaims):
    hosts = [claims_of(f"host {place}") for place in range(4)]
    keys = [f"thing {number}" for number in range(12)]

    def work(host: Claims) -> list[str]:
        done = []
        for key in keys:
            claim = host.claim(key, {})
            if isinstance(claim, Claim):
                assert host.finish(claim, {}, None)
                done.append(key)
        return done

    with ThreadPoolExecutor(len(hosts)) as threads:
        done = [key for keys in threads.map(work, hosts) for key in keys]
    assert Counter(done) == Counter(keys)
    assert {outcome.claim.key for outcome in hosts[0].pull()} == set(keys)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_dies_or_stops_each_thing_is_done_once(tmp_path: Path, seed: int):
    """Hosts take turns by lot: they claim, finish, die, or sleep for minutes and wake."""
    lots, clock = random.Random(seed), ScriptedClock()
    address = address_of(str(tmp_path))
    patience = Patience("the place", lambda said: None, clock, pause=lambda seconds: None)

    def born(name: str) -> Claims:
        return Claims(open_storage(address), "study", name, patience, Pace(clock=clock))

    keys = [f"thing {number}" for number in range(15)]
    hosts = {name: born(name) for name in "abcd"}
    at: dict[str, Claim | None] = dict.fromkeys(hosts)
    asleep: dict[str, float] = {}
    written: Counter[str] = Counter()
    while any(written[key] == 0 for key in keys):
        clock.now += BEAT_S
        for name in [name for name, until in asleep.items() if until <= clock.now]:
            del asleep[name]
        for name in sorted(hosts.keys() - asleep.keys()):
            host = hosts[name]
            host.beat()
            lot, claim = lots.random(), at[name]
            if lot < 0.04:
                hosts[name], at[name] = born(name), None  # killed and started again
            elif lot < 0.10:
                asleep[name] = clock.now + lots.choice([20.0, 300.0])
            elif claim is None:
                asked = host.claim(lots.choice(keys), {})
                at[name] = asked if isinstance(asked, Claim) else None
            elif lot < 0.6:
                written[claim.key] += host.finish(claim, {}, None)
                at[name] = None
    assert written == Counter(keys)
    seen = born("late").pull()
    assert Counter(outcome.claim.key for outcome in seen) == written


# --- a storage that answers late, or not at all ----------------------------------------------


class Unreliable:
    """A storage whose answers get lost: what was asked is done all the same."""

    def __init__(self, storage: Any, error: BaseException | None = None) -> None:
        self._storage = storage
        self._error = error or StorageInternalError("the connection was lost")
        self.fails_after: list[str] = []
        """Names of the questions whose next answer is lost."""
        self.asks_twice: list[str] = []
        """Names of the questions that are asked again next time, though the first was done."""

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._storage, name)

        def answer(*words: Any, **more: Any) -> Any:
            result = asked(*words, **more)
            if name in self.asks_twice:
                self.asks_twice.remove(name)
                result = asked(*words, **more)
            if name in self.fails_after:
                self.fails_after.remove(name)
                raise self._error
            return result

        return answer


@pytest.fixture
def unreliable(place: str, clock: ScriptedClock, request: pytest.FixtureRequest) -> OpenUnreliable:
    def opened(error: BaseException | None = None) -> tuple[Claims, Unreliable]:
        storage = open_storage(address_of(place))
        request.addfinalizer(lambda: close_storage(storage))
        patience = Patience("the place", lambda said: None, clock, pause=lambda seconds: None)
        lossy = Unreliable(storage, error)
        return Claims(lossy, "study", "one", patience, Pace(clock=clock)), lossy  # type: ignore[arg-type]

    return opened


def test_a_claim_whose_answer_was_lost_is_made_once(unreliable: OpenUnreliable):
    host, storage = unreliable()
    storage.fails_after = ["create_new_trial"]
    claim = host.claim("fit", {})
    assert isinstance(claim, Claim) and claim.number == 0
    following = host.claim("other", {})
    assert isinstance(following, Claim) and following.number == 1


@pytest.mark.parametrize("also_lost", [False, True])
def test_a_claim_that_the_storage_makes_twice_is_one_and_its_twin_is_no_loss(
    unreliable: OpenUnreliable, clock: ScriptedClock, also_lost: bool
):
    host, storage = unreliable()
    storage.asks_twice = ["create_new_trial"]
    storage.fails_after = ["create_new_trial"] * also_lost
    claim = host.claim("fit", {})
    assert isinstance(claim, Claim) and claim.number == 0
    other, _ = unreliable()
    assert other.pending() == (claim,)
    assert silence(clock, [other], [host]) == []
    assert host.finish(claim, {}, None)
    assert (other.pending(), other.lost()) == ((), ())


def test_a_twin_that_comes_late_is_ended_by_the_next_beat(unreliable: OpenUnreliable):
    """The server did what it was asked for only after the host had looked."""
    host, storage = unreliable()
    late = list[Any]()
    create = storage.create_new_trial

    def keep(*what: Any) -> int:
        late.append(what)
        return int(create(*what))

    storage.create_new_trial = keep
    claim = host.claim("fit", {})
    create(*late[0])
    other, _ = unreliable()
    assert isinstance(claim, Claim) and [one.number for one in other.pending()] == [0, 1]
    assert host.beat() == ()
    assert other.pending() == (claim,)
    assert other.lost() == ()


def test_a_claim_that_was_interrupted_as_it_was_made_is_given_back(unreliable: OpenUnreliable):
    host, storage = unreliable(KeyboardInterrupt())
    storage.fails_after = ["create_new_trial"]
    with pytest.raises(KeyboardInterrupt):
        host.claim("fit", {})
    other, _ = unreliable()
    assert [claim.key for claim in other.pending()] == ["fit"]
    host.release_all("interrupted")
    assert other.pending() == ()
    assert isinstance(other.claim("fit", {}), Claim)


def test_what_could_not_be_given_back_is_ended_by_the_next_beat(unreliable: OpenUnreliable):
    host, storage = unreliable()
    claim = host.claim("fit", {})
    assert isinstance(claim, Claim)
    storage.fails_after = ["set_trial_user_attr"]
    host.release(claim, "interrupted")
    other, _ = unreliable()
    assert other.pending() == (claim,)
    host.beat()
    assert [last for last, _ in other.lost()] == [claim]


@pytest.mark.parametrize("lost", ["set_trial_user_attr", "set_trial_state_values"])
def test_an_outcome_whose_answer_was_lost_is_left(unreliable: OpenUnreliable, lost: str):
    host, storage = unreliable()
    claim = host.claim("fit", {})
    assert isinstance(claim, Claim)
    storage.fails_after = [lost]
    assert host.finish(claim, {"rate": 3.0}, 3.0)
    assert [outcome.payload["rate"] for outcome in host.pull()] == [3.0]


def test_a_beat_that_is_not_answered_is_tried_again_with_the_next(unreliable: OpenUnreliable):
    host, storage = unreliable()
    claim = host.claim("fit", {})
    assert isinstance(claim, Claim)
    storage.fails_after = ["set_trial_user_attr"]
    assert host.beat() == ()
    assert host.beat() == ()
    assert host.finish(claim, {}, None)


def test_half_a_line_of_a_host_that_was_killed_spoils_nothing(tmp_path: Path, clock: ScriptedClock):
    address = address_of(str(tmp_path))
    patience = Patience("the place", lambda said: None, clock, pause=lambda seconds: None)
    before = Claims(open_storage(address), "study", "before", patience)
    claim = before.claim("fit", {})
    assert isinstance(claim, Claim)
    with (tmp_path / SHARED_JOURNAL).open("ab") as journal:
        journal.write(b'{"op_code":8,"trial_id":0,"user_attr":{"outcome":{"record":"' + b"x" * 100_000)
    after = Claims(open_storage(address), "study", "after", patience)
    assert [one.key for one in after.pending()] == ["fit"]
    assert isinstance(after.claim("other", {}), Claim)
    assert before.finish(claim, {}, None)
    assert [one.key for one in before.pending()] == ["other"]
    assert (tmp_path / SHARED_JOURNAL).read_bytes().count(b"xxx") == 0


def test_a_line_that_nobody_can_read_ends_in_an_error_with_what_to_do(tmp_path: Path):
    clock = ScriptedClock()

    def pause(seconds: float) -> None:
        clock.now += seconds

    patience, address = Patience("the place", lambda said: None, clock, pause), address_of(str(tmp_path))
    host = Claims(open_storage(address), "study", "one", patience)
    with (tmp_path / SHARED_JOURNAL).open("ab") as journal:
        journal.write(b"no line of a journal\n")
    with pytest.raises(ShareError, match=r"\(line 2 of .* remove this line: .* start the same command again"):
        host.claim("fit", {})


def test_a_host_that_was_slower_is_told_how_many_are_ahead(
    place: str, clock: ScriptedClock, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
):
    """Four want the same; the first has it, and two of the others can't say yet that they step back."""
    hosts = []
    for name in "abcd":
        storage = open_storage(address_of(place))
        request.addfinalizer(partial(close_storage, storage))
        hosts.append(Claims(storage, "study", name, Patience("the place", print, clock), Pace(clock=clock)))
        if name in "bc":
            monkeypatch.setattr(storage, "set_trial_state_values", not_answering)
    first, *others = [host.claim("fit", {}) for host in hosts]
    assert isinstance(first, Claim)
    assert others == [Taken(1), Taken(2), Taken(3)]
    assert [claim.host for claim in hosts[0].pending()] == ["b", "c"]


def not_answering(*what: Any) -> bool:
    raise StorageInternalError("no answer")
