"""Who may answer what: names and groups of people, and how many of them could answer an ask."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Q

from toolcards.core.policy.decision import AskTerms
from toolcards.models import Source


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
