"""What agents send at the ends of turns and bodies: every call ends, and its card says what is so.

Each story is a list of bodies, as one client sends them to one run.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread
from django.db import connection, transaction
from pydantic.alias_generators import to_snake

from toolcards import gate
from toolcards.gate.maintenance import rebuild
from toolcards.models import Event, Run, Source, ToolCall
from toolcards.models.write_guard import allow_event_changes, allow_log_writes

pytestmark = pytest.mark.django_db(transaction=True)
Frame = dict[str, Any]
FINISH: Frame = {"type": "finish", "finishReason": "stop"}
STEP_END = [{"type": "finish-step"}, FINISH]
LINK = {"url": "https://example.com"}


def ai(kind: str, call: str = "c", **more: Any) -> Frame:
    return {"type": f"tool-{kind}", "toolCallId": call, **more}


def hosted(call: str, value: Any = LINK, *, kind: str = "input-available") -> Frame:
    input_field = {} if kind == "input-start" else {"input": value}
    return ai(kind, call, toolName="mcp.create", providerExecuted=True, dynamic=True, **input_field)


def message(*frames: Frame, **start: Any) -> list[Frame]:
    return [{"type": "start", **start}, {"type": "start-step"}, *frames, *STEP_END]


def ag(kind: str, **more: Any) -> Frame:
    return {"type": kind, **more}


def native(kind: str, **more: Any) -> Frame:
    return {"type": kind, "call_id": "c", **more}


ASK = ai("approval-request", "id-0", approvalId="mcpr_1")
TURN = message(hosted("id-0"), ASK)
RESULT = ai("output-available", "mcp_77", output="made")
STREAMED = [
    hosted("mcp_77", kind="input-start"),
    ai("input-delta", "mcp_77", inputTextDelta=json.dumps(LINK)),
    hosted("mcp_77"),
    RESULT,
]
ASKED_M = message(
    ai("input-available", toolName="wipe", input={}), ai("approval-request", approvalId="a"), messageId="m"
)
SEARCHED = message(hosted("ws", kind="input-start"), hosted("ws"))
CUT = [{"type": "start", "messageId": "m1"}, {"type": "start-step"}, ai("input-start", toolName="write"),
       ai("input-delta", inputTextDelta='{"text":"he')]  # fmt: skip
WHOLE = [
    ai("input-available", toolName="write", input={"text": "hello"}),
    ai("output-available", output="ok"),
    *STEP_END,
]
REST = [ai("input-delta", inputTextDelta='llo"}'), *WHOLE]
AGAIN = [*CUT[:3], ai("input-delta", inputTextDelta='{"text":"hello"}'), *WHOLE]
QUESTION = [ai("input-available", toolName="write", input={"text": "hello"}), ai("approval-request", approvalId="a")]
NATIVE = [native("tool.input.available", tool="bash", input={}), native("approval.requested", approval_id="a")]
YES, NO = (native("approval.responded", approval_id="a", approved=answer) for answer in (True, False))
OUTPUT = native("tool.output.available", output=1)
END_OF_RUN = {"type": "run.finished", "outcome": "success"}
DEFERRED = [NATIVE[0], native("tool.output.deferred"), END_OF_RUN]
ARGS = ag("TOOL_CALL_ARGS", toolCallId="c", delta='{"a":1}')
WRITING = [ag("RUN_STARTED", threadId="T", runId="1"), ag("TOOL_CALL_START", toolCallId="c", toolCallName="t"), ARGS]
END = ag("TOOL_CALL_END", toolCallId="c")
OK, ERROR, DENIED = "output-available", "output-error", "output-denied"

FAILURE = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": "no such host"}]}
BASH = {"session_id": "r", "tool_name": "Bash", "tool_use_id": "t", "tool_input": {"command": "sleep 9"}}
STOP = {"session_id": "r", "hook_event_name": "Stop"}
START = BASH | {"hook_event_name": "PreToolUse"}
INTERRUPTION = BASH | {"hook_event_name": "PostToolUse", "tool_response": {"stdout": "a", "interrupted": True}}

APP_TURN = [*WRITING, END, ag("RUN_FINISHED", threadId="T", runId="1")]
ASSISTANT = {"id": "a", "role": "assistant", "toolCalls": [{"id": "c", "function": {"name": "t", "arguments": "{}"}}]}
USER, TOOL = (
    {"id": "u", "role": "user", "content": "so"},
    {"id": "t", "role": "tool", "toolCallId": "c", "content": "red"},
)


RUN, RESULT_B = WRITING[0], ag("TOOL_CALL_RESULT", messageId="m", toolCallId="b", content="ok")


def answer_by_id(approval: str, *, approved: bool) -> Frame:
    return {"type": "approval.responded", "approval_id": approval, "approved": approved}


def chunks(*calls: str, skip: int = 0) -> list[Frame]:
    """The chunks of calls in that order, without the first ones; `-` is a text."""
    pieces = {call: iter(['{"x"', ":[1,", "2]}"]) for call in calls}
    names = {call: [f"t{call}"] for call in calls}
    frames = [
        ag("TEXT_MESSAGE_CHUNK", messageId="m", delta="so") if call == "-" else
        ag("TOOL_CALL_CHUNK", toolCallId=call, delta=next(pieces[call]),
           **({"toolCallName": names[call].pop()} if names[call] else {}))
        for call in calls
    ]  # fmt: skip
    return frames[skip:]


def next_run(*messages: Frame, **more: Any) -> list[Frame]:
    request = {"threadId": "T", "runId": "2", "messages": [USER, ASSISTANT, *messages], **more}
    return [ag("RUN_STARTED", threadId="T", runId="2", input=request), ag("RUN_FINISHED", threadId="T", runId="2")]


def in_snake_case(frames: list[Frame]) -> list[Frame]:
    """Return the frames as a library dumps their requests and messages without aliases."""
    return [frame if "TOOL" in frame["type"] else _spell(frame) for frame in frames]


def _spell(value: Any) -> Any:
    if isinstance(value, list):
        return [_spell(part) for part in value]
    if not isinstance(value, dict):
        return value
    return {name if "type" in value else to_snake(name): _spell(part) for name, part in value.items()}


def snapshot(*messages: Frame) -> list[Frame]:
    start, end = next_run()
    del start["input"]
    return [start, ag("MESSAGES_SNAPSHOT", messages=[USER, ASSISTANT, *messages]), end]


# name: (protocol, bodies, the members of each card)
STORIES: dict[str, tuple[str, list[list[Frame]], list[Frame]]] = {
    "a hosted tool runs under another id": (
        "ai-sdk", [TURN, message(hosted("mcp_77"), RESULT, messageId="")],
        [{"call_id": "id-0", "state": OK, "output": "made", "anomalies": []}],
    ),
    "it is streamed": (
        "ai-sdk", [TURN, message(*STREAMED)], [{"call_id": "id-0", "state": OK, "output": "made", "anomalies": []}],
    ),
    "its message has the same id": (
        "ai-sdk", [message(hosted("id-0"), ASK, messageId="m"), message(*STREAMED, messageId="m")],
        [{"call_id": "id-0", "state": OK, "output": "made", "anomalies": []}],
    ),
    "it fails": (
        "ai-sdk", [TURN, message(hosted("mcp_77"), ai("output-error", "mcp_77", errorText="no"))],
        [{"call_id": "id-0", "state": ERROR, "anomalies": []}],
    ),
    "another input is another call": (
        "ai-sdk", [TURN, message(hosted("mcp_77", {"url": "y"}), RESULT)],
        [{"call_id": "id-0", "state": ERROR, "cause": "superseded"}, {"call_id": "mcp_77", "state": OK}],
    ),
    "the conversation continues without an answer": (
        "ai-sdk", [TURN, message({"type": "text-delta", "id": "0", "delta": "so"})],
        [{"state": ERROR, "cause": "superseded", "approval": {"state": "superseded"}}],
    ),
    "another message brings the result of a question": (
        "ai-sdk", [ASKED_M, message(ai("output-available", output="wiped"), messageId="n")],
        [{"state": OK, "output": "wiped", "approval": {"state": "approved"}, "anomalies": []}],
    ),
    "another message brings its denial": (
        "ai-sdk", [ASKED_M, message(ai("output-denied"), messageId="n")],
        [{"state": "output-denied", "approval": {"state": "denied"}, "anomalies": []}],
    ),
    "another message brings its failure": (
        "ai-sdk", [ASKED_M, message(ai("output-error", errorText="no"), messageId="n")],
        [{"state": ERROR, "cause": None, "approval": {"state": "cancelled"}, "anomalies": []}],
    ),
    "a native failure gives no reason": (
        "native", [[native("tool.input.available", tool="t", input={}), native("tool.output.error", error=None)]],
        [{"state": ERROR, "cause": None, "soft": False, "anomalies": []}],
    ),
    "a question of a turn that ended still waits": ("ai-sdk", [TURN], [{"state": "approval-requested"}]),
    "a provider reports no result": (
        "ai-sdk", [SEARCHED], [{"state": ERROR, "cause": "no-result", "soft": True, "awaiting_client": False}],
    ),
    "it reports it later": (
        "ai-sdk", [SEARCHED, message(ai("output-available", "ws", output=1))], [{"state": OK, "output": 1}],
    ),
    "a client's tool waits for the app": (
        "ai-sdk", [message(ai("input-available", toolName="pick", input={}), messageId="m")],
        [{"state": "input-available", "awaiting_client": True}],
    ),
    "until the conversation continues": (
        "ai-sdk", [message(ai("input-available", toolName="pick", input={}), messageId="m"), message(messageId="n")],
        [{"state": ERROR, "cause": "no-result", "awaiting_client": False}],
    ),
    "two bodies are cut within an input": (
        "ai-sdk", [CUT, REST], [{"state": OK, "input": {"text": "hello"}, "repair": None, "original_input": None}],
    ),
    "the second one repeats the input": (
        "ai-sdk", [CUT, AGAIN], [{"state": OK, "input": {"text": "hello"}, "original_input": None}],
    ),
    "the second one has only the whole input": (
        "ai-sdk", [CUT, WHOLE], [{"state": OK, "input": {"text": "hello"}, "original_input": None}],
    ),
    "an input of AG-UI is cut": (
        "ag-ui",
        [[*WRITING[:2], {**ARGS, "delta": '{"a"'}], [{**ARGS, "delta": ":1}"}, END, ag("RUN_FINISHED")]],
        [{"input": {"a": 1}, "original_input": None, "anomalies": []}],
    ),
    "an approval in the chat": (
        "ai-sdk", [message(*QUESTION), message(ai("output-available", output=1))],
        [{"state": OK, "anomalies": [], "approval": {"state": "approved"}}],
    ),
    "a result in the turn that asked": (
        "ai-sdk", [message(*QUESTION, ai("output-available", output=1))],
        [{"state": OK, "anomalies": ["ran-without-approval"]}],
    ),
    "a tool of the app": ("ag-ui", [APP_TURN], [{"state": "input-available", "awaiting_client": True}]),
    "its result is in the next request, as Python writes it": (
        "ag-ui", [APP_TURN, in_snake_case(next_run(TOOL))], [{"state": OK, "output": "red"}],
    ),
    "the user passes it over, as Python writes it": (
        "ag-ui", [APP_TURN, in_snake_case(next_run(USER))], [{"state": ERROR, "cause": "no-result"}],
    ),
    "a snapshot, as Python writes it": (
        "ag-ui", [in_snake_case(snapshot(TOOL))], [{"state": OK, "tool": {"name": "t"}, "output": "red"}],
    ),
    "its result is in the next request": ("ag-ui", [APP_TURN, next_run(TOOL)], [{"state": OK, "output": "red"}]),
    "its result is in a snapshot": ("ag-ui", [APP_TURN, snapshot(TOOL)], [{"state": OK, "output": "red"}]),
    "its failure is in the next request": (
        "ag-ui", [APP_TURN, next_run({**TOOL, "error": "no"})], [{"state": ERROR, "soft": False}],
    ),
    "its result comes before the next question": (
        "ag-ui", [APP_TURN, next_run(TOOL, USER)], [{"state": OK, "output": "red", "anomalies": []}],
    ),
    "the user asks something else": (
        "ag-ui", [APP_TURN, next_run(USER)], [{"state": ERROR, "cause": "no-result", "awaiting_client": False}],
    ),
    "a snapshot shows that": ("ag-ui", [APP_TURN, snapshot(USER)], [{"state": ERROR, "cause": "no-result"}]),
    "the next request does not mention it yet": (
        "ag-ui", [APP_TURN, next_run()], [{"state": "input-available", "awaiting_client": True}],
    ),
    "chunks of two calls alternate": (
        "ag-ui", [[RUN, *chunks("a", "b", "a", "b", "a", "b"), ag("RUN_FINISHED")]],
        [{"call_id": call, "tool": {"name": f"t{call}"}, "input": {"x": [1, 2]}, "anomalies": []} for call in "ab"],
    ),
    "texts come between them": (
        "ag-ui", [[RUN, *chunks(*"a-b-a-b-a-b-"), RESULT_B, ag("RUN_FINISHED")]],
        [
            {"call_id": "a", "input": {"x": [1, 2]}, "anomalies": [], "state": "input-available"},
            {"call_id": "b", "input": {"x": [1, 2]}, "anomalies": [], "state": OK, "output": "ok"},
        ],
    ),
    "texts come between the chunks of one call": (
        "ag-ui", [[RUN, *chunks(*"-a-a-a-"), ag("RUN_FINISHED")]], [{"input": {"x": [1, 2]}, "anomalies": []}],
    ),
    "a chunked call has its result before its input is whole": (
        "ag-ui", [[RUN, *chunks(*"baab"), RESULT_B, ag("RUN_FINISHED")]],
        [
            {"call_id": "b", "input": None, "input_text": '{"x":[1,', "state": OK},
            {"call_id": "a", "input": None, "anomalies": ["unreadable-input"]},
        ],
    ),
    "chunks go on in another body": (
        "ag-ui", [[RUN, *chunks(*"aba")], [*chunks(*"abaabb", skip=3), ag("RUN_FINISHED")]],
        [{"input": {"x": [1, 2]}, "anomalies": []}, {"input": {"x": [1, 2]}, "anomalies": []}],
    ),
    "arguments sent twice": (
        "ag-ui", [[*WRITING, ARGS, END, ag("RUN_FINISHED")]],
        [{"input": None, "input_text": '{"a":1}{"a":1}', "anomalies": ["unreadable-input"]}],
    ),
    "a hosted tool reports a failure": (
        "ai-sdk",
        [message(hosted("m1"), ai("output-available", "m1", output={"type": "call", "name": "n", "error": FAILURE}))],
        [{"state": ERROR, "error": {"message": "no such host", "code": "tool_reported"}}],
    ),
    "it reports none": (
        "ai-sdk",
        [message(hosted("m1"), ai("output-available", "m1", output={"type": "call", "output": "ok", "error": None}))],
        [{"state": OK, "error": None}],
    ),
    "a turn ends after a part of a result": (
        "ai-sdk",
        [message(ai("input-available", toolName="t", input={}), ai("output-available", output=1, preliminary=True))],
        [{"state": ERROR, "cause": "no-result", "output": 1, "preliminary": False}],
    ),
    "a run ends after a part of a result": (
        "native", [[NATIVE[0], native("tool.output.partial", output=1), END_OF_RUN]],
        [{"state": ERROR, "cause": "no-result", "output": 1}],
    ),
    "a command of Claude Code is interrupted": (
        "claude-code", [[BASH | {"hook_event_name": "PreToolUse"}], [INTERRUPTION]],
        [{"state": ERROR, "cause": "aborted", "soft": True, "output": INTERRUPTION["tool_response"]}],
    ),
    "it ends by itself": (
        "claude-code", [[INTERRUPTION | {"tool_response": {"stdout": "a", "interrupted": False}}]], [{"state": OK}],
    ),
    "a tool leaves its result to the app": (
        "native", [DEFERRED], [{"state": "input-available", "awaiting_client": True, "cause": None}],
    ),
    "the app brings it": (
        "native", [DEFERRED, [OUTPUT]], [{"state": OK, "output": 1, "awaiting_client": False, "anomalies": []}],
    ),
    "the app brings it in another turn": (
        "native", [DEFERRED, [{"type": "run.started"}, OUTPUT, END_OF_RUN]], [{"state": OK, "output": 1}],
    ),
    "another turn ends without it": (
        "native", [DEFERRED, [{"type": "run.started"}, END_OF_RUN]], [{"awaiting_client": True, "cause": None}],
    ),
    "the app reports that it failed": (
        "native", [DEFERRED, [native("tool.output.error", error="no")]], [{"state": ERROR, "soft": False}],
    ),
    "the run of a deferred call is lost": (
        "native", [[*DEFERRED[:2], {"type": "run.finished", "outcome": "truncated"}], [OUTPUT]],
        [{"state": OK, "output": 1, "awaiting_client": False}],
    ),
    "the run of a deferred call is stopped": (
        "native", [[*DEFERRED[:2], {"type": "run.finished", "outcome": "aborted"}]],
        [{"state": ERROR, "cause": "aborted", "awaiting_client": False}],
    ),
    "a call is deferred after a part of its result": (
        "native", [[NATIVE[0], native("tool.output.partial", output=1), *DEFERRED[1:]]],
        [{"state": OK, "preliminary": True, "awaiting_client": True, "cause": None, "output": 1}],
    ),
    "the app brings the rest of it": (
        "native", [[NATIVE[0], native("tool.output.partial", output=0), *DEFERRED[1:]], [OUTPUT]],
        [{"state": OK, "preliminary": False, "awaiting_client": False, "output": 1}],
    ),
    "an id comes again with another input in another turn": (
        "native", [DEFERRED, [{"type": "run.started"}, {**NATIVE[0], "input": {"a": 1}}, OUTPUT, END_OF_RUN]],
        [{"input": {}, "awaiting_client": True}, {"input": {"a": 1}, "state": OK, "output": 1}],
    ),
    "it comes again after a turn that broke off": (
        "native",
        [
            [NATIVE[0], {"type": "run.finished", "outcome": "truncated"}],
            [{"type": "run.started"}, {**NATIVE[0], "input": {"a": 1}}, OUTPUT, END_OF_RUN],
        ],
        [{"input": {}, "cause": "truncated"}, {"input": {"a": 1}, "state": OK, "output": 1}],
    ),
    "the same call comes again after a turn that broke off": (
        "native",
        [[NATIVE[0], {"type": "run.finished", "outcome": "truncated"}], [{"type": "run.started"}, NATIVE[0], OUTPUT]],
        [{"input": {}, "state": OK, "output": 1}],
    ),
    "a sub-agent of Claude Code ends without a result of its call": (
        "claude-code", [[{**START, "agent_id": "x"}], [{**STOP, "hook_event_name": "SubagentStop", "agent_id": "x"}]],
        [{"state": ERROR, "cause": "no-result", "soft": True}],
    ),
    "a turn of Claude Code ends without a result of its call": (
        "claude-code", [[START], [STOP]],
        [{"state": ERROR, "cause": "no-result", "soft": True}],
    ),
    "its result comes late": (
        "claude-code", [[START], [STOP],
                        [INTERRUPTION | {"tool_response": {"stdout": "a"}}]],
        [{"state": OK, "soft": False}],
    ),
    "a call is only in a snapshot": (
        "ag-ui", [snapshot(TOOL)],
        [{"call_id": "c", "tool": {"name": "t"}, "input": {}, "state": OK, "output": "red", "anomalies": []}],
    ),
    "a failed call is only in a snapshot": (
        "ag-ui", [snapshot({**TOOL, "error": "no"})], [{"state": ERROR, "error": {"message": "red"}}],
    ),
    "a snapshot repeats a call that ended": (
        "ag-ui", [[*WRITING, END, {**RESULT_B, "toolCallId": "c", "content": "red"}], snapshot(TOOL)],
        [{"input": {"a": 1}, "state": OK, "output": "red", "anomalies": []}],
    ),
    "a call without a result is only in a snapshot": (
        "ag-ui", [snapshot()], [{"state": "input-available", "awaiting_client": True}],
    ),
    "the run of a deferred call fails": (
        "native", [[*DEFERRED[:2], {"type": "run.finished", "outcome": "error"}]],
        [{"state": "input-available", "cause": None, "awaiting_client": True}],
    ),
    "a call is deferred after its result": (
        "native", [[NATIVE[0], OUTPUT, native("tool.output.deferred"), END_OF_RUN]],
        [{"state": OK, "output": 1, "awaiting_client": False, "anomalies": []}],
    ),
    "two questions about a call": (
        "native", [[*NATIVE, native("approval.requested", approval_id="b")]],
        [{"state": "approval-requested", "anomalies": ["protocol-violation"], "approval": {"source_id": "b"}}],
    ),
    "an answer to the first of them comes after a denial": (
        "native", [[*NATIVE, native("approval.requested", approval_id="b"), answer_by_id("b", approved=False),
                    answer_by_id("a", approved=True)]],
        [{"state": DENIED, "anomalies": ["protocol-violation", "late-response"], "approval": {"source_id": "b"}}],
    ),
    "an error is a list of blocks": (
        "native", [[NATIVE[0], native("tool.output.error", error=[{"type": "text", "text": "no"}])]],
        [{"state": ERROR, "soft": False, "error": {"message": "no"}}],
    ),
    "the message of an error is": (
        "native", [[NATIVE[0], native("tool.output.error", error={"message": [{"text": "no"}], "code": "timeout"})]],
        [{"state": ERROR, "error": {"message": "no", "code": "timeout"}}],
    ),
    "the message of an error is null": (
        "native", [[NATIVE[0], native("tool.output.error", error={"message": None})]],
        [{"state": ERROR, "error": {"message": ""}}],
    ),
    "a result with one text says that it is an error": (
        "native", [[NATIVE[0], {**OUTPUT, "output": {"isError": True, "content": "no"}}]],
        [{"state": ERROR, "error": {"message": "no", "code": "tool_reported"}}],
    ),
    "an answer after the result": (
        "native", [[*NATIVE, OUTPUT, YES]],
        [{"state": OK, "output": 1, "anomalies": ["ran-without-approval", "late-response"]}],
    ),
    "a denial after the result": (
        "native", [[*NATIVE, OUTPUT, NO]], [{"state": OK, "anomalies": ["ran-without-approval", "late-response"]}],
    ),
    "an approval after a denial": ("native", [[*NATIVE, NO, YES]], [{"state": DENIED, "anomalies": ["late-response"]}]),
    "an answer after a denial of the call": (
        "native", [[*NATIVE, native("tool.output.denied"), NO]], [{"state": DENIED, "anomalies": ["late-response"]}],
    ),
    "a result after a denial": (
        "native", [[*NATIVE, NO, OUTPUT]], [{"state": DENIED, "output": None, "anomalies": ["ran-without-approval"]}],
    ),
}  # fmt: skip


def select(card: Frame, expected: Frame) -> Frame:
    """The members that a row names; of anomalies the codes."""
    flat = {**card, "anomalies": [anomaly["code"] for anomaly in card["anomalies"]]}
    return {name: select_part(flat.get(name), value) for name, value in expected.items()}


def select_part(value: Any, expected: Any) -> Any:
    return {name: (value or {}).get(name) for name in expected} if isinstance(expected, dict) and value else value


@pytest.mark.parametrize(
    ("protocol", "bodies", "cards"), [pytest.param(*row, id=name) for name, row in STORIES.items()]
)
async def test_a_story_ends_as_written(protocol: str, bodies: list[list[Frame]], cards: list[Frame], call: Any) -> None:
    for body in bodies:
        status, answer, _ = await call("POST", f"/api/v1/ingest?protocol={protocol}&run=r", body)
        assert (status, answer["refused"]) == (200, 0), answer
    _, listed, _ = await call("GET", "/api/v1/runs/r/calls")
    assert len(listed["calls"]) == len(cards), listed
    assert [select(card, row) for card, row in zip(listed["calls"], cards, strict=True)] == cards


NOTHING = [
    ("claude-code", [{"session_id": "r", "hook_event_name": "SessionStart", "source": "startup"}]),
    ("claude-code", [{"session_id": "r", "hook_event_name": name} for name in ("SessionStart", "SessionEnd")]),
    ("claude-code", [{"session_id": "r", "hook_event_name": name} for name in ("SessionStart", "Stop", "SessionEnd")]),
    ("claude-code", [{"session_id": "r", "hook_event_name": "SubagentStop", "agent_id": "a"}]),
    ("acp", [{"dir": ">", "msg": {"id": 0, "method": "initialize", "params": {}}}]),
    ("acp", [{"dir": ">", "msg": {"id": 1, "method": "session/new", "params": {"cwd": "/"}}}]),
]


@pytest.mark.parametrize(("protocol", "frames"), NOTHING)
async def test_a_session_that_only_started_is_no_run(protocol: str, frames: list[Frame], call: Any, agent: Any) -> None:
    for frame in frames:
        assert (await call("POST", f"/api/v1/ingest?protocol={protocol}&run=r", [frame]))[0] == 200
        if protocol == "claude-code":
            assert (await call("POST", "/api/v1/hooks/claude-code?limit=10", frame))[0] == 200
    async with agent(protocol=protocol, run="s", mode="observe") as socket:
        await socket.say(*frames)
        await socket.acked(len(frames))
    assert not await Run.objects.aexists()


@pytest.mark.parametrize("is_claimed", [True, False], ids=["by a socket", "by a permit"])
async def test_an_approved_call_waits_for_the_app_and_takes_its_result(
    is_claimed: bool, call: Any, agent: Any, policy: Any, source: Source, an_approver: Any, ballot: Any
) -> None:
    await in_thread(policy)({"default": "ask"})

    async def approve() -> None:
        await in_thread(lambda: gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve")))()

    async def read() -> Frame:
        card = (await call("GET", "/api/v1/runs/r/calls"))[1]["calls"][0]
        return {
            **select(card, {"state": "", "awaiting_client": "", "output": ""}),
            "approval": card["approval"]["state"],
        }

    async with agent(run="r", mode="gate") as socket:
        if is_claimed:
            await socket.say(NATIVE[0])
            await socket.hear("decision")
            await approve()
            assert (await socket.hear("decision"))["decision"] == "allow"
        else:
            body = {"run": "r", "call_id": "c", "tool": "bash", "args": {}}
            question = (await call("POST", "/api/v1/calls/decide", body))[1]
            await approve()
            permit = (await call("GET", f"/api/v1/approvals/{question['approval']['id']}"))[1]["permit"]["id"]
            claim = {"call_id": "c", "args_sha256": question["args_sha256"]}
            assert (await call("POST", f"/api/v1/permits/{permit}/claim", claim))[0] == 200
        await socket.say(*DEFERRED[1:])
        await socket.acked(2 + is_claimed)
    waiting = {"state": "approval-responded", "awaiting_client": True, "output": None, "approval": "claimed"}
    assert await read() == waiting
    assert (await call("POST", "/api/v1/ingest?protocol=native&run=r", [OUTPUT]))[0] == 200
    assert await read() == {"state": OK, "awaiting_client": False, "output": 1, "approval": "succeeded"}


async def test_a_session_is_a_run_from_its_first_prompt_or_call(call: Any) -> None:
    start, prompt = ({"session_id": "r", "hook_event_name": name} for name in ("SessionStart", "UserPromptSubmit"))
    for hook in (start, {**prompt, "prompt": "hello"}):
        await call("POST", "/api/v1/hooks/claude-code", hook)
    assert (await Run.objects.aget()).title == "hello"


async def test_a_hook_names_its_sub_agent_without_its_start(call: Any) -> None:
    hook = {"session_id": "r", "hook_event_name": "PreToolUse", "tool_name": "Read", "tool_use_id": "t",
            "tool_input": {"file_path": "/a"}, "agent_id": "ag7", "agent_type": "code-reviewer"}  # fmt: skip
    for number in range(2):
        await call(
            "POST", "/api/v1/ingest?protocol=claude-code&run=r&agent=claude", {**hook, "tool_use_id": f"t{number}"}
        )
    _, listed, _ = await call("GET", "/api/v1/runs/r/calls")
    assert [card["agent_path"] for card in listed["calls"]] == [["claude", "code-reviewer"]] * 2


async def test_a_run_that_continues_has_no_old_end_reason(call: Any) -> None:
    path = "/api/v1/ingest?protocol=claude-code&run=r"
    hook = {"session_id": "r", "tool_name": "Read", "tool_use_id": "t", "tool_input": {}}
    for name in ("PreToolUse", "SessionEnd"):
        await call("POST", path, {**hook, "hook_event_name": name, "reason": "logout"})
    assert (await Run.objects.aget()).reason == "logout"
    await call("POST", path, {**hook, "hook_event_name": "PreToolUse", "tool_use_id": "u"})
    row = await Run.objects.aget()
    assert (row.status, row.reason) == ("running", "")


CALL_FRAMES, RUN_END = [*WRITING, END], ag("RUN_FINISHED", threadId="T", runId="1")
CALL_RESULT = {**RESULT_B, "toolCallId": "c"}
FAILED, FAILED_AGAIN = (ag("RUN_ERROR", message=words) for words in ("boom", "again"))
BROKEN = {"state": ERROR, "cause": "run-error", "error": {"message": "boom"}, "awaiting_client": False, "anomalies": []}
SUCCESS = {"state": OK, "output": "ok", "anomalies": []}

# name: (bodies, status and reason of the run, the members of the card)
ERRORS: dict[str, tuple[list[list[Frame]], tuple[str, str], Frame]] = {
    "after the end": ([[*CALL_FRAMES, CALL_RESULT, RUN_END, FAILED]], ("error", "boom"), SUCCESS),
    "in a body after the end": ([[*CALL_FRAMES, CALL_RESULT, RUN_END], [FAILED]], ("error", "boom"), SUCCESS),
    "after an end that leaves a call to the app": ([[*CALL_FRAMES, RUN_END, FAILED]], ("error", "boom"), BROKEN),
    "in a body after such an end": ([[*CALL_FRAMES, RUN_END], [FAILED]], ("error", "boom"), BROKEN),
    "before the end": ([[*CALL_FRAMES, FAILED, RUN_END]], ("error", "boom"), BROKEN),
    "in a body before that of the end": ([[*CALL_FRAMES, FAILED], [RUN_END]], ("error", "boom"), BROKEN),
    "before a result and the end": ([[*CALL_FRAMES, FAILED, CALL_RESULT, RUN_END]], ("error", "boom"), SUCCESS),
    "twice": ([[*CALL_FRAMES, FAILED, FAILED_AGAIN]], ("error", "boom"), BROKEN),
    "before the next run of the thread": (
        [[*CALL_FRAMES, CALL_RESULT, RUN_END, FAILED], snapshot()], ("finished", ""), SUCCESS,
    ),
    "within the next run": (
        [[*CALL_FRAMES, CALL_RESULT, RUN_END], [{**RUN, "runId": "2"}, FAILED]], ("error", "boom"), SUCCESS,
    ),
    "after a body that broke off": ([[*CALL_FRAMES, CALL_RESULT], [FAILED]], ("error", "boom"), SUCCESS),
}  # fmt: skip


@pytest.mark.parametrize(("bodies", "end", "card"), [pytest.param(*row, id=name) for name, row in ERRORS.items()])
async def test_a_run_error_of_ag_ui_counts_whenever_it_comes(
    bodies: list[list[Frame]], end: tuple[str, str], card: Frame, call: Any
) -> None:
    for body in bodies:
        status, answer, _ = await call("POST", "/api/v1/ingest?protocol=ag-ui&run=r", body)
        assert (status, answer["refused"]) == (200, 0), answer
    _, run, _ = await call("GET", "/api/v1/runs/r")
    row = await Run.objects.aget()
    assert (run["status"], row.reason) == end
    _, listed, _ = await call("GET", "/api/v1/runs/r/calls")
    assert [select(each, card) for each in listed["calls"]] == [card]
    assert await in_thread(lambda: list(rebuild.find_differences(row)))() == []


@pytest.mark.parametrize("name", [name for name, (_, bodies, _) in STORIES.items() if ASKED_M in bodies])
async def test_a_question_that_an_older_release_left_closed_replays_closed(name: str, call: Any) -> None:
    for body in STORIES[name][1]:
        assert (await call("POST", "/api/v1/ingest?protocol=ai-sdk&run=r", body))[0] == 200
    await in_thread(_write_as_before_outcomes_reopened)()
    assert await in_thread(gate.rebuild)(check=True) == []
    assert (await call("GET", "/api/v1/runs/r/calls"))[1]["calls"][0]["approval"]["state"] == "superseded"


def _write_as_before_outcomes_reopened() -> None:
    """Write what a release before the outcomes' field `reopens` stored for the same bodies."""
    card = json.loads(ToolCall.objects.get().card)
    card["approval"]["state"] = "superseded"
    for field in ("decided_at", "by", "inferred"):
        card["approval"].pop(field, None)
    with transaction.atomic(), allow_log_writes(), allow_event_changes(), connection.cursor() as cursor:
        ToolCall.objects.update(card=json.dumps(card))
        [event] = [event for event in Event.objects.all() if '"reopens":true' in event.fact]
        fact = event.fact.replace(',"reopens":true', "")
        cursor.execute("UPDATE toolcards_event SET fact = %s WHERE id = %s", [fact, event.pk])
