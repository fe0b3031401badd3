"""The next trial starts when the GPUs have their memory back, and not before."""

from hardware.scripted_nvml import H200, L4, ScriptedNvml

from tunekit.trial.device_memory import DeviceMemory
from tunekit.units import GIB


class Clock:
    """Seconds that pass only by sleeping."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def waited_s(nvml: ScriptedNvml) -> float:
    """Return how long the end of a trial was waited for."""
    clock = Clock()
    with DeviceMemory(nvml, clock, clock.sleep):
        pass
    return clock.now_s


def test_memory_that_is_back_is_not_waited_for():
    assert waited_s(ScriptedNvml([L4], used=[[GIB, GIB + (8 << 20)]])) == 0


def test_memory_that_comes_back_late_is_waited_for_on_every_gpu():
    late = ScriptedNvml([L4, H200], used=[[GIB, GIB], [0, 9 * GIB, 9 * GIB, 2 * GIB, 0]])
    assert 0 < waited_s(late) < 1


def test_memory_that_another_user_took_is_given_up_after_a_while():
    assert 9 < waited_s(ScriptedNvml([L4], used=[[0, 5 * GIB]])) < 11


def test_without_an_answer_or_a_driver_nothing_is_waited_for():
    assert waited_s(ScriptedNvml([L4], used=[[None, 5 * GIB]])) == 0
    assert waited_s(ScriptedNvml([])) == 0
