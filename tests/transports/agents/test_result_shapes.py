"""Results of every shape, by the ways in of real programs, as a reader of the API and of the page gets them."""

from __future__ import annotations

import base64
import json
import secrets
from typing import Any

import pytest

from tests.support import gating
from tests.support.server import Server
from tests.support.tool_result_shapes import FAILURES, IMAGE, OUTPUTS, PNG, REPORTED, A, wrap
from tests.support.voter import Voter

LINES = {"acp": "application/x-ndjson", "native": "application/x-ndjson", "ai-sdk": "text/event-stream"}


def post(server: Server, protocol: str, run: str, frames: list[dict[str, Any]]) -> dict[str, Any]:
    """Send frames as one body; return the calls by id."""
    starts, ends = ("data: ", "\n\n") if protocol == "ai-sdk" else ("", "\n")
    body = "".join(f"{starts}{json.dumps(frame)}{ends}" for frame in frames)
    path = f"/api/v1/ingest?protocol={protocol}&run={run}&agent=a"
    status, answer, _ = server.request("POST", path, body, Content_Type=LINES[protocol])
    assert (status, answer["accepted"]) == (200, len(frames)), answer
    return gating.calls(server, run)


def update(call: str, **fields: Any) -> dict[str, Any]:
    body = {"sessionUpdate": "tool_call_update", "toolCallId": call, **fields}
    return {"dir": "<", "msg": {"method": "session/update", "params": {"sessionId": "S", "update": body}}}


def begin(call: str) -> dict[str, Any]:
    frame = update(call, title="t", kind="execute", rawInput={"command": "x"})
    frame["msg"]["params"]["update"]["sessionUpdate"] = "tool_call"
    return frame


def test_every_output_arrives_as_the_model_reads_it(server: Server) -> None:
    frames: list[dict[str, Any]] = []
    for number, (_, result, _) in enumerate(OUTPUTS):
        call = {"call_id": f"c{number}"}
        frames.append({"type": "tool.input.available", **call, "tool": "t", "input": {}})
        frames.append({"type": "tool.output.available", **call, "output": result})
    calls = post(server, "native", "shapes-out", frames)
    outputs = [calls[f"c{number}"]["output"] for number in range(len(OUTPUTS))]
    assert outputs == [output for _, _, output in OUTPUTS]
    assert {call["state"] for call in calls.values()} == {"output-available"}


def test_every_failure_of_acp_and_of_the_result_api_has_its_text(server: Server) -> None:
    frames: list[dict[str, Any]] = []
    for number, (_, value, _) in enumerate(FAILURES):
        frames += [begin(f"c{number}"), update(f"c{number}", status="failed", rawOutput=value)]
    calls = post(server, "acp", "shapes-acp", frames)
    for number, (client, _, text) in enumerate(FAILURES):
        call = calls[f"c{number}"]
        assert (call["state"], call["error"]["message"]) == ("output-error", text), client


def test_every_result_that_reports_an_error_is_a_failure_with_its_text(server: Server) -> None:
    frames: list[dict[str, Any]] = []
    for number, (_, result, _, _) in enumerate(REPORTED):
        frames.append({"type": "tool.input.available", "call_id": f"c{number}", "tool": "t", "input": {}})
        frames.append({"type": "tool.output.available", "call_id": f"c{number}", "output": result})
    calls = post(server, "native", "shapes-reported", frames)
    for number, (client, _, error, output) in enumerate(REPORTED):
        call = calls[f"c{number}"]
        assert (call["state"], call["error"]["message"], call["output"]) == ("output-error", error, output), client


# An error in another shape than the contract's: its text is never lost, and the frame is not refused.
ODD_ERRORS: list[tuple[Any, str]] = [
    ({"content": [A], "isError": True}, "part 1"),
    ({"error": {"message": "no", "code": "E"}}, "no"),
    ({"stdout": "", "stderr": "no", "exit_code": 2}, "no"),
    ({"errors": [{"message": "no"}]}, "no"),
    ({"title": "no", "status": 500}, "no"),
    ({"message": "no", "code": -32603}, "no"),
    ({"message": "", "code": 1, "data": {"reason": "no"}}, '{"data": {"reason": "no"}}'),
    (5, "5"),
    (False, "false"),
    ({"message": "", "cause": {"message": "no"}}, "no"),
    ({"message": ""}, ""),
    ([], ""),
]


def test_every_error_of_the_native_protocol_has_its_text(server: Server) -> None:
    frames: list[dict[str, Any]] = []
    for number, (error, _) in enumerate(ODD_ERRORS):
        frames.append({"type": "tool.input.available", "call_id": f"c{number}", "tool": "t", "input": {}})
        frames.append({"type": "tool.output.error", "call_id": f"c{number}", "error": error})
    calls = post(server, "native", "shapes-odd", frames)
    messages = [calls[f"c{number}"]["error"]["message"] for number in range(len(ODD_ERRORS))]
    assert messages == [text for _, text in ODD_ERRORS]


@pytest.mark.parametrize("way", ["acp raw", "acp content", "acp terminal", "native", "claude-code", "result"])
def test_a_picture_next_to_an_error_is_shown_with_it(server: Server, way: str) -> None:
    text, run = {"type": "text", "text": "no such button"}, f"shown-{way.replace(' ', '-')}"
    result = {"content": [text, IMAGE], "isError": True}
    if way == "acp raw":
        post(server, "acp", run, [begin("c"), update("c", status="failed", rawOutput=result)])
    elif way.startswith("acp"):
        meta = {"_meta": {"terminal_exit": {"exit_code": 1}}} if way == "acp terminal" else {}
        post(
            server, "acp", run, [begin("c"), update("c", status="failed", content=[*wrap(text), *wrap(IMAGE)], **meta)]
        )
    elif way == "native":
        call = {"call_id": "c"}
        start = {"type": "tool.input.available", **call, "tool": "t", "input": {}}
        post(server, "native", run, [start, {"type": "tool.output.available", **call, "output": result}])
    elif way == "claude-code":
        hook = {"session_id": run, "cwd": "/", "tool_name": "mcp__web__click", "tool_input": {}, "tool_use_id": "c"}
        hook |= {"hook_event_name": "PostToolUse", "tool_response": result}
        server.request("POST", "/api/v1/hooks/claude-code", hook)
    else:
        body = {"run": run, "call_id": "c", "tool": "read_file", "args": {"path": "a"}}
        permit = server.request("POST", "/api/v1/calls/decide", body)[1]["permit"]["id"]
        server.request("POST", f"/api/v1/permits/{permit}/claim", {})
        outcome = {"outcome": "error", "error": {"message": "no such button"}, "output": [text, IMAGE]}
        server.request("POST", "/api/v1/calls/c/result", {"run": run, **outcome})
    call = gating.calls(server, run)["c"]
    assert (call["state"], call["error"]["message"]) == ("output-error", "no such button"), call
    assert IMAGE in call["output"]
    assert "/pictures/" in Voter(server).get(f"/calls/{call['id']}/")


@pytest.mark.parametrize(("fields", "text", "code"), [
    ({"rawOutput": "Exit code 1\n2 failing", "_meta": {"terminal_exit": {"exit_code": 1, "signal": None}},
      "content": [{"type": "terminal", "terminalId": "t"}]}, "Exit code 1\n2 failing", "exit_status"),
    ({"content": wrap({"type": "text", "text": "no"})}, "no", "tool_failed"),
    ({"_meta": {"terminal_output": {"data": "2 failing"}, "terminal_exit": {"exit_code": 1}}}, "2 failing",
     "exit_status"),
    ({"_meta": {"terminal_exit": {"exit_code": 3}}}, "exit code 3", "exit_status"),
    ({"rawOutput": {"stdout": "a", "stderr": "b", "aggregated_output": "a\nb", "exit_code": 1}}, "a\nb", "exit_status"),
])  # fmt: skip
def test_a_failure_of_a_terminal_says_what_it_wrote(server: Server, fields: Any, text: str, code: str) -> None:
    run = f"shape-{secrets.token_hex(8)}"
    call = post(server, "acp", run, [begin("c"), update("c", status="failed", **fields)])["c"]
    assert (call["state"], call["error"]["message"], call["error"]["code"]) == ("output-error", text, code)


TERMINAL = [{"type": "terminal", "terminalId": "t"}]


def piece(text: str, **fields: Any) -> dict[str, Any]:
    return update("c", _meta={"terminal_output": {"terminal_id": "t", "data": text}}, **fields)


@pytest.mark.parametrize(("frames", "output", "preliminary"), [
    ([piece("one\n"), piece("two")], "one\ntwo", True),
    ([piece("one\n", status="in_progress"), piece("two", status="in_progress")], "one\ntwo", True),
    ([piece("one\n"), piece("two"), update("c", status="completed")], "one\ntwo", False),
    ([piece("one\n"), piece("two", status="completed")], "one\ntwo", False),
    ([piece("two"), update("c", status="completed", content=TERMINAL)], "two", False),
    ([piece("one\n"), piece("two"), update("c", status="completed", rawOutput="whole")], "whole", False),
    ([piece("one\n"), piece("two"), update("c", status="failed", _meta={"terminal_exit": {"exit_code": 1}})],
     "one\ntwo", False),
    ([piece("a" * 300_000), piece("b")], "a" * (256 * 1024 - 1) + "b", True),
])  # fmt: skip
def test_the_pieces_that_a_terminal_writes_are_one_output(
    server: Server, frames: Any, output: str, preliminary: bool
) -> None:
    call = post(server, "acp", f"pieces-{secrets.token_hex(8)}", [begin("c"), *frames])["c"]
    assert (call["output"], call["preliminary"]) == (output, preliminary)


def test_a_result_that_reports_an_error_inside_a_success_is_a_failure(server: Server) -> None:
    result = {
        "content": [{"type": "text", "text": "locked by Ann"}],
        "structuredContent": {"code": "E"},
        "isError": True,
    }
    frames = [
        {"type": "start"}, {"type": "tool-input-available", "toolCallId": "c", "toolName": "t", "input": {}},
        {"type": "tool-output-available", "toolCallId": "c", "output": result}, {"type": "finish"},
    ]  # fmt: skip
    call = post(server, "ai-sdk", "shapes-error", frames)["c"]
    error = call["error"]
    assert (call["state"], error["message"], error["code"]) == (
        "output-error",
        'locked by Ann\n{"code": "E"}',
        "tool_reported",
    )
    assert error["retryable"] is None


# As Pydantic writes bytes: with the alphabet for URLs.
URL_SAFE = base64.urlsafe_b64encode(b"\xff\xd8\xff\xe0" + b"\xfb\xff\xbe" * 30).decode()
PICTURES = [
    IMAGE, {"content": [IMAGE]}, {"content": [IMAGE], "structuredContent": {"width": 1}},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
    {"type": "image", "file": {"base64": PNG, "type": "image/png", "originalSize": 70}},
    {"type": "image", "base64": PNG, "mime_type": "image/png"},
    {"type": "media", "data": PNG, "mediaType": "image/png"},
    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
    {"inlineData": {"mimeType": "image/png", "data": PNG}}, {"kind": "binary", "data": PNG, "media_type": "image/png"},
    {"type": "resource", "resource": {"uri": "a.png", "blob": PNG, "mimeType": "image/png"}},
    {"type": "image_generation_call", "result": PNG}, {"data": [{"b64_json": PNG}]}, wrap(IMAGE),
    {"kind": "binary", "data": URL_SAFE, "media_type": "image/jpeg"}, {"images": [PNG]}, [PNG], {"screenshot": PNG},
    f"data:image/png;charset=utf-8;base64,{PNG}", {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
    {"type": "content", "value": [{"type": "image-data", "data": PNG, "mediaType": "image/png"}]},
    {"type": "content", "value": [A, {"type": "media", "data": PNG, "mediaType": "image/png"}]},
    {"rows": [{"name": "a", "picture": f"data:image/png;base64,{PNG}"}, {"name": "b", "picture": "no"}]},
    {"output": "Image read", "attachments": [{"type": "file", "url": f"data:image/png;base64,{PNG}"}]},
]  # fmt: skip


def test_a_picture_of_every_client_is_a_picture(server: Server) -> None:
    frames: list[dict[str, Any]] = []
    for number, picture in enumerate(PICTURES):
        call = {"call_id": f"c{number}"}
        frames.append({"type": "tool.input.available", **call, "tool": "t", "input": {}})
        frames.append({"type": "tool.output.available", **call, "output": picture})
    calls = post(server, "native", "shapes-pictures", frames)
    voter = Voter(server)
    pages = {number: voter.get(f"/calls/{calls[f'c{number}']['id']}/") for number in range(len(PICTURES))}
    assert [number for number, page in pages.items() if 'class="picture"' not in page] == []
