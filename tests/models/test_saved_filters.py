"""Saved filters: a name is a person's own on each page, and gone with the person."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from toolcards.models import SavedFilter

pytestmark = pytest.mark.django_db


def test_a_name_is_used_once_by_a_person_on_a_page(an_approver: Any, a_person: Any) -> None:
    SavedFilter.objects.create(person=an_approver, page="calls", name="Mine", query="q=a")
    with pytest.raises(IntegrityError), transaction.atomic():
        SavedFilter.objects.create(person=an_approver, page="calls", name="Mine", query="q=b")
    SavedFilter.objects.create(person=an_approver, page="runs", name="Mine", query="q=a")
    other = SavedFilter.objects.create(person=a_person("viewer"), page="calls", name="Mine", query="q=a")
    an_approver.delete()
    assert [*SavedFilter.objects.all()] == [other] and str(other) == "Mine"
    assert SavedFilter._meta.default_permissions == ()
