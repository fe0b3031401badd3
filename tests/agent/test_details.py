"""Stages look at the loop one after another, and none of them can harm it."""

from typing import Any

from _tunekit_agent.details import Details, Stage


class Counting(Stage):
    """Is over after some turns; a double for a stage that looks at the loop."""

    def __init__(self, name: str, turns: int, fault: str = "") -> None:
        super().__init__()
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

    def facts(self) -> Any:
        if self.fault == "facts":
            raise KeyError("gone")
        return {"turns": self.turns}


def look(stages: list[Stage], clock: list[float] | None = None) -> tuple[Details, list[str]]:
    moved: list[str] = []
    now = clock or [0.0]
    return Details(stages, 1.0, moved.append, lambda: now[0]), moved


def test_stages_run_in_turn_and_tell_what_they_saw() -> None:
    first, second = Counting("queue", 1), Counting("floors", 1)
    details, moved = look([first, second])
    assert details.asked(None) == "queue's batch"
    details.fetched("batch")
    details.step_began()
    details.step_ended()
    assert details.phase == "queue"
    assert details.asked(None) == "floors's batch"
    assert details.phase == "floors"
    assert details.asked(None) is None
    assert details.is_over
    assert first.seen == ["asked", "fetched", "began", "ended", "asked", "left"]
    assert moved == ["queue", "floors"]
    assert details.facts() == {"queue": {"turns": 1}, "floors": {"turns": 1}, "faults": []}


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


def test_a_stage_whose_facts_break_has_none() -> None:
    details, _ = look([Counting("queue", 0, fault="facts")])
    details.asked(None)
    assert details.is_over
    assert details.facts() == {"faults": ["queue: KeyError: 'gone'"]}


def test_a_stage_that_takes_too_long_is_left() -> None:
    now = [0.0]
    slow = Counting("queue", 10**9)
    details, _ = look([slow], now)
    details.asked(None)
    now[0] = 1e4
    assert details.asked(None) is None
    assert details.is_over
    assert slow.seen[-1] == "left"
    assert details.facts()["faults"] == ["queue: it took too long"]


def test_nothing_to_look_at_is_over_at_once() -> None:
    details, moved = look([])
    assert details.is_over
    assert moved == []
    assert details.asked(None) is None
