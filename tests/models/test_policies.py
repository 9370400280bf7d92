"""Tables of policy: one version is active, numbers and rules are unique, and switches describe themselves."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction

from toolcards.models import BreakGlass, Draft, DraftRule, KillSwitch, PolicyVersion

pytestmark = pytest.mark.django_db


def add_version(number: int, *, active: bool = False) -> PolicyVersion:
    return PolicyVersion.objects.create(number=number, document="{}", sha256="x", active=active)


def test_at_most_one_version_is_active() -> None:
    first = add_version(1, active=True)
    with pytest.raises(IntegrityError), transaction.atomic():
        add_version(2, active=True)
    add_version(2)
    PolicyVersion.objects.filter(pk=first.pk).update(active=False)
    add_version(3, active=True)
    assert [version.number for version in PolicyVersion.objects.all()] == [3, 2, 1]


def test_a_number_is_given_once() -> None:
    add_version(1)
    with pytest.raises(IntegrityError), transaction.atomic():
        add_version(1)


def test_a_rule_is_in_the_draft_once_and_rules_keep_their_order() -> None:
    for name in ("b", "a"):
        DraftRule.objects.create(rule_id=name, effect="ask")
    with pytest.raises(IntegrityError), transaction.atomic():
        DraftRule.objects.create(rule_id="a", effect="deny")
    assert [str(rule) for rule in DraftRule.objects.all()] == ["b", "a"]


def test_rows_describe_themselves_for_the_admin() -> None:
    assert [str(KillSwitch(on=is_on, by="ann")) for is_on in (True, False)] == ["on, by ann", "off, by ann"]
    assert str(BreakGlass(by="ann", reason="an outage")) == "ann: an outage"
    assert str(PolicyVersion(number=3)) == "version 3" and str(Draft(based_on=3)) == "based on version 3"
