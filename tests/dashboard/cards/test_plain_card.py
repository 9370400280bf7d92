"""Plain cards: the same bytes as from the templates."""

from __future__ import annotations

from typing import Any

import pytest

from dashboard.cards import rendering
from dashboard.cards.card_html import CardHtml
from dashboard.cards.card_view import CardView
from dashboard.cards.plain_card import is_plain, render_plain_card
from tests.support.cards import a_card, call_of
from toolcards.core.calls.card import Card, CardApproval, CardDecision, CardTool, Milestones, ToolCallState
from toolcards.core.calls.facts import Actor

S = ToolCallState
HOSTILE = "<script>alert(1)</script> & ' \" {{ view }} {0} {} %s \u202e\u200b\x00\r\n<!--token--><!--told-->"
TIMES = Milestones(started=1.7e9, available=1.7e9 + 1, decided=1.7e9 + 2, finished=1.7e9 + 5)
EDIT = {"file_path": "a.py", "old_string": "a = 1\n", "new_string": "def a(): # two\n"}
WHY = CardDecision("allow", reason="It only reads", rule="reads", version=3, by=Actor("rule", "reads"))

PLAIN: dict[str, dict[str, Any]] = {
    "nothing special": {},
    "times": {"times": TIMES},
    "no input": {"has_input": False, "input": None},
    "hostile": {"input": {HOSTILE: HOSTILE}, "output": HOSTILE, "has_output": True, "tool": CardTool(HOSTILE)},
    "long": {"input": {"text": "x" * 5_000}, "output": "y\n" * 4_000, "has_output": True},
    "edit": {"input": EDIT, "tool": CardTool("Edit", "edit")},
    "nested": {"output": {"rows": [{"a": 1}, {"a": None}]}, "has_output": True, "agent_path": ("main", HOSTILE)},
    "decision": {"decision": WHY},
    "decision without a version": {"decision": CardDecision("deny")},
    "hostile decision": {"decision": CardDecision(HOSTILE, reason=HOSTILE, rule=HOSTILE, version=12_345)},
    "decision of a person": {"decision": CardDecision("ask", by=Actor("human", HOSTILE))},
    "approved by a rule": {"approval": CardApproval(id="a", state="approved", by=Actor("rule", "x"), automatic=True)},
    "attempts": {"attempt": 3, "occurrence": 2, "step": 4, "provider_executed": True},
    "partial": {"output": "some", "has_output": True, "preliminary": True},
}
SPECIAL: dict[str, dict[str, Any]] = {
    "anomaly": {"anomalies": (("protocol-violation", 1.7e9),)},
    "title": {"tool": CardTool("Bash", "execute", title="Look around")},
    "repair": {"repair": "closed", "original_input": {"command": "git pus"}},
    "watching rules": {"decision": CardDecision("allow", would=({"rule": "y", "effect": "ask"},))},
    "a person": {"approval": CardApproval(id="apr_1", state="approved", by=Actor("human", "ann"), reason="Fine")},
}  # fmt: skip


def view_of(card: Card, *, full: bool = False) -> tuple[Any, CardView]:
    call = call_of(card)
    return call, CardView(call.as_shown_card(), full=full)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("state", [S.INPUT_AVAILABLE, S.OUTPUT_AVAILABLE])
def test_a_plain_card_has_the_bytes_of_its_template(state: ToolCallState, name: str, full: bool) -> None:
    call, view = view_of(a_card(state, **PLAIN[name]), full=full)
    assert is_plain(view)
    assert render_plain_card(CardHtml(call, view)) == rendering.render_template(call, view)
    assert rendering.render_uncached(call, full=full) == rendering.render_template(call, view)


@pytest.mark.parametrize("name", SPECIAL)
def test_cards_with_more_to_say_are_drawn_by_the_template(name: str) -> None:
    call, view = view_of(a_card(S.OUTPUT_AVAILABLE, **SPECIAL[name]))
    assert not is_plain(view)
    assert rendering.render_uncached(call) == rendering.render_template(call, view)


@pytest.mark.parametrize("state", sorted(set(S) - {S.INPUT_AVAILABLE, S.OUTPUT_AVAILABLE}))
def test_other_states_are_drawn_by_the_template(state: ToolCallState) -> None:
    _, view = view_of(a_card(state))
    assert not is_plain(view)


def test_a_result_that_the_client_owes_is_drawn_by_the_template() -> None:
    _, view = view_of(a_card(S.INPUT_AVAILABLE, awaiting_client=True))
    assert not is_plain(view)
