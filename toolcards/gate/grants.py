"""Yes in advance: grants that satisfy one ask rule, in a scope, for a while."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

from django.db import models, transaction
from django.db.models import F

from toolcards.core import document, policy
from toolcards.core.lifecycle import Card
from toolcards.gate import policies
from toolcards.gate.columns import plain
from toolcards.gate.refusals import Invalid, Unknown
from toolcards.ids import new_id
from toolcards.models import Approval, Grant, Run
from toolcards.records import Act, write

UNTIL_MINUTES = 15
LONGEST_MINUTES = 8 * 60


def for_call(tool: str, run: Run, now: float) -> list[policy.Grant]:
    """Return the live grants that may count for this tool in this run, as policy wants them."""
    here = models.Q(run=None) | models.Q(run=run)
    rows = Grant.objects.live(now).filter(here, tool=plain(tool, 300), source=run.source_id).select_related("run")
    return [_judged(row) for row in rows[:500]]


def _judged(row: Grant) -> policy.Grant:
    return policy.Grant(
        rule=row.rule,
        rule_sha256=row.rule_sha256,
        tool=row.tool,
        digest=row.args_sha256,
        pattern=document.pattern(json.loads(row.pattern)) if row.pattern else None,
        run=row.run.name if row.run else "",
        agent=row.agent,
        expires_at=row.expires_at,
        id=row.id,
    )


def used(ids: tuple[str, ...]) -> None:
    """Count one use of each."""
    Grant.objects.filter(id__in=ids).update(used=F("used") + 1)


def named(decision: policy.Decision) -> policy.Decision:
    """Return the decision with the name of who allowed it in advance, where that is why."""
    row = Grant.objects.select_related("created_by").filter(id=decision.by.name).first() if decision.grants else None
    if row is None:
        return decision
    return replace(decision, reason=f"Allowed in advance by {row.created_by.get_username()}.")


def give(
    row: Approval, card: Card, person: Any, wish: dict[str, Any], offered: tuple[str, ...], now: float
) -> list[Grant]:
    """Make the grants that a person wished for with their yes: one a rule that asked, for these very arguments."""
    kind = str(wish.get("kind", "once"))
    if kind == "once":
        return []
    if kind not in offered or kind not in {"run", "until"}:
        raise Invalid("This grant is not offered here.", code="invalid_grant")
    expires_at = now + _minutes(wish) * 60 if kind == "until" else 0.0
    active = policies.active()
    names = json.loads(row.rules) or ["default"]
    return [
        Grant.objects.create(
            id=new_id("gra"), rule=name, rule_sha256=active.rule_sha256(name), tool=plain(card.tool.name, 300),
            args_sha256=row.args_sha256, run=row.run if kind == "run" else None, source=row.run.source,
            agent=plain(card.agent_path[-1], 200) if card.agent_path else "", approval=row, created_by=person,
            created_at=now, expires_at=expires_at,
        )
        for name in names
    ]  # fmt: skip


def _minutes(wish: dict[str, Any]) -> float:
    try:
        minutes = float(wish.get("minutes") or UNTIL_MINUTES)
    except (TypeError, ValueError):
        raise Invalid("Minutes must be a number.", code="invalid_grant") from None
    if not 0 < minutes <= LONGEST_MINUTES:
        raise Invalid(f"Between 1 and {LONGEST_MINUTES} minutes.", code="invalid_grant")
    return minutes


def revoke(pk: str, by: str = "") -> Grant:
    """Take a grant back; raises Unknown."""
    row = Grant.objects.filter(id=pk).first()
    if row is None:
        raise Unknown("There is no such grant.")
    if row.revoked_at is None:
        row.revoked_at = time.time()
        with transaction.atomic():
            row.save(update_fields=["revoked_at"])
            detail = {"grant": row.id, "rule": row.rule, "tool": row.tool}
            write(Act("grant.revoked", "human" if by else "", by, detail=detail))
    return row
