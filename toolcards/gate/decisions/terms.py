"""Under which terms an approval was asked, read back from its row, and whether the terms of today are met by them."""

from __future__ import annotations

import json
from typing import Any

from toolcards.core.policy.decision import AskTerms, Decision
from toolcards.models import Approval


def load_terms(row: Approval) -> AskTerms:
    """Return under which terms the approval was asked."""
    said = {name: _to_tuples(value) for name, value in json.loads(row.terms).items()}
    if row.opener == "agent":  # its own user may answer it where it runs, so here too
        said["allow_requester"] = True
    return AskTerms(**said)


def _to_tuples(value: Any) -> Any:
    """What JSON made lists of, all the way down."""
    return tuple(_to_tuples(part) for part in value) if isinstance(value, list) else value


def list_asking_rules(decision: Decision) -> tuple[str, ...]:
    """Return what asks: the rules, else what is built in (`default`, `unknown_tool`, …)."""
    return decision.rules or (decision.code,)


def is_stricter(row: Approval, now: Decision) -> bool:
    """Return whether an answer given to the row is not enough for what is asked now."""
    if not row.asked or set(list_asking_rules(now)) - set(json.loads(row.rules)):
        return True
    return now.ask is not None and not _satisfies(load_terms(row), now.ask)


def _satisfies(before: AskTerms, now: AskTerms) -> bool:
    return (
        now.quorum <= before.quorum
        and set(now.approvers) <= set(before.approvers)
        and set(before.stands_in) <= set(now.stands_in)
        and (before.reauth or not now.reauth)
        and (now.allow_requester or not before.allow_requester)
    )
