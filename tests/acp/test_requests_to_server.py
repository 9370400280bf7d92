"""Permission requests without a raw input, to a real server: what is asked is what the agent shows."""

from __future__ import annotations

import json
from typing import Any

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


def test_a_raw_input_stays_what_is_asked(server: Server) -> None:
    begin = {"sessionUpdate": "tool_call", "toolCallId": "replace-1", "title": "Edit", "rawInput": {"path": "a.py"}}
    message = {"method": "session/update", "params": {"sessionId": "S", "update": begin}}
    assert post(server, "acp-raw", ("<", message), request_permission(**EDIT))["input"] == {"path": "a.py"}
    raw = request_permission(**EDIT, rawInput={"path": "b.py"})
    assert post(server, "acp-raw-request", raw)["input"] == {"path": "b.py"}
