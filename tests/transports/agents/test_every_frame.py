"""Frames of every kind of every protocol, by every way in: each gives a card, or is counted; none ends a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import gating
from tests.support.ag_ui_agent import FakeAgent, build_run_start, finished, post
from tests.support.every_frame import CALL, START, Frame, list_frames
from tests.support.server import Server, until
from toolcards.adapters import ADAPTERS
from toolcards.models import Run, ToolCall

FRAMES: dict[str, list[Frame]] = {
    name: [frame for protocol, frame in list_frames() if protocol == name] for name in ADAPTERS
}
NDJSON = "application/x-ndjson"
CHUNKS: list[tuple[list[Frame], dict[str, Any]]] = [
    ([{"toolCallId": "a", "toolCallName": "t", "delta": "{}"}], {"a": {}}),
    ([{"toolCallId": "a", "toolCallName": "t", "delta": '{"q":'}, {"delta": "1}"}], {"a": {"q": 1}}),
    ([{"toolCallId": "a", "toolCallName": "t"}, {"toolCallId": "a", "delta": '{"q":1}'}], {"a": {"q": 1}}),
    (
        [
            {"toolCallId": "a", "toolCallName": "t", "delta": "{}"},
            {"toolCallId": "b", "toolCallName": "u", "delta": "[]"},
        ],
        {"a": {}, "b": []},
    ),
    ([{"delta": "lost"}, {"toolCallId": "a", "toolCallName": "t", "delta": "{}"}], {"a": {}}),
]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("protocol", sorted(ADAPTERS))
async def test_a_body_with_a_frame_of_any_kind_is_answered_and_keeps_its_card(protocol: str, call: Any) -> None:
    for number, frame in enumerate(FRAMES[protocol]):
        body = f"{json.dumps(START[protocol])}\n{json.dumps(frame)}\n"
        path = f"/api/v1/ingest?protocol={protocol}&run=r{number}"
        status, answer, _ = await call("POST", path, body, content_type=NDJSON)
        assert status == 200, (frame, answer)
        assert (answer["accepted"] + answer["refused"], answer["skipped"]) == (2, 0), (frame, answer)
        assert answer.get("error", {}).get("code", "missing_field") == "missing_field", (frame, answer)
        assert CALL in {each["call_id"] for each in answer["calls"]} or "reset" in json.dumps(frame), frame


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("protocol", sorted(ADAPTERS))
async def test_a_socket_with_frames_of_all_kinds_acknowledges_each(protocol: str, agent: Any) -> None:
    async with agent(protocol=protocol, run="r", mode="observe") as socket:
        for number, frame in enumerate(FRAMES[protocol], 1):
            await socket.say(frame)
            await socket.acked(number)
    assert await ToolCall.objects.filter(call_id=CALL).aexists()
    assert (await Run.objects.aget()).skipped == 0


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("chunks", "inputs"), CHUNKS)
async def test_chunks_are_start_input_and_end(chunks: list[Frame], inputs: dict[str, Any], call: Any) -> None:
    frames = [build_run_start("r"), *({"type": "TOOL_CALL_CHUNK", **chunk} for chunk in chunks), finished("r")]
    status, answer, _ = await call("POST", f"/api/v1/ingest?protocol=ag-ui&run={len(json.dumps(chunks))}", frames)
    assert (status, answer["refused"]) == (200, 0)
    _, listed, _ = await call("GET", f"/api/v1/runs/{answer['run']}/calls")
    assert {each["call_id"]: each["input"] for each in listed["calls"]} == inputs
    assert not any(each["anomalies"] for each in listed["calls"])


@pytest.fixture(scope="module")
def proxying_server(tmp_path_factory: pytest.TempPathFactory, upstream: FakeAgent) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server"), agui_upstreams=f"planner={upstream.url}") as running:
        yield running


def test_the_proxy_records_a_stream_with_a_frame_of_any_kind(proxying_server: Server, upstream: FakeAgent) -> None:
    for number, frame in enumerate(FRAMES["ag-ui"]):
        run = f"proxied-{number}"
        upstream.reset(build_run_start(run), START["ag-ui"], frame, finished(run))
        assert post(proxying_server, run)[0] == 200
        assert until(lambda run=run: gating.calls(proxying_server, run)).keys() >= {CALL}, frame
    assert "Traceback" not in (proxying_server.data / "server.log").read_text()


def test_chunks_through_the_proxy_are_cards(proxying_server: Server, upstream: FakeAgent) -> None:
    chunk = {"type": "TOOL_CALL_CHUNK", "toolCallId": "a", "toolCallName": "t", "delta": '{"q":1}'}
    upstream.reset(build_run_start("chunked"), chunk, finished("chunked"))
    assert post(proxying_server, "chunked")[0] == 200
    assert until(lambda: gating.calls(proxying_server, "chunked").get("a"))["input"] == {"q": 1}
