"""Plain cards: the same bytes as from the templates."""

from __future__ import annotations

import time
from typing import Any

import pytest

from dashboard.cards import rendering
from dashboard.cards.card_html import CardHtml
from dashboard.cards.card_view import CardView
from dashboard.cards.plain_card import is_plain, render_plain_card
from tests.support.cards import a_card, call_of
from tests.support.tables import loop_over
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


@loop_over("full", [False, True])
@loop_over("name", PLAIN)
@loop_over("state", [S.INPUT_AVAILABLE, S.OUTPUT_AVAILABLE])
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


@pytest.mark.parametrize("state", [S.INPUT_STREAMING, S.OUTPUT_ERROR])
def test_other_states_are_drawn_by_the_template(state: ToolCallState) -> None:
    _, view = view_of(a_card(state))
    assert not is_plain(view)


def build_approval(**more: Any) -> CardApproval:
    fields: dict[str, Any] = {"id": "apr_1", "votable": True, "args_sha256": "ab" * 32, "expires_at": 1.9e9}
    return CardApproval(**(fields | more))


WAITING_APPROVALS: dict[str, dict[str, Any]] = {
    "nothing special": {},
    "hostile": {
        "input": {HOSTILE: HOSTILE},
        "tool": CardTool(HOSTILE, "execute"),
        "approval": build_approval(id="apr_<&\"'>"),
    },
    "no input": {"has_input": False, "input": None},
    "one line": {"input": "x"},
    "long": {"input": {"text": "x" * 50_000}},
    "low risk": {"tool": CardTool("read_file", "read"), "input": {"path": "a.txt"}},
    "high risk": {
        "input": {"command": "sudo rm -rf / --no-preserve-root"},
        "tool": CardTool(f"bash{HOSTILE}", "execute"),
    },
    "no time limit": {"approval": build_approval(expires_at=0)},
    "half a second": {"approval": build_approval(expires_at=1_900_000_000.5)},
    "nearly half a second": {"approval": build_approval(expires_at=1_900_000_000.4999998)},
    "no digest": {"approval": build_approval(args_sha256="")},
    "hostile digest": {"approval": build_approval(args_sha256=HOSTILE)},
    "quorum": {"approval": build_approval(have=1, terms={"need": 3})},
    "reason always": {"approval": build_approval(terms={"reason": "always"})},
    "reason to deny": {"approval": build_approval(terms={"reason": "on_deny"})},
    "everything may change": {"approval": build_approval(terms={"editable": [""]})},
    "hostile parts may change": {
        "approval": build_approval(terms={"editable": ["/a", HOSTILE]}),
        "input": {"a": HOSTILE},
    },
    "grants": {"approval": build_approval(terms={"grants": ["run", "until"], "editable": [""]})},
    "one grant": {"approval": build_approval(terms={"grants": ["until", HOSTILE]})},
    "decision": {"decision": WHY, "approval": build_approval(request_reason=WHY.reason)},
}
ASKING_MORE: dict[str, dict[str, Any]] = {
    "a reason of its own": {"approval": build_approval(request_reason="Please"), "decision": WHY},
    "a proposed change": {"approval": build_approval(has_edited=True, edited={"command": "ls"})},
    "an escalation": {"approval": build_approval(escalated=(("group:admins", 1.8e9),))},
    "answered elsewhere": {"approval": build_approval(votable=False)},
    "questions": {"tool": CardTool("AskUserQuestion"), "input": {"questions": [{"question": "Why?", "options": []}]}},
    "a time beyond all calendars": {"approval": build_approval(expires_at=1e30)},
    "an agent that is away": {"approval": build_approval(away=True)},
}


QUESTIONS = WAITING_APPROVALS | ASKING_MORE


@loop_over("name", QUESTIONS)
def test_a_card_that_asks_is_drawn_by_the_template(name: str) -> None:
    call, view = view_of(a_card(S.APPROVAL_REQUESTED, **QUESTIONS[name]))
    assert not is_plain(view)
    assert rendering.render_uncached(call) == rendering.render_template(call, view)


ANN = Actor("human", f"ann{HOSTILE}")
ANSWERED_CALLS: dict[str, tuple[ToolCallState, dict[str, Any]]] = {
    "approved": (S.APPROVAL_RESPONDED, {}),
    "approved with words": (
        S.APPROVAL_RESPONDED,
        {"approval": CardApproval(id="a", state="approved", by=ANN, reason=HOSTILE, decided_at=1.7e9), "decision": WHY},
    ),
    "fetched": (S.APPROVAL_RESPONDED, {"approval": CardApproval(id="a", state="approved", by=ANN, fetched=True)}),
    "delivered": (S.APPROVAL_RESPONDED, {"approval": CardApproval(id="a", state="claimed", by=ANN)}),
    "denied": (S.OUTPUT_DENIED, {"times": TIMES}),
    "denied without a word": (S.OUTPUT_DENIED, {"denied": "", "denied_by": ANN}),
    "denied with details": (S.OUTPUT_DENIED, {"detail": {"why": HOSTILE}, "output": HOSTILE, "has_output": True}),
    "denied with a suggestion": (
        S.OUTPUT_DENIED, {"denied": HOSTILE, "decision": CardDecision("deny", suggest=HOSTILE), "times": TIMES},
    ),
    "expired": (S.OUTPUT_DENIED, {"approval": CardApproval(id="a", state="expired"), "denied_by": Actor("timeout")}),
}  # fmt: skip


@loop_over("full", [False, True])
@loop_over("name", ANSWERED_CALLS)
def test_an_answered_card_has_the_bytes_of_its_template(name: str, full: bool) -> None:
    state, fields = ANSWERED_CALLS[name]
    call, view = view_of(a_card(state, **fields), full=full)
    assert is_plain(view)
    assert render_plain_card(CardHtml(call, view)) == rendering.render_template(call, view)


def test_an_approval_that_is_held_back_is_drawn_by_the_template(settings: Any) -> None:
    settings.TOOLCARDS = settings.TOOLCARDS.model_copy(update={"handover_seconds": 30})
    approval = CardApproval(id="a", state="approved", by=ANN, decided_at=time.time())
    call, view = view_of(a_card(S.APPROVAL_RESPONDED, approval=approval))
    assert not is_plain(view) and "Undo" in rendering.render_uncached(call)


def test_a_result_that_the_client_owes_is_drawn_by_the_template() -> None:
    _, view = view_of(a_card(S.INPUT_AVAILABLE, awaiting_client=True))
    assert not is_plain(view)
