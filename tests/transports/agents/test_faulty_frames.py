"""A fault of the server in one frame costs that frame: it is counted, logged and named on the page of the run.

The faults are those of an adapter: it fails to read a frame, or makes facts of it that cannot be written.
"""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread

from toolcards.adapters import ADAPTERS, native
from toolcards.adapters.base import MAX_DEPTH, Adapter, Facts
from toolcards.core.calls import facts as f
from toolcards.core.runs.run_context import SkippedFrame
from toolcards.models import Run

pytestmark = pytest.mark.django_db(transaction=True)
INGEST = "/api/v1/ingest?protocol=faulty&run=r"
START = {"type": "run.started", "agent": "bot"}
READY = {"type": "tool.input.available", "call_id": "c", "tool": "bash", "input": {"command": "ls"}}
OUTPUT = {"type": "tool.output.available", "call_id": "c", "output": "x"}
END = {"type": "run.finished", "outcome": "success"}
UNREADABLE, UNWRITABLE = {"type": "fault.read"}, {"type": "fault.write"}
PLACES = [
    [UNREADABLE, START, READY, OUTPUT, END],
    [START, UNWRITABLE, READY, OUTPUT, END],
    [START, READY, UNREADABLE, UNWRITABLE, OUTPUT, UNWRITABLE, END],
    [START, *[UNWRITABLE] * 40, READY, OUTPUT, END, UNREADABLE],
]
BODIES = {
    "application/json": json.dumps,
    "application/x-ndjson": lambda frames: "".join(f"{json.dumps(frame)}\n" for frame in frames),
    "text/event-stream": lambda frames: "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames),
}


def decode(text: str, depth: int = MAX_DEPTH) -> Facts | SkippedFrame:
    """Read a native frame, or fail."""
    kind = json.loads(text)["type"]
    if kind == "fault.write":
        return [f.StepStarted(), f.InputReady("broken", "bash", object(), True)]
    return {}[kind] if kind == "fault.read" else native.decode(text, depth)


@pytest.fixture(autouse=True)
def _faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ADAPTERS, "faulty", Adapter("faulty", "1", decode, gated=True))


def count_faults(frames: list[Any]) -> int:
    return sum(frame["type"].startswith("fault.") for frame in frames)


@pytest.mark.parametrize("content_type", BODIES)
@pytest.mark.parametrize("frames", PLACES)
@pytest.mark.parametrize("body_key", ["", "k1"])
async def test_a_body_is_recorded_but_for_the_frames_with_a_fault(
    call: Any, frames: list[Any], content_type: str, body_key: str, caplog: pytest.LogCaptureFixture
) -> None:
    faults, headers = count_faults(frames), {"idempotency_key": body_key} if body_key else {}
    body = BODIES[content_type](frames)
    with caplog.at_level(logging.ERROR):
        status, answer, _ = await call("POST", INGEST, body, content_type=content_type, **headers)
    assert status == 200, answer
    assert (status, answer["accepted"], answer["skipped"], answer["refused"]) == (200, len(frames) - faults, faults, 0)
    assert (answer["error"]["code"], answer["calls"]) == ("internal", [{"call_id": "c", "state": "output-available"}])
    assert sum("was skipped" in record.getMessage() for record in caplog.records) == faults
    _, run, _ = await call("GET", "/api/v1/runs/r")
    assert (run["status"], run["skipped"]) == (
        "finished",
        {"frames": faults, "kinds": {"not recorded": faults}, "other": 0},
    )
    if body_key:
        assert (await call("POST", INGEST, body, content_type=content_type, **headers))[1] == answer


async def test_a_socket_continues_after_each_fault_and_names_the_call(agent: Any) -> None:
    async with agent(protocol="faulty", run="r", mode="observe") as socket:
        await socket.say(START, UNREADABLE, READY, UNWRITABLE, OUTPUT, END)
        await socket.acked(6)
        errors = [await socket.hear("error") for _ in range(2)]
    assert {(error["code"], error.get("call_id", "")) for error in errors} == {("internal", ""), ("internal", "broken")}
    assert (await Run.objects.aget()).status == "finished"


async def test_a_call_whose_frame_has_a_fault_gets_no_decision_and_the_next_one_does(agent: Any, policy: Any) -> None:
    await in_thread(policy)({"default": "allow"})
    async with agent(protocol="faulty", run="r") as socket:
        await socket.say(UNWRITABLE, READY)
        assert (await socket.hear("decision"))["call_id"] == "c"
        assert (await socket.hear("error"))["call_id"] == "broken"


async def test_a_fault_in_one_run_leaves_the_other_runs_of_its_commit_alone(agent: Any) -> None:
    async with agent(protocol="faulty", run="r", mode="observe") as first, agent(run="other", mode="observe") as second:
        await first.say(UNWRITABLE)
        await second.say(START, READY)
        await first.acked(1)
        await second.acked(2)
        await first.say(READY, OUTPUT, END)
        await first.acked(4)
    assert (await Run.objects.aget(name="r")).skipped == 1
    assert (await Run.objects.aget(name="other")).skipped == 0
