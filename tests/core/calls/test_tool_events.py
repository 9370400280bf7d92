"""The error of a denied call names who denied it."""

from __future__ import annotations

import pytest

from toolcards.core.calls.card import Card, ToolCallState
from toolcards.core.calls.facts import Actor
from toolcards.core.calls.tool_events import build_error


@pytest.mark.parametrize(
    ("by", "title"),
    [
        (Actor("human", "ann"), "A person declined"),
        (Actor("host"), "The agent's host declined"),
        (Actor("host", "Claude Code"), "The agent's host declined"),
        (Actor("timeout"), "No one answered in time"),
        (Actor("plugin", "x"), "A plugin denied it"),
    ],
)
def test_a_denial_is_titled_by_who_denied(by: Actor, title: str) -> None:
    fault = build_error(Card("c", 1, state=ToolCallState.OUTPUT_DENIED, denied_by=by, denied="no"))
    assert fault is not None and fault["error"]["title"] == title
