"""What the agent tells is validated line by line: it comes from a process that runs other people's code."""

import json
from typing import Any

import pytest
from build_records import discovery, loop
from pydantic import ValidationError

from tunekit.records.agent_messages import (
    AgentRequest,
    parse_event,
)
from tunekit.records.config import Precision

APPLIED = {
    "addressed": True,
    "roots_applied": [],
}
EVENTS: dict[str, dict[str, Any]] = {
    "start": {"pid": 12},
    "progress": {"phase": "measuring", "batches": 3, "steps": 2, "wait_s": 0.5},
    "learnt": {"discovery": discovery().model_dump(mode="json"), "applied": APPLIED},
    "done": {"loop": loop().model_dump(mode="json")},
    "nonfinite": {"loss": "nan", "steps": 8},
    "exit": {"steps": 8, "batches": 9, "error": None},
    "written": {"path": "/home/user/model.pt", "action": "diverted"},
    "agent_error": {"message": "no request file"},
}


def line(event: str, **changes: Any) -> str:
    return json.dumps({"event": event, "time_s": 1.5, **EVENTS[event], **changes})


def test_an_event_of_a_newer_agent_may_say_more():
    assert parse_event(line("start", mood="good")) == parse_event(line("start"))


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_without_one_of_its_fields_is_rejected(event: str):
    whole = json.loads(line(event))
    assert parse_event(json.dumps(whole)).time_s == 1.5
    for field in whole:
        cut = {name: value for name, value in whole.items() if name != field}
        with pytest.raises(ValidationError):
            parse_event(json.dumps(cut))


@pytest.mark.parametrize(
    ("event", "changes"),
    [
        ("start", {"pid": -1}),
        ("progress", {"steps": 1.5}),
        ("progress", {"phase": "x" * 41}),
        ("exit", {"error": {"types": [], "message": "", "traceback": []}}),
        ("exit", {"error": {"types": ["a"], "message": "", "traceback": ["x"] * 101}}),
        ("written", {"path": "p" * 4097}),
        ("written", {"action": "deleted"}),
        ("done", {"loop": loop().model_dump(mode="json") | {"steady_batches": 0}}),
        ("done", {"loop": loop().model_dump(mode="json") | {"invented": 1}}),
        ("learnt", {"applied": APPLIED | {"addressed": None}}),
    ],
)
def test_impossible_values_are_rejected(event: str, changes: dict[str, Any]):
    with pytest.raises(ValidationError):
        parse_event(line(event, **changes))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("field", ["steady_time_s", "boundary_s", "steady_samples"])
def test_numbers_beyond_counting_are_rejected(field: str, number: str):
    marked = line("done", loop=loop().model_dump(mode="json") | {field: "HERE"})
    with pytest.raises(ValidationError):
        parse_event(marked.replace('"HERE"', number))


@pytest.mark.parametrize(
    "hostile",
    [
        b"null",
        b'{"event": "start"',
        b'{"event": "format_disk", "time_s": 1}',
        b"[" * 100_000,
        b'{"event": "agent_error", "time_s": 1, "message": ' + b"1" * (2 << 20) + b"}",
    ],
)
def test_what_is_no_event_is_rejected(hostile: bytes):
    with pytest.raises(ValidationError):
        parse_event(hostile)


def request(**knobs: Any) -> AgentRequest:
    return AgentRequest(
        trial_folder="/run/trials/0001",
        working_dir="/home/user/project",
        scratch_folder="/tmp/scratch",
        started_at_s=1.0,
        knobs=knobs,
        loader=None,
        roots=(),
        window_s=5.0,
    )


def test_a_request_names_only_the_knobs_to_set():
    asked = request(num_workers=0, compile=False, precision=Precision.BF16)
    knobs = {"num_workers": 0, "compile": False, "precision": "bf16"}
    assert json.loads(asked.model_dump_json())["knobs"] == knobs
    assert AgentRequest.model_validate_json(asked.model_dump_json()) == asked
