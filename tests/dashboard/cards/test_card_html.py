"""Calls as one line: few elements, the card's own attributes, and nothing of an agent unescaped."""

from __future__ import annotations

import re
from typing import Any

import pytest

from dashboard.cards import rendering
from dashboard.cards.rendering import CardForm
from tests.support.cards import a_card, call_of
from toolcards.core.calls.card import Card, CardError, CardTool, Milestones, ToolCallState

S = ToolCallState
HOSTILE = "<script>alert(1)</script> & ' \" {{ view }} {0} %s \u202e\u200b\x00\r\n<!--token-->"


def line_of(card: Card) -> str:
    return rendering.render_form(call_of(card), CardForm.LINE)


@pytest.mark.parametrize("state", list(S))
def test_a_line_of_any_state_has_few_elements_and_the_attributes_of_its_card(state: ToolCallState) -> None:
    call = call_of(a_card(state))
    line, card = rendering.render_form(call, CardForm.LINE), rendering.render_uncached(call)
    attributes = re.match("<article (.*?)>", card)
    assert attributes and line.startswith(f"<article {attributes[1]} data-line")
    assert len(re.findall("<[a-z]", line)) <= 6 and f'href="/calls/{call.public_id}/"' in line


def test_hostile_text_is_escaped_on_a_line() -> None:
    error = CardError(HOSTILE)
    line = line_of(a_card(S.OUTPUT_ERROR, tool=CardTool(HOSTILE), agent_path=("a", HOSTILE), error=error))
    assert "<script" not in line and "<!--token-->" not in line and "\u202e" not in line and "U+202E" in line


def test_a_failure_says_why_and_a_call_without_a_result_does_not() -> None:
    error: dict[str, Any] = {"error": CardError("No such\n  file " + "x" * 500)}
    assert "No such file x" in line_of(a_card(S.OUTPUT_ERROR, **error))
    colored = CardError("\x1b[31mE\x1b[0m   assert 1 == 2")
    assert "E assert 1 == 2<" in line_of(a_card(S.OUTPUT_ERROR, error=colored))
    assert len(line_of(a_card(S.OUTPUT_ERROR, **error))) < 2_000
    assert "No such file" not in line_of(a_card(S.OUTPUT_ERROR, soft=True, **error))


def test_an_open_call_has_a_clock_and_one_with_remarks_is_marked() -> None:
    assert "data-since" in line_of(a_card(S.INPUT_AVAILABLE, times=Milestones(started=1.7e9)))
    odd = line_of(a_card(S.OUTPUT_AVAILABLE, anomalies=(("ran-without-approval", 1.7e9), ("ungoverned", 1.7e9))))
    assert "data-odd" in odd and odd.count("Ran ") == 1 and "Ran without the requested approval" in odd
    assert "data-odd" not in line_of(a_card(S.OUTPUT_AVAILABLE))


def test_the_list_of_all_calls_also_names_agent_run_and_time() -> None:
    call = call_of(a_card(S.OUTPUT_AVAILABLE, agent_path=("lead", HOSTILE), times=Milestones(started=1.7e9)))
    line, listed = (rendering.render_form(call, form) for form in (CardForm.LINE, CardForm.LISTED))
    assert 'class="origin"' not in line and line.startswith(listed.split("</a>")[0].split(' <small class="origin">')[0])
    origin = listed.split('<small class="origin">')[1]
    assert call.run.name in origin and "lead" in origin and "<time datetime=" in origin and "<script" not in origin


def test_a_line_and_a_card_are_kept_apart() -> None:
    call = call_of(a_card(S.OUTPUT_AVAILABLE))
    line, card = rendering.render(call, CardForm.LINE), rendering.render(call)
    assert "data-line" in line and "data-line" not in card
    assert rendering.render(call, CardForm.LINE) == line and rendering.render(call) == card
