"""Tasks of MCP: a call runs until the client learns of its end, then it has the task's result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.fake_gate import Gate
from tests.support.server import PATIENCE, until
from tests.support.tables import loop_over
from toolcards.client import Toolcards
from toolcards.mcp.session import Session

WORKING = {"taskId": "t-1", "status": "working", "createdAt": "2026-11-25T10:30:00Z", "pollInterval": 500}
BEGINS = [{"task": WORKING}, {"resultType": "task", **WORKING}]
TEXT = {"content": [{"type": "text", "text": "done"}]}
FAULT = {"content": [{"type": "text", "text": "disk full"}], "isError": True}
ERROR = {"code": -32602, "message": "gone"}


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate({"slow": "allow"}) as running:
        yield running


@pytest.fixture
def session(gate: Gate) -> Iterator[Session]:
    created = Session(Toolcards(gate.url, "key", timeout=PATIENCE), server="files")
    yield created
    created.end()


def begin(session: Session, result: dict[str, Any]) -> None:
    """Let the client call a tool, and the server answer with a task."""
    params = {"name": "slow", "arguments": {}, "task": {"ttl": 60_000}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    call = session.begin_call(request)
    assert call is not None and session.decide(call, request).request is not None
    session.note_message({"jsonrpc": "2.0", "id": 1, "result": result})


def ask(session: Session, number: Any, method: str, task: str = "t-1", **answer: Any) -> None:
    """Let the client ask about a task, and the server answer."""
    session.note_request({"jsonrpc": "2.0", "id": number, "method": method, "params": {"taskId": task}})
    session.note_message({"jsonrpc": "2.0", "id": number, **answer})


def read_reports(gate: Gate, count: int) -> list[dict[str, Any]]:
    def list_reports() -> list[dict[str, Any]]:
        return [body for stage, body in gate.requests if stage == "result"]

    until(lambda: len(list_reports()) >= count)
    return list_reports()


@loop_over("method, answer, outcome, detail", [
    ("tasks/result", {"result": TEXT | {"_meta": {"x": {"taskId": "t-1"}}}}, "ok", "done"),
    ("tasks/result", {"result": FAULT}, "error", "disk full"), ("tasks/result", {"error": ERROR}, "error", "gone"),
    ("tasks/get", {"result": WORKING | {"status": "completed", "result": TEXT}}, "ok", "done"),
    ("tasks/get", {"result": WORKING | {"status": "completed", "result": FAULT}}, "error", "disk full"),
    ("tasks/get", {"result": WORKING | {"status": "failed", "statusMessage": "disk full"}}, "error", "disk full"),
    ("tasks/get", {"result": WORKING | {"status": "failed", "error": ERROR}}, "error", "gone"),
    ("tasks/get", {"result": WORKING | {"status": "cancelled"}}, "aborted", None),
    ("tasks/cancel", {"result": WORKING | {"status": "cancelled"}}, "aborted", None),
])  # fmt: skip
def test_a_task_ends_its_call_once(method: str, answer: Any, outcome: str, detail: Any) -> None:
    for begins in BEGINS:
        with Gate({"slow": "allow"}) as gate:
            session = Session(Toolcards(gate.url, "key", timeout=PATIENCE), server="files")
            begin(session, begins)
            ask(session, 2, "tasks/get", result=WORKING)
            ask(session, 3, "tasks/get", result=WORKING | {"status": "completed"})  # its result follows
            ask(session, 4, method, "another", **answer)
            assert session.has_open_calls() and "result" not in gate.stages()
            ask(session, 5, method, **answer)
            (report,) = read_reports(gate, 1)
            text = report["output"] if outcome == "ok" else report.get("error", {}).get("message")
            assert (report["outcome"], text) == (outcome, detail)
            ask(session, 6, method, **answer)
            assert not session.has_open_calls()
            session.end()
            assert gate.stages().count("result") == 1


def test_a_notification_ends_a_task_and_the_end_of_the_session_leaves_its_outcome_open(
    session: Session, gate: Gate
) -> None:
    begin(session, BEGINS[0])
    method = "notifications/tasks/status"
    session.note_message({"jsonrpc": "2.0", "method": method, "params": WORKING | {"status": "input_required"}})
    assert session.has_open_calls()
    session.note_message({"jsonrpc": "2.0", "method": method, "params": WORKING | {"status": "cancelled"}})
    assert [report["outcome"] for report in read_reports(gate, 1)] == ["aborted"]
    begin(session, BEGINS[1])
    session.end()
    assert [report["outcome"] for report in read_reports(gate, 2)] == ["aborted", "unknown"]


def test_a_task_without_an_id_is_a_plain_result(session: Session, gate: Gate) -> None:
    begin(session, {"task": {"status": "working"}})
    assert [report["outcome"] for report in read_reports(gate, 1)] == ["ok"]
