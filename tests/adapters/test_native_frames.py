"""Frames of the native protocol, one class each: what they tell, and what they refuse."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from tests.support.tables import loop_over
from toolcards.adapters import BadFrame, native
from toolcards.adapters.native_frames import Frames
from toolcards.core.calls import facts as f


def decode(frame_kind: str, **fields: Any) -> Any:
    return native.decode(json.dumps({"type": frame_kind, **fields}))


def refuse(frame_kind: str, **fields: Any) -> BadFrame:
    with pytest.raises(BadFrame) as caught:
        decode(frame_kind, **fields)
    return caught.value


CALL = {"call_id": "c"}
FAULT = {"message": "boom", "code": "upstream", "retryable": True, "authority": "tool", "after_ms": 5}
NAMES = {"title": "Title", "kind": "read", "source": "files"}
TOOLS = [{"name": "t", "description": None, "input_schema": {}, "kind": "read", "annotations": {}, "more": 1}]
# The least that a frame needs, and all that it may have.
FRAMES: list[tuple[str, dict[str, Any], Any]] = [
    ("run.started", {}, f.RunStarted()),
    ("run.started", {"agent": "a", "title": "b", "tools": TOOLS}, f.RunStarted(agent="a", title="b", tools=TOOLS)),
    ("run.started", {"agent": None, "title": None, "tools": None, "root": None}, f.RunStarted()),
    ("run.started", {"root": "/home/ann/shop"}, f.RunStarted(root="/home/ann/shop")),
    ("run.started", {"root": "C:\\shop"}, f.RunStarted(root="C:\\shop")),
    ("step.started", {}, f.StepStarted()), ("step.started", {"step": 3}, f.StepStarted(step=3)),
    ("step.started", {"step": 0}, f.StepStarted(step=0)), ("step.started", {"step": "3"}, f.StepStarted(name="3")),
    ("step.finished", {}, f.StepFinished()), ("step.finished", {"step": 3}, f.StepFinished(step=3)),
    ("step.finished", {"step": "plan"}, f.StepFinished(name="plan")),
    ("text.delta", {"text": ""}, f.TextDelta(text="")),
    ("reasoning.delta", {"text": "hm"}, f.TextDelta(text="hm", channel="reasoning")),
    ("tool.input.started", CALL | {"tool": "t"}, f.InputStarted("c", "t", renews=True)),
    ("tool.input.started", CALL | {"tool": "t"} | NAMES, f.InputStarted("c", "t", renews=True, **NAMES)),
    ("tool.input.delta", CALL | {"delta": "{"}, f.InputDelta("c", "{")),
    ("tool.input.available", CALL | {"tool": "t", "input": None}, f.InputReady("c", "t", None, True)),
    ("tool.input.available", CALL | {"tool": "t", "input": [0]} | NAMES, f.InputReady("c", "t", [0], True, **NAMES)),
    ("tool.input.invalid", CALL | {"error": "bad"}, f.InputInvalid("c", "", None, "bad", "invalid_input")),
    ("tool.input.invalid", CALL | {"tool": "t", "input": "{", "error": {"message": "no", "code": "no_such_tool"}},
     f.InputInvalid("c", "t", "{", "no", "no_such_tool")),
    ("tool.input.repaired", CALL | {"tool": "t", "input": 5}, f.InputRepaired("c", "t", 5)),
    ("tool.input.repaired", CALL | {"tool": "t", "input": 5, "original": "5", "method": "number"},
     f.InputRepaired("c", "t", 5, "5", "number")),
    ("approval.requested", CALL | {"approval_id": "a"}, f.ApprovalRequested("c", "a")),
    ("approval.requested", CALL | {"approval_id": "a", "reason": "why"}, f.ApprovalRequested("c", "a", reason="why")),
    ("approval.responded", CALL | {"approved": True}, f.ApprovalAnswered("c", True)),
    ("approval.responded", {"approval_id": "a", "approved": False, "reason": "no"},
     f.ApprovalAnswered("", False, "a", reason="no")),
    ("tool.output.partial", CALL, f.OutputPartial("c")),
    ("tool.output.partial", CALL | {"output": 0}, f.OutputPartial("c", 0)),
    ("tool.output.available", CALL, f.OutputReady("c")),
    ("tool.output.available", CALL | {"output": ""}, f.OutputReady("c", "")),
    ("tool.output.deferred", CALL, f.CallClosed("c", "deferred")),
    ("tool.output.error", CALL | {"error": "boom"}, f.OutputFailed("c", "boom")),
    ("tool.output.error", CALL | {"error": {}}, f.OutputFailed("c")),
    ("tool.output.error", CALL | {"error": None}, f.OutputFailed("c")),
    ("tool.output.error", CALL | {"error": FAULT}, f.OutputFailed("c", "boom", "upstream", True, "tool", after_ms=5)),
    ("tool.output.error", CALL | {"error": {"after_ms": 0}}, f.OutputFailed("c", after_ms=0)),
    ("tool.output.denied", CALL, f.OutputDenied("c")),
    ("tool.output.denied", CALL | {"reason": "no"}, f.OutputDenied("c", "no")),
    ("run.finished", {"outcome": "success"}, f.RunEnded()),
    ("run.finished", {"outcome": "aborted", "reason": "stop"}, f.RunEnded(outcome="aborted", reason="stop")),
    ("run.finished", {"outcome": "error"}, f.RunEnded(outcome="error")),
    ("run.finished", {"outcome": "truncated"}, f.RunEnded(outcome="truncated")),
]  # fmt: skip


@loop_over(("kind", "fields", "fact"), FRAMES)
def test_a_frame_tells_one_fact_with_all_that_it_has(kind: str, fields: dict[str, Any], fact: Any) -> None:
    assert decode(kind, **fields) == [fact]
    assert decode(kind, **fields, at="2026-01-01T00:00:00Z", n=1) == [fact]
    assert decode(kind, **fields, at=1.5, n=10**18 - 1, unknown={"a": 1}) == [fact]


def test_every_class_of_frames_is_in_the_table() -> None:
    (union, _) = get_args(Frames)
    kinds = {get_args(cls.model_fields["type"].annotation)[0] for cls in get_args(union)}
    assert kinds == {kind for kind, _, _ in FRAMES}


REFUSED_FRAMES = [
    ("run.started", {"tools": [{"description": "x"}]}, "missing_field", "every tool requires a name"),
    ("run.started", {"root": "shop"}, "bad_field", "run.started: root: must be an absolute path"),
    ("run.started", {"root": "/" + "a" * 5_000}, "bad_field", "root"),
    ("run.started", {"root": 5}, "bad_field", "root"),
    ("run.started", {"tools": [{"name": ""}]}, "missing_field", "every tool requires a name"),
    ("run.started", {"tools": [{"name": 5}]}, "bad_field", "tools.0.name"),
    ("run.started", {"tools": [{"name": "t", "annotations": []}]}, "bad_field", "tools.0.annotations"),
    ("run.started", {"n": 10**18}, "bad_field", "n"), ("run.started", {"n": True}, "bad_field", "n"),
    ("run.started", {"at": []}, "bad_field", "at"), ("step.started", {"step": True}, "bad_field", "step"),
    ("step.started", {"step": 1.5}, "bad_field", "step"),
    ("approval.responded", {"approved": True}, "missing_field", "call_id or approval_id"),
    ("approval.requested", {"call_id": "", "approval_id": "a"}, "bad_field", "call_id"),
    ("tool.input.invalid", {"call_id": "c"}, "missing_field", "error"),
    ("tool.output.error", {"call_id": "c", "error": {"after_ms": 2**53}}, "bad_field", "after_ms"),
    ("tool.output.error", {"call_id": "c", "error": {"after_ms": -1}}, "bad_field", "after_ms"),
    ("tool.output.error", {"call_id": "c", "error": {"after_ms": "5"}}, "bad_field", "after_ms"),
    ("run.finished", {"outcome": "ok"}, "bad_field", "outcome"),
]  # fmt: skip


@loop_over(("kind", "fields", "code", "words"), REFUSED_FRAMES)
def test_a_frame_that_cannot_be_meant_is_refused(kind: str, fields: dict[str, Any], code: str, words: str) -> None:
    error = refuse(kind, **fields)
    assert error.code == code and words in error.message and kind in error.message


def test_the_limits_of_a_frame_are_inside() -> None:
    assert decode("tool.output.error", **CALL, error={"after_ms": 2**53 - 1})[0].after_ms == 2**53 - 1
    assert decode("run.started", n=1) == decode("run.started", n=10**18 - 1)
    assert refuse("run.started", n=0).code == "bad_field"
