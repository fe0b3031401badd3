"""The queue's stage: when it is full is proved on a scripted clock; what it can't tell, it says."""

import os
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from _tunekit_agent.measure.host import memory_of
from _tunekit_agent.stages import queue_memory
from _tunekit_agent.stages.queue_memory import QueueMemory, copied_later
from _tunekit_agent.stages.runner import StageRunner
from build_loop import loop_of

BATCH = 1 << 20


class ScriptedQueue:
    """Workers that make a batch a second until their queue is full; the stage's sleep moves the clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, wanted: int = 4, asked: int = 4) -> None:
        self.now = 0.0
        self.wanted, self.asked_batches = wanted, asked
        self.info = SimpleNamespace(
            facts={"num_workers": 2, "prefetch_factor": 2, "batch_bytes": BATCH},
            shm_before_bytes=BATCH,
            shm_at_start_bytes=BATCH,
            loader=lambda: None,
        )
        self.live = SimpleNamespace(_workers=())
        self.reported: list[str] = []
        monkeypatch.setattr(queue_memory, "shm_used_bytes", lambda: (2 + self._made) * BATCH)

    @property
    def _made(self) -> int:
        return min(int(self.now), self.wanted)

    @property
    def has_all_made(self) -> bool:
        return self._made == self.wanted

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def seen(self) -> dict[str, Any]:
        stage = QueueMemory(loop_of(step_s=1.0, batch_shm_bytes=BATCH), lambda: self.now, self.sleep)
        details = StageRunner([stage], 1.0, self.reported.append, lambda: self.now)
        details.asked(self)
        assert details.is_over
        facts = details.facts()
        assert facts["faults"] == []
        return dict(facts["queue"])


def test_the_script_is_held_until_the_queue_grows_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = ScriptedQueue(monkeypatch)
    seen = queue.seen()
    assert 4.0 < queue.now < 5.0
    assert (seen["batches"], seen["predicted_bytes"], seen["shm_bytes"]) == (5, 5 * BATCH, 5 * BATCH)
    assert seen["is_full"]
    assert set(queue.reported) == {"queue"}
    assert len(queue.reported) > 10


def test_workers_that_never_finish_hold_the_script_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = ScriptedQueue(monkeypatch, wanted=1000)
    assert not queue.seen()["is_full"]
    assert queue.now < 15.0


def test_an_epoch_with_too_few_batches_left_fills_no_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not ScriptedQueue(monkeypatch, wanted=2, asked=2).seen()["is_full"]


@pytest.mark.parametrize(
    ("source", "ranks", "reported"), [(None, 1, "no DataLoader"), ("any", 2, "2 ranks share /dev/shm")]
)
def test_what_can_not_be_seen_is_told_in_words(source: Any, ranks: int, reported: str) -> None:
    details = StageRunner([QueueMemory(loop_of(world_size=ranks))], 1.0, lambda name: None)
    details.asked(source)
    (fault,) = details.facts()["faults"]
    assert fault.startswith("queue: ")
    assert reported in fault


EPOCH = 1000
COPIED = 90 << 20
"""What a worker has copied of the data set at the epoch's end."""


@pytest.mark.parametrize("samples_per_page", [1, 2, 4, 10])
@pytest.mark.parametrize("copied", [COPIED, 0])
def test_pages_that_a_worker_copies_are_counted_up_to_the_epochs_end(
    monkeypatch: pytest.MonkeyPatch, samples_per_page: int, copied: int
) -> None:
    """A page is copied at the first of its samples, which come in random order."""
    source = SimpleNamespace(info=SimpleNamespace(epoch_fetches=20), live=None)
    stage = QueueMemory(loop_of(step_s=0.02, window_s=1.0))

    def memory(live: Any) -> dict[str, int]:
        share = 1 - (1 - source.info.epoch_fetches / EPOCH) ** samples_per_page
        own = (40 << 20) + round(copied * share)
        return {"main_base_bytes": 400 << 20, "worker_base_bytes": own, "pss_bytes": 500 << 20}

    monkeypatch.setattr(queue_memory, "_memory_of", memory)
    monkeypatch.setattr(queue_memory, "epoch_of", lambda info: (16 * EPOCH, EPOCH))
    monkeypatch.setattr(queue_memory, "_forks", lambda info: True)
    monkeypatch.setattr(stage, "_queue_of", lambda source: {"is_full": True})
    while not stage.is_over:
        stage.asked(source)
        source.info.epoch_fetches += 1
    assert source.info.epoch_fetches < 80
    seen = stage.facts()
    predicted_bytes = seen["worker_base_bytes"] + seen.get("worker_growth_bytes", 0)
    assert predicted_bytes == pytest.approx((40 << 20) + copied, rel=0.05)


def test_pages_that_were_copied_all_at_once_are_not_copied_again() -> None:
    assert copied_later(40 << 20, 60 << 20, 120 << 20, 7) == 0
    assert copied_later(40 << 20, 60 << 20, 80 << 20, 7) == 100 << 20


def test_an_epoch_that_ends_ends_the_looks_at_its_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = QueueMemory(loop_of(step_s=0.02))
    stage.interrupted()
    assert not stage.is_over
    monkeypatch.setattr(queue_memory, "epoch_of", lambda info: (16 * EPOCH, EPOCH))
    monkeypatch.setattr(queue_memory, "_forks", lambda info: True)
    stage._facts = {"worker_base_bytes": 40 << 20}
    stage._plan_looks(SimpleNamespace(epoch_fetches=20))
    stage.interrupted()
    assert stage.is_over


@pytest.mark.real
def test_private_memory_leaves_out_shared_memory_and_what_a_fork_shares() -> None:
    before = memory_of(os.getpid())
    own = bytearray(b"1") * (256 << 20)
    shared = torch.ones(128 << 20, dtype=torch.uint8).share_memory_()
    after = memory_of(os.getpid())
    assert before is not None
    assert after is not None
    assert after.private_bytes - before.private_bytes == pytest.approx(len(own), rel=0.1)
    assert after.pss_bytes - before.pss_bytes == pytest.approx(len(own) + shared.numel(), rel=0.1)
    assert memory_of(1 << 30) is None
