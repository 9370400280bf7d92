"""Which open question a call attaches to: that of the same call, of the same agent, in the same place.

Only a client that names its place asks for this: others may mean two calls by equal words, and each is a question.
People see the earlier question only, and its answer settles both (settlement.py). The run may be another one: the
session of a gateway that was killed is gone, and its next one asks again. So everything else that a person sees must
be equal, and what policy requires of an answer, and what a call works on besides its arguments: the project's root,
and the folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from toolcards.client.common.tool_results import is_exact
from toolcards.core.calls import questions
from toolcards.core.calls.card import Card
from toolcards.core.policy.decision import PolicyDecision
from toolcards.core.policy.grants import make_agent_scope
from toolcards.gate.decisions.digests import digest_input
from toolcards.gate.decisions.eligibility import dump_terms, list_asking_rules
from toolcards.gate.writer.bulk_sql import fit_text
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval, ToolCall
from toolcards.models.prepared_selects import PreparedSelect

_CIRCUMSTANCES = ("env", "user", "schema", "root", "folder", "program")  # of a decision (PolicyRequest.moment)
_CANDIDATES = PreparedSelect(
    Approval,
    "WHERE state IN ('pending', 'approved') AND args_sha256 = %s AND asked AND opener = 'gate'"
    " AND claimed_at = 0 AND channel = %s AND place = %s"
    " AND run_id IN (SELECT id FROM toolcards_run WHERE source_id = %s)"
    " ORDER BY requested_at LIMIT 20",
)


def find_twin(
    tx: Transaction, memory: RunMemory, card: Card, decision: PolicyDecision, channel: str, place: str
) -> str:
    """Return the approval that the decided call attaches to, "" for none.

    That of a call that waits for its twin itself is the same twin. A question that people answer with values, or about
    an input that does not say everything, is never shared.
    """
    is_own_question = questions.is_form(card.tool.name) or questions.read_questions(card.tool.name, card.input)
    if not place or is_own_question or not is_exact(card.input):
        return ""
    identity = _identify(card)
    for row, candidate in _list_candidates(tx, memory.row.source_id, digest_input(card), channel, fit_text(place, 200)):
        if _identify(candidate) == identity and _has_terms(row, decision):
            return row.twin or row.id
    return ""


def _list_candidates(
    tx: Transaction, source: int, args_sha256: str, channel: str, place: str
) -> Iterator[tuple[Approval, Card]]:
    """Yield the open questions of the source about these arguments, those of this commit last."""
    rows = _CANDIDATES.fetch_all(args_sha256, channel, place, source)
    calls = ToolCall.objects.in_bulk([row.call_id for row in rows]) if rows else {}
    for row in rows:
        card = calls[row.call_id].as_card()
        if not card.removed and card.approval is not None and card.approval.id == row.id:
            yield row, card
    for memory in tx.runs.values():
        for ordinal in memory.dirty if memory.row.source_id == source else ():
            card = memory.board.cards[ordinal]
            columns = tx.approval_columns.get(card.approval.id) if card.unanswered and card.approval else None
            if columns is not None and (columns.get("channel"), columns.get("place", "")) == (channel, place):
                yield _build_row(memory, card, columns), card


def _build_row(memory: RunMemory, card: Card, columns: dict[str, Any]) -> Approval:
    """Return the row of a question that this commit writes."""
    assert card.approval is not None
    known_columns = {name: columns[name] for name in ("rules", "terms", "place") if name in columns}
    return Approval(id=card.approval.id, run_id=memory.row.pk, twin=card.approval.twin, **known_columns)


def _has_terms(row: Approval, decision: PolicyDecision) -> bool:
    """Return whether the terms are those of the row: no answer counts for stricter ones."""
    terms = dump_terms(decision.ask) if decision.ask else "{}"
    return row.terms == terms and row.rules == json.dumps(list_asking_rules(decision))


def _identify(card: Card) -> tuple[Any, ...]:
    moment = card.decision.moment if card.decision else {}
    place = (card.tool.name, card.tool.source, card.folder, make_agent_scope(card.agent_path))
    circumstances = [moment.get(name) for name in _CIRCUMSTANCES]
    return (
        *place,
        card.agent_note,
        circumstances,
        digest_input(card),
        card.decision.schema_sha256 if card.decision else "",
    )
