"""Frames over HTTP: what is answered, what is refused, and what is never applied twice."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread

from toolcards.models import AgentKey, Event, Run, ToolCall

pytestmark = pytest.mark.django_db(transaction=True)
INGEST = "/api/v1/ingest?protocol=native&run=r"
FRAMES = [
    {"type": "run.started", "agent": "bot"},
    {"type": "tool.input.available", "call_id": "c", "tool": "bash", "input": {"command": "ls"}},
    {"type": "tool.output.available", "call_id": "c", "output": "x"},
    {"type": "run.finished", "outcome": "success"},
]
NDJSON, SSE = "application/x-ndjson", "text/event-stream"


def lines(*frames: Any) -> str:
    return "".join(f"{frame if isinstance(frame, str) else json.dumps(frame)}\n" for frame in frames)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", json.dumps(FRAMES)),
        ("application/json; charset=utf-8", " " + json.dumps(FRAMES) + "\n"),
        (NDJSON, lines(*FRAMES)),
        (SSE, "".join(f": hello\ndata: {json.dumps(frame)}\n\n" for frame in FRAMES) + "data: [DONE]\n\n"),
    ],
)
async def test_three_kinds_of_bodies_say_the_same(call: Any, content_type: str, body: str) -> None:
    status, answer, _ = await call("POST", INGEST, body, content_type=content_type)
    assert status == 200
    assert answer == {
        "run": "r", "accepted": 4, "skipped": 0, "refused": 0, "anomalies": 0, "seq": 4,
        "calls": [{"call_id": "c", "state": "output-available"}],
    }  # fmt: skip
    assert (await Run.objects.aget()).status == "finished"


async def test_one_frame_alone_is_a_body_and_its_end_truncates_the_run(call: Any) -> None:
    status, body, _ = await call("POST", INGEST, FRAMES[1])
    assert (status, body["accepted"]) == (200, 1)
    assert body["calls"] == [{"call_id": "c", "state": "output-error"}]
    assert (await Run.objects.aget()).status == "truncated"


async def test_broken_frames_are_counted_and_the_others_applied(call: Any) -> None:
    body = lines(FRAMES[0], "{broken", {"type": "of.tomorrow"}, FRAMES[1], '{"type": "text.delta"}')
    status, answer, _ = await call("POST", INGEST, body, content_type=NDJSON)
    assert status == 200
    assert (answer["accepted"], answer["skipped"], answer["refused"]) == (2, 1, 2)
    assert answer["error"]["code"] == "not_json"


async def test_anomalies_are_counted(call: Any) -> None:
    late = {"type": "tool.output.error", "call_id": "c", "error": "no"}
    _, body, _ = await call("POST", INGEST, lines(*FRAMES[:3], late), content_type=NDJSON)
    assert body["anomalies"] == 1


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"method": "GET"}, 405, "method_not_allowed"),
        ({"method": "PUT"}, 405, "method_not_allowed"),
        ({"key": None}, 401, "unauthorized"),
        ({"key": "tck_wrong"}, 401, "unauthorized"),
        ({"content_type": "text/plain"}, 415, "unsupported_media_type"),
        ({"path": "/api/v1/ingest?run=r"}, 400, "unknown_protocol"),
        ({"path": "/api/v1/ingest?protocol=morse"}, 400, "unknown_protocol"),
        ({"path": "/api/v1/ingest?protocol=native&run=a%0Ab"}, 400, "bad_run"),
        ({"path": "/api/v1/ingest?protocol=native&run=%FF"}, 400, "bad_query"),
        ({"path": "/api/v1/ingest?protocol=native&run=%ED%A0%80"}, 400, "bad_query"),
        ({"path": "/api/v1/ingest?protocol=native&mode=both"}, 400, "bad_mode"),
        ({"body": ""}, 400, "not_json"),
        ({"body": "nonsense"}, 400, "not_json"),
        ({"body": b"\xff\xfe\x00"}, 400, "not_json"),
        ({"body": "42"}, 400, "not_object"),
        ({"body": '[{"type":"run.started"}'}, 400, "not_json"),
        ({"body": "nonsense", "content_type": SSE}, 400, "not_sse"),
        ({"body": "data: nonsense\n\n", "content_type": SSE}, 400, "not_json"),
        ({"body": "nonsense\nmore of it\n", "content_type": NDJSON}, 400, "not_json"),
        ({"body": '{"type":"tool.output.available","call_id":"c","output":' + "[" * 5000}, 413, "too_deep"),
        ({"body": json.dumps(FRAMES[0] | {"title": "x" * 5_000_000})}, 413, "too_large"),
        ({"body": "data: " + "x" * 5_000_000 + "\n\n", "content_type": SSE}, 413, "too_large"),
        ({"body": "x" * 5_000_000, "content_type": NDJSON}, 413, "too_large"),
        ({"body": " " * 9_000_000}, 413, "too_large"),
        ({"idempotency_key": "k" * 201}, 400, "bad_key"),
    ],
)
async def test_bad_requests_are_answered_in_the_contracts_words(
    call: Any, changes: Any, status: int, code: str
) -> None:
    fields = {"method": "POST", "path": INGEST, "body": FRAMES[0]} | changes
    actual, body, headers = await call(fields.pop("method"), fields.pop("path"), fields.pop("body"), **fields)
    assert (actual, body["error"]["code"]) == (status, code)
    assert headers["content-type"] == "application/json"
    assert not await ToolCall.objects.aexists()


async def test_a_key_without_the_scope_may_not_send(call: Any) -> None:
    _, secret = await in_thread(AgentKey.objects.issue)("reader", ("read", "decide", "result"))
    status, body, _ = await call("POST", INGEST, FRAMES, key=secret)
    assert (status, body["error"]["code"]) == (403, "scope")


async def test_the_same_key_again_gets_the_same_answer_and_applies_nothing(call: Any) -> None:
    first = await call("POST", INGEST, FRAMES, idempotency_key="k1")
    again = await call("POST", INGEST, FRAMES, idempotency_key="k1")
    assert first[:2] == again[:2]
    assert again[2]["idempotency-replayed"] == "true"
    assert await Event.objects.acount() == first[1]["seq"]


async def test_two_with_the_same_key_at_once_are_one(call: Any) -> None:
    both = await asyncio.gather(*(call("POST", INGEST, FRAMES, idempotency_key="k2") for _ in range(3)))
    assert len({json.dumps(entry) for _, entry, _ in both}) == 1
    assert await Event.objects.acount() == both[0][1]["seq"]


async def test_a_refused_body_leaves_its_key_free(call: Any) -> None:
    assert (await call("POST", INGEST, "nonsense", idempotency_key="k3"))[0] == 400
    assert (await call("POST", INGEST, FRAMES, idempotency_key="k3"))[0] == 200


async def test_numbered_frames_are_applied_once_over_several_bodies(call: Any) -> None:
    delta = [{"n": n, "type": "tool.input.delta", "call_id": "c", "delta": str(n)} for n in (2, 3)]
    start = {"n": 1, "type": "tool.input.started", "call_id": "c", "tool": "bash"}
    await call("POST", INGEST, [start, *delta])
    await call(
        "POST", INGEST, [*delta, {"n": 4, "type": "tool.input.available", "call_id": "c", "tool": "bash", "input": {}}]
    )
    events = [event.fact async for event in Event.objects.order_by("seq")]
    assert sum('"input-delta"' in fact for fact in events) == 2


async def test_a_gating_body_receives_the_decisions(call: Any, policy: Any) -> None:
    await in_thread(policy)({"default": "deny"})
    _, body, _ = await call("POST", INGEST + "&mode=gate", FRAMES[:2])
    assert [decision["decision"] for decision in body["decisions"]] == ["deny"]


def test_cards_move_while_a_body_is_open_and_a_body_that_breaks_off_is_truncated_later(tmp_path: Any) -> None:
    import socket
    from urllib.parse import urlsplit

    from tests.support.server import Server, until

    with Server(tmp_path, grace=0.5) as server:
        where = urlsplit(server.base)
        wire = socket.create_connection((where.hostname, where.port))
        head = f"POST {INGEST} HTTP/1.1\r\nHost: {where.netloc}\r\nAuthorization: Bearer {server.key}\r\n"
        wire.sendall(f"{head}Content-Type: {NDJSON}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        body = lines(*FRAMES[:2])
        wire.sendall(f"{len(body):x}\r\n{body}\r\n".encode())
        calls = until(lambda: (server.request("GET", "/api/v1/runs/r/calls")[1]).get("calls"))
        assert calls[0]["state"] == "input-available"
        wire.close()
        until(lambda: server.get("/api/v1/runs/r")["status"] == "truncated")
