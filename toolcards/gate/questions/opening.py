"""Opens a question about a call: its terms, its time limit, and its review."""

from __future__ import annotations

import json
from typing import Any

from django.conf import settings

from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.core.policy.decision import AskTerms, PolicyDecision
from toolcards.gate.approvals.holds import ReturnVisit, build_channel_columns
from toolcards.gate.decisions.eligibility import dump_terms, list_asking_rules
from toolcards.gate.questions.reviews import describe_review, find_reviewer, open_review
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.gate.writer.transaction import Transaction
from toolcards.ids import new_id

USE_TTL = 300.0  # seconds in which an allowed call has to claim its permit, unless its rule says otherwise


def open_approval(
    tx: Transaction,
    memory: RunMemory,
    card: Card,
    decision: PolicyDecision,
    args_sha256: str,
    *,
    channel: str,
    now: float,
    patience: float = 0.0,
    twin: str = "",
    return_visit: ReturnVisit | None = None,
    extras: dict[str, Any],
) -> str:
    """Open an approval for the call; return its id.

    `patience`: the longest time in seconds that the agent waits, 0 for no limit. `twin`: see gate/twins/; the review
    is that of the twin. `return_visit`: how its agent comes back for the answer. `extras`: columns of the approval.
    """
    terms = decision.ask
    ttl = (terms.decide_ttl if terms and terms.decide_ttl else None) or settings.TOOLCARDS.decide_ttl
    ttl = min(ttl, patience or ttl)
    use_ttl = (terms.use_ttl if terms and terms.use_ttl else None) or USE_TTL
    reviewer = find_reviewer(card, terms) if not twin else None
    visit = {"asks_again": return_visit._asdict()} if return_visit else {}
    fact = f.ApprovalRequested(
        card.call_id, id=new_id("apr"), reason=decision.reason, opener="gate", expires_at=now + ttl, votable=True,
        args_sha256=args_sha256, twin=twin, at=now,
        terms=build_card_terms(terms) | _describe_decision(decision) | describe_review(reviewer, now) | visit,
    )  # fmt: skip
    tx.approval_columns[fact.id] = {
        **build_channel_columns(channel, tx.working), "use_ttl": use_ttl, "version": decision.version,
        "rules": json.dumps(list_asking_rules(decision)), "terms": dump_terms(terms) if terms else "{}",
    } | extras  # fmt: skip
    tx.record(memory, fact, card)
    if reviewer is not None:
        open_review(tx, memory, memory.board.cards[card.ordinal], fact, reviewer)
    return fact.id


def _describe_decision(decision: PolicyDecision) -> dict[str, Any]:
    """Return the lasting answers that the question offers, and the judgement of each command of a line."""
    parts = {"parts": [list(part) for part in decision.parts]} if decision.parts else {}
    return dict(decision.offers) | parts


def build_card_terms(terms: AskTerms | None) -> dict[str, Any]:
    """Return the terms that a card needs to offer the right buttons."""
    if terms is None:
        return {}
    return {
        "need": terms.quorum, "editable": list(terms.editable), "grants": list(terms.grants), "reason": terms.reason,
        "severity": terms.severity, "reauth": terms.reauth,
    }  # fmt: skip
