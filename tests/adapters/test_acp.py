"""Messages of the Agent Client Protocol, one by one: what each tells, and how its requests are answered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.tables import loop_over
from toolcards.adapters import ADAPTERS, ApprovalAnswer, BadFrame, acp
from toolcards.core.calls import facts as f

HOST = f.Actor("host", "editor")


def decode(direction: str, msg: dict[str, Any], **more: Any) -> Any:
    return acp.decode(json.dumps({"dir": direction, "msg": msg, **more}))


def update(update_kind: str, **fields: Any) -> dict[str, Any]:
    params = {"sessionId": "s", "update": {"sessionUpdate": update_kind, "toolCallId": "c", **fields}}
    return {"method": "session/update", "params": params}


def report(status: str, **fields: Any) -> dict[str, Any]:
    return update("tool_call_update", status=status, **fields)


def exited(code: Any, output: str = "text") -> dict[str, Any]:
    return {"output": output, "metadata": {"exit": code}}


# ---------------------------------------------------------------- frames
FRAMES = [
    ("a frame that is no object", [], "not_object"), ("no message", {"dir": "<"}, "not_object"),
    ("a message that is no object", {"dir": "<", "msg": []}, "not_object"),
    ("no direction", {"msg": {}}, "bad_field"), ("another direction", {"dir": "<>", "msg": {}}, "bad_field"),
]  # fmt: skip


@loop_over(("frame", "code"), [pytest.param(*rest, id=name) for name, *rest in FRAMES])
def test_what_is_no_message_with_a_direction_is_refused(frame: Any, code: str) -> None:
    with pytest.raises(BadFrame) as caught:
        acp.decode(json.dumps(frame))
    assert caught.value.code == code


def test_the_envelope_does_not_count_in_the_depth_of_a_message() -> None:
    def read(levels: int) -> Any:
        text = json.dumps({"dir": "<", "msg": {"method": "fs/x", "params": 0}}).replace(
            "0", "[" * levels + "]" * levels
        )
        return acp.decode(text, 5)

    assert read(4) == []
    with pytest.raises(BadFrame, match="deeper"):
        read(5)


# ---------------------------------------------------------------- the editor's side
EDITOR = [
    ("a prompt begins a turn", {"method": "session/prompt", "id": 1}, {}, [f.RunStarted()]),
    ("a folder that only the agent names", {"method": "session/prompt", "_cwd": "/a/b"}, {}, [f.RunStarted()]),
    ("a cancellation ends what is open", {"method": "session/cancel"}, {},
     [f.CallClosed("", "aborted", reason="The turn was canceled.")]),
    ("an allow by its kind", {"id": 7, "result": {"outcome": {"outcome": "selected", "optionId": "no"}}},
     {"kind": "allow_once"}, [f.ApprovalAnswered("", True, "7", by=HOST)]),
    ("an allow for always", {"id": "q", "result": {"outcome": {"outcome": "selected", "optionId": "x"}}},
     {"kind": "allow_always"}, [f.ApprovalAnswered("", True, "q", by=HOST)]),
    ("a rejection by its kind", {"id": 7, "result": {"outcome": {"outcome": "selected", "optionId": "yes"}}},
     {"kind": "reject_always"}, [f.ApprovalAnswered("", False, "7", by=HOST)]),
    ("an allow by its name", {"id": 0, "result": {"outcome": {"outcome": "selected", "optionId": "Approve it"}}}, {},
     [f.ApprovalAnswered("", True, "0", by=HOST)]),
    ("a rejection by its name", {"id": 7, "result": {"outcome": {"outcome": "selected", "optionId": "never-again"}}},
     {"kind": "of the future"}, [f.ApprovalAnswered("", False, "7", by=HOST)]),
    ("an option that is neither", {"id": 7, "result": {"outcome": {"outcome": "selected", "optionId": "later"}}}, {},
     []),
    ("a canceled request is not answered", {"id": 7, "result": {"outcome": {"outcome": "cancelled"}}},
     {"kind": "allow_once"}, []),
    ("an answer to no request", {"result": {"outcome": {"outcome": "selected", "optionId": "yes"}}}, {}, []),
    ("an error is no answer", {"id": 7, "error": {"code": 1, "message": "no"}}, {"kind": "allow_once"}, []),
    ("a method that is no text", {"method": 5, "id": 7}, {}, []),
]  # fmt: skip


@loop_over(("msg", "more", "facts"), [pytest.param(*rest, id=name) for name, *rest in EDITOR])
def test_a_message_of_the_editor_tells(msg: dict[str, Any], more: dict[str, Any], facts: list[Any]) -> None:
    assert decode(">", msg, **more) == facts


ALLOW_WORDS = (
    "allow", "once", "always", "yes", "proceed_once", "allowOnce", "ALLOW-ALWAYS", "approved-for-session",
    "approve_now", "accept",
)  # fmt: skip
REJECT_WORDS = (
    "reject", "no", "No", "deny", "denied", "cancel", "abort", "never", "decline",
    "always_reject", "once-deny", "alwaysReject", "disallow",  # all words count, not only the first
)  # fmt: skip


@loop_over(("kind", "option", "approved"), [
    ("allow_once", "n", True), ("allow_always", "no", True), ("reject_once", "yes", False),
    ("reject_always", "always", False), ("odd", "xyz", None), ("odd", "yes", True),
    *[("", option, True) for option in ALLOW_WORDS], *[("", option, False) for option in REJECT_WORDS],
    *[("", option, None) for option in ("allow_no_network", "notify", "o-1", "")],
])  # fmt: skip
def test_an_option_is_read_by_its_kind_else_by_its_words(kind: str, option: str, approved: bool | None) -> None:
    selected = {"id": 7, "result": {"outcome": {"outcome": "selected", "optionId": option}}}
    answers = decode(">", selected, **({"kind": kind} if kind else {}))
    assert [each.approved for each in answers] == ([] if approved is None else [approved])


QUIET_METHODS = (
    "initialize authenticate logout session/new session/load session/list session/resume session/fork session/close "
    "session/delete session/set_mode session/set_model session/set_config_option fs/read_text_file terminal/create "
    "elicitation/create providers/list nes/start _vendor/anything $/cancel_request"
)
QUIET_UPDATES = (
    "user_message_chunk plan available_commands_update current_mode_update config_option_update session_info_update "
    "usage_update"
)


@loop_over("direction", ["<", ">"])
@loop_over("method", QUIET_METHODS.split())
def test_a_method_without_news_about_calls_is_known(direction: str, method: str) -> None:
    assert decode(direction, {"method": method}) == []


@loop_over("update_kind", QUIET_UPDATES.split())
def test_an_update_without_news_about_calls_is_known(update_kind: str) -> None:
    assert decode("<", update(update_kind)) == []


# ---------------------------------------------------------------- the agent's side
def end_run(outcome: Any, reason: str = "") -> list[Any]:
    return [f.RunEnded(outcome=outcome, reason=reason, if_open="aborted", again=True)]


ENDS = [
    ("the turn is over", {"id": 1, "result": {"stopReason": "end_turn"}}, "", end_run("ok")),
    ("canceled", {"id": 1, "result": {"stopReason": "cancelled"}}, "", end_run("aborted", "cancelled")),
    ("cut by length", {"id": 1, "result": {"stopReason": "max_tokens"}}, "", end_run("ok", "max_tokens")),
    ("an error of the prompt", {"id": 1, "error": {"message": "boom"}}, "session/prompt",
     [f.RunEnded(outcome="error", reason="boom", again=True)]),
    ("an error of the prompt without words", {"id": 1, "error": {"message": 5}}, "session/prompt",
     [f.RunEnded(outcome="error", again=True)]),
    ("an error of another request", {"id": 1, "error": {"message": "boom"}}, "session/set_mode", []),
    ("another result", {"id": 1, "result": {"sessionId": "s"}}, "session/new", []),
]  # fmt: skip


@loop_over(("msg", "method", "facts"), [pytest.param(*rest, id=name) for name, *rest in ENDS])
def test_the_response_to_a_prompt_ends_the_turn(msg: dict[str, Any], method: str, facts: list[Any]) -> None:
    assert decode("<", msg, method=method) == facts


def test_a_prompt_counts_only_from_the_editor_and_an_update_only_from_the_agent() -> None:
    assert decode("<", {"method": "session/prompt"}).kind == "session/prompt"
    assert decode(">", {"method": "session/update", "params": {}}).kind == "session/update"


MESSAGES = [
    ("agent_message_chunk", {"content": {"type": "text", "text": "hi"}}, [f.TextDelta(text="hi")]),
    ("agent_thought_chunk", {"content": {"text": "hm"}}, [f.TextDelta(text="hm", channel="reasoning")]),
    ("agent_message_chunk", {"content": {"type": "image", "data": "x"}}, []),
    ("agent_message_chunk", {"content": [{"text": "x"}]}, []), ("agent_message_chunk", {}, []),
]  # fmt: skip


@loop_over(("kind", "fields", "facts"), MESSAGES)
def test_a_piece_of_text_keeps_its_channel(kind: str, fields: dict[str, Any], facts: list[Any]) -> None:
    assert decode("<", update(kind, **fields)) == facts


NAMES = [
    ({"name": "bash", "title": "Run ls", "_meta": {"claudeCode": {"toolName": "Bash"}}}, "bash"),
    ({"title": "Run ls", "_meta": {"claudeCode": {"toolName": "Bash"}}}, "Bash"),
    ({"title": "Run ls", "_meta": {"claudeCode": []}}, "Run ls"), ({"name": 5, "title": None}, "tool"), ({}, "tool"),
]  # fmt: skip


@loop_over(("fields", "name"), NAMES)
def test_a_call_has_the_most_exact_name_that_is_there(fields: dict[str, Any], name: str) -> None:
    assert acp.find_tool_name(fields) == name
    started = decode("<", update("tool_call", **fields))[0]
    assert started == f.InputStarted("c", name, title=fields.get("title") or "")


DIFF = {"type": "diff", "path": "a.py", "oldText": "a=1", "newText": "a=2"}
REPORTS = [
    ("a call with its input", update("tool_call", name="t", kind="read", rawInput={"q": 1}),
     [f.InputStarted("c", "t", kind="read"), f.InputReady("c", "t", {"q": 1}, True)]),
    ("a call whose input comes later", update("tool_call", name="t", rawInput={}), [f.InputStarted("c", "t")]),
    ("a call that ends as it begins", update("tool_call", name="t", status="completed", rawOutput="x"),
     [f.InputStarted("c", "t"), f.OutputReady("c", "x")]),
    ("a repeated input is a report", report("pending", rawInput={"q": 1}),
     [f.InputReady("c", "", {"q": 1}, True, report=True)]),
    ("an input of 0 is one", report("", rawInput=0), [f.InputReady("c", "", 0, True, report=True)]),
    ("progress", report("in_progress", content=[{"content": {"text": "a"}}, {"content": {"text": "b"}}, 5]),
     [f.OutputPartial("c", "a\nb")]),
    ("progress without output", report("in_progress", rawOutput={"output": ""}), []),
    ("a result", report("completed", rawOutput={"output": "x", "metadata": {}}), [f.OutputReady("c", "x")]),
    ("a result without a member for it", report("completed", rawOutput={"a": 1}), [f.OutputReady("c", {"a": 1})]),
    ("a result of false", report("completed", rawOutput=False), [f.OutputReady("c", False)]),
    ("a result in words alone", report("completed", content=[{"content": {"text": "x"}}]),
     [f.OutputReady("c", "x")]),
    ("no result", report("completed"), [f.OutputReady("c", None, unchanged=True)]),
    ("a difference that is announced", update("tool_call", name="t", kind="edit", content=[DIFF]),
     [f.InputStarted("c", "t", kind="edit"),
      f.InputReady("c", "t", {"kind": "edit", "content": [DIFF]}, True, described=True)]),
    ("a difference before the call runs", report("pending", content=[DIFF]),
     [f.InputReady("c", "", {"content": [DIFF], "rawInput": None}, True, report=True, described=True)]),
    ("a difference next to an input", report("pending", content=[DIFF], rawInput={"q": 1}),
     [f.InputReady("c", "", {"q": 1}, True, report=True, shown_blocks=[DIFF])]),
    ("an empty output changes nothing", report("completed", rawOutput={}),
     [f.OutputReady("c", {}, unchanged=True)]),
    ("a text before the call runs", report("pending", content=[{"content": {"text": "a"}}]), []),
    ("a difference as the result", report("completed", content=[DIFF]), [f.OutputReady("c", [DIFF])]),
    ("exit code 0", report("completed", rawOutput=exited(0)), [f.OutputReady("c", "text")]),
    ("exit code 2", report("completed", rawOutput=exited(2)), [f.OutputFailed("c", "text", "exit_status")]),
    ("an exit code without output", report("completed", rawOutput=exited(2, "")),
     [f.OutputFailed("c", "exit code 2", "exit_status")]),
    ("an exit that is no code", report("completed", rawOutput=exited(True)), [f.OutputReady("c", "text")]),
    ("a shell that was killed", report("completed", rawOutput=exited(None)),
     [f.CallClosed("c", "aborted", reason="text")]),
    ("a failure", report("failed", rawOutput={"error": "boom"}), [f.SnapshotReceived("c", "boom", "boom")]),
    ("a failure in words", report("failed", content=[{"content": {"text": "boom"}}]),
     [f.SnapshotReceived("c", "boom", "boom")]),
    ("a failure with an exit code", report("failed", rawOutput=exited(1)),
     [f.OutputFailed("c", "text", "exit_status")]),
    ("an interrupted failure", report("failed", rawOutput={"metadata": {"interrupted": True}}),
     [f.CallClosed("c", "aborted")]),
    ("a terminal that was killed",
     report("failed", _meta={"terminal_exit": {"terminal_id": "t", "exit_code": None, "signal": "SIGTERM"}}),
     [f.SnapshotReceived("c", "ended by SIGTERM", "ended by SIGTERM")]),
    ("canceled, in version 2", report("cancelled"), [f.CallClosed("c", "aborted")]),
    ("a status of the future", report("paused", rawOutput="x"), []),
]  # fmt: skip


@loop_over(("msg", "facts"), [pytest.param(*rest, id=name) for name, *rest in REPORTS])
def test_a_report_about_a_call_tells(msg: dict[str, Any], facts: list[Any]) -> None:
    assert decode("<", msg) == facts


def test_a_failure_while_a_turn_is_canceled_is_no_failure() -> None:
    assert decode("<", report("failed", rawOutput={"error": "x"}), cancelled=True) == [f.CallClosed("c", "aborted")]
    assert decode("<", report("completed", rawOutput=1), cancelled=True) == [f.OutputReady("c", 1)]


def test_a_tool_that_does_not_exist_is_an_invalid_input_and_no_result() -> None:
    text = (
        "The arguments provided to the tool are invalid: Model tried to call unavailable tool 'grab'. Available: bash."
    )
    assert decode("<", report("completed", rawOutput={"output": text})) == [
        f.InputInvalid("c", "grab", None, text, "no_such_tool")
    ]
    assert decode("<", report("completed", rawOutput={"output": f"it said: {text}"})) == [
        f.OutputReady("c", f"it said: {text}")
    ]


@loop_over("kind", ["tool_call", "tool_call_update"])
@loop_over("call_id", ["", 5, None])
def test_a_report_about_no_call_is_refused(kind: str, call_id: Any) -> None:
    with pytest.raises(BadFrame, match="toolCallId") as caught:
        decode("<", update(kind, toolCallId=call_id))
    assert caught.value.code == "missing_field"


# ---------------------------------------------------------------- requests for permission
OPTIONS = [
    {"optionId": "always", "kind": "allow_always"}, {"optionId": "yes", "kind": "allow_once"},
    {"optionId": "other", "kind": "allow_once"}, {"optionId": "no", "kind": "reject_once"}, "odd",
    {"optionId": "stop", "kind": "reject_once"},
]  # fmt: skip
CALL = {"toolCallId": "c", "title": "Run ls", "rawInput": {"command": "ls"}}


def request(**changes: Any) -> dict[str, Any]:
    params = {"sessionId": "s", "toolCall": CALL, "options": OPTIONS}
    return {"id": 7, "method": "session/request_permission", "params": params} | changes


def test_a_request_for_permission_asks_about_its_call_with_its_input() -> None:
    ready, question = decode("<", request())
    assert ready == f.InputReady("c", "", {"command": "ls"}, True)
    assert question == f.ApprovalRequested(
        "c", "7", reason="Run ls", reply_to={"id": 7, "options": OPTIONS}, terms={"local": True}, tool="Run ls"
    )


INCOMPLETE = [
    {"params": {"toolCall": {}, "options": []}}, {"params": {"toolCall": CALL}}, {"params": []},
    {"params": {"toolCall": CALL, "options": {}}},
]  # fmt: skip


@loop_over("changes", INCOMPLETE)
def test_an_incomplete_request_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(BadFrame) as caught:
        decode("<", request(**changes))
    assert caught.value.code == "missing_field"


def test_a_request_without_an_id_is_refused() -> None:
    nameless = request()
    del nameless["id"]
    with pytest.raises(BadFrame):
        decode("<", nameless)


ANSWERS = [
    ("an allow takes the first option for once", True, None, OPTIONS, "yes"),
    ("a denial takes the first rejection", False, None, OPTIONS, "no"),
    ("an edit cannot be carried", True, {"command": "ls -l"}, OPTIONS, "no"),
    ("an allow for always is never selected", True, None, OPTIONS[:1], None),
    ("an allow without its option is a denial", True, None, [OPTIONS[3]], "no"),
    ("no options", False, None, [], None), ("an option without an id", True, None, [{"kind": "allow_once"}], None),
]  # fmt: skip


@loop_over(("approved", "edited", "options", "selected"), [pytest.param(*rest, id=name) for name, *rest in ANSWERS])
def test_a_request_is_answered_for_once_or_canceled(
    approved: bool, edited: Any, options: list[Any], selected: str | None
) -> None:
    answer = ApprovalAnswer("c", "7", approved, "", edited, {"id": 7, "options": options})
    outcome = {"outcome": "selected", "optionId": selected} if selected else {"outcome": "cancelled"}
    assert ADAPTERS["acp"].encode(answer) == {"id": 7, "result": {"outcome": outcome}}


# ---------------------------------------------------------------- the run
@loop_over(
    ("msg", "run"),
    [
        ({"params": {"sessionId": "s"}}, "s"), ({"result": {"sessionId": "s"}}, "s"), ({"params": []}, ""),
        ({"params": {"sessionId": 5}}, ""), ({}, ""), (None, ""),
    ],
)  # fmt: skip
def test_a_message_names_its_session(msg: Any, run: str) -> None:
    assert acp.find_run_id(json.dumps({"dir": "<", "msg": msg})) == run


@pytest.mark.parametrize(("folder", "root"), [("/home/ann/shop", "/home/ann/shop"), ("shop", ""), (5, ""), (None, "")])
def test_a_prompt_begins_in_the_folder_of_its_session(folder: Any, root: str) -> None:
    frame = {"dir": ">", "cwd": folder, "msg": {"method": "session/prompt", "id": 1}}
    assert ADAPTERS["acp"].decode(json.dumps(frame)) == [f.RunStarted(root=root)]
