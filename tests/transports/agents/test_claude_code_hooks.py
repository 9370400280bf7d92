"""A hook input that cannot be judged is denied in Claude Code's own words: any other answer lets the tool run."""

from __future__ import annotations

import json
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread

from toolcards.models import AgentKey, Run
from toolcards.transports.agents import claude_code_hooks

pytestmark = pytest.mark.django_db(transaction=True)
HOOKS = "/api/v1/hooks/claude-code"
CALL = {
    "session_id": "s-1", "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": "t",
    "tool_input": {"command": "ls"},
}  # fmt: skip
PROMPT = {name: value for name, value in CALL.items() if name != "tool_use_id"} | {
    "hook_event_name": "PermissionRequest"
}


def without(call: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in call.items() if name not in names}


def twice(first: str, second: str) -> str:
    text = json.dumps(without(CALL, "hook_event_name"))
    return f'{{"hook_event_name":"{first}","hook_event_name":"{second}",{text[1:]}'


DEEP = "[" * 100_000 + "]" * 100_000
UNJUDGED: dict[str, Any] = {
    "tool_input null": CALL | {"tool_input": None},
    "tool_input missing": without(CALL, "tool_input"),
    "tool_input a list": CALL | {"tool_input": ["ls"]},
    "tool_input a text": CALL | {"tool_input": "ls"},
    "tool_input a number": CALL | {"tool_input": 7},
    "tool_input a boolean": CALL | {"tool_input": False},
    "tool_name missing": without(CALL, "tool_name"),
    "tool_name empty": CALL | {"tool_name": ""},
    "tool_name blank": CALL | {"tool_name": " \t"},
    "tool_name a list": CALL | {"tool_name": ["Bash"]},
    "tool_use_id missing": without(CALL, "tool_use_id"),
    "tool_use_id a number": CALL | {"tool_use_id": 7},
    "session_id missing": without(CALL, "session_id"),
    "session_id null": CALL | {"session_id": None},
    "session_id empty": CALL | {"session_id": ""},
    "session_id too long": CALL | {"session_id": "s" * 300},
    "session_id unprintable": CALL | {"session_id": "s\n1"},
    "event in small letters": CALL | {"hook_event_name": "pretooluse"},
    "event with a blank": CALL | {"hook_event_name": " PreToolUse "},
    "event with an invisible sign": CALL | {"hook_event_name": "Pre\u200bToolUse"},
    "event with an underscore": CALL | {"hook_event_name": "pre_tool_use"},
    "event missing": without(CALL, "hook_event_name"),
    "event null": CALL | {"hook_event_name": None},
    "event a list": CALL | {"hook_event_name": ["PreToolUse"]},
    "event empty": CALL | {"hook_event_name": ""},
    "event twice": twice("PreToolUse", "Stop"),
    "event twice, the other way round": twice("Stop", "PreToolUse"),
    "a key twice": json.dumps(CALL)[:-1] + ',"tool_name":"Read"}',
    "a key twice inside": json.dumps(CALL).replace('"command": "ls"', '"command": "ls", "command": "rm"'),
    "NaN": json.dumps(CALL | {"tool_input": {"n": float("nan")}}),
    "too deep to read": json.dumps(CALL)[:-1] + f',"more":{DEEP}}}',
    "too deep to keep": json.dumps(CALL)[:-1] + f',"more":{"[" * 60 + "]" * 60}}}',
    "cut off": json.dumps(CALL)[:-20],
    "something behind it": json.dumps(CALL) + "{}",
    "in a list": json.dumps([CALL]),
    "not UTF-8": json.dumps(CALL).encode() + b"\xff",
    "longer than a body may be": json.dumps(CALL | {"tool_input": {"content": "x" * (9 << 20)}}),
}
LIMITS = ("?limit=soon", "?limit=nan", "?limit=1e", "?limit=²")


async def posted(call: Any, body: Any, query: str = "", **more: Any) -> tuple[int, Any]:
    status, answer, _ = await call("POST", HOOKS + query, body, **more)
    return status, answer


def denied(status: int, payload: Any, event: str = "PreToolUse") -> bool:
    output = payload.get("hookSpecificOutput", {})
    if event == "PermissionRequest":
        decision = output.get("decision", {})
        no = decision.get("behavior") == "deny" and bool(decision.get("message"))
    else:
        no = output.get("permissionDecision") == "deny" and bool(output.get("permissionDecisionReason"))
    return status == 200 and output.get("hookEventName") == event and no


@pytest.mark.parametrize("body", UNJUDGED.values(), ids=UNJUDGED)
async def test_a_call_that_cannot_be_judged_is_denied_whatever_policy_allows(call: Any, policy: Any, body: Any) -> None:
    await in_thread(policy)({"default": "allow"})
    status, result = await posted(call, body)
    assert denied(status, result), (status, result)


@pytest.mark.parametrize(
    "body",
    [PROMPT | {"tool_input": None}, without(PROMPT, "tool_input"), PROMPT | {"tool_input": "ls"},
     without(PROMPT, "tool_name"), without(PROMPT, "session_id"),
     PROMPT | {"hook_event_name": "permission_request"}, json.dumps(PROMPT)[:-9]],
)  # fmt: skip
async def test_a_question_that_cannot_be_judged_is_denied_in_its_own_words(call: Any, policy: Any, body: Any) -> None:
    await in_thread(policy)({"default": "allow"})
    status, result = await posted(call, body)
    assert denied(status, result, "PermissionRequest"), (status, result)


@pytest.mark.parametrize("query", LIMITS)
async def test_an_odd_limit_denies_what_it_would_have_held(call: Any, policy: Any, query: str) -> None:
    await in_thread(policy)({"default": "allow"})
    assert denied(*await posted(call, CALL, query))
    assert (await posted(call, CALL | {"hook_event_name": "Stop"}, query))[0] == 400


@pytest.mark.parametrize("query", ["?limit=-5", "?limit=1e400", "?limit=0.001"])
async def test_a_limit_out_of_range_is_brought_into_it(call: Any, policy: Any, query: str) -> None:
    await in_thread(policy)({"default": "allow"})
    assert (await posted(call, CALL, query)) == (200, {})


async def test_a_call_that_can_be_judged_is(call: Any, policy: Any) -> None:
    await in_thread(policy)({"default": "allow"})
    assert await posted(call, CALL) == (200, {})
    assert await posted(call, CALL | {"tool_input": {}, "tool_use_id": "t2"}) == (200, {})


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"session_id": "s", "hook_event_name": "FromTheFuture", "tool_name": "Bash", "tool_input": None}, 200),
        ({"session_id": "s", "hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_use_id": "t"}, 200),
        ({"hook_event_name": "Stop"}, 400), ({"session_id": "s"}, 400), ("[]", 400), ("null", 400), ("", 400),
        ("7", 400), ("x" * (9 << 20), 413),
    ],
)  # fmt: skip
async def test_what_gates_nothing_is_answered_as_ever(call: Any, policy: Any, body: Any, status: int) -> None:
    await in_thread(policy)({"default": "deny"})
    assert (await posted(call, body))[0] == status


async def test_without_a_good_key_nothing_is_said_about_a_call(call: Any, policy: Any) -> None:
    await in_thread(policy)({"default": "allow"})
    _, half = await in_thread(lambda: AgentKey.objects.issue("half", ("ingest",)))()
    for body in (CALL | {"tool_input": None}, UNJUDGED["longer than a body may be"]):
        status, result = await posted(call, body, key="tck_none")
        assert status in (401, 413) and "hookSpecificOutput" not in result
    assert (await posted(call, CALL | {"tool_input": None}, key=half))[0] == 403
    assert not await Run.objects.aexists()


@pytest.mark.parametrize(
    ("body", "event"),
    [
        (b'{"hook_event_name":"Stop","note":"PreToolUse"}', ""), (b'{"a":{"hook_event_name":"PreToolUse"}}', ""),
        (b'{"hook_event_name":"Stop","tool_input":{}}', ""), (b"", ""), (b"\xff\xfe", ""),
        (b'"PreToolUse', "PreToolUse"),
        (b'{"hook_event_name":"PERMISSION-REQUEST"}', "PermissionRequest"), (b'{"tool_name":1}', "PreToolUse"),
    ],
)  # fmt: skip
def test_what_may_be_a_gating_input_is_known_by_its_own_name(body: bytes, event: str) -> None:
    assert claude_code_hooks.find_gating_event(body) == event
