"""Who may vote on an approval: people and their groups, and the terms under which an approval was opened."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import fields
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import connection

from toolcards.core.policy.decision import AskTerms, PolicyDecision
from toolcards.database import is_transient
from toolcards.models import Approval, Source, prepared_selects
from toolcards.models.prepared_selects import PreparedSelect

_TERM_NAMES = [field.name for field in fields(AskTerms)]
_SELECT_GROUPS = (
    "SELECT name FROM auth_group WHERE id IN (SELECT group_id FROM auth_user_groups WHERE user_id = %s) ORDER BY id"
)

_IS_VOTE = "IN (SELECT id FROM auth_permission WHERE codename = 'vote')"
_SELECT_VOTERS = (
    "SELECT person.id, person.username, auth_group.name"  # noqa: S608
    " FROM auth_user AS person"
    " LEFT JOIN auth_user_groups AS member ON member.user_id = person.id"
    " LEFT JOIN auth_group ON auth_group.id = member.group_id"
    " WHERE person.is_active AND (person.is_superuser"
    f" OR person.id IN (SELECT user_id FROM auth_user_user_permissions WHERE permission_id {_IS_VOTE})"
    " OR person.id IN (SELECT user_id FROM auth_user_groups WHERE group_id IN"
    f" (SELECT group_id FROM auth_group_permissions WHERE permission_id {_IS_VOTE})))"
    " ORDER BY person.id, auth_group.id"
)


_SELECT_SOURCE = PreparedSelect(Source, "WHERE id = %s")


def get_source(pk: int) -> Source:
    """Return the source as stored now.

    Its owner or environment may change while its runs are open.
    """
    (source,) = prepared_selects.recall((get_source, pk), lambda: _SELECT_SOURCE.fetch_all(pk))
    return source


def list_identities(person: Any) -> tuple[str, ...]:
    """Return the names of a person in rules: username and `group:…` names."""
    groups = prepared_selects.recall((list_identities, person.pk), lambda: _select_groups(person.pk))
    return (person.get_username(), *(f"group:{name}" for name in groups))


def _select_groups(person: int) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(_SELECT_GROUPS, [person])
        return [name for (name,) in cursor.fetchall()]


def may_vote(person: Any) -> bool:
    """Return whether the person may vote, as stored now.

    `has_perm` answers for the moment when the row was read: a work of the writer can wait for seconds after that.
    """
    return person.pk in list_voters()


def list_voters() -> set[int]:
    """Return the primary keys of the people who may vote now."""
    return {pk for pk, _ in prepared_selects.recall(count_eligible_voters, _list_voters_by_pk)}


def count_eligible_voters(terms: AskTerms, source: Source) -> int:
    """Return how many people may vote under these terms.

    The owner of the source counts only if the terms allow the requester.
    """
    return len(find_eligible_voters(terms, source.owner_id))


class VoterCount:
    """Counts the people who may vote on calls of the source.

    The evaluation of a policy takes any error for a denial. `check` raises that of a database that is away, so that the
    call is decided again.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._failure: Exception | None = None

    def __call__(self, terms: AskTerms) -> int:
        """Return how many people may vote under these terms."""
        try:
            return count_eligible_voters(terms, self._source)
        except Exception as error:
            self._failure = error
            raise

    def check(self) -> None:
        """Raise the error of a database that is temporarily unavailable."""
        if is_transient(self._failure):
            assert self._failure is not None
            raise self._failure


def find_eligible_voters(terms: AskTerms, owner: int | None) -> set[int]:
    """Return the primary keys of the people who may vote now.

    `terms`: those of the approval. `owner`: the person that the agent serves, who counts only if they allow the
    requester.
    """
    barred_person = None if terms.allow_requester else owner
    voters = prepared_selects.recall(count_eligible_voters, _list_voters_by_pk)
    return {pk for pk, names in voters if pk != barred_person and terms.may_answer(names)}


def count_voters_by_name() -> dict[str, int]:
    """Return the number of voters per username and `group:…` name."""
    return Counter(name for names in list_voter_identities() for name in names)


def list_voter_identities() -> list[tuple[str, ...]]:
    """Return the names of each voter: the username, then the groups."""
    return [names for _, names in _list_voters_by_pk()]


def _list_voters_by_pk() -> list[tuple[int, tuple[str, ...]]]:
    """Return the active people with permission to vote. Every question reads them, so the SQL is not composed."""
    with connection.cursor() as cursor:
        cursor.execute(_SELECT_VOTERS)
        rows = cursor.fetchall()
    voters: dict[int, tuple[str, ...]] = {}
    for person, username, group in rows:
        voters[person] = voters.get(person, (username,)) + (() if group is None else (f"group:{group}",))
    return list(voters.items())


def list_all_identities() -> set[str]:
    """Return the names of all active people and all groups."""
    names = get_user_model().objects.filter(is_active=True).values_list("username", flat=True)
    return {*names, *(f"group:{name}" for name in Group.objects.values_list("name", flat=True))}


# ---------------------------------------------------------------- the terms of an approval


def dump_terms(terms: AskTerms) -> str:
    """Return the terms as JSON.

    `asdict` copies every value, which takes ten times as long.
    """
    return json.dumps({name: getattr(terms, name) for name in _TERM_NAMES})


def load_terms(row: Approval) -> AskTerms:
    """Return the terms under which the approval was opened."""
    terms: dict[str, Any] = json.loads(row.terms)
    fields: dict[str, Any] = {
        name: (_to_tuples(value) if value else ()) if type(value) is list else value for name, value in terms.items()
    }
    if row.opener == "agent":  # its own user may answer it where the agent runs, so here too
        fields["allow_requester"] = True
    return AskTerms(**fields)


def _to_tuples(parts: list[Any]) -> tuple[Any, ...]:
    """Return the list and all lists in it as tuples."""
    return tuple([_to_tuples(part) if type(part) is list else part for part in parts])


def list_asking_rules(decision: PolicyDecision) -> tuple[str, ...]:
    """Return the ids of the asking rules, or the built-in reason."""
    return decision.rules or (decision.code,)


def is_stricter(decision: PolicyDecision, row: Approval) -> bool:
    """Return whether the decision requires more than the row's approval."""
    if not row.asked or set(list_asking_rules(decision)) - set(json.loads(row.rules)):
        return True
    if decision.ask is None:
        return False
    is_other_reviewer = row.by_kind == "reviewer" and row.by_name != decision.ask.review
    return is_other_reviewer or not _satisfy(load_terms(row), decision.ask)


def _satisfy(terms: AskTerms, required_terms: AskTerms) -> bool:
    return (
        required_terms.quorum <= terms.quorum
        and set(required_terms.approvers) <= set(terms.approvers)
        and set(terms.stands_in) <= set(required_terms.stands_in)
        and (terms.reauth or not required_terms.reauth)
        and (required_terms.allow_requester or not terms.allow_requester)
    )
