"""The rows of approvals, which follow the approvals and permits of the cards."""

from __future__ import annotations

from typing import Any

from toolcards.core.calls.card import Card, CardApproval
from toolcards.core.calls.facts import Actor
from toolcards.encryption import get_redactor
from toolcards.gate.writer.bulk_sql import clean_text, fit_text
from toolcards.gate.writer.run_cache import RunMemory
from toolcards.models import Approval, ToolCall

_PERMIT_STATES = {"issued": "approved", "void": "cancelled"}  # permit state -> row state


def find_changed_cards(memory: RunMemory) -> list[Card]:
    """Return the cards whose approval differs from the stored one."""
    cards = (memory.board.cards[ordinal] for ordinal in sorted(memory.dirty))
    return [card for card in cards if card.approval and memory.asks.get(card.ordinal) is not card.approval]


def write_approval(memory: RunMemory, card: Card, extras: dict[str, dict[str, Any]], clock_offset: float) -> None:
    """Write the card's approval. A newer approval supersedes the older one of the same call.

    `extras`: approval id -> columns that are not in the card. `clock_offset`: see models.Approval.
    """
    ask, before = card.approval, memory.asks.get(card.ordinal)
    assert ask is not None
    is_new = before is None or before.id != ask.id
    if before is not None and is_new:
        Approval.objects.filter(id=before.id, state__in=("pending", "approved")).update(state="superseded")
    columns = extras.get(ask.id, {}) | _columns(ask)
    if is_new:
        _create(memory, card, ask, {"channel": "none", "clock_offset": clock_offset} | columns)
    else:
        Approval.objects.filter(id=ask.id).update(**columns)
    memory.asks[card.ordinal] = ask


def get_row_state(state: str) -> str:
    """Return the row state for a state of a rule's permit."""
    return _PERMIT_STATES.get(state, state)


def write_permit_states(states: dict[str, str]) -> None:
    """Write the new states of rules' permits, given by approval id."""
    for pk, state in states.items():
        Approval.objects.filter(id=pk).update(state=get_row_state(state))


def _columns(ask: CardApproval) -> dict[str, Any]:
    actor = ask.by or Actor("")
    return {
        "state": ask.state, "by_kind": actor.kind, "by_name": fit_text(actor.name, 200), "decided_at": ask.decided_at,
        "reason": clean_text(get_redactor().text(ask.reason)), "expires_at": ask.expires_at,
        "args_sha256": ask.args_sha256,
    }  # fmt: skip


def _create(memory: RunMemory, card: Card, ask: CardApproval, columns: dict[str, Any]) -> None:
    call = ToolCall.objects.only("id").get(run_id=memory.row.pk, ordinal=card.ordinal)
    fixed_columns = {
        "run_id": memory.row.pk, "call_id": call.pk, "opener": ask.opener, "requested_at": ask.requested_at,
        "asked": not ask.automatic,
    }  # fmt: skip
    Approval.objects.update_or_create(id=ask.id, defaults=columns | fixed_columns)
