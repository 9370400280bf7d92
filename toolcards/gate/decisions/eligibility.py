"""Who may answer what: names and groups of people, and how many of them could answer an ask."""

from __future__ import annotations

import json
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Q

from toolcards.core.policy.decision import AskTerms, Decision
from toolcards.models import Approval, Source


def list_identities(person: Any) -> tuple[str, ...]:
    """Return what rules may call this person: the name, and `group:…` for each group."""
    return (person.get_username(), *(f"group:{name}" for name in person.groups.values_list("name", flat=True)))


def list_voters() -> Any:
    """Return the active people who may vote at all."""
    right = Q(groups__permissions__codename="vote") | Q(user_permissions__codename="vote") | Q(is_superuser=True)
    return get_user_model().objects.filter(right, is_active=True).distinct().prefetch_related("groups")


def count_eligible_voters(terms: AskTerms, source: Source) -> int:
    """Return how many people could answer under these terms; the requester counts only where the terms say so."""
    barred = None if terms.allow_requester else source.owner_id
    return sum(
        1
        for person in list_voters()
        if person.pk != barred
        and terms.may_answer((person.get_username(), *(f"group:{group.name}" for group in person.groups.all())))
    )


# ---------------------------------------------------------------- the terms of an approval


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
