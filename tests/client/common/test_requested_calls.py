"""What permission requests ask about: the raw input, else all that they show."""

from __future__ import annotations

from typing import Any

from tests.support.tables import loop_over
from toolcards.client.common.requested_calls import describe_request, is_exact

DIFF = {"type": "diff", "path": "a.py", "oldText": "a=1", "newText": "a=2"}
TEXT = {"type": "content", "content": {"type": "text", "text": "Connect to shop?"}}
PLACES = [{"path": "/p/a.py", "line": 3}]


@loop_over("call, description, is_exact_call", [
    ({"rawInput": {"path": "a"}, "title": "t", "content": [DIFF]}, None, True),
    ({"title": "t", "kind": "edit", "content": [DIFF], "locations": PLACES, "status": "pending", "toolCallId": "c"},
     {"title": "t", "kind": "edit", "content": [DIFF], "locations": PLACES}, True),
    ({"rawInput": {}, "content": [DIFF, TEXT]}, {"content": [DIFF, TEXT]}, True),
    ({"title": "t", "content": [TEXT]}, {"title": "t", "content": [TEXT], "rawInput": None}, False),
    ({"title": "npm test", "kind": "execute", "content": []},
     {"title": "npm test", "kind": "execute", "rawInput": None}, False),
    ({"locations": PLACES}, {"locations": PLACES, "rawInput": None}, False), ({}, {"rawInput": None}, False),
    ({"content": "text"}, {"content": "text", "rawInput": None}, False),
])  # fmt: skip
def test_a_request_without_raw_input_is_described_by_what_it_shows(
    call: dict[str, Any], description: Any, is_exact_call: bool
) -> None:
    assert describe_request(call) == description
    assert is_exact(description or call["rawInput"]) is is_exact_call


@loop_over("value", [{}, {"command": "ls"}, {"rawInput": None, "path": "a"}, {"rawInput": {}}, None, [], "text"])
def test_other_inputs_mean_the_same_call(value: Any) -> None:
    assert is_exact(value)
