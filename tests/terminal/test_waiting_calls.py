"""Questions as lines of a terminal: whole, and without anything that a terminal acts on."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw as draw_examples
from tests.support.tables import loop_over
from toolcards.terminal.waiting_calls import WaitingCall, draw, draw_line


def build_entry(value: Any, **more: Any) -> dict[str, Any]:
    """What the server sends of a waiting call."""
    call = {
        "rev": 3, "agent_path": ["coder", "helper"], "tool": {"name": "Bash", "source": None}, "input": value,
        "approval": {"args_sha256": "a" * 64, "view_sha256": "b" * 64, "edited": None, "reason": None},
        "decision": {"reason": "It sends data."},
    }  # fmt: skip
    entry = {
        "id": "apr_1",
        "requested_at": "2026-11-29T10:00:00Z",
        "source": "laptop",
        "call": call,
        "summary": "Push main\nto origin",
    }
    return entry | {"risk": {"level": "high", "reasons": ["deletes files"]}, "questions": []} | more


@loop_over(("value", "lines"), [
    ({"command": "cd x &&\n  rm -rf y"}, ["  $ cd x &&", "      rm -rf y"]),
    ({"path": "a.py", "count": 3}, ["  path: a.py", "  count: 3"]),
    ({"text": "one\ntwo"}, ["  text:", "    one", "    two"]),
    ({"flags": ["a"]}, ["  flags: [", '      "a"', "    ]"]), ("plain", ["  plain"]),
    (None, ["  null"]), ([1], ["  [", "    1", "  ]"]),
    ({"command": "echo \x1b[2K\x1b[1Aok"}, ["  $ echo U+001B[2KU+001B[1Aok"]),
    ({"command": "ls\rrm -rf /"}, ["  $ lsU+000Drm -rf /"]), ({"a\x1b[0m": "\u202eevil"}, ["  aU+001B[0m: U+202Eevil"]),
])  # fmt: skip
def test_the_input_is_shown_line_by_line(value: Any, lines: list[str]) -> None:
    call = list(draw(WaitingCall.parse(build_entry(value))))
    assert call[4:] == lines
    assert call[0] == "Push main to origin"
    assert call[1].startswith("Bash · coder › helper · high risk · ")
    assert call[2:4] == ["  It sends data.", "  deletes files"]


@pytest.mark.slow
@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
@draw_examples(200)
def test_no_text_of_an_agent_reaches_the_terminal_as_a_control(value: Any) -> None:
    question = WaitingCall.parse(
        build_entry(value, questions=[{"text": str(value), "options": [str(value)]}], summary=str(value))
    )
    for line in (draw_line(question), *draw(question)):
        assert not [character for character in line if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")]


def test_an_edited_input_is_what_is_shown_and_answered() -> None:
    entry = build_entry({"command": "ls"})
    entry["call"]["approval"]["edited"] = {"command": "ls -l"}
    question = WaitingCall.parse(entry)
    assert question.value == {"command": "ls -l"}
    assert question.ballot == {"rev": 3, "args_sha256": "a" * 64, "view_sha256": "b" * 64}


def test_a_line_has_the_beginning_of_a_long_sentence() -> None:
    line = draw_line(WaitingCall.parse(build_entry({}, summary="x" * 500 + "\n\n y")))
    assert line.startswith("apr_1  ") and line.endswith("x…  Bash") and len(line) < 200


def test_colors_are_only_there_if_the_terminal_has_them() -> None:
    question = WaitingCall.parse(build_entry({"command": "ls"}))
    assert "\x1b[" in draw_line(question, color=True) and "\x1b[" not in draw_line(question)
