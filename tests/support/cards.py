"""Cards and calls for tests that render them without a database."""

from __future__ import annotations

import re
from typing import Any

from dashboard.cards import rendering
from toolcards.core.calls.card import (
    Card,
    CardApproval,
    CardError,
    CardTool,
    ToolCallState,
)
from toolcards.core.calls.card_codec import dump_card
from toolcards.core.calls.facts import Actor
from toolcards.models import Run, Source, ToolCall

S = ToolCallState
_revisions = iter(range(1, 100_000))


def call_of(card: Card) -> ToolCall:
    """A row for the card, as the database would give it; each with a revision of its own."""
    run = Run(pk=7, name="run/7", source=Source(pk=1, name="src"))
    rev = next(_revisions)
    return ToolCall(pk=1, run=run, ordinal=1, rev=rev, state=card.state, card=dump_card(card))


def a_card(state: ToolCallState, **more: Any) -> Card:
    """A card in that state, with what such a card always has."""
    fields: dict[str, Any] = {"input": {"command": "git push"}, "has_input": True, "tool": CardTool("Bash", "execute")}
    if state is S.APPROVAL_REQUESTED:
        fields["approval"] = CardApproval(id="apr_1", votable=True, args_sha256="ab" * 32, expires_at=1.9e9)
    if state is S.APPROVAL_RESPONDED:
        fields["approval"] = CardApproval(id="apr_1", state="approved", by=Actor("human", "ann"))
    if state is S.OUTPUT_AVAILABLE:
        fields |= {"output": "fine", "has_output": True}
    if state is S.OUTPUT_ERROR:
        fields["error"] = CardError("it broke", "oops", False, "tool")
    if state is S.OUTPUT_DENIED:
        fields |= {"denied": "not today", "denied_by": Actor("human", "ann")}
    return Card("call-1", ordinal=1, state=state, **(fields | more))


def html_of(card: Card, **how: Any) -> str:
    return rendering.render_uncached(call_of(card), **how)


def text_of(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())
