"""When a sign-in counts as fresh."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

pytestmark = pytest.mark.django_db


def test_a_session_is_no_fresher_for_a_sign_in_elsewhere(tired: Client) -> None:
    Client().force_login(User.objects.get(username="a-admin"))
    session = tired.session
    session["signed_in_at"] -= 3600
    session.save()
    assert tired.post("/settings/people/", {"name": "bea", "role": "viewer"}).status_code == 401
