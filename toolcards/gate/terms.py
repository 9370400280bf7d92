"""Under which terms an approval was asked, read back from its row, and whether the terms of today are met by them."""

from __future__ import annotations

import json

from toolcards.core.policy import AskTerms, Decision
from toolcards.models import Approval


def terms_of(row: Approval) -> AskTerms:
    """Return under which terms the approval was asked."""
    said = json.loads(row.terms)
    for name in ("approvers", "escalate"):
        said[name] = tuple(tuple(part) for part in said.get(name, ()))
    for name in ("editable", "grants"):
        if name in said:
            said[name] = tuple(said[name])
    return AskTerms(**said)


def asking(decision: Decision) -> tuple[str, ...]:
    """Return what asks: the rules, else what is built in (`default`, `unknown_tool`, …)."""
    return decision.rules or (decision.code,)


def stricter(row: Approval, now: Decision) -> bool:
    """Return whether an answer given to the row is not enough for what is asked now."""
    if not row.asked or set(asking(now)) - set(json.loads(row.rules)):
        return True
    return now.ask is not None and not _meets(terms_of(row), now.ask)


def _meets(before: AskTerms, now: AskTerms) -> bool:
    return (
        now.quorum <= before.quorum
        and set(now.approvers) <= set(before.approvers)
        and (before.reauth or not now.reauth)
        and (now.allow_requester or not before.allow_requester)
    )
