"""Sessions of an agent behind the proxy: what is copied, which call a request is about, and which votes count."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.fake_gate import Gate
from tests.support.server import PATIENCE
from tests.support.tables import loop_over
from toolcards.acp import sessions as sessions_module
from toolcards.acp.sessions import LONGEST, RequestedCall, Sessions, find_declared_name, find_tool_name
from toolcards.client import Toolcards
from toolcards.client.common.canonical_json import digest

OPTIONS = [
    {"optionId": "always", "kind": "allow_always"}, {"optionId": "yes", "kind": "allow_once"},
    {"optionId": "no", "kind": "reject_once"},
]  # fmt: skip


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate() as running:
        yield running


@pytest.fixture
def sessions(gate: Gate) -> Iterator[Sessions]:
    created = Sessions(Toolcards(gate.url, "key", timeout=PATIENCE), agent="agent", on_vote=lambda vote: None)
    yield created
    created.close()


def update(sessions: Sessions, update_kind: str, call: Any, **fields: Any) -> None:
    """Let the agent report something about a call."""
    body = {"sessionUpdate": update_kind, "toolCallId": call, **fields}
    sessions.copy_agent_message({"method": "session/update", "params": {"sessionId": "r1", "update": body}})


def request(sessions: Sessions, number: Any, call: str, options: Any = OPTIONS) -> None:
    """Let the agent ask its editor."""
    params = {"sessionId": "r1", "options": options, "toolCall": {"toolCallId": call}}
    sessions.copy_agent_message({"id": number, "method": "session/request_permission", "params": params})


def list_frames(sessions: Sessions, gate: Gate) -> list[dict[str, Any]]:
    """Return the frames that the server got, without their numbers."""
    for run in [*sessions._runs.values()]:
        assert run.flush(PATIENCE)
    return [{name: value for name, value in body.items() if name != "n"} for _, body in gate.requests]


# ---------------------------------------------------------------- copies
def test_messages_are_copied_with_their_direction(sessions: Sessions, gate: Gate) -> None:
    prompt = {"id": 1, "method": "session/prompt", "params": {"sessionId": "r1"}}
    response = {"id": 1, "result": {"stopReason": "end_turn"}}
    sessions.copy_editor_message(prompt)
    update(sessions, "plan", "c1")
    sessions.copy_agent_message(response)
    frames = list_frames(sessions, gate)
    assert [frame["dir"] for frame in frames] == [">", "<", "<"] and frames[0]["msg"] == prompt
    assert frames[2] == {"dir": "<", "method": "session/prompt", "msg": response}  # what it answers


@loop_over("msg", [
    {"id": 1, "method": "initialize", "params": {"x": 1}}, {"id": 1, "method": "initialize", "params": [1]},
    {"id": 1, "method": "initialize"},
    {"id": 1, "result": {}}, {}, {"method": "session/update", "params": {"sessionId": ""}}, {"id": 9, "error": {}},
])  # fmt: skip
def test_messages_of_no_session_are_not_copied(msg: Any) -> None:
    sessions = Sessions(Toolcards("http://127.0.0.1:9", "key"), agent="agent", on_vote=lambda vote: None)
    sessions.copy_editor_message(msg)
    sessions.copy_agent_message(msg)
    assert sessions._runs == {}


def test_each_session_is_a_run_and_a_response_belongs_to_the_session_of_its_prompt(
    sessions: Sessions, gate: Gate
) -> None:
    for number, session in ((1, "r1"), ("1", "r2")):
        sessions.copy_editor_message({"id": number, "method": "session/prompt", "params": {"sessionId": session}})
    sessions.copy_agent_message({"id": "1", "result": {}})
    sessions.copy_agent_message({"id": "1", "result": {}})  # of nothing that is open
    assert sessions._runs.keys() == {"r1", "r2"}
    frames = list_frames(sessions, gate)
    assert [frame["msg"]["id"] for frame in frames if frame["dir"] == "<"] == ["1"]
    assert sessions.run("r1") is sessions.run("r1") and sessions.run("r1").name == "r1"


def test_what_comes_between_a_cancellation_and_the_end_of_its_turn_is_marked(sessions: Sessions, gate: Gate) -> None:
    sessions.copy_editor_message({"id": 1, "method": "session/prompt", "params": {"sessionId": "r1"}})
    update(sessions, "tool_call", "c1")
    sessions.copy_editor_message({"method": "session/cancel", "params": {"sessionId": "r1"}})
    update(sessions, "tool_call_update", "c1", status="failed")
    sessions.copy_agent_message({"id": 1, "result": {"stopReason": "cancelled"}})
    update(sessions, "tool_call", "c2")
    assert [frame.get("cancelled", False) for frame in list_frames(sessions, gate)] == [
        False,
        False,
        True,
        True,
        False,
        False,
    ]


def test_a_long_message_is_copied_without_its_bulky_parts(sessions: Sessions, gate: Gate) -> None:
    long = "x" * LONGEST
    update(
        sessions,
        "tool_call_update",
        "c1",
        status="completed",
        rawOutput=long,
        content=[long],
        rawInput={"a": long},
        title="read",
    )
    sessions.copy_editor_message({"id": 1, "method": "session/prompt", "params": {"sessionId": "r1", "prompt": [long]}})
    short, prompt = list_frames(sessions, gate)
    body = short["msg"]["params"]["update"]
    assert (body["toolCallId"], body["status"], body["title"]) == ("c1", "completed", "read")
    assert body["rawOutput"].startswith("(not shown: ") and "content" not in body and "rawInput" not in body
    assert prompt["msg"] == {"id": 1, "method": "session/prompt"}
    assert all(len(json.dumps(frame)) < LONGEST for frame in (short, prompt))


# ---------------------------------------------------------------- which call a request is about
def find(sessions: Sessions, **requested: Any) -> RequestedCall:
    return sessions.call("r1", {"toolCallId": "c1", **requested})


def test_a_request_may_leave_out_what_was_reported(sessions: Sessions) -> None:
    update(sessions, "tool_call", "c1", title="ls -l", name="bash", kind="execute", rawInput={"command": "ls"})
    assert find(sessions) == RequestedCall("c1", {"name": "bash", "kind": "execute"}, {"command": "ls"})
    update(sessions, "tool_call_update", "c1", rawInput={"command": "ls -l"}, kind="read")
    assert find(sessions) == RequestedCall("c1", {"name": "bash", "kind": "read"}, {"command": "ls -l"})
    update(sessions, "tool_call_update", "c1", rawInput={}, title="other")
    assert find(sessions, rawInput={}).args == {"command": "ls -l"}


def test_a_request_may_leave_out_the_difference_that_was_shown(sessions: Sessions) -> None:
    diff = {"type": "diff", "path": "a.py", "oldText": "1", "newText": "2"}
    update(sessions, "tool_call", "c1", title="Edit", kind="edit", content=[diff])
    edit = {"title": "Edit?", "kind": "edit", "content": [diff]}
    assert find(sessions, title="Edit?").args == edit
    another = [diff | {"newText": "3"}]
    assert find(sessions, title="Edit?", content=another).args == edit | {"content": another}
    update(sessions, "tool_call_update", "c1", content=another)
    assert find(sessions, title="Edit?").args == edit | {"content": another}
    update(sessions, "tool_call_update", "c1", rawInput={"path": "a.py"})
    assert find(sessions, title="Edit?").args == {"path": "a.py"}
    update(sessions, "tool_call_update", "c1", status="completed")
    assert find(sessions, title="Edit?").args == {"title": "Edit?", "rawInput": None}


def test_what_the_request_says_counts(sessions: Sessions) -> None:
    update(sessions, "tool_call", "c1", title="look", kind="read", rawInput={"a": 1})
    call = find(sessions, name="wipe", kind="delete", rawInput={"b": 2})
    assert call == RequestedCall("c1", {"name": "wipe", "kind": "delete"}, {"b": 2})
    assert find(sessions, title="a title").tool["name"] == "look"  # a title is no name
    assert sessions.call("r1", {"toolCallId": "new", "title": "a title"}).tool == {"name": "a title"}


@loop_over(
    "requested",
    [{"rawInput": [1]}, {"rawInput": "text"}, {"rawInput": None}, {"kind": 5}, {"kind": ["read"]}, {"name": 5}],
)
def test_an_odd_request_changes_nothing_of_what_was_reported(requested: Any) -> None:
    sessions = Sessions(Toolcards("http://127.0.0.1:9", "key"), agent="agent", on_vote=lambda vote: None)
    sessions._remember(
        "r1", {"update": {"sessionUpdate": "tool_call", "toolCallId": "c1", "name": "bash", "rawInput": {"a": 1}}}
    )
    assert find(sessions, **requested) == RequestedCall("c1", {"name": "bash"}, {"a": 1})


@loop_over("call_id", ["", None, 0, False])
def test_a_request_without_a_call_is_ambiguous(call_id: Any) -> None:
    sessions = Sessions(Toolcards("http://127.0.0.1:9", "key"), agent="agent", on_vote=lambda vote: None)
    with pytest.raises(ValueError, match="no tool call"):
        sessions.call("r1", {"toolCallId": call_id})


def test_two_open_calls_of_one_id_are_ambiguous_until_the_id_ends(sessions: Sessions) -> None:
    update(sessions, "tool_call", "c1", name="read")
    update(sessions, "tool_call", "c1", name="wipe")
    for status in ("in_progress", "completed"):
        update(sessions, "tool_call_update", "c1", status=status)
        with pytest.raises(ValueError, match="two calls"):
            find(sessions)
    update(sessions, "tool_call", "c1", name="read")
    assert find(sessions).tool == {"name": "read"}
    assert sessions.call("another session", {"toolCallId": "c1"}).tool == {"name": "tool"}


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_an_ended_call_says_nothing_of_a_later_one_and_its_input_is_forgotten(sessions: Sessions, status: str) -> None:
    update(sessions, "tool_call", "c1", name="read", kind="read", rawInput={"text": "x" * 1000})
    update(sessions, "tool_call_update", "c1", status=status, rawInput={"text": "y" * 1000})
    assert "xxx" not in str(sessions.calls) and "yyy" not in str(sessions.calls)
    assert find(sessions) == RequestedCall("c1", {"name": "tool"}, {"rawInput": None})
    update(sessions, "tool_call_update", "c1", rawInput={"a": 1})
    assert find(sessions) == RequestedCall("c1", {"name": "tool"}, {"a": 1})


@loop_over(("message", "name", "declared"), [
    ({"name": "bash", "title": "t"}, "bash", "bash"),
    ({"title": "t", "_meta": {"claudeCode": {"toolName": "Bash"}}}, "Bash", "Bash"),
    ({"title": "t"}, "t", ""), ({}, "tool", ""), ({"name": "", "title": ""}, "tool", ""),
    ({"name": 5, "title": []}, "tool", ""),
    ({"_meta": {"claudeCode": 5}}, "tool", ""), ({"_meta": "x"}, "tool", ""),
])  # fmt: skip
def test_a_tool_has_its_declared_name_else_its_title(message: Any, name: str, declared: str) -> None:
    assert (find_tool_name(message), find_declared_name(message)) == (name, declared)


# ---------------------------------------------------------------- the first answer
def test_a_request_is_taken_once_and_the_editors_answer_is_copied_with_its_kind(sessions: Sessions, gate: Gate) -> None:
    request(sessions, 1, "c1")
    answer = {"id": 1, "result": {"outcome": {"outcome": "selected", "optionId": "yes"}}}
    assert sessions.take_request("1", answer) and not sessions.take_request("1", answer)
    assert not sessions.take_request("2", answer)
    assert list_frames(sessions, gate)[1] == {"dir": ">", "kind": "allow_once", "msg": answer}


def test_a_request_that_the_dashboard_answers_is_not_copied_again(sessions: Sessions, gate: Gate) -> None:
    request(sessions, 1, "c1")
    assert sessions.take_request("1") and len(list_frames(sessions, gate)) == 1


@loop_over(("options", "option"), [
    (OPTIONS, "other"), ([*OPTIONS, {"optionId": "yes", "kind": "allow_always"}], "yes"),
    ([{"optionId": "yes"}], "yes"), (None, "yes"),
    ([{"optionId": None, "kind": "allow_once"}], None), ([{"optionId": "yes", "kind": 5}], "yes"), (["yes"], "yes"),
])  # fmt: skip
def test_an_option_that_was_not_offered_once_has_no_kind(options: Any, option: Any) -> None:
    parsed = sessions_module._EditorRequest.parse("r1", {"options": options, "toolCall": 5})
    assert parsed.get_option_kind({"outcome": "selected", "optionId": option}) == "" and parsed.call == {}


# ---------------------------------------------------------------- votes of the dashboard
def build_answer(**other: Any) -> dict[str, Any]:
    """What the server says once a person has approved."""
    args = {"command": "ls"}
    outcome = {"outcome": "selected", "optionId": "yes"}
    fields = {
        "decision": "deny", "run": "r1", "call_id": "c1", "args_sha256": digest(args),
        "approval": {"id": "apr_1", "state": "approved"}, "reply": {"id": 1, "result": {"outcome": outcome}},
    }  # fmt: skip
    return fields | other


def reply(option: str, outcome: str = "selected") -> dict[str, Any]:
    return {"id": 1, "result": {"outcome": {"outcome": outcome, **({"optionId": option} if option else {})}}}


@pytest.mark.parametrize(("value", "option"), [
    ({}, "yes"),
    ({"approval": {"state": "denied"}, "reply": reply("no")}, "no"),
    ({"args_sha256": digest({"command": "edited"}), "reply": reply("no")}, "no"),  # an edit counts as a denial
    ({"reply": reply("", "cancelled")}, "cancelled"),
    ({"run": "r2"}, None), ({"call_id": "c2"}, None), ({"args_sha256": digest({"command": "rm"})}, None),
    ({"args_sha256": None}, None), ({"approval": {"state": "denied"}}, None),
    ({"approval": {"state": "pending"}}, None),
    ({"approval": None}, None), ({"reply": reply("always")}, None), ({"reply": reply("other")}, None),
    ({"reply": {"id": 1}}, None), ({"reply": reply("yes", "cancelled")}, None),
    ({"reply": {"id": 1, "result": []}}, None),
])  # fmt: skip
def test_only_an_answer_to_the_same_request_is_passed_on(sessions: Sessions, value: Any, option: str | None) -> None:
    update(sessions, "tool_call", "c1", title="bash", rawInput={"command": "ls"})
    request(sessions, 1, "c1")
    result = sessions.check_vote("1", build_answer(**value))
    assert (None if result is None else _option(result)) == option


def test_a_question_that_is_not_open_has_no_answer(sessions: Sessions) -> None:
    assert sessions.check_vote("1", build_answer()) is None


def _option(payload: dict[str, Any]) -> str:
    outcome = payload["outcome"]
    return str(outcome.get("optionId", outcome["outcome"]))


# ---------------------------------------------------------------- folders
def test_a_prompt_says_the_first_folder_of_its_session(sessions: Sessions, gate: Gate) -> None:
    def say(name: str, number: int, **params: Any) -> None:
        sessions.copy_editor_message({"id": number, "method": name, "params": params})

    say("session/new", 1, cwd="/home/ann/shop", mcpServers=[])
    say("session/new", 2, cwd="/home/ann/other", mcpServers=[])
    sessions.copy_agent_message({"id": 2, "result": {"sessionId": "r2"}})
    sessions.copy_agent_message({"id": 1, "result": {"sessionId": "r1"}})
    say("session/load", 3, cwd="/", sessionId="r1")
    say("session/load", 4, cwd="/home/ann/third", sessionId="r3")
    for number, session in enumerate(["r1", "r2", "r3", "r4"], 5):
        say("session/prompt", number, sessionId=session)
    folders = {
        frame["msg"]["params"]["sessionId"]: frame.get("cwd")
        for frame in list_frames(sessions, gate)
        if frame.get("msg", {}).get("method") == "session/prompt"
    }
    assert folders == {"r1": "/home/ann/shop", "r2": "/home/ann/other", "r3": "/home/ann/third", "r4": None}
