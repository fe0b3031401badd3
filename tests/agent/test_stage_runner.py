"""Stages look at the loop one after another, and none of them can harm it."""

import functools
import warnings
from types import SimpleNamespace
from typing import Any

import pytest
from _tunekit_agent.stages import stages_for
from _tunekit_agent.stages.data import DataSeen
from _tunekit_agent.stages.runner import Missing, Stage, StageRunner
from build_loop import loop_of


class Counting(Stage):
    """Is over after some turns; a double for a stage that looks at the loop."""

    def __init__(self, name: str, turns: int, fault: str = "") -> None:
        super().__init__(None)
        self.name = name
        self.turns, self.fault = turns, fault
        self.seen: list[str] = []

    def asked(self, source: Any) -> Any:
        if self.fault == "asked":
            raise ValueError("broken")
        self.seen.append("asked")
        self.is_over = self.seen.count("asked") > self.turns
        return f"{self.name}'s batch"

    def fetched(self, batch: Any) -> None:
        self.seen.append("fetched")

    def step_began(self) -> None:
        self.seen.append("began")

    def step_ended(self) -> None:
        self.seen.append("ended")

    def leave(self) -> None:
        self.seen.append("left")

    def interrupted(self) -> None:
        self.seen.append("interrupted")

    def facts(self) -> Any:
        if self.fault == "facts":
            raise KeyError("gone")
        return {"turns": self.turns}


def look(stages: list[Stage], clock: list[float] | None = None) -> tuple[StageRunner, list[str]]:
    moved: list[str] = []
    now = clock or [0.0]
    return StageRunner(stages, 1.0, moved.append, lambda: now[0]), moved


def test_stages_run_in_turn_and_tell_what_they_saw() -> None:
    first, second = Counting("queue", 1), Counting("floors", 1)
    details, moved = look([first, second])
    assert details.asked(None) == "queue's batch"
    details.call("fetched", "batch")
    details.call("step_began")
    details.call("step_ended")
    assert details.phase == "queue"
    assert details.asked(None) == "floors's batch"
    assert details.phase == "floors"
    assert details.asked(None) is None
    assert details.is_over
    assert first.seen == ["asked", "fetched", "began", "ended", "asked", "left"]
    assert moved == ["queue", "floors"]
    assert details.facts() == {"queue": {"turns": 1}, "floors": {"turns": 1}, "faults": []}


def test_a_stage_that_can_not_even_be_made_is_told_and_the_next_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_the_script = functools.partial(warnings.filterwarnings)
    monkeypatch.setattr(warnings, "filterwarnings", by_the_script)
    details, moved = look(stages_for(["syncs", "peaks"], loop_of()))
    assert details.asked(None) is None
    assert moved == ["syncs", "peaks"]
    (fault,) = details.facts()["faults"]
    assert fault.startswith("syncs: AttributeError: ")


def test_a_stage_that_breaks_is_left_and_told_and_the_next_goes_on() -> None:
    broken, next_one = Counting("queue", 1, fault="asked"), Counting("floors", 1)
    details, _ = look([broken, next_one])
    assert details.asked(None) == "floors's batch"
    assert broken.seen == ["left"]
    details.asked(None)
    facts = details.facts()
    assert facts["faults"] == ["queue: ValueError: broken"]
    assert facts["floors"] == {"turns": 1}
    assert "queue" not in facts


def test_a_stage_that_takes_too_long_is_left() -> None:
    now = [0.0]
    slow = Counting("queue", 10**9)
    details, _ = look([slow], now)
    details.asked(None)
    now[0] = 1e4
    assert details.asked(None) is None
    assert details.is_over
    assert slow.seen[-1] == "left"
    assert details.facts()["faults"] == ["queue: it took too long: more than 20 s"]


def test_a_deadline_follows_the_window_and_the_time_of_a_batch() -> None:
    def deadline_s(window_s: float, step_s: float) -> float:
        return StageRunner([], window_s, lambda name: None, step_s=step_s).deadline_s

    assert deadline_s(1.0, 0.1) == 20.0
    assert deadline_s(10.0, 0.1) == 40.0
    assert deadline_s(1.0, 4.0) == 120.0


def test_what_was_seen_so_far_can_be_told_before_the_next_stage_looks() -> None:
    reported: list[dict[str, Any]] = []
    later = Counting("floors", 0)

    def tell() -> None:
        assert later.seen == []
        reported.append(details.facts())

    details = StageRunner([Counting("queue", 0), later], 1.0, lambda name: None, passed=tell)
    details.asked(None)
    assert details.is_over
    assert reported == [{"queue": {"turns": 0}, "faults": []}]


class Growing(Counting):
    """Knows more at each turn, and says so."""

    def asked(self, source: Any) -> Any:
        self.turns -= 1
        self.knows_more()
        return super().asked(source)


def test_a_stage_that_knows_more_tells_it_and_has_its_time_anew() -> None:
    now, reported = [0.0], []
    details = StageRunner(
        [Growing("sizes", 100)],
        1.0,
        lambda name: None,
        lambda: now[0],
        passed=lambda: reported.append(details.facts()),
    )
    for _ in range(4):
        details.asked(None)
        now[0] += details.deadline_s - 1
    assert [one["sizes"]["turns"] for one in reported] == [99, 98, 97, 96]
    assert details.phase == "sizes"
    now[0] += 2
    details.asked(None)
    assert details.is_over
    assert details.facts()["sizes"] == {"turns": 96}


def test_what_a_loop_takes_from_its_data_set_is_looked_for_in_a_whole_batch() -> None:
    stage = DataSeen(loop_of(world_size=2))
    source = SimpleNamespace(live=SimpleNamespace(_dataset=SimpleNamespace(log=[1]), _workers=()))
    assert stage.asked(source) is None
    stage.fetched(None)
    stage.interrupted()  # an epoch ends
    assert stage.asked(source) is None and not stage.is_over
    stage.fetched(None)
    with pytest.raises(Missing, match="2 ranks share the samples"):
        stage.asked(source)
