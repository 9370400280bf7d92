"""Answers to a gating hook: only one to exactly these bytes lets a call run."""

from __future__ import annotations

import copy
import hashlib
from typing import Any

import pytest

from tests.support.bad_answers import BadAnswer, rows
from tests.support.fake_gate import Answer, Gate, plain
from tests.support.hook_inputs import lets_run, send_hook
from tests.support.tables import loop_over
from toolcards import hook_relay
from toolcards.hook_relay.answers import UnusableAnswer, read_note

EVENTS = ["PreToolUse", "PermissionRequest"]


@loop_over("event", EVENTS)
@loop_over("row", [row for row, _ in rows("decide") if row.stages == ("decide", "poll", "claim")], ids=str)
def test_a_bad_envelope_lets_nothing_run(event: str, row: BadAnswer) -> None:
    with Gate({"bash": "allow"}, tamper=lambda stage, honest: row.make(honest)) as gate:
        assert not lets_run(send_hook(gate, event)) and gate.stages() == ["hook"]


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("row", [row for row, _ in rows("decide", sooner=True)], ids=str)
def test_an_answer_that_does_not_end_lets_nothing_run(
    monkeypatch: pytest.MonkeyPatch, event: str, row: BadAnswer
) -> None:
    monkeypatch.setattr(hook_relay, "MARGIN", 0.3)
    with Gate({"bash": "allow"}, tamper=lambda stage, honest: row.make(honest)) as gate:
        assert not lets_run(send_hook(gate, event, limit=0.1))


WRONG: dict[str, Any] = {
    "no binding": {"toolcards": ...},
    "an empty binding": {"toolcards": {}},
    "a binding that is a text": {"toolcards": "yes"},
    "an answer to other bytes": {"toolcards.answers": "0" * 64},
    "another run": {"toolcards.run": "s-2"},
    "another input": {"toolcards.args_sha256": "0" * 64},
    "no input": {"toolcards.args_sha256": ...},
    "another call's digest": {"toolcards.call_sha256": "0" * 64},
    "no call's digest": {"toolcards.call_sha256": ...},
    "no attempt": {"toolcards.attempt": ...},
    "an attempt below one": {"toolcards.attempt": 0},
    "an attempt that is true": {"toolcards.attempt": True},
    "no tool": {"toolcards.tool": ...},
    "a tool by its name alone": {"toolcards.tool": "bash"},
    "another tool": {"toolcards.tool": {"name": "wipe", "source": ""}},
    "a tool of another server": {"toolcards.tool": {"name": "bash", "source": "elsewhere"}},
    "other arguments than the digest's": {"updated": {"command": "rm -rf /"}},
    "arguments that are no object": {"updated": "rm -rf /"},
    "arguments without a canonical form": {"updated": {"n": 2**60}},
    "a different event": {"hookSpecificOutput.hookEventName": "PostToolUse"},
    "a field nobody knows": {"continue": True},
    "no event": {"hookSpecificOutput.hookEventName": ...},
    "a list": {"hookSpecificOutput": []},
}


def wrong(honest: dict[str, Any], change: dict[str, Any]) -> Answer:
    answer = copy.deepcopy(honest)
    for path, value in change.items():
        where, _, name = path.rpartition(".")
        part = answer[where] if where else answer
        if path == "updated":
            payload = answer["hookSpecificOutput"]
            part, name = payload.get("decision", payload), "updatedInput"
        if value is ...:
            part.pop(name)
        else:
            part[name] = value
    return plain(answer)


@loop_over("event", EVENTS)
@loop_over("name", WRONG)
def test_an_answer_to_something_else_lets_nothing_run(event: str, name: str) -> None:
    with Gate({"bash": "allow"}, tamper=lambda stage, honest: wrong(honest, WRONG[name])) as gate:
        assert not lets_run(send_hook(gate, event))


@pytest.mark.parametrize("decision", ["ask", "ALLOW", "approve", True, None, ["allow"], ...])
def test_an_invalid_decision_lets_nothing_run(decision: Any) -> None:
    change = {"hookSpecificOutput.permissionDecision": decision}
    with Gate({"bash": "allow"}, tamper=lambda stage, honest: wrong(honest, change)) as gate:
        assert not lets_run(send_hook(gate, "PreToolUse"))


def test_silence_for_another_call_is_no_silence_for_this_one(gate: Gate) -> None:
    """`{}` lets Claude Code's own rules decide, so it must be about this call too."""
    gate.tamper = lambda stage, honest: wrong(honest, {"toolcards.call_id": "toolu_2"})
    assert not lets_run(send_hook(gate, "PreToolUse", tool_name="silent"))


# ---------------------------------------------------------------- notes for the model

DATA = b'{"hook_event_name": "Stop"}'
BINDING = {"toolcards": {"answers": hashlib.sha256(DATA).hexdigest()}}
NOTE = {"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "Try again."}}
BLOCK = {"decision": "block", "reason": "Try again."}


@loop_over(("event", "answer", "output"), [
    ("Stop", BINDING | BLOCK, BLOCK), ("PostToolUse", BINDING | NOTE, NOTE), ("PostToolUse", BINDING, {}),
    ("Stop", BLOCK, {}), ("PostToolUse", NOTE, {}), ("Stop", {"toolcards": {"answers": "0" * 64}} | BLOCK, {}),
    ("PostToolUse", BINDING | BLOCK, UnusableAnswer), ("UserPromptSubmit", BINDING | NOTE, UnusableAnswer),
    ("Stop", BINDING | BLOCK | {"reason": 1}, UnusableAnswer), ("Stop", BINDING | {"continue": False}, UnusableAnswer),
    ("PostToolUse", BINDING | {"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": 1}}, {}),
    ("Stop", BINDING | BLOCK | {"reason": "x" * 9_000}, {"decision": "block", "reason": "x" * 8_000}),
])  # fmt: skip
def test_a_note_is_passed_on_if_it_answers_exactly_these_bytes(event: str, answer: Any, output: Any) -> None:
    hook = {"hook_event_name": event}
    if output is UnusableAnswer:
        with pytest.raises(UnusableAnswer):
            read_note(answer, hook, DATA)
    else:
        assert read_note(answer, hook, DATA) == output
