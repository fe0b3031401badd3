"""Which rank is measured, and what each tells of its pace."""

from pathlib import Path

import pytest
from _tunekit_agent.events import EventLog, Progress, Pulse
from _tunekit_agent.process import Owner, Ranks

from tunekit.records.agent_messages import ProgressEvent, RankEvent
from tunekit.trial.events import EventReader

LAUNCHED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


def ranks_of(monkeypatch: pytest.MonkeyPatch, *values: int) -> Ranks:
    """The ranks as a launcher's variables have them, in the order of LAUNCHED; those left out are not set."""
    for name in LAUNCHED:
        monkeypatch.delenv(name, raising=False)
    for name, value in zip(LAUNCHED, values, strict=False):
        monkeypatch.setenv(name, str(value))
    return Ranks(Owner(), lambda: None)


@pytest.mark.parametrize(
    ("values", "measures"),
    [
        ((), True),
        ((0, 4, 0, 4), True),
        ((1, 4, 1, 4), False),
        ((2, 4, 0, 2), True),  # the first of the second host
        ((3, 4, 1, 2), False),
        ((1, 2), False),  # of a launcher that tells no places on a host
        ((1, 2, 0), False),
    ],
)
def test_the_first_rank_of_each_host_is_measured(
    values: tuple[int, ...], measures: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ranks_of(monkeypatch, *values).measures is measures


def told(folder: Path, ranks: Ranks) -> tuple[list[ProgressEvent], list[RankEvent]]:
    """What is read of a loop that has trained on 48 samples, 16 of them after its last turn."""
    log = EventLog(str(folder), Owner())
    log.pulse = Pulse(str(folder))
    progress = Progress(log)
    progress.samples, progress.batches = 32, 2
    progress.turn_ended()
    progress.samples, progress.batches = 48, 3
    progress.report("measuring", ranks)
    events = EventReader(folder).read_new()
    loops = [one for one in events if isinstance(one, ProgressEvent)]
    return loops, [one for one in events if isinstance(one, RankEvent)]


@pytest.mark.parametrize(
    ("values", "loops", "paces"),
    [((), 1, 0), ((0, 2, 0, 2), 1, 1), ((1, 2, 1, 2), 0, 1), ((2, 4, 0, 2), 1, 1)],
)
def test_each_of_several_ranks_tells_how_far_it_was_at_its_last_turn(
    values: tuple[int, ...], loops: int, paces: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = ranks_of(monkeypatch, *values)
    seen, of_ranks = told(tmp_path, ranks)
    assert (len(seen), len(of_ranks)) == (loops, paces)
    for one in of_ranks:
        assert one.turn is not None
        assert one.rank == ranks.rank
        assert (one.turn.samples, one.turn.batches) == (32, 2)
