"""Grants: standing approvals that satisfy one ask rule, in a scope, for a limited time.

And one retry of a call that the agent's own reviewer refused. It only takes the place of that reviewer: what policy
denies or asks about, it denies or asks about again.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

from django.db import connection, models, transaction

from toolcards.audit.trail import Act, write_acts
from toolcards.client.common.canonical_json import NotCanonical, digest
from toolcards.clocks import clock
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.core.policy import decision as policy
from toolcards.core.policy.grants import make_agent_scope
from toolcards.core.policy.language import document
from toolcards.gate import policy_store
from toolcards.gate.decisions.digests import digest_input
from toolcards.gate.decisions.eligibility import list_voters
from toolcards.gate.refusals import InvalidRequest, NotFound
from toolcards.gate.writer.bulk_sql import fit_text
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.gate.writer.transaction import Transaction
from toolcards.ids import new_id
from toolcards.models import Approval, Grant, PolicyVersion, Run, prepared_selects

DEFAULT_MINUTES = 15
MAX_MINUTES = 8 * 60


def find_grants(question: policy.PolicyRequest, run: Run, now: float) -> list[policy.PolicyGrant]:
    """Return the live grants that may apply, newest first (at most 500).

    Those of people who may not vote any more are left out, however they lost the right.
    """
    if not prepared_selects.recall(find_grants, lambda: _has_live_grants(now)):
        return []
    in_scope = models.Q(run=None) | models.Q(run=run)
    same_input = models.Q(args_sha256=_digest_request(question)) | ~models.Q(pattern="")
    live = Grant.objects.live(now).filter(created_by__in=list_voters())
    rows = live.filter(in_scope & same_input, tool=fit_text(question.tool, 300), source=run.source_id)
    return [_to_policy_grant(row) for row in rows.select_related("run").order_by("-created_at", "id")[:500]]


def _has_live_grants(now: float) -> bool:
    with connection.cursor() as cursor:
        condition = "revoked_at IS NULL AND (expires_at = 0 OR expires_at > %s)"
        cursor.execute(f"SELECT 1 FROM toolcards_grant WHERE {condition} LIMIT 1", [now])  # noqa: S608
        return cursor.fetchone() is not None


def _digest_request(question: policy.PolicyRequest) -> str:
    try:
        return digest(question.input) if question.has_input else ""
    except NotCanonical:
        return ""


def _to_policy_grant(row: Grant) -> policy.PolicyGrant:
    return policy.PolicyGrant(
        rule=row.rule,
        rule_sha256=row.rule_sha256,
        tool=row.tool,
        digest=row.args_sha256,
        pattern=document.compile_pattern(json.loads(row.pattern)) if row.pattern else None,
        server=row.server,
        schema=row.schema_sha256,
        run=row.run.name if row.run else "",
        agent=row.agent,
        expires_at=row.expires_at,
        id=row.id,
    )


def name_grantor(decision: policy.PolicyDecision) -> policy.PolicyDecision:
    """Name the grantor in the reason of a decision by a grant."""
    row = Grant.objects.select_related("created_by").filter(id=decision.by.name).first() if decision.grants else None
    if row is None:
        return decision
    return replace(decision, reason=f"Allowed in advance by {row.created_by.get_username()}.")


def create_grants(
    row: Approval, card: Card, person: Any, grant_data: dict[str, Any], allowed_kinds: tuple[str, ...], now: float
) -> list[Grant]:
    """Create the grants that a voter requests, one per rule that asked.

    They cover the arguments as shown, and bind tool, server, schema and the content of each rule as they were when the
    call was decided. `grant_data`: `kind` (once, run or until) and `minutes`.
    """
    kind = str(grant_data.get("kind", "once"))
    if kind == "once":
        return []
    if row.opener == "agent":  # no rule asked
        allowed_kinds = ()
    if kind not in allowed_kinds or kind not in {"run", "until"}:
        raise InvalidRequest("This grant is not offered here.", code="invalid_grant")
    expires_at = now + _parse_minutes(grant_data) * 60 if kind == "until" else 0.0
    asking_policy = _get_asking_policy(row)
    names = json.loads(row.rules) or ["default"]
    prepared_selects.forget()
    source, tool = row.run.source, card.tool
    return [
        Grant.objects.create(
            id=new_id("gra"), rule=name, rule_sha256=asking_policy.rule_sha256(name), tool=fit_text(tool.name, 300),
            server=fit_text(_get_server(card), 300), schema_sha256=_get_schema_digest(card),
            args_sha256=_digest_approved_input(row, card),
            run=row.run if kind == "run" else None, source=source,
            agent=make_agent_scope(card.agent_path or (source.name,)), approval=row, created_by=person, created_at=now,
            expires_at=expires_at, clock_offset=clock.offset() if expires_at else None,
        )
        for name in names
    ]  # fmt: skip


def _get_asking_policy(row: Approval) -> policy.RuleSet:
    """Return the policy version that asked; the voter has not seen a later one."""
    version = PolicyVersion.objects.filter(number=row.version).first()
    return policy_store.compile_version(version) if version else policy_store.get_active_policy()


def _get_server(card: Card) -> str:
    return policy.PolicyRequest.for_tool(card.tool.name, source=card.tool.source).names.server


def _get_schema_digest(card: Card) -> str:
    return str(card.decision.moment.get("schema", "")) if card.decision else ""


def _digest_approved_input(row: Approval, card: Card) -> str:
    """Return the digest of the input that the person approved, edited or not."""
    return digest(json.loads(row.edited)) if row.edited else digest_input(card)


def _parse_minutes(grant_data: dict[str, Any]) -> float:
    value = grant_data.get("minutes")
    value = DEFAULT_MINUTES if value in (None, "") else value
    try:
        minutes = float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidRequest("Minutes must be a number.", code="invalid_grant") from None
    if not 0 < minutes <= MAX_MINUTES:
        raise InvalidRequest(f"Between 1 and {MAX_MINUTES} minutes.", code="invalid_grant")
    return minutes


def revoke_grant(pk: str, actor: str = "") -> Grant:
    """Revoke the grant; raises NotFound."""
    row = Grant.objects.filter(id=pk).first()
    if row is None:
        raise NotFound("Grant not found.")
    if row.revoked_at is None:
        row.revoked_at = time.time()
        with transaction.atomic():
            row.save(update_fields=["revoked_at"])
            write_acts(Act("grant.revoked", "human" if actor else "", actor, detail=_describe(row)))
    return row


def revoke_grants_of(person: Any) -> int:
    """Revoke the live grants that this person gave; return their number."""
    now = time.time()
    with transaction.atomic():
        rows = list(Grant.objects.live(now).filter(created_by=person).select_for_update().order_by("id"))
        Grant.objects.filter(pk__in=[row.pk for row in rows]).update(revoked_at=now)
        given_by = {"given_by": person.get_username()}
        write_acts(*(Act("grant.revoked", detail=_describe(row) | given_by) for row in rows))
    return len(rows)


def _describe(row: Grant) -> dict[str, str]:
    return {"grant": row.id, "rule": row.rule, "tool": row.tool}


# ---------------------------------------------------------------- one retry of a call that its host refused


def use_retry(
    tx: Transaction, memory: RunMemory, card: Card, decision: policy.PolicyDecision, channel: str, now: float
) -> policy.PolicyDecision:
    """Return the decision.

    If a person let this call try again, it is theirs, and the retry is used.
    """
    if decision.effect is not policy.Effect.ALLOW or channel != "hook":
        return decision
    refused_card = _find_granted(memory, card)
    if refused_card is None or refused_card.retry_by is None:
        return decision
    person = refused_card.retry_by
    tx.record(memory, f.RetryChanged(refused_card.call_id, "used", person, now), refused_card)
    reason = f"{person.name} let this call try again, once."
    return decision.with_changes(code="retry", reason=reason, by=person, rule="", rules=())


def _find_granted(memory: RunMemory, card: Card) -> Card | None:
    """Return the refused call of the run that is the same as this one and may be tried again."""
    granted_cards = (each for each in memory.board.cards.values() if each.retry in {"granted", "announced"})
    return next((each for each in granted_cards if _identify(each) == _identify(card)), None)


def _identify(card: Card) -> tuple[str, ...]:
    place = (card.tool.name, card.tool.source, card.folder, make_agent_scope(card.agent_path))
    return (*place, digest_input(card))
