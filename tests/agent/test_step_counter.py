"""The one hook that a real training keeps: it counts, and speaks up when the promised rate is left."""

import pytest
from _tunekit_agent.apply import StepCounter


class Training:
    """A training on a scripted clock, watched by a counter."""

    def __init__(self, promised: tuple[float, float] | None, batches_per_step: int = 1) -> None:
        self.now_s = 0.0
        self.said: list[str] = []
        self.firsts = 0
        self.sets_up_at_once = True
        self.optimizer = object()
        self.counter = StepCounter(
            promised, batches_per_step, self._first, self.said.append, clock=lambda: self.now_s
        )

    def _first(self, last: bool) -> bool:
        self.firsts += 1
        return last or self.sets_up_at_once

    def run(self, seconds: float, steps_per_s: float) -> None:
        for _ in range(round(seconds * steps_per_s)):
            self.now_s += 1 / steps_per_s
            self.counter(self.optimizer, (), {})


@pytest.mark.parametrize(("sets_up_at_once", "tries"), [(True, 1), (False, 2)])
def test_what_is_to_be_done_after_the_first_step_is_tried_once_more(sets_up_at_once: bool, tries: int):
    training = Training(promised=(9.0, 11.0))
    training.sets_up_at_once = sets_up_at_once
    training.run(30, steps_per_s=10)
    assert (training.firsts, training.counter.steps) == (tries, 300)


def test_a_rate_that_stays_below_is_told_with_both_figures():
    training = Training(promised=(9.0, 11.0))
    training.run(600, steps_per_s=5)
    assert len(training.said) == 1
    assert training.said[0].startswith("5 it/s over the last 3 minutes, below the 9 to 11 it/s")


def test_one_slow_minute_is_a_validation_and_not_told():
    training = Training(promised=(9.0, 11.0))
    training.run(300, steps_per_s=10)
    training.now_s += 60
    training.run(300, steps_per_s=10)
    assert training.said == []


def test_a_second_optimizer_does_not_count():
    training = Training(promised=(9.0, 11.0))
    other = object()
    for _ in range(6000):
        training.now_s += 0.1
        training.counter(training.optimizer, (), {})
        training.counter(other, (), {})
    assert training.counter.steps == 6000
    assert training.said == []
