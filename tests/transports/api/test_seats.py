"""Seats: which sessions may still read."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from toolcards.transports.api.seats import NOT_YOURS, SIGNED_OUT, build_seat, find_expired_seats

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("ending", ["", "sign out", "switch off", "new password", "no role"])
def test_a_seat_expires_with_its_session_account_password_or_role(
    ending: str, a_person: Any, django_user_model: Any
) -> None:
    person, client = a_person("viewer"), Client()
    client.force_login(person)
    seat = build_seat(person, client.session)
    assert find_expired_seats({seat}) == {}
    if ending == "sign out":
        client.logout()
    elif ending == "switch off":
        django_user_model.objects.filter(pk=person.pk).update(is_active=False)
    elif ending == "new password":
        person.set_password("another one entirely")
        person.save()
    elif ending == "no role":
        person.groups.clear()
    expected = {} if not ending else {seat: NOT_YOURS if ending == "no role" else SIGNED_OUT}
    assert find_expired_seats({seat}) == expected
