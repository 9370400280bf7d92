"""One id on the wire, two calls: nested calls and ids that come again are two cards, by every protocol and way in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from channels.db import database_sync_to_async
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.trace_player import Player

Frame = dict[str, Any]
OUTER, INNER = {"subagent": "r"}, {"q": "x"}


def native(kind: str, **more: Any) -> Frame:
    return {"type": f"tool.{kind}", "call_id": "c", **more}


def ag_ui(tool: str, value: Any, **more: Any) -> list[Frame]:
    return [
        {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": tool, **more},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": json.dumps(value)},
        {"type": "TOOL_CALL_END", "toolCallId": "c"},
    ]


def ag_ui_result(content: str) -> Frame:
    return {"type": "TOOL_CALL_RESULT", "messageId": f"m-{content}", "toolCallId": "c", "content": content}


def ai_sdk(tool: str, value: Any) -> list[Frame]:
    return [
        {"type": "tool-input-start", "toolCallId": "c", "toolName": tool},
        {"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": json.dumps(value)},
        {"type": "tool-input-available", "toolCallId": "c", "toolName": tool, "input": value},
    ]


def ai_sdk_result(output: str) -> Frame:
    return {"type": "tool-output-available", "toolCallId": "c", "output": output}


def acp(kind: str, **more: Any) -> Frame:
    update = {"sessionUpdate": kind, "toolCallId": "c", **more}
    return {"dir": "<", "msg": {"method": "session/update", "params": {"sessionId": "s", "update": update}}}


def opencode(tool: str, status: str, value: Any, **more: Any) -> Frame:
    part = {"type": "tool", "callID": "c", "tool": tool, "sessionID": "s"}
    part["state"] = {"status": status, "input": value, **more}
    return {"type": "message.part.updated", "properties": {"part": part}}


def hook(event: str, tool: str, value: Any, **more: Any) -> Frame:
    names = {"session_id": "r", "tool_use_id": "c", "tool_name": tool}
    return {"hook_event_name": event, **names, "tool_input": value, **more}


def open_native(tool: str, value: Any) -> list[Frame]:
    return [native("input.started", tool=tool), native("input.available", tool=tool, input=value)]


def open_acp(tool: str, value: Any) -> list[Frame]:
    return [acp("tool_call", title=tool, status="in_progress", rawInput=value)]


def open_opencode(tool: str, value: Any) -> list[Frame]:
    return [opencode(tool, "pending", {}), opencode(tool, "running", value)]


# protocol -> how a call opens, and how it ends
WIRES: dict[str, tuple[Any, Any, list[Frame]]] = {
    "native": (
        open_native,
        lambda tool, value, output: native("output.available", output=output),
        [{"type": "run.finished", "outcome": "success"}],
    ),
    "ag-ui": (
        ag_ui,
        lambda tool, value, output: ag_ui_result(output),
        [{"type": "RUN_FINISHED", "threadId": "T", "runId": "1"}],
    ),
    "ai-sdk": (ai_sdk, lambda tool, value, output: ai_sdk_result(output), [{"type": "finish", "finishReason": "stop"}]),
    "acp": (
        open_acp,
        lambda tool, value, output: acp("tool_call_update", status="completed", rawOutput={"output": output}),
        [{"dir": "<", "msg": {"id": 3, "result": {"stopReason": "end_turn"}}}],
    ),
    "opencode": (
        open_opencode,
        lambda tool, value, output: opencode(tool, "completed", value, output=output, metadata={}),
        [{"type": "session.idle", "properties": {"sessionID": "s"}}],
    ),
    "claude-code": (
        lambda tool, value: [hook("PreToolUse", tool, value)],
        lambda tool, value, output: hook("PostToolUse", tool, value, tool_response=output),
        [{"hook_event_name": "SessionEnd", "session_id": "r"}],
    ),
}
STARTS: dict[str, list[Frame]] = {"ag-ui": [{"type": "RUN_STARTED", "threadId": "T", "runId": "1"}]}
# The calls as they open ("task", …) and end ("inner": the result), in order.
STORIES: dict[str, tuple[list[Any], list[tuple[str, Any, Any]]]] = {
    "nested": (
        [("task", OUTER), ("search", INNER), ("search", INNER, "inner"), ("task", OUTER, "outer")],
        [("task", OUTER, "outer"), ("search", INNER, "inner")],
    ),
    "nested twice": (
        [("task", OUTER), ("search", INNER), ("read", {"n": 1}), ("read", {"n": 1}, "innermost"),
         ("search", INNER, "inner"), ("task", OUTER, "outer")],
        [("task", OUTER, "outer"), ("search", INNER, "inner"), ("read", {"n": 1}, "innermost")],
    ),
    "inside itself": (
        [("task", OUTER), ("task", INNER), ("task", INNER, "inner"), ("task", OUTER, "outer")],
        [("task", OUTER, "outer"), ("task", INNER, "inner")],
    ),
    "two in a row inside": (
        [("task", OUTER), ("search", INNER), ("search", INNER, "inner"), ("read", {"n": 1}), ("read", {"n": 1}, "two"),
         ("task", OUTER, "outer")],
        [("task", OUTER, "outer"), ("search", INNER, "inner"), ("read", {"n": 1}, "two")],
    ),
    "another tool after the end": (
        [("task", OUTER), ("task", OUTER, "first"), ("search", INNER), ("search", INNER, "second")],
        [("task", OUTER, "first"), ("search", INNER, "second")],
    ),
    "another input after the end": (
        [("search", INNER), ("search", INNER, "first"), ("search", {"q": "y"}), ("search", {"q": "y"}, "second")],
        [("search", INNER, "first"), ("search", {"q": "y"}, "second")],
    ),
}  # fmt: skip
# Without a frame that only begins a call, another input is news of the same call.
NO_BEGINNING = {"acp", "opencode", "claude-code"}
CASES = [
    pytest.param(protocol, story, id=f"{protocol}: {story}")
    for protocol in WIRES
    for story in STORIES
    if not (story == "inside itself" and protocol in NO_BEGINNING)
]


def build_frames(protocol: str, steps: list[Any]) -> list[Frame]:
    begin, finish, end = WIRES[protocol]
    frames: list[Frame] = [*STARTS.get(protocol, [])]
    for step in steps:
        frames += [finish(*step)] if len(step) == 3 else begin(*step)
    return [*frames, *end]


async def read_cards(call: Any) -> list[tuple[str, Any, Any]]:
    _, listed, _ = await call("GET", "/api/v1/runs/r/calls")
    assert {each["state"] for each in listed["calls"]} == {"output-available"}, listed
    assert [each["anomalies"] for each in listed["calls"]] == [[]] * len(listed["calls"]), listed
    return [(each["tool"]["name"], each["input"], each["output"]) for each in listed["calls"]]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("protocol", "story"), CASES)
async def test_calls_that_share_an_id_are_two_cards(protocol: str, story: str, call: Any) -> None:
    steps, cards = STORIES[story]
    body = "".join(f"{json.dumps(frame)}\n" for frame in build_frames(protocol, steps))
    path = f"/api/v1/ingest?protocol={protocol}&run=r"
    status, answer, _ = await call("POST", path, body, content_type="application/x-ndjson")
    assert (status, answer["refused"]) == (200, 0), answer
    assert await read_cards(call) == cards


INSIDE = [*ag_ui("task", OUTER)[:2], *ag_ui("search", INNER)]
LATE_END = ag_ui("task", OUTER)[2]
PIECES = [{"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": text} for text in ('{"sub', 'agent": "r"}')]
CHUNKS = [
    {"type": "TOOL_CALL_CHUNK", "toolCallId": "c", "toolCallName": tool, "delta": json.dumps(value)}
    for tool, value in (("task", OUTER), ("search", INNER))
]
INNER_RESULT, OUTER_RESULT = ag_ui_result("inner"), ag_ui_result("outer")
BEGINNINGS: dict[str, list[Frame]] = {
    "it ends after the inner call": [*INSIDE, INNER_RESULT, LATE_END, OUTER_RESULT],
    "it ends while the inner call runs": [*INSIDE, LATE_END, INNER_RESULT, OUTER_RESULT],
    "it never ends": [*INSIDE, INNER_RESULT, OUTER_RESULT],
    "it is written after the inner call": [
        INSIDE[0], *INSIDE[2:], INNER_RESULT, INSIDE[1], LATE_END, OUTER_RESULT,
    ],
    "it continues after the inner call": [
        INSIDE[0], PIECES[0], *INSIDE[2:], INNER_RESULT, PIECES[1], LATE_END, OUTER_RESULT,
    ],
    "both are chunks": [*CHUNKS, INNER_RESULT, OUTER_RESULT],
}  # fmt: skip


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("frames", BEGINNINGS.values(), ids=BEGINNINGS)
async def test_a_call_whose_input_is_not_complete_keeps_it_when_another_begins_under_its_id(
    frames: list[Frame], call: Any
) -> None:
    body = "".join(f"{json.dumps(frame)}\n" for frame in [*STARTS["ag-ui"], *frames, *WIRES["ag-ui"][2]])
    await call("POST", "/api/v1/ingest?protocol=ag-ui&run=r", body, content_type="application/x-ndjson")
    assert await read_cards(call) == [("task", OUTER, "outer"), ("search", INNER, "inner")]


TWICE = [*open_native("search", INNER), native("output.available", output="first"), *open_native("search", INNER)]
TWICE.append(native("output.available", output="second"))
BEGIN: Frame = {"type": "run.started"}


# What begins again after its end is another call; a run that is sent again from its beginning repeats its calls.
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("mode", ["gate", "observe"])
@pytest.mark.parametrize(("frames", "outputs"), [
    (TWICE, ["first", "second"]), (TWICE[:3] + TWICE[1:3], ["first"]), ([BEGIN, *TWICE[:3]] * 2, ["first"]),
    ([BEGIN, *TWICE[:3], *WIRES["native"][2]] * 2, ["first", "first"]),
])  # fmt: skip
async def test_a_native_call_that_begins_again_after_its_end_is_another_one(
    frames: list[Frame], outputs: list[str], mode: str, call: Any, policy: Any
) -> None:
    await database_sync_to_async(policy)({"default": "allow"})
    body = "".join(f"{json.dumps(frame)}\n" for frame in frames)
    path = f"/api/v1/ingest?protocol=native&run=r&mode={mode}"
    await call("POST", path, body, content_type="application/x-ndjson")
    assert await read_cards(call) == [("search", INNER, output) for output in outputs]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("inner", ["Read", "Task"])
async def test_a_hook_that_asks_under_the_id_of_a_running_call_does_not_mark_it(
    inner: str, call: Any, policy: Any
) -> None:
    await database_sync_to_async(policy)({"default": "allow"})
    for frame in (
        hook("PreToolUse", "Task", OUTER), hook("PreToolUse", inner, INNER),
        hook("PostToolUse", inner, INNER, tool_response="inner"),
        hook("PostToolUse", "Task", OUTER, tool_response="outer"),
    ):  # fmt: skip
        await call("POST", "/api/v1/hooks/claude-code", frame)
    assert await read_cards(call) == [("Task", OUTER, "outer"), (inner, INNER, "inner")]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("protocol", WIRES)
async def test_they_are_two_cards_over_a_socket_too_and_a_replay_adds_none(
    protocol: str, call: Any, agent: Any
) -> None:
    steps, cards = STORIES["nested"]
    frames = build_frames(protocol, steps)
    async with agent(protocol=protocol, run="r", mode="observe") as socket:
        await socket.say(*frames)
        await socket.acked(len(frames))
    assert await read_cards(call) == cards


# ---------------------------------------------------------------- any order

TOOLS = ["task", "search", "read"]


def build_story(moves: list[tuple[bool, str]]) -> tuple[list[Any], list[tuple[str, Any, Any]]]:
    """Return the steps of calls that open and end as the moves say, and their cards in order.

    While a call is open, its tool with another input is an update of it.
    """
    steps: list[Any] = []
    cards: list[tuple[str, Any, Any]] = []
    open_calls: list[int] = []
    for opens, tool in [*moves, *[(False, "")] * len(TOOLS)]:
        if opens and tool not in {cards[number][0] for number in open_calls}:
            open_calls.append(len(cards))
            cards.append((tool, {"n": len(cards)}, f"result {len(cards)}"))
            steps.append(cards[-1][:2])
        elif not opens and open_calls:
            steps.append(cards[open_calls.pop()])
    return steps, cards


@pytest.mark.parametrize("protocol", WIRES)
@draw(200)
@given(moves=st.lists(st.tuples(st.booleans(), st.sampled_from(TOOLS)), min_size=1, max_size=12))
def test_however_calls_nest_and_follow_each_other_under_one_id_each_is_a_card(
    protocol: str, moves: list[tuple[bool, str]]
) -> None:
    steps, cards = build_story(moves)
    player = Player(protocol).frames(*build_frames(protocol, steps))
    calls = player.board.cards.values()
    assert [(card.tool.name, card.input, card.output) for card in calls] == cards
    assert {str(card.state) for card in calls} <= {"output-available"} and not any(card.anomalies for card in calls)
