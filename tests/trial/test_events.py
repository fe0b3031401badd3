"""The event files of a trial, read while a process that nobody controls writes them."""

import json
import struct
from pathlib import Path

import pytest
from build_records import loop
from hypothesis import given
from hypothesis import strategies as st

from tunekit.records.agent_messages import (
    AgentErrorEvent,
    DoneEvent,
    ErrorSeen,
    ExitEvent,
    ProgressEvent,
    RankEvent,
    RankTurn,
    StartEvent,
)
from tunekit.records.data_parallel import RankSeen
from tunekit.trial import events
from tunekit.trial.events import MAX_LINE_BYTES, EventReader, Evidence, Pulse, last_lines, read_pulse


def start(pid: int) -> bytes:
    return json.dumps({"event": "start", "time_s": 0.0, "pid": pid}).encode() + b"\n"


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as stream:
        stream.write(data)


def pids(found) -> list[int]:
    return [event.pid for event in found if isinstance(event, StartEvent)]


def test_several_processes_tell_side_by_side(tmp_path: Path):
    reader = EventReader(tmp_path)
    first, second = tmp_path / "events-1.jsonl", tmp_path / "events-2.jsonl"
    append(first, start(1)[:10])
    append(second, start(2))
    assert pids(reader.read_new()) == [2]
    append(first, start(1)[10:])
    append(second, start(3))
    append(tmp_path / "events-4.jsonl", start(4))
    assert pids(reader.read_new()) == [1, 3, 4]


def test_garbage_is_counted_and_what_follows_is_read(tmp_path: Path):
    log = tmp_path / "events-1.jsonl"
    append(log, start(1) + b"\xff\x00\xfe\n" + b'{"event": "boom"}\n' + b"\n" + b"[[[\n" + start(2))
    reader = EventReader(tmp_path)
    assert pids(reader.read_new()) == [1, 2]
    assert reader.rejected_lines == 3  # an empty line says nothing wrong


def test_a_line_without_an_end_is_not_kept_in_memory(tmp_path: Path):
    log = tmp_path / "events-1.jsonl"
    reader = EventReader(tmp_path)
    append(log, b"x" * (MAX_LINE_BYTES + 1))
    assert reader.read_new() == []
    append(log, start(1) + start(2))
    assert pids(reader.read_new()) == [2]
    assert reader.rejected_lines == 1


def test_a_file_beyond_its_size_is_read_no_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(events, "MAX_FILE_BYTES", len(start(1)) + 3)
    append(tmp_path / "events-1.jsonl", start(1) + start(2) + start(3))
    reader = EventReader(tmp_path)
    assert pids(reader.read_new()) == [1]
    assert reader.read_new() == []


@given(st.lists(st.integers(1, 60), max_size=30))
def test_any_cut_of_the_stream_gives_the_same_events(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int]
):
    folder = tmp_path_factory.mktemp("trial")
    whole = b"".join(start(pid) for pid in range(8))
    reader, found = EventReader(folder), []
    for size in cuts:
        append(folder / "events-1.jsonl", whole[:size])
        whole = whole[size:]
        found += pids(reader.read_new())
    append(folder / "events-1.jsonl", whole)
    assert found + pids(reader.read_new()) == list(range(8))
    assert reader.rejected_lines == 0


def write_pulse(folder: Path, pid: int, *numbers: int) -> None:
    (folder / f"pulse-{pid}").write_bytes(struct.pack(f"<{len(numbers)}Q", *numbers))


def test_the_pulse_is_that_of_the_process_that_trained_most(tmp_path: Path):
    assert read_pulse(tmp_path) is None
    write_pulse(tmp_path, 1, 0, 0, 0)
    write_pulse(tmp_path, 2, 1, 21, 20)
    write_pulse(tmp_path, 3, 0, 90, 0)
    assert read_pulse(tmp_path) == Pulse(fetching=True, batches=21, steps=20)


PLACE = "measure/record.py:9 (model_bytes)"


def agent_error(message: str, is_over: bool, place: str = PLACE) -> AgentErrorEvent:
    return AgentErrorEvent(event="agent_error", time_s=1.0, message=message, place=place, is_over=is_over)


def test_the_fault_that_ended_the_agent_is_its_first():
    evidence = Evidence()
    for message in ("ValueError: one", "KeyError: two"):
        evidence.take(agent_error(message, is_over=True), 1.0)
    assert evidence.agent_error is not None
    assert evidence.agent_error.message == "ValueError: one"
    assert evidence.faults == []


def told_by_ranks(
    *turns: tuple[int, float, int, float], window: tuple[float, float] = (10.0, 20.0)
) -> Evidence:
    """Evidence of a window and of what ranks told around it: rank, time, samples, seconds of waiting."""
    evidence = Evidence()
    phases = {"phase": "measuring", "batches": 9, "steps": 9, "wait_s": 0.0}
    evidence.take(ProgressEvent(event="progress", time_s=window[0], **phases), 1.0)
    for rank, at_s, samples, wait_s in turns:
        turn = RankTurn(at_s=at_s, samples=samples, batches=samples // 10, wait_s=wait_s)
        evidence.take(RankEvent(event="rank", time_s=at_s, rank=rank, world_size=2, turn=turn), 1.0)
    evidence.take(DoneEvent(event="done", time_s=window[1], loop=loop()), 1.0)
    evidence.take(DoneEvent(event="done", time_s=window[1] + 60, loop=loop()), 1.0)  # with what was looked at
    return evidence


def test_each_ranks_rate_is_of_the_window_by_its_own_clock():
    slow = [
        (1, 9.0, 0, 0.0),
        (1, 12.0, 100, 1.0),
        (1, 16.0, 140, 3.0),
        (1, 18.0, 160, 4.0),
        (1, 25.0, 900, 9.0),
    ]
    fast = [(0, 11.0, 50, 0.0), (0, 19.0, 210, 0.0)]
    assert told_by_ranks(*slow, *fast).ranks_seen() == (
        RankSeen(rank=0, samples_per_s=20.0, batch_samples=10.0),
        RankSeen(rank=1, samples_per_s=10.0, batch_samples=10.0),
    )


@pytest.mark.parametrize(
    "of_rank_1",
    [
        [],
        [(1, 12.0, 100, 1.0)],
        [(1, 12.0, 100, 1.0), (1, 12.01, 116, 1.0)],  # too little time for a rate
        [(1, 12.0, 100, 1.0), (1, 16.0, 100, 1.0)],
        [(1, 2.0, 0, 0.0), (1, 6.0, 100, 1.0), (1, 30.0, 200, 1.0)],
    ],
)
def test_ranks_are_timed_all_or_none(of_rank_1: list[tuple[int, float, int, float]]):
    assert told_by_ranks((0, 11.0, 50, 0.0), (0, 19.0, 210, 0.0), *of_rank_1).ranks_seen() == ()


def exit_with(name: str, steps: int = 0) -> ExitEvent:
    error = ErrorSeen(types=(name, "builtins.Exception"), message="m", traceback=())
    return ExitEvent(event="exit", time_s=1.0, steps=steps, batches=0, error=error)


@pytest.mark.parametrize("is_launcher_first", [True, False])
def test_a_launchers_error_does_not_stand_for_that_of_its_ranks(is_launcher_first: bool):
    evidence = Evidence()
    launcher = exit_with("torch.distributed.elastic.multiprocessing.errors.ChildFailedError")
    of_rank = exit_with("builtins.KeyError")
    for event in (launcher, of_rank) if is_launcher_first else (of_rank, launcher):
        evidence.take(event, 1.0)
    assert evidence.exit is not None and evidence.exit.error is not None
    assert evidence.exit.error.types[0] == "builtins.KeyError"


@pytest.mark.parametrize(
    "launcher",
    [
        "E1123 22:53:33.5 86 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 2)",
        "W1123 22:53:33.4 8 torch/distributed/elastic/multiprocessing/api.py:1] Sending 9 closing signal",
        "[2024-01-02] torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: 1) local_",
    ],
)
def test_the_last_lines_are_those_of_the_ranks(tmp_path: Path, launcher: str):
    log = tmp_path / "output.log"
    log.write_text(f"epoch 0\n\ntrain.py: error: no --lr\n{launcher}\nTraceback\nChildFailedError:\n")
    assert last_lines(log) == ("epoch 0", "train.py: error: no --lr")
