"""Permission requests without a raw input, to a real server: what is asked is what the agent shows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support import gating
from tests.support.server import Server
from toolcards.client.common.canonical_json import digest

DIFF = {"type": "diff", "path": "a.py", "oldText": "a=1", "newText": "a=2"}
EDIT = {"title": "a.py: a=1 => a=2", "kind": "edit", "content": [DIFF], "locations": [{"path": "/p/a.py"}]}
OPTIONS = [{"optionId": "once", "kind": "allow_once"}, {"optionId": "cancel", "kind": "reject_once"}]


def post(server: Server, run: str, *messages: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """Send messages of both sides as one body; return the run's only call."""
    lines = [json.dumps({"dir": direction, "msg": {"jsonrpc": "2.0", **msg}}) for direction, msg in messages]
    path = f"/api/v1/ingest?protocol=acp&run={run}&agent=gemini"
    status, answer, _ = server.request("POST", path, "\n".join(lines), Content_Type="application/x-ndjson")
    assert status == 200, answer
    (call,) = gating.calls(server, run).values()
    return dict(call)


def request_permission(**fields: Any) -> tuple[str, dict[str, Any]]:
    call = {"toolCallId": "replace-1", "status": "pending", **fields}
    params = {"sessionId": "S", "options": OPTIONS, "toolCall": call}
    return "<", {"id": 9, "method": "session/request_permission", "params": params}


def test_an_edit_is_asked_about_with_its_difference_and_path(server: Server) -> None:
    call = post(server, "acp-edit", request_permission(**EDIT))
    assert (call["state"], call["tool"]["kind"], call["input"]) == ("approval-requested", "edit", EDIT)
    assert call["approval"]["args_sha256"] == digest(EDIT)
    other = EDIT | {"content": [DIFF | {"newText": "a=3"}]}
    assert post(server, "acp-other", request_permission(**other))["approval"]["args_sha256"] == digest(other)
    answer = {"id": 9, "result": {"outcome": {"outcome": "selected", "optionId": "once"}}}
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "replace-1", "status": "completed", "content": [DIFF]}
    result = {"method": "session/update", "params": {"sessionId": "S", "update": update}}
    call = post(server, "acp-edit", (">", answer), ("<", result))
    assert (call["state"], call["input"], call["anomalies"]) == ("output-available", EDIT, [])


def update(status: str, about: str = "tool_call_update", **fields: Any) -> tuple[str, dict[str, Any]]:
    report = {"sessionUpdate": about, "toolCallId": "replace-1", **({"status": status} if status else {}), **fields}
    return "<", {"method": "session/update", "params": {"sessionId": "S", "update": report}}


ANOTHER = [DIFF | {"newText": "a=3"}]
STORIES = {
    "announced, and done without content": (
        [("tool_call", "pending", EDIT), ("tool_call_update", "completed", {})], EDIT, None,
    ),
    "announced without a status": ([("tool_call", "", EDIT), ("tool_call_update", "completed", {})], EDIT, None),
    "shown after the announcement": (
        [("tool_call", "pending", {"title": "Edit", "kind": "edit"}), ("tool_call_update", "", {"content": [DIFF]}),
         ("tool_call_update", "completed", {})],
        {"content": [DIFF], "rawInput": None}, None,
    ),
    "shown as it runs": (
        [("tool_call", "in_progress", EDIT), ("tool_call_update", "completed", {})], EDIT, [DIFF],
    ),
    "changed before it runs": (
        [("tool_call", "pending", EDIT), ("tool_call_update", "pending", {"content": ANOTHER}),
         ("tool_call_update", "completed", {})],
        EDIT | {"content": ANOTHER}, None,
    ),
    "with its input later": (
        [("tool_call", "pending", EDIT | {"rawInput": {}}), ("tool_call_update", "", {"rawInput": {"path": "a.py"}}),
         ("tool_call_update", "", {"content": [DIFF]}), ("tool_call_update", "completed", {"content": [DIFF]})],
        {"path": "a.py"}, [DIFF],
    ),
    "with its input, and done without content": (
        [("tool_call", "pending", EDIT | {"rawInput": {"path": "a.py"}}), ("tool_call_update", "completed", {})],
        {"path": "a.py"}, [DIFF],
    ),
    "with its input, and done with an empty output": (
        [("tool_call", "pending", {"title": "Edit", "rawInput": {"path": "a.py"}}),
         ("tool_call_update", "pending", {"rawInput": {"path": "a.py"}, "content": [DIFF]}),
         ("tool_call_update", "in_progress", {}), ("tool_call_update", "completed", {"rawOutput": {}})],
        {"path": "a.py"}, [DIFF],
    ),
    "with its input, and another result": (
        [("tool_call", "pending", EDIT | {"rawInput": {"path": "a.py"}}),
         ("tool_call_update", "completed", {"rawOutput": "Nothing changed"})],
        {"path": "a.py"}, "Nothing changed",
    ),
    "a command that shows a difference": (
        [("tool_call", "pending", EDIT | {"kind": "execute"}), ("tool_call_update", "completed", {"content": []})],
        EDIT | {"kind": "execute", "rawInput": None}, None,
    ),
    "failed without content": ([("tool_call", "pending", EDIT), ("tool_call_update", "failed", {})], EDIT, None),
    "progress in words, and done without content": (
        [("tool_call", "in_progress", {"title": "Edit", "content": [{"content": {"text": "at work"}}]}),
         ("tool_call_update", "completed", {})],
        None, "at work",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("reports", "shown_input", "output"), [pytest.param(*row, id=name) for name, row in STORIES.items()]
)
def test_what_an_open_call_shows_stays(
    server: Server, reports: list[tuple[str, str, Any]], shown_input: Any, output: Any, request: Any
) -> None:
    messages = [update(status, about, **fields) for about, status, fields in reports]
    call = post(server, f"acp-{list(STORIES).index(request.node.callspec.id)}", *messages)
    assert (call["input"], call["output"], call["anomalies"]) == (shown_input, output, [])


def test_a_request_adds_to_what_its_call_has_shown(server: Server) -> None:
    announced = update("pending", "tool_call", **EDIT)
    call = post(server, "acp-shown", announced, request_permission(title="Edit?"))
    asked_input = EDIT | {"title": "Edit?"}
    assert (call["input"], call["approval"]["args_sha256"]) == (asked_input, digest(asked_input))
    call = post(server, "acp-shown-again", announced, request_permission(**EDIT | {"content": ANOTHER}))
    assert call["input"] == EDIT | {"content": ANOTHER}
    changed = update("pending", content=ANOTHER)
    call = post(server, "acp-changed-later", announced, request_permission(title="Edit?"), changed)
    assert call["approval"]["args_sha256"] == digest(call["input"]) == digest(asked_input | {"content": ANOTHER})


def test_a_raw_input_stays_what_is_asked(server: Server) -> None:
    begin = {"sessionUpdate": "tool_call", "toolCallId": "replace-1", "title": "Edit", "rawInput": {"path": "a.py"}}
    message = {"method": "session/update", "params": {"sessionId": "S", "update": begin}}
    assert post(server, "acp-raw", ("<", message), request_permission(**EDIT))["input"] == {"path": "a.py"}
    raw = request_permission(**EDIT, rawInput={"path": "b.py"})
    assert post(server, "acp-raw-request", raw)["input"] == {"path": "b.py"}
