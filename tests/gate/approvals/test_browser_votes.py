"""A person who lost the right to vote while their act waited for the writer changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from toolcards import gate
from toolcards.models import Approval, AuditRow, Event, ToolCall, Vote

pytestmark = pytest.mark.django_db

CHANGES: dict[str, Callable[[Any], object]] = {
    "nothing": lambda person: None,
    "switched off": lambda person: type(person).objects.filter(pk=person.pk).update(is_active=False),
    "no longer an approver": lambda person: person.groups.clear(),
    "deleted": lambda person: type(person).objects.filter(pk=person.pk).delete(),
}


def prepare(act: str, a_call: Any, ballot: Any) -> Callable[[Any], object]:
    """Return the act of a person on a call that it is possible for."""
    call = a_call("approval-requested")
    pk = Approval.objects.get().pk
    if act == "undo":
        gate.vote(get_user_model().objects.get(username="ann"), ballot(call, "approve"))
        return lambda person: gate.revoke_approval(person, pk)
    return lambda person: gate.vote(person, ballot(ToolCall.objects.get(), act))


def count_rows() -> list[int]:
    return [model.objects.count() for model in (Vote, Event, AuditRow)]


@pytest.mark.parametrize("act", ["approve", "deny", "undo"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_who_may_no_longer_vote_changes_nothing(
    change: Callable[[Any], object], act: str, a_call: Any, a_person: Any, ballot: Any, limits: Any
) -> None:
    limits(handover_seconds=60)
    perform = prepare(act, a_call, ballot)
    person = a_person("approver", "ben")
    assert person.has_perm("toolcards.vote")  # remembered by the object, as by that of a request
    change(person)
    before = count_rows()
    if change is CHANGES["nothing"]:
        perform(person)
        assert count_rows() != before
        return
    with pytest.raises(gate.NotAllowed):
        perform(person)
    assert count_rows() == before
